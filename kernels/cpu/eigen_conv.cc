#include "tenon/kernels/cpu/eigen_conv.h"

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/factory.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/conv_layout.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cpu/eigen_gemm.h"
#include "tenon/kernels/pointwise.h"

namespace tenon::kernels {
namespace {

// One image's part of a convolution, by groups.
struct Geometry {
  Geometry(const Tensor& x, const Tensor& weight, const Tensor& y, const ConvParams& p)
      : params(p),
        c(x.dim(1)),
        h(x.dim(2)),
        w(x.dim(3)),
        k(y.dim(1)),
        p_size(y.dim(2)),
        q_size(y.dim(3)),
        r_size(weight.dim(2)),
        s_size(weight.dim(3)),
        group_c(weight.dim(1)),
        group_k(k / p.groups),
        unfolded(r_size * s_size * group_c) {}
  const ConvParams& params;
  int64_t c, h, w, k, p_size, q_size, r_size, s_size;
  int64_t group_c;   // input channels of a group
  int64_t group_k;   // output channels of a group
  int64_t unfolded;  // elements under one window: R * S * group_c
  int64_t positions() const { return p_size * q_size; }
};

// Calls body(column, pixel) for each run of group_c channels of the unfolded row of output
// position (p, q): its place in the row, and its pixel number or -1 in the padding.
template <class Body>
void for_each_tap(const Geometry& g, int64_t p, int64_t q, Body&& body) {
  for (int64_t r = 0; r < g.r_size; ++r) {
    const int64_t row = p * g.params.stride[0] + r * g.params.dilation[0] - g.params.padding[0];
    for (int64_t s = 0; s < g.s_size; ++s) {
      const int64_t column =
          q * g.params.stride[1] + s * g.params.dilation[1] - g.params.padding[1];
      const bool inside = row >= 0 && row < g.h && column >= 0 && column < g.w;
      body((r * g.s_size + s) * g.group_c, inside ? row * g.w + column : -1);
    }
  }
}

// Unfolds the channels of one group of an image: a row of R * S * group_c per output position.
template <class T>
void unfold(const Geometry& g, const T* image, T* columns) {
  const int64_t work = g.positions() * g.unfolded * static_cast<int64_t>(sizeof(T));
  parallel_for(g.positions(), work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* const row = columns + i * g.unfolded;
      for_each_tap(g, i / g.q_size, i % g.q_size, [&](int64_t at, int64_t pixel) {
        if (pixel < 0) {
          std::fill_n(row + at, g.group_c, T(0));
        } else {
          std::copy_n(image + pixel * g.c, g.group_c, row + at);
        }
      });
    }
  });
}

// Adds unfolded rows back to the image; windows overlap, so one thread.
template <class T>
void fold(const Geometry& g, const T* columns, T* image) {
  for (int64_t i = 0; i < g.positions(); ++i) {
    const T* const row = columns + i * g.unfolded;
    for_each_tap(g, i / g.q_size, i % g.q_size, [&](int64_t at, int64_t pixel) {
      if (pixel < 0) return;
      T* const to = image + pixel * g.c;
      for (int64_t j = 0; j < g.group_c; ++j) to[j] += row[at + j];
    });
  }
}

// The weight as (K, R, S, group_c), the order of the unfolded rows: a view.
Tensor window_order(const Tensor& weight) {
  const Shape& shape = weight.shape();
  const Strides& strides = weight.strides();
  return weight.as_strided({shape[0], shape[2], shape[3], shape[1]},
                           {strides[0], strides[2], strides[3], strides[1]});
}
Tensor packed_weight(const Tensor& weight) {
  return to_row_major(window_order(weight), weight.dtype());
}

template <class T>
MatmulOperand matrix(const T* data, int64_t row, int64_t column) {
  return {const_cast<T*>(data), dtype_of<T>, row, column, {}};
}

MatmulProblem product(int64_t m, int64_t n, int64_t k, const MatmulOperand& a,
                      const MatmulOperand& b, const MatmulOperand& out) {
  MatmulProblem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a = a;
  problem.b = b;
  problem.out = out;
  return problem;
}

