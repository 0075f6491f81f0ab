// Tensor: an n-dimensional array. A handle: copying it never copies data.
// The handle points to a description (shape, strides, dtype, offset) that all copies share, and
// that to a Storage. Views have their own description over the same Storage.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/core/autograd_meta.h"
#include "tenon/core/check.h"
#include "tenon/core/device.h"
#include "tenon/core/dtype.h"
#include "tenon/core/shape.h"
#include "tenon/core/storage.h"

namespace tenon {

class Tensor {
 public:
  Tensor() = default;  // undefined: it has no shape and no data
  // A tensor over all of `storage` from element `offset` on, row-major.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape, int64_t offset = 0);

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const { return impl().shape; }
  const Strides& strides() const { return impl().strides; }
  int ndim() const { return impl().shape.size(); }
  // Size along `axis`; a negative axis counts from the end.
  int64_t dim(int axis) const;
  int64_t numel() const { return impl().shape.numel(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype()); }
  DType dtype() const { return impl().dtype; }
  Device device() const { return impl().storage->device(); }
  int64_t offset() const { return impl().offset; }  // in elements
  const std::shared_ptr<Storage>& storage() const { return impl().storage; }
  // Row-major without gaps.
  bool is_contiguous() const;
  // Without gaps or overlap in some order of its dimensions: a permuted contiguous tensor.
  bool is_dense() const;

  // The first element; checks T against dtype().
  template <class T>
  T* data() const {
    if (dtype_of<T> != dtype()) [[unlikely]]
      throw_wrong_type(dtype_of<T>);
    return static_cast<T*>(raw_data());
  }
  void* raw_data() const {
    return static_cast<char*>(impl().storage->data()) +
           static_cast<size_t>(impl().offset) * size_of(impl().dtype);
  }
  // The value of a tensor of one element, converted to T. The only place that synchronizes.
  template <class T = float>
  T item() const {
    if constexpr (std::is_same_v<T, int64_t>) {
      return item_as_int64();  // not every i64 is a double
    } else {
      return static_cast<T>(item_as_double());
    }
  }
  // All elements in row-major order, converted; for tests and printing.
  std::vector<double> to_vector() const;

  // Same storage, own row-major description, no gradient record. `offset` is relative to this
  // tensor's.
  Tensor alias(int64_t offset, const Shape& shape) const;
  // Same storage with any strides; `offset` is relative to this tensor's. No gradient record.
  Tensor as_strided(const Shape& shape, const Strides& strides, int64_t offset = 0) const;
  // Same data, no gradient record.
  Tensor detach() const;
  // Re-points the description that all copies share at `other`'s data; the gradient record stays.
  void set_data(const Tensor& other);
  // Same description (not merely equal contents).
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  uint32_t version() const { return impl().storage->version(); }
  void bump_version() const { impl().storage->bump_version(); }

  bool requires_grad() const {
    return impl_ && impl_->autograd && impl_->autograd->requires_grad();
  }
  // The accumulated gradient; undefined until the first contribution.
  Tensor grad() const;
  // Computes the gradients of this one-element tensor with respect to its leaves.
  void backward() const;
  const std::shared_ptr<AutogradMeta>& autograd() const { return impl().autograd; }
  void set_autograd(std::shared_ptr<AutogradMeta> meta) const { impl().autograd = std::move(meta); }

 private:
  struct Impl {
    std::shared_ptr<Storage> storage;
    int64_t offset = 0;
    Shape shape;
    Strides strides;
    DType dtype = DType::f32;
    std::shared_ptr<AutogradMeta> autograd;
  };
  Impl& impl() const {
    if (impl_ == nullptr) [[unlikely]]
      throw_undefined();
    return *impl_;
  }
  [[noreturn]] static void throw_undefined();
  [[noreturn]] void throw_wrong_type(DType asked) const;
  void read_item(void* value) const;
  double item_as_double() const;
  int64_t item_as_int64() const;
  void check_bounds(const char* op) const;

  std::shared_ptr<Impl> impl_;
};

// A tensor under the name that errors, optimizers and state dicts use.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// "f32 (2, 3) on cpu", for errors.
std::string describe(const Tensor& tensor);
// Prints values, shape and dtype; large tensors are abbreviated.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// Errors that name the op and both sides.
void check_same_device(const char* op, const Tensor& a, const Tensor& b);
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);
void check_same_shape(const char* op, const Tensor& a, const Tensor& b);

}  // namespace tenon
