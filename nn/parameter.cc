#include "tenon/nn/parameter.h"

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/core/factory.h"

namespace tenon {
namespace {

thread_local DType current_default_dtype = DType::f32;

}  // namespace

DType default_dtype() { return current_default_dtype; }

DefaultDType::DefaultDType(DType dtype) : previous_(current_default_dtype) {
  TENON_CHECK(is_floating(dtype), "default_dtype", "parameters cannot have this dtype: given ",
              dtype, ", wanted f32, f64, f16 or bf16");
  current_default_dtype = dtype;
}
DefaultDType::~DefaultDType() { current_default_dtype = previous_; }

Parameter::Parameter(Module* owner, const std::string& name, const Tensor& value)
    : Tensor(value), owner_(owner) {
  if (!defined()) return;
  set_requires_grad(*this);
  storage()->set_category(Category::parameter);
  owner_->add_member({.name = name, .parameter = this});
}

Parameter::~Parameter() {
  if (defined()) owner_->remove_member(this);
}

void Parameter::tie(const Parameter& other) {
  check_same_shape("tie", *this, other);
  static_cast<Tensor&>(*this) = other;
}

Tensor Parameter::compute_copy(DType dtype) const {
  if (this->dtype() == dtype) return *this;
  const bool current = compute_copy_.defined() && compute_copy_.dtype() == dtype &&
                       copied_version_ == version() && copied_.lock() == storage();
  if (!current) {
    const NoGrad no_grad;
    const bool fits = compute_copy_.defined() && compute_copy_.dtype() == dtype &&
                      compute_copy_.shape() == shape() && compute_copy_.device() == device();
    if (!fits) compute_copy_ = empty(shape(), {dtype, device(), Category::parameter});
    copy_(compute_copy_.detach(), *this);
    copied_ = storage();
    copied_version_ = version();
  }
  if (!requires_grad()) return compute_copy_.detach();
  // The copy carries this leaf's own record, so that gradients are accumulated in this parameter's
  // slot. It must exist, or the first gradient would make one of the copy's dtype.
  if (grad_enabled() && !grad_slot(*this).defined()) {
    set_grad_slot(*this, empty(shape(), {this->dtype(), device(), Category::gradient}));
  }
  const Tensor view = compute_copy_.detach();
  view.set_autograd(autograd());
  return view;
}

Buffer::Buffer(Module* owner, const std::string& name, const Tensor& value, BufferSync sync)
    : Tensor(value), owner_(owner), sync_(sync) {
  owner_->add_member({.name = name, .buffer = this});
}
Buffer::~Buffer() { owner_->remove_member(this); }

}  // namespace tenon