template <class T>
T* scratch(Tensor& owner, int64_t count) {
  owner = empty({count}, {dtype_of<T>, kCpu, Category::other});
  return owner.data<T>();
}

// Calls body<T>(image number, group number, unfolded columns) for all images and groups.
template <class Body>
void for_each_group(const Geometry& g, int64_t images, DType dtype, Body&& body) {
  dispatch_types<float, double>(dtype, "conv2d", [&]<class T>() {
    Tensor owner;
    T* const columns = scratch<T>(owner, g.positions() * g.unfolded);
    for (int64_t image = 0; image < images; ++image) {
      for (int64_t group = 0; group < g.params.groups; ++group) body(image, group, columns);
    }
  });
}

}  // namespace

void eigen_conv2d(const Tensor& x, const Tensor& weight, const Tensor* bias, const Tensor& y,
                  const ConvParams& params) {
  const Geometry g(x, weight, y, params);
  const Tensor packed = packed_weight(weight);
  for_each_group(g, y.dim(0), x.dtype(), [&]<class T>(int64_t image, int64_t group, T* columns) {
    unfold(g, x.data<T>() + image * g.c * g.h * g.w + group * g.group_c, columns);
    const int64_t first = group * g.group_k;
    const Tensor group_bias = bias != nullptr ? bias->alias(first, {g.group_k}) : Tensor();
    MatmulProblem problem =
        product(g.positions(), g.group_k, g.unfolded, matrix(columns, g.unfolded, 1),
                matrix(packed.data<T>() + first * g.unfolded, 1, g.unfolded),
                matrix(y.data<T>() + image * g.positions() * g.k + first, g.k, 1));
    problem.bias = bias != nullptr ? &group_bias : nullptr;
    eigen_gemm(problem);
  });
}

void eigen_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx,
                                 const ConvParams& params) {
  const Geometry g(dx, weight, dy, params);
  const Tensor packed = packed_weight(weight);
  Tensor zeroed = dx;
  fill(DeviceType::cpu, zeroed, 0);
  for_each_group(g, dx.dim(0), dy.dtype(), [&]<class T>(int64_t image, int64_t group, T* columns) {
    const int64_t first = group * g.group_k;
    const MatmulProblem problem =
        product(g.positions(), g.unfolded, g.group_k,
                matrix(dy.data<T>() + image * g.positions() * g.k + first, g.k, 1),
                matrix(packed.data<T>() + first * g.unfolded, g.unfolded, 1),
                matrix(columns, g.unfolded, 1));
    eigen_gemm(problem);
    fold(g, columns, dx.data<T>() + image * g.c * g.h * g.w + group * g.group_c);
  });
}

void eigen_conv2d_backward_weight(const Tensor& x, const Tensor& dy, const Tensor& dweight,
                                  const ConvParams& params, bool accumulate) {
  const Geometry g(x, dweight, dy, params);
  Tensor target = window_order(dweight);
  const Tensor sum = zeros(target.shape(), {dy.dtype(), kCpu, Category::other});
  for_each_group(g, x.dim(0), dy.dtype(), [&]<class T>(int64_t image, int64_t group, T* columns) {
    unfold(g, x.data<T>() + image * g.c * g.h * g.w + group * g.group_c, columns);
    const int64_t first = group * g.group_k;
    MatmulProblem problem = product(
        g.group_k, g.unfolded, g.positions(),
        matrix(dy.data<T>() + image * g.positions() * g.k + first, 1, g.k),
        matrix(columns, g.unfolded, 1), matrix(sum.data<T>() + first * g.unfolded, g.unfolded, 1));
    problem.accumulate = true;
    eigen_gemm(problem);
  });
  if (accumulate) {
    kernels::accumulate(DeviceType::cpu, sum, target, 1.0);
  } else {
    copy(DeviceType::cpu, sum, target);
  }
}

}  // namespace tenon::kernels
