// Raw helpers that the ops share: nothing here records. Internal to autograd.
#pragma once

#include <optional>

#include "tenon/autograd/node.h"
#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/kernels/reduce.h"

namespace tenon::detail {

inline void check_floating(const char* op, const Tensor& x) {
  TENON_CHECK(is_floating(x.dtype()), op, "wrong dtype: given ", describe(x),
              ", wanted a floating dtype");
}
inline void check_index(const char* op, const Tensor& ids) {
  TENON_CHECK(ids.dtype() == DType::i64 || ids.dtype() == DType::i32, op,
              "wrong dtype of indices: given ", describe(ids), ", wanted i64 or i32");
}
// A change in place of a tensor that requires a gradient is refused while recording.
void check_writable(const char* op, const Tensor& x);

// x as a view of `shape`, which has as many elements; nothing if that needs a copy.
std::optional<Tensor> try_view(const Tensor& x, const Shape& shape);
// The same data row-major: x without its record, or a copy.
Tensor raw_contiguous(const Tensor& x);
// x as `shape`, by a view or by a copy.
Tensor raw_reshape(const Tensor& x, const Shape& shape);
// x repeated to `shape` by strides of 0.
Tensor raw_expand(const Tensor& x, const Shape& shape);
Tensor raw_transpose(const Tensor& x, int a, int b);
Tensor raw_narrow(const Tensor& x, int axis, int64_t start, int64_t length);

bool is_channels_last(const Tensor& x);
// Empty, of shape (N, C, H, W): channels-last or row-major.
Tensor empty_image(const Shape& shape, TensorOptions options, bool channels_last);
// Empty, laid out as `like` is.
Tensor empty_with_layout_of(const Tensor& like, const Shape& shape);

// into = x, or += where `accumulate`.
void put(const Tensor& x, Tensor& into, bool accumulate);

// Gives `gradient`, which has the shape of a broadcast result, to the sink of an input of `shape`,
// summed over the dimensions in which that input was repeated.
void add_reduced(GradSink sink, const Tensor& gradient, const Shape& shape);

// swiglu of x (…, 2 F): y (…, F) = silu(first half) * second half, and dx of x's shape.
Shape swiglu_shape(Shape x);
void swiglu_into(const Tensor& x, Tensor& y);
void swiglu_backward_into(const Tensor& x, const Tensor& dy, Tensor& dx);

// The axes in which `from` was broadcast to `to`, and `from`'s shape with 1 in front to `to`'s
// rank.
struct Broadcast {
  kernels::AxisMask axes = 0;
  Shape padded;
};
Broadcast broadcast_of(const Shape& from, const Shape& to);

}  // namespace tenon::detail
