// The gradient records that hang off tensors: of a leaf (its gradient slot and hooks), and of a
// computed tensor (its node).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/autograd/node.h"
#include "tenon/core/tensor.h"

namespace tenon {

using GradHook = std::function<void(const Tensor& grad)>;

class LeafMeta : public AutogradMeta {
 public:
  bool requires_grad() const override { return required; }
  bool is_leaf() const override { return true; }
  Tensor grad() const override { return present ? slot : Tensor(); }
  void zero_grad() override { present = false; }
  void backward(const Tensor& root) const override;

  bool required = false;
  // The gradient lives in `slot`; it counts only while `present`. Memory stays when it is absent.
  Tensor slot;
  bool present = false;
  std::vector<std::shared_ptr<GradHook>> grad_hooks;
  std::vector<std::shared_ptr<GradHook>> post_accumulate_hooks;
};

class NodeMeta : public AutogradMeta {
 public:
  explicit NodeMeta(std::shared_ptr<Node> made_by) : node(std::move(made_by)) {}
  bool requires_grad() const override { return true; }
  bool is_leaf() const override { return false; }
  Tensor grad() const override { return {}; }
  void zero_grad() override {}
  void backward(const Tensor& root) const override;

  const std::shared_ptr<Node> node;
};

// The leaf record of `tensor`, made on the first call; an Error if the tensor was computed.
LeafMeta& leaf_meta(const Tensor& tensor);

// Marks a leaf (floating dtype) as wanting a gradient, or not. Returns it.
Tensor set_requires_grad(const Tensor& tensor, bool required = true);
// Forgets the gradient; its memory stays for the next one.
void zero_grad(const Tensor& leaf);
// From now on the leaf's gradient is written into `view`, which has the leaf's shape and possibly a
// wider dtype. A gradient that is present moves along. An undefined view removes the slot.
void set_grad_slot(const Tensor& leaf, const Tensor& view);
// The slot, whether or not a gradient is in it; undefined if there is none.
Tensor grad_slot(const Tensor& leaf);
// Says that the slot holds a gradient (true: somebody wrote it) or not.
void set_grad_present(const Tensor& leaf, bool present);

}  // namespace tenon
