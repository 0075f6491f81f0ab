#include "tenon/autograd/saved_tensor.h"

#include <utility>
#include <vector>

namespace tenon {
namespace {

thread_local std::vector<std::shared_ptr<const SavedTensorHooks>> hook_stack;

}  // namespace

SavedTensorHooksScope::SavedTensorHooksScope(SavedTensorHooks hooks) {
  hook_stack.push_back(std::make_shared<const SavedTensorHooks>(std::move(hooks)));
}
SavedTensorHooksScope::~SavedTensorHooksScope() { hook_stack.pop_back(); }

SavedTensor::SavedTensor(const Tensor& tensor, const char* op, const char* what)
    : op_(op), what_(what) {
  if (!tensor.defined()) return;
  if (!hook_stack.empty()) {
    hooks_ = hook_stack.back();
    packed_ = hooks_->pack(tensor.detach());  // with its record an output would keep itself alive
    return;
  }
  tensor_ = tensor.detach();
  version_ = tensor.version();
}

Tensor SavedTensor::unpack() const {
  if (hooks_) return hooks_->unpack(packed_);
  if (!tensor_.defined()) return {};
  TENON_CHECK(tensor_.version() == version_, op_, "saved ", what_, " ", describe(tensor_),
              " was changed in place before backward: it is at version ", tensor_.version(),
              ", wanted ", version_, " (clone it, or change it after backward)");
  return tensor_;
}

}  // namespace tenon
