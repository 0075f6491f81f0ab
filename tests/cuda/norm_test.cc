// What the tests of kernels/ do not reach: rows for every number of threads, rows too long for
// shared memory, sums that are split over blocks, parameters of other dtypes and strides.
#include "tenon/kernels/norm.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr double kEps = 1e-5;

void check_equal(const Pair& pair, double limit) {
  CHECK(max_error(pair.cuda.to_vector(), pair.cpu.to_vector()) < limit);
}

// What is added to a gradient that is there already.
void check_doubled(const Tensor& twice, const std::vector<double>& once, double limit) {
  std::vector<double> wanted = once;
  for (double& value : wanted) value *= 2;
  CHECK(max_error(twice.to_vector(), wanted) < limit);
}

void check_layer_norm(int64_t rows, int64_t width, DType dtype, const Pair* gamma,
                      const Pair* beta) {
  INFO(rows << " rows of " << width << " " << dtype);
  const Pair x({rows, width}, dtype, 1), dy({rows, width}, dtype, 4);
  const DType compute = compute_dtype(dtype);
  Pair y({rows, width}, dtype, 5), mean({rows}, compute, 6), rstd({rows}, compute, 7);
  kernels::layer_norm(DeviceType::cpu, x.cpu, gamma ? &gamma->cpu : nullptr,
                      beta ? &beta->cpu : nullptr, y.cpu, mean.cpu, rstd.cpu, kEps);
  kernels::layer_norm(DeviceType::cuda, x.cuda, gamma ? &gamma->cuda : nullptr,
                      beta ? &beta->cuda : nullptr, y.cuda, mean.cuda, rstd.cuda, kEps);
  check_equal(y, 4 * tolerance(dtype));
  check_equal(mean, 2 * tolerance(compute));
  check_equal(rstd, 2 * tolerance(compute));
  Pair dx({rows, width}, dtype, 5);
  Pair dgamma({width}, compute, 8), dbeta({width}, dtype, 9);
  kernels::layer_norm_backward(DeviceType::cpu, x.cpu, gamma ? &gamma->cpu : nullptr, mean.cpu,
                               rstd.cpu, dy.cpu, &dx.cpu, &dgamma.cpu, &dbeta.cpu,
                               {.parameters = true});
  kernels::layer_norm_backward(DeviceType::cuda, x.cuda, gamma ? &gamma->cuda : nullptr, mean.cuda,
                               rstd.cuda, dy.cuda, &dx.cuda, &dgamma.cuda, &dbeta.cuda,
                               {.parameters = true});
  check_equal(dx, 4 * tolerance(dtype));
  check_equal(dgamma, 8 * tolerance(compute));
  check_equal(dbeta, 2 * tolerance(dtype));
  const std::vector<double> gradient = dx.cuda.to_vector();
  kernels::layer_norm_backward(DeviceType::cuda, x.cuda, gamma ? &gamma->cuda : nullptr, mean.cuda,
                               rstd.cuda, dy.cuda, &dx.cuda, nullptr, nullptr, {.input = true});
  check_doubled(dx.cuda, gradient, 4 * tolerance(dtype));
}

// RMS norm of rows of x and its gradients by their definition.
struct RmsNorm {
  RmsNorm(const std::vector<double>& x, const std::vector<double>& gamma,
          const std::vector<double>& dy, size_t width)
      : y(x.size()), rstd(x.size() / width), dx(x.size()), dgamma(width) {
    for (size_t row = 0; row < rstd.size(); ++row) {
      const size_t at = row * width;
      double squares = 0, dot = 0;
      for (size_t i = 0; i < width; ++i) squares += x[at + i] * x[at + i];
      const double factor = 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
      for (size_t i = 0; i < width; ++i) dot += dy[at + i] * gamma[i] * x[at + i] * factor;
      dot /= static_cast<double>(width);
      for (size_t i = 0; i < width; ++i) {
        const double unit = x[at + i] * factor;
        y[at + i] = unit * gamma[i];
        dx[at + i] = factor * (dy[at + i] * gamma[i] - unit * dot);
        dgamma[i] += dy[at + i] * unit;
      }
      rstd[row] = factor;
    }
  }

  std::vector<double> y, rstd, dx, dgamma;
};

