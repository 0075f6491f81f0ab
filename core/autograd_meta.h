// The gradient record that hangs off a tensor. core never looks inside; autograd implements it.
#pragma once

namespace tenon {

class Tensor;

class AutogradMeta {
 public:
  virtual ~AutogradMeta() = default;
  virtual bool requires_grad() const = 0;
  virtual bool is_leaf() const = 0;
  virtual Tensor grad() const = 0;
  virtual void zero_grad() = 0;
  virtual void backward(const Tensor& root) const = 0;
};

}  // namespace tenon
