#include "tenon/autograd/ops/shape.h"

#include "tenon/autograd/ops/detail.h"

namespace tenon {
namespace {

using namespace detail;

// A view or a copy of x whose gradient is `back` of the result's gradient.
template <class Back>
Tensor rearranged(const char* op, const Tensor& result, const Tensor& x, Back back) {
  return record(op, result, {x},
                [back](const Tensor& grad, GradSinks& into) { into[0].add(back(grad)); });
}

Tensor reshaped(const char* op, const Tensor& x, const Shape& shape) {
  const Shape from = x.shape();
  return rearranged(op, raw_reshape(x, shape), x,
                    [from](const Tensor& grad) { return raw_reshape(grad, from); });
}

void copy_or_add(const Tensor& from, Tensor to, bool accumulate) {
  if (accumulate) {
    kernels::accumulate(to.device().type, from, to, 1.0);
  } else {
    kernels::copy(to.device().type, from, to);
  }
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape wanted = shape;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      TENON_CHECK(unknown < 0, "reshape", "two unknown sizes: given ", shape);
      unknown = i;
    } else {
      known *= shape[i];
    }
  }
  if (unknown >= 0 && known > 0) wanted[unknown] = x.numel() / known;
  TENON_CHECK(wanted.numel() == x.numel() && (unknown < 0 || known > 0), "reshape",
              "sizes do not fit: given ", x.shape(), " and ", shape, ", wanted ", x.numel(),
              " elements");
  return reshaped("reshape", x, wanted);
}

Tensor flatten(const Tensor& x, int first, int last) {
  const int begin = normalize_axis("flatten", first, x.ndim());
  const int end = normalize_axis("flatten", last, x.ndim());
  TENON_CHECK(begin <= end, "flatten", "first axis ", first, " after last axis ", last);
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i > begin && i <= end) {
      shape[shape.size() - 1] *= x.shape()[i];
    } else {
      shape.push_back(x.shape()[i]);
    }
  }
  return reshaped("flatten", x, shape);
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  TENON_CHECK(static_cast<int>(order.size()) == x.ndim(), "permute", "wrong number of axes: given ",
              order.size(), ", wanted ", x.ndim());
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::vector<int> inverse(order.size(), -1);
  for (int i = 0; i < x.ndim(); ++i) {
    const int from = normalize_axis("permute", order[static_cast<size_t>(i)], x.ndim());
    TENON_CHECK(inverse[static_cast<size_t>(from)] < 0, "permute", "axis ", from, " given twice");
    inverse[static_cast<size_t>(from)] = i;
    shape[i] = x.shape()[from];
    strides[i] = x.strides()[from];
  }
  return rearranged("permute", x.as_strided(shape, strides), x,
                    [inverse](const Tensor& grad) { return permute(grad, inverse); });
}

Tensor transpose(const Tensor& x, int a, int b) {
  const int first = normalize_axis("transpose", a, x.ndim());
  const int second = normalize_axis("transpose", b, x.ndim());
  return rearranged("transpose", raw_transpose(x, first, second), x,
                    [=](const Tensor& grad) { return raw_transpose(grad, first, second); });
}

Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length) {
  const int at = normalize_axis("narrow", axis, x.ndim());
  TENON_CHECK(start >= 0 && length >= 0 && start + length <= x.dim(at), "narrow",
              "outside the tensor: given start ", start, " and length ", length, ", axis ", at,
              " has ", x.dim(at));
  return record("narrow", raw_narrow(x, at, start, length), {x},
                [=](const Tensor& grad, GradSinks& into) {
                  into[0].write([&](Tensor& out, bool accumulate) {
                    if (!accumulate) kernels::fill(out.device().type, out, 0.0);
                    copy_or_add(grad, raw_narrow(out, at, start, length), accumulate);
                  });
                });
}

Tensor select(const Tensor& x, int axis, int64_t index) {
  const int at = normalize_axis("select", axis, x.ndim());
  TENON_CHECK(index >= -x.dim(at) && index < x.dim(at), "select", "index out of range: given ",
              index, ", axis ", at, " has ", x.dim(at));
  return squeeze(narrow(x, at, index < 0 ? index + x.dim(at) : index, 1), at);
}

Tensor unsqueeze(const Tensor& x, int axis) {
  const int at = normalize_axis("unsqueeze", axis, x.ndim() + 1);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.insert(at, 1);
  strides.insert(at, at < x.ndim() ? x.shape()[at] * x.strides()[at] : 1);
  const Shape from = x.shape();
  return rearranged("unsqueeze", x.as_strided(shape, strides), x,
                    [from](const Tensor& grad) { return raw_reshape(grad, from); });
}

Tensor squeeze(const Tensor& x, int axis) {
  const int at = normalize_axis("squeeze", axis, x.ndim());
  TENON_CHECK(x.dim(at) == 1, "squeeze", "axis of more than one entry: given ", x.shape(),
              ", axis ", at);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape.erase(at);
  strides.erase(at);
  const Shape from = x.shape();
  return rearranged("squeeze", x.as_strided(shape, strides), x,
                    [from](const Tensor& grad) { return raw_reshape(grad, from); });
}

Tensor expand(const Tensor& x, const Shape& shape) {
  TENON_CHECK(broadcast_shapes("expand", x.shape(), shape) == shape, "expand",
              "cannot broadcast: given ", x.shape(), ", wanted ", shape);
  const Shape from = x.shape();
  return record("expand", raw_expand(x, shape), {x},
                [from](const Tensor& grad, GradSinks& into) { add_reduced(into[0], grad, from); });
}

Tensor contiguous(const Tensor& x) { return x.is_contiguous() ? x : clone(x); }

Tensor clone(const Tensor& x) {
  Tensor result = empty(x.shape(), {x.dtype(), x.device()});
  kernels::copy(x.device().type, x, result);
  return rearranged("clone", result, x, [](const Tensor& grad) { return grad; });
}

Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  TENON_CHECK(!tensors.empty(), "concat", "no tensors given: wanted at least one");
  const Tensor& first = tensors.front();
  const int at = normalize_axis("concat", axis, first.ndim());
  Shape shape = first.shape();
  shape[at] = 0;
  std::vector<int64_t> lengths;
  for (const Tensor& tensor : tensors) {
    check_same_device("concat", first, tensor);
    check_same_dtype("concat", first, tensor);
    Shape other = tensor.shape();
    if (other.size() == shape.size()) other[at] = shape[at];
    TENON_CHECK(other == shape, "concat", "shapes do not fit: given ", first.shape(), " and ",
                tensor.shape(), ", wanted equal sizes but for axis ", at);
    lengths.push_back(tensor.dim(at));
    shape[at] += tensor.dim(at);
  }
  Tensor result = empty(shape, {first.dtype(), first.device()});
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    copy_or_add(tensor, raw_narrow(result, at, start, tensor.dim(at)), false);
    start += tensor.dim(at);
  }
  return record("concat", result, tensors, [=](const Tensor& grad, GradSinks& into) {
    int64_t begin = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (into[i].needed()) into[i].add(raw_narrow(grad, at, begin, lengths[i]));
      begin += lengths[i];
    }
  });
}

Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) rows.push_back(unsqueeze(tensor, axis));
  return concat(rows, axis);
}

}  // namespace tenon