void check_rms_norm(int64_t rows, int64_t width, DType dtype, const Pair* gamma) {
  INFO(rows << " rows of " << width << " " << dtype);
  const Pair x({rows, width}, dtype, 1), dy({rows, width}, dtype, 4);
  const DType compute = compute_dtype(dtype);
  const auto columns = static_cast<size_t>(width);
  const RmsNorm wanted(x.cpu.to_vector(),
                       gamma ? gamma->cpu.to_vector() : std::vector<double>(columns, 1),
                       dy.cpu.to_vector(), columns);
  const Tensor* const scale = gamma ? &gamma->cuda : nullptr;
  Pair y({rows, width}, dtype, 5), rstd({rows}, compute, 7), dx({rows, width}, dtype, 5);
  Pair dgamma({width}, compute, 8);
  kernels::rms_norm(DeviceType::cuda, x.cuda, scale, y.cuda, rstd.cuda, kEps);
  CHECK(max_error(y.cuda.to_vector(), wanted.y) < 4 * tolerance(dtype));
  CHECK(max_error(rstd.cuda.to_vector(), wanted.rstd) < 2 * tolerance(compute));
  kernels::rms_norm_backward(DeviceType::cuda, x.cuda, scale, rstd.cuda, dy.cuda, &dx.cuda,
                             &dgamma.cuda, {});
  CHECK(max_error(dx.cuda.to_vector(), wanted.dx) < 4 * tolerance(dtype));
  CHECK(max_error(dgamma.cuda.to_vector(), wanted.dgamma) < 8 * tolerance(compute));
  const std::vector<double> dx_once = dx.cuda.to_vector(), dgamma_once = dgamma.cuda.to_vector();
  kernels::rms_norm_backward(DeviceType::cuda, x.cuda, scale, rstd.cuda, dy.cuda, &dx.cuda, nullptr,
                             {.input = true});
  check_doubled(dx.cuda, dx_once, 4 * tolerance(dtype));
  kernels::rms_norm_backward(DeviceType::cuda, x.cuda, scale, rstd.cuda, dy.cuda, nullptr,
                             &dgamma.cuda, {.parameters = true});
  check_doubled(dgamma.cuda, dgamma_once, 8 * tolerance(compute));
}

void check_batch_norm(const Shape& shape, const Strides& strides, DType dtype, int64_t offset) {
  const Pair store({shape.numel() + offset}, dtype, 1);
  const Pair x = store.view(shape, strides, offset);
  INFO(describe(x.cuda) << " strides " << strides << " offset " << offset);
  const auto like = [&](unsigned seed) {
    return Pair({shape.numel() + offset}, dtype, seed).view(shape, strides, offset);
  };
  const DType compute = compute_dtype(dtype);
  const int64_t channels = shape[1];
  const Pair gamma({channels}, compute, 2), beta({channels}, dtype, 3);
  const Pair dy = like(4);
  Pair y = like(5), dx = like(6);
  Pair mean({channels}, compute, 6), rstd({channels}, compute, 7);
  const double limit = 4 * tolerance(dtype), sum_limit = 8 * tolerance(compute);
  kernels::batch_norm(DeviceType::cpu, x.cpu, &gamma.cpu, &beta.cpu, y.cpu, mean.cpu, rstd.cpu,
                      kEps);
  kernels::batch_norm(DeviceType::cuda, x.cuda, &gamma.cuda, &beta.cuda, y.cuda, mean.cuda,
                      rstd.cuda, kEps);
  check_equal(y, limit);
  check_equal(mean, sum_limit);
  check_equal(rstd, sum_limit);
  kernels::batch_norm_inference(DeviceType::cpu, x.cpu, &gamma.cpu, nullptr, mean.cpu, rstd.cpu,
                                y.cpu);
  kernels::batch_norm_inference(DeviceType::cuda, x.cuda, &gamma.cuda, nullptr, mean.cuda,
                                rstd.cuda, y.cuda);
  check_equal(y, limit);
  for (const bool batch : {true, false}) {
    Pair dgamma({channels}, compute, 8), dbeta({channels}, dtype, 9);
    kernels::batch_norm_backward(DeviceType::cpu, x.cpu, &gamma.cpu, mean.cpu, rstd.cpu, dy.cpu,
                                 &dx.cpu, &dgamma.cpu, &dbeta.cpu, batch, true);
    kernels::batch_norm_backward(DeviceType::cuda, x.cuda, &gamma.cuda, mean.cuda, rstd.cuda,
                                 dy.cuda, &dx.cuda, &dgamma.cuda, &dbeta.cuda, batch, true);
    check_equal(dx, limit);
    check_equal(dgamma, sum_limit);
    check_equal(dbeta, 2 * tolerance(dtype));
    kernels::batch_norm_backward(DeviceType::cpu, x.cpu, nullptr, mean.cpu, rstd.cpu, dy.cpu,
                                 &dx.cpu, nullptr, nullptr, batch, false);
    kernels::batch_norm_backward(DeviceType::cuda, x.cuda, nullptr, mean.cuda, rstd.cuda, dy.cuda,
                                 &dx.cuda, nullptr, nullptr, batch, false);
    check_equal(dx, limit);
  }
}

}  // namespace

