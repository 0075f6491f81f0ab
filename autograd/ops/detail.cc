#include "tenon/autograd/ops/detail.h"

#include "tenon/autograd/grad_mode.h"

namespace tenon::detail {

void check_writable(const char* op, const Tensor& x) {
  TENON_CHECK(!grad_enabled() || !x.requires_grad(), op,
              "change in place of a tensor that requires a gradient: ", describe(x),
              ", wanted NoGrad or an op that makes a new tensor");
}

std::optional<Tensor> try_view(const Tensor& x, const Shape& shape) {
  if (x.is_contiguous()) return x.alias(0, shape);
  if (x.numel() == 0) return x.as_strided(shape, contiguous_strides(shape));
  // Walk both shapes from the back; each run of old axes that is one block in memory must be filled
  // exactly by new axes.
  Strides strides = shape;
  int next = shape.size() - 1;
  int64_t block = 1;     // elements of the run of old axes
  int64_t assigned = 1;  // of them covered by new axes
  int64_t base = x.strides().empty() ? 1 : x.strides()[x.ndim() - 1];
  for (int axis = x.ndim() - 1; axis >= 0; --axis) {
    block *= x.shape()[axis];
    const bool ends =
        axis == 0 || (x.shape()[axis - 1] != 1 && x.strides()[axis - 1] != block * base);
    if (!ends) continue;
    while (next >= 0 && (assigned < block || shape[next] == 1)) {
      strides[next] = assigned * base;
      assigned *= shape[next];
      --next;
    }
    if (assigned != block) return std::nullopt;
    if (axis > 0) {
      base = x.strides()[axis - 1];
      block = 1;
      assigned = 1;
    }
  }
  if (next >= 0) return std::nullopt;
  return x.as_strided(shape, strides);
}

Tensor raw_contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x.detach();
  Tensor result = empty(x.shape(), {x.dtype(), x.device()});
  kernels::copy(x.device().type, x, result);
  return result;
}

Tensor raw_reshape(const Tensor& x, const Shape& shape) {
  if (const std::optional<Tensor> view = try_view(x, shape)) return *view;
  return raw_contiguous(x).alias(0, shape);
}

Tensor raw_expand(const Tensor& x, const Shape& shape) {
  return x.as_strided(shape, broadcast_strides(x.shape(), x.strides(), shape));
}

Tensor raw_transpose(const Tensor& x, int a, int b) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[a], strides[b]);
  return x.as_strided(shape, strides);
}

Tensor raw_narrow(const Tensor& x, int axis, int64_t start, int64_t length) {
  Shape shape = x.shape();
  shape[axis] = length;
  return x.as_strided(shape, x.strides(), start * x.strides()[axis]);
}

bool is_channels_last(const Tensor& x) {
  return x.ndim() == 4 && !x.is_contiguous() && x.strides() == channels_last_strides(x.shape());
}

Tensor empty_image(const Shape& shape, TensorOptions options, bool channels_last) {
  const Tensor image = empty(shape, options);
  return channels_last ? image.as_strided(shape, channels_last_strides(shape)) : image;
}

Tensor empty_with_layout_of(const Tensor& like, const Shape& shape) {
  return empty_image(shape, {like.dtype(), like.device()}, is_channels_last(like));
}

Broadcast broadcast_of(const Shape& from, const Shape& to) {
  Broadcast result;
  const int offset = to.size() - from.size();
  for (int axis = 0; axis < to.size(); ++axis) {
    const int64_t size = axis < offset ? 1 : from[axis - offset];
    result.padded.push_back(size);
    if (size == 1 && to[axis] != 1) result.axes |= 1u << axis;
  }
  return result;
}

void put(const Tensor& x, Tensor& into, bool accumulate) {
  if (accumulate) {
    kernels::accumulate(into.device().type, x, into, 1.0);
  } else {
    kernels::copy(into.device().type, x, into);
  }
}

void add_reduced(GradSink sink, const Tensor& gradient, const Shape& shape) {
  if (gradient.shape() == shape) {
    sink.add(gradient);
    return;
  }
  const Broadcast broadcast = broadcast_of(shape, gradient.shape());
  sink.write([&](Tensor& out, bool accumulate) {
    // `out` is dense but for axes of size 1 in front; the padded shape views it exactly.
    Strides strides = broadcast.padded;
    const int offset = broadcast.padded.size() - shape.size();
    for (int i = 0; i < strides.size(); ++i)
      strides[i] = i < offset ? 1 : out.strides()[i - offset];
    Tensor padded = out.as_strided(broadcast.padded, strides);
    kernels::sum(out.device().type, gradient, padded, broadcast.axes, 1.0, accumulate);
  });
}

Shape swiglu_shape(Shape x) {
  TENON_CHECK(x.size() >= 1 && x.back() % 2 == 0, "swiglu", "wrong shape: given ", x,
              ", wanted (…, 2 F)");
  x[x.size() - 1] /= 2;
  return x;
}

namespace {

Tensor half_of(const Tensor& x, int number) {
  const int64_t width = x.dim(-1) / 2;
  return raw_narrow(x, x.ndim() - 1, number * width, width);
}

}  // namespace

void swiglu_into(const Tensor& x, Tensor& y) {
  kernels::Binary<kernels::SiluMul>::forward(x.device().type, half_of(x, 0), half_of(x, 1), y);
}

void swiglu_backward_into(const Tensor& x, const Tensor& dy, Tensor& dx) {
  Tensor gate = half_of(dx, 0), value = half_of(dx, 1);
  kernels::Binary<kernels::SiluMul>::backward(x.device().type, half_of(x, 0), half_of(x, 1), dy,
                                              &gate, &value);
}

}  // namespace tenon::detail
