// Hooks on gradients. A handle removes its hook when asked; it does not when it goes out of scope.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remover) : remover_(std::move(remover)) {}
  void remove() {
    if (remover_) std::exchange(remover_, {})();
  }

 private:
  std::function<void()> remover_;
};

// Calls `hook` with the complete gradient of `tensor`: for a computed tensor before its node runs,
// for a leaf after the last contribution.
HookHandle register_grad_hook(const Tensor& tensor, std::function<void(const Tensor& grad)> hook);
// Calls `hook` with the leaf's gradient slot once per backward, when its last contribution is in
// it.
HookHandle register_post_accumulate_hook(const Tensor& leaf,
                                         std::function<void(const Tensor& grad)> hook);

}  // namespace tenon
