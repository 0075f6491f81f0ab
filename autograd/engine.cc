#include "tenon/autograd/engine.h"

#include "tenon/autograd/backward_pass.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"

namespace tenon {
namespace {

thread_local BackwardPass* current_pass = nullptr;

struct CurrentPass {
  explicit CurrentPass(BackwardPass& pass) { current_pass = &pass; }
  ~CurrentPass() { current_pass = nullptr; }
  CurrentPass(const CurrentPass&) = delete;
  CurrentPass& operator=(const CurrentPass&) = delete;
};

Tensor initial_gradient(const Tensor& root, const Tensor& given) {
  if (given.defined()) {
    TENON_CHECK(given.shape() == root.shape() && given.dtype() == root.dtype(), "backward",
                "wrong gradient: given ", describe(given), ", wanted ", describe(root));
    check_same_device("backward", given, root);
    return given.detach();
  }
  TENON_CHECK(root.numel() == 1, "backward", "root of more than one element: given shape ",
              root.shape(), ", wanted one element or a gradient of that shape");
  Tensor one = empty(root.shape(), {root.dtype(), root.device()});
  kernels::fill(root.device().type, one, 1.0);
  return one;
}

}  // namespace

void backward(const Tensor& root, const BackwardOptions& options) {
  TENON_CHECK(!in_backward(), "backward",
              "called inside a backward: second-order gradients are not supported");
  TENON_CHECK(root.requires_grad(), "backward", "nothing to differentiate: ", describe(root),
              " was not computed from a tensor that requires a gradient");
  BackwardPass pass(options.retain_graph);
  const CurrentPass scope(pass);
  const NoGrad no_grad;
  try {
    pass.run(root, initial_gradient(root, options.gradient));
  } catch (...) {
    pass.run_failed_callbacks();
    throw;
  }
}

bool in_backward() { return current_pass != nullptr; }

void on_backward_end(std::function<void()> done, std::function<void()> failed) {
  TENON_CHECK(in_backward(), "on_backward_end", "called outside a backward");
  current_pass->on_end(std::move(done), std::move(failed));
}

void LeafMeta::backward(const Tensor& root) const { tenon::backward(root); }
void NodeMeta::backward(const Tensor& root) const { tenon::backward(root); }

}  // namespace tenon