TEST_CASE("cuda layer_norm: rows of every length") {
  for (const DType dtype : kFloating) {
    for (const int64_t width : {1, 7, 8, 64, 100, 768, 1032, 4096, 9000}) {
      const Pair gamma({width}, dtype, 2), beta({width}, DType::f32, 3);
      const int64_t rows = width > 1000 ? 3 : 37;
      check_layer_norm(rows, width, dtype, &gamma, &beta);
      check_layer_norm(rows, width, dtype, nullptr, &gamma);
    }
    const Pair spaced = Pair({48}, dtype, 2).view({24}, {2});
    check_layer_norm(1500, 24, dtype, &spaced, &spaced);
  }
}

TEST_CASE("cuda rms_norm: rows of every length") {
  for (const DType dtype : kFloating) {
    for (const int64_t width : {1, 7, 8, 64, 100, 768, 1032, 4096, 9000}) {
      const Pair gamma({width}, DType::f32, 2);
      const int64_t rows = width > 1000 ? 3 : 37;
      check_rms_norm(rows, width, dtype, &gamma);
      check_rms_norm(rows, width, dtype, nullptr);
    }
    const Pair spaced = Pair({48}, dtype, 2).view({24}, {2});
    check_rms_norm(1500, 24, dtype, &spaced);
  }
}

TEST_CASE("cuda batch_norm: images of every layout") {
  for (const DType dtype : kFloating) {
    for (const int64_t offset : {0, 1}) {
      for (const Shape& shape :
           {Shape{5, 16, 8, 8}, Shape{3, 3, 40, 40}, Shape{7, 24, 7, 7}, Shape{2, 300, 2, 4}}) {
        check_batch_norm(shape, contiguous_strides(shape), dtype, offset);
        check_batch_norm(shape, channels_last_strides(shape), dtype, offset);
      }
      check_batch_norm({64, 40, 1}, {40, 1, 1}, dtype, offset);
      check_batch_norm({1000, 1, 4}, {4, 4, 1}, dtype, offset);
      check_batch_norm({6, 5, 4}, {1, 24, 6}, dtype, offset);
    }
  }
}

TEST_CASE("cuda norms: gradients of no rows and no images are zero") {
  Tensor none = empty({0, 4}, {DType::f32, kCuda}), nothing = empty({0}, {DType::f32, kCuda});
  const Tensor image = empty({0, 4, 2}, {DType::f32, kCuda});
  const Tensor statistics = full({4}, 1, {DType::f32, kCuda});
  Pair dgamma({4}, DType::f32, 1), dbeta({4}, DType::f32, 2);
  kernels::layer_norm_backward(DeviceType::cuda, none, nullptr, nothing, nothing, none, nullptr,
                               &dgamma.cuda, &dbeta.cuda, {.parameters = true});
  check_equal(dgamma, 1e-12);  // unchanged
  kernels::layer_norm_backward(DeviceType::cuda, none, nullptr, nothing, nothing, none, nullptr,
                               &dgamma.cuda, nullptr, {});
  Pair dscale({4}, DType::f32, 3);
  kernels::rms_norm(DeviceType::cuda, none, nullptr, none, nothing, kEps);
  kernels::rms_norm_backward(DeviceType::cuda, none, nullptr, nothing, none, nullptr, &dscale.cuda,
                             {});
  CHECK(dscale.cuda.to_vector() == std::vector<double>(4, 0));
  kernels::batch_norm_backward(DeviceType::cuda, image, nullptr, statistics, statistics, image,
                               nullptr, nullptr, &dbeta.cuda, true, false);
  CHECK(dgamma.cuda.to_vector() == std::vector<double>(4, 0));
  CHECK(dbeta.cuda.to_vector() == std::vector<double>(4, 0));
}

}  // namespace tenon
