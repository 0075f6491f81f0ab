#include "tenon/autograd/hooks.h"

#include <algorithm>

#include "tenon/autograd/meta.h"

namespace tenon {
namespace {

// Adds the hook to a list that `owner` keeps alive; the handle must not keep the owner alive.
template <class Owner>
HookHandle add_hook(const std::shared_ptr<Owner>& owner,
                    std::vector<std::shared_ptr<GradHook>> Owner::*list,
                    std::function<void(const Tensor&)> hook) {
  auto entry = std::make_shared<GradHook>(std::move(hook));
  (owner.get()->*list).push_back(entry);
  return HookHandle([weak = std::weak_ptr<Owner>(owner), list, entry] {
    const auto alive = weak.lock();
    if (!alive) return;
    auto& hooks = alive.get()->*list;
    hooks.erase(std::remove(hooks.begin(), hooks.end(), entry), hooks.end());
  });
}

}  // namespace

HookHandle register_grad_hook(const Tensor& tensor, std::function<void(const Tensor&)> hook) {
  TENON_CHECK(tensor.requires_grad(), "register_grad_hook",
              "no gradient will come: ", describe(tensor), " does not require one");
  if (!tensor.autograd()->is_leaf()) {
    return add_hook(static_cast<NodeMeta&>(*tensor.autograd()).node, &Node::hooks, std::move(hook));
  }
  return add_hook(std::static_pointer_cast<LeafMeta>(tensor.autograd()), &LeafMeta::grad_hooks,
                  std::move(hook));
}

HookHandle register_post_accumulate_hook(const Tensor& leaf,
                                         std::function<void(const Tensor&)> hook) {
  leaf_meta(leaf);
  return add_hook(std::static_pointer_cast<LeafMeta>(leaf.autograd()),
                  &LeafMeta::post_accumulate_hooks, std::move(hook));
}

}  // namespace tenon
