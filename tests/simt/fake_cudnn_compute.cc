// The convolutions of the emulated cuDNN: unfolded images times weights, in f32 (f64 for f64).
#include "tenon/tests/simt/fake_cudnn.h"

// g++ 12 takes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <vector>

#include "tenon/core/half.h"
#include "tenon/tests/simt/fake_tf32.h"

namespace simt::cudnn {
namespace {

template <class C>
using Matrix = Eigen::Matrix<C, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Calls body with a null pointer of the element type.
template <class Body>
void with_type(cudnnDataType_t type, const Body& body) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return body(static_cast<const double*>(nullptr));
    case CUDNN_DATA_HALF:
      return body(static_cast<const tenon::Float16*>(nullptr));
    case CUDNN_DATA_BFLOAT16:
      return body(static_cast<const tenon::BFloat16*>(nullptr));
    default:
      return body(static_cast<const float*>(nullptr));
  }
}

template <class C>
class Convolver {
 public:
  Convolver(const Problem& problem, const Memory& memory)
      : p_(problem),
        memory_(memory),
        round_(problem.x.type == CUDNN_DATA_FLOAT && problem.conv.math != CUDNN_FMA_MATH),
        group_c_(problem.weight.c),
        group_k_(problem.y.c / problem.conv.groups),
        window_(problem.weight.h * problem.weight.w) {}

  void run() {
    const Matrix<C> weight =
        load(p_.weight, memory_.weight, 0, p_.weight.n, p_.pass != Pass::weight_gradient);
    Matrix<C> dweight = Matrix<C>::Zero(weight.rows(), weight.cols());
    for (int n = 0; n < p_.x.n; ++n) {
      Matrix<C> x = image(p_.x, memory_.x, n, p_.pass != Pass::input_gradient);
      Matrix<C> y = image(p_.y, memory_.y, n, p_.pass != Pass::forward);
      if (p_.pass == Pass::input_gradient) x.setZero();
      for (int group = 0; group < p_.conv.groups; ++group) {
        auto mine = y.middleRows(group * group_k_, group_k_);
        const int64_t first = group * group_k_;
        if (p_.pass == Pass::forward) {
          mine = weight.middleRows(first, group_k_) * unfold(x, group);
        } else if (p_.pass == Pass::weight_gradient) {
          dweight.middleRows(first, group_k_) += mine * unfold(x, group).transpose();
        } else {
          fold(weight.middleRows(first, group_k_).transpose() * mine, group, x);
        }
      }
      if (p_.pass == Pass::forward) store(p_.y, memory_.y, n, y);
      if (p_.pass == Pass::input_gradient) store(p_.x, memory_.x, n, x);
    }
    if (p_.pass == Pass::weight_gradient) store_weight(dweight);
  }

 private:
  // Element (n, c, pixel) for each row n of the outermost dimension from `first` on: its c and
  // pixel are the columns. Zeros unless it is an input.
  Matrix<C> load(const cudnnTensorStruct& tensor, const void* data, int first, int rows,
                 bool input) const {
    const int pixels = tensor.h * tensor.w;
    Matrix<C> result = Matrix<C>::Zero(rows, int64_t{tensor.c} * pixels);
    if (!input) return result;
    with_type(tensor.type, [&]<class T>(const T*) {
      for (int n = 0; n < rows; ++n) {
        const T* const from = static_cast<const T*>(data) + (first + n) * tensor.stride_n();
        for (int c = 0; c < tensor.c; ++c) {
          for (int i = 0; i < pixels; ++i) {
            const auto value =
                static_cast<C>(from[c * tensor.stride_c() + i * tensor.stride_pixel()]);
            result(n, int64_t{c} * pixels + i) =
                round_ ? static_cast<C>(to_tf32(static_cast<float>(value))) : value;
          }
        }
      }
    });
    return result;
  }
  // Image n: channels by pixels.
  Matrix<C> image(const cudnnTensorStruct& tensor, const void* data, int n, bool input) const {
    const Matrix<C> row = load(tensor, data, n, 1, input);
    return Eigen::Map<const Matrix<C>>(row.data(), tensor.c, tensor.h * tensor.w);
  }
  void store(const cudnnTensorStruct& tensor, void* data, int n, const Matrix<C>& values) const {
    const auto alpha = static_cast<C>(memory_.alpha), beta = static_cast<C>(memory_.beta);
    with_type(tensor.type, [&]<class T>(const T*) {
      T* const to = static_cast<T*>(data) + n * tensor.stride_n();
      for (int64_t c = 0; c < values.rows(); ++c) {
        for (int64_t i = 0; i < values.cols(); ++i) {
          T& element = to[c * tensor.stride_c() + i * tensor.stride_pixel()];
          C value = alpha * values(c, i);
          if (beta != 0) value += beta * static_cast<C>(element);
          element = static_cast<T>(value);
        }
      }
    });
  }
  void store_weight(const Matrix<C>& values) const {
    for (int k = 0; k < p_.weight.n; ++k) {
      const Matrix<C> row = values.row(k);
      store(p_.weight, memory_.weight, k,
            Eigen::Map<const Matrix<C>>(row.data(), p_.weight.c, window_));
    }
  }

  // Calls body(row of the unfolded image, output pixel, channel of the image, its pixel).
  template <class Body>
  void for_each_tap(int group, const Body& body) const {
    const cudnnConvolutionStruct& conv = p_.conv;
    for (int tap = 0; tap < group_c_ * window_; ++tap) {
      const int r = tap % window_ / p_.weight.w, s = tap % p_.weight.w;
      const int channel = group * group_c_ + tap / window_;
      for (int out = 0; out < p_.y.h * p_.y.w; ++out) {
        const int h = out / p_.y.w * conv.stride[0] + r * conv.dilation[0] - conv.padding[0];
        const int w = out % p_.y.w * conv.stride[1] + s * conv.dilation[1] - conv.padding[1];
        if (h < 0 || h >= p_.x.h || w < 0 || w >= p_.x.w) continue;
        body(tap, out, channel, h * p_.x.w + w);
      }
    }
  }
  Matrix<C> unfold(const Matrix<C>& x, int group) const {
    Matrix<C> columns = Matrix<C>::Zero(group_c_ * window_, p_.y.h * p_.y.w);
    for_each_tap(group, [&](int tap, int out, int channel, int pixel) {
      columns(tap, out) = x(channel, pixel);
    });
    return columns;
  }
  void fold(const Matrix<C>& columns, int group, Matrix<C>& x) const {
    for_each_tap(group, [&](int tap, int out, int channel, int pixel) {
      x(channel, pixel) += columns(tap, out);
    });
  }

  const Problem& p_;
  const Memory& memory_;
  const bool round_;  // the tensor cores take f32 as TF32
  const int group_c_;
  const int group_k_;
  const int window_;
};

}  // namespace

size_t size_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_DOUBLE) return 8;
  return type == CUDNN_DATA_FLOAT ? 4 : 2;
}

void convolve(const Problem& problem, const Memory& memory) {
  if (problem.x.type == CUDNN_DATA_DOUBLE) {
    Convolver<double>(problem, memory).run();
  } else {
    Convolver<float>(problem, memory).run();
  }
}

}  // namespace simt::cudnn
