#include "tenon/autograd/meta.h"

#include "tenon/kernels/copy.h"

namespace tenon {

LeafMeta& leaf_meta(const Tensor& tensor) {
  if (!tensor.autograd()) tensor.set_autograd(std::make_shared<LeafMeta>());
  TENON_CHECK(tensor.autograd()->is_leaf(), "autograd", "not a leaf: ", describe(tensor),
              " was computed by an op; gradients are kept for leaves only");
  return static_cast<LeafMeta&>(*tensor.autograd());
}

Tensor set_requires_grad(const Tensor& tensor, bool required) {
  TENON_CHECK(!required || is_floating(tensor.dtype()), "set_requires_grad",
              "no gradients for this dtype: given ", describe(tensor), ", wanted a floating dtype");
  leaf_meta(tensor).required = required;
  return tensor;
}

void zero_grad(const Tensor& leaf) {
  if (leaf.autograd()) leaf.autograd()->zero_grad();
}

void set_grad_slot(const Tensor& leaf, const Tensor& view) {
  LeafMeta& meta = leaf_meta(leaf);
  if (!view.defined()) {
    meta.slot = Tensor();
    meta.present = false;
    return;
  }
  check_same_shape("set_grad_slot", leaf, view);
  check_same_device("set_grad_slot", leaf, view);
  TENON_CHECK(view.dtype() == leaf.dtype() ||
                  (is_floating(view.dtype()) && size_of(view.dtype()) > size_of(leaf.dtype())),
              "set_grad_slot", "wrong dtype: given ", view.dtype(), ", wanted ", leaf.dtype(),
              " or a wider floating dtype");
  Tensor slot = view.detach();
  if (meta.present) {
    kernels::copy(slot.device().type, meta.slot, slot);
    slot.bump_version();
  }
  meta.slot = slot;
}

Tensor grad_slot(const Tensor& leaf) { return leaf_meta(leaf).slot; }

void set_grad_present(const Tensor& leaf, bool present) {
  LeafMeta& meta = leaf_meta(leaf);
  TENON_CHECK(!present || meta.slot.defined(), "set_grad_present",
              "no gradient slot: ", describe(leaf));
  meta.present = present;
}

}  // namespace tenon
