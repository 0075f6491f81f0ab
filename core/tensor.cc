#include "tenon/core/tensor.h"

#include <algorithm>
#include <numeric>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/runtime.h"

namespace tenon {
namespace {

double read_as_double(const void* data, DType dtype) {
  double value = 0;
  dispatch_all(dtype, "item",
               [&]<class T>() { value = static_cast<double>(*static_cast<const T*>(data)); });
  return value;
}

// Calls visit(offset in elements) for each element in row-major order.
template <class Visit>
void for_each_offset(const Shape& shape, const Strides& strides, int axis, int64_t offset,
                     Visit& visit) {
  if (axis == shape.size()) {
    visit(offset);
    return;
  }
  for (int64_t i = 0; i < shape[axis]; ++i) {
    for_each_offset(shape, strides, axis + 1, offset + i * strides[axis], visit);
  }
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape, int64_t offset)
    : impl_(std::make_shared<Impl>(
          Impl{std::move(storage), offset, shape, contiguous_strides(shape), dtype, nullptr})) {
  check_bounds("tensor");
}

// Sizes are not negative, and the last byte a tensor can touch lies within its storage.
void Tensor::check_bounds(const char* op) const {
  for (const int64_t dim : shape()) {
    TENON_CHECK(dim >= 0, op, "negative size: given shape ", shape());
  }
  if (numel() == 0) return;
  int64_t last = offset();
  for (int i = 0; i < ndim(); ++i) last += (shape()[i] - 1) * strides()[i];
  TENON_CHECK(
      offset() >= 0 && static_cast<size_t>(last + 1) * size_of(dtype()) <= storage()->bytes(), op,
      "tensor outside its storage: shape ", shape(), ", strides ", strides(), ", offset ", offset(),
      ", ", dtype(), ", storage of ", storage()->bytes(), " bytes");
}

int64_t Tensor::dim(int axis) const { return shape()[normalize_axis("dim", axis, ndim())]; }

bool Tensor::is_contiguous() const {
  int64_t step = 1;
  for (int i = ndim() - 1; i >= 0; --i) {
    const int64_t size = shape()[i];
    if (size == 0) return true;
    if (size != 1 && strides()[i] != step) return false;
    step *= size;
  }
  return true;
}

bool Tensor::is_dense() const {
  if (is_contiguous()) return true;
  std::array<int, kMaxDims> order{};
  std::iota(order.begin(), order.begin() + ndim(), 0);
  std::sort(order.begin(), order.begin() + ndim(),
            [&](int a, int b) { return strides()[a] < strides()[b]; });
  int64_t step = 1;
  for (int i = 0; i < ndim(); ++i) {
    const int axis = order[static_cast<size_t>(i)];
    if (shape()[axis] == 1) continue;
    if (strides()[axis] != step) return false;
    step *= shape()[axis];
  }
  return true;
}

void Tensor::read_item(void* value) const {
  TENON_CHECK(numel() == 1, "item", "not one element: given shape ", shape());
  copy_bytes(value, kCpu, raw_data(), device(), size_of(dtype()));
}

double Tensor::item_as_double() const {
  alignas(8) char value[8];
  read_item(value);
  return read_as_double(value, dtype());
}

int64_t Tensor::item_as_int64() const {
  if (dtype() != DType::i64) return static_cast<int64_t>(item_as_double());
  int64_t value = 0;
  read_item(&value);
  return value;
}

std::vector<double> Tensor::to_vector() const {
  std::vector<char> host;
  const char* data = nullptr;
  if (device().type == DeviceType::cpu) {
    data = numel() == 0 ? nullptr : static_cast<const char*>(raw_data());
  } else {
    host.resize(storage()->bytes());
    copy_bytes(host.data(), kCpu, storage()->data(), device(), host.size());
    data = host.data() + static_cast<size_t>(offset()) * size_of(dtype());
  }
  std::vector<double> values;
  values.reserve(static_cast<size_t>(numel()));
  auto visit = [&](int64_t at) {
    values.push_back(read_as_double(data + at * static_cast<int64_t>(size_of(dtype())), dtype()));
  };
  if (numel() > 0) for_each_offset(shape(), strides(), 0, 0, visit);
  return values;
}

Tensor Tensor::alias(int64_t offset, const Shape& shape) const {
  return as_strided(shape, contiguous_strides(shape), offset);
}

Tensor Tensor::as_strided(const Shape& shape, const Strides& strides, int64_t offset) const {
  Tensor view;
  view.impl_ = std::make_shared<Impl>(
      Impl{storage(), this->offset() + offset, shape, strides, dtype(), nullptr});
  view.check_bounds("as_strided");
  return view;
}

Tensor Tensor::detach() const { return as_strided(shape(), strides()); }

void Tensor::set_data(const Tensor& other) {
  Impl& mine = impl();
  const Impl& theirs = other.impl();
  mine.storage = theirs.storage;
  mine.offset = theirs.offset;
  mine.shape = theirs.shape;
  mine.strides = theirs.strides;
  mine.dtype = theirs.dtype;
}

Tensor Tensor::grad() const { return impl().autograd ? impl().autograd->grad() : Tensor(); }

void Tensor::backward() const {
  TENON_CHECK(requires_grad(), "backward", "nothing to differentiate: ", describe(*this),
              " was not computed from a tensor that requires a gradient");
  impl().autograd->backward(*this);
}

void Tensor::throw_undefined() { fail("tensor", "undefined tensor: wanted one with data"); }

void Tensor::throw_wrong_type(DType asked) const {
  fail("data", "wrong element type: asked for ", asked, ", the tensor is ", describe(*this));
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined tensor";
  return str(tensor.dtype(), " ", tensor.shape(), " on ", tensor.device());
}

void check_same_device(const char* op, const Tensor& a, const Tensor& b) {
  TENON_CHECK(a.device() == b.device(), op, "tensors on different devices: given ", describe(a),
              " and ", describe(b));
}

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  TENON_CHECK(a.dtype() == b.dtype(), op, "dtypes differ: given ", describe(a), " and ",
              describe(b), ", wanted one dtype (cast one of them)");
}

void check_same_shape(const char* op, const Tensor& a, const Tensor& b) {
  TENON_CHECK(a.shape() == b.shape(), op, "shapes differ: given ", a.shape(), " and ", b.shape());
}

}  // namespace tenon
