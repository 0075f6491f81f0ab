#include "tenon/autograd/ops/random.h"

#include "tenon/autograd/ops/detail.h"
#include "tenon/core/rank_context.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/random.h"

namespace tenon {
namespace {

// Random kernels write row-major memory; other layouts get a copy of it.
template <class Draw>
void draw_into(const char* op, const Tensor& x, Generator* generator, Draw draw) {
  detail::check_floating(op, x);
  detail::check_writable(op, x);
  const PhiloxKey key =
      (generator != nullptr ? *generator : rank_context().dropout).reserve(x.numel());
  Tensor target = x.is_contiguous() ? x.detach() : empty(x.shape(), {x.dtype(), x.device()});
  draw(target, key);
  if (!x.is_contiguous()) {
    Tensor result = x.detach();
    kernels::copy(x.device().type, target, result);
  }
  x.bump_version();
}

}  // namespace

void uniform_(const Tensor& x, double low, double high, Generator* generator) {
  TENON_CHECK(low <= high, "uniform", "empty range: given [", low, ", ", high, ")");
  draw_into("uniform", x, generator, [&](Tensor& target, const PhiloxKey& key) {
    kernels::uniform(x.device().type, target, low, high, key);
  });
}

void normal_(const Tensor& x, double mean, double stddev, Generator* generator) {
  TENON_CHECK(stddev >= 0, "normal", "negative standard deviation: given ", stddev);
  draw_into("normal", x, generator, [&](Tensor& target, const PhiloxKey& key) {
    kernels::normal(x.device().type, target, mean, stddev, key);
  });
}

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator) {
  const Tensor x = empty(shape, options);
  uniform_(x, 0, 1, generator);
  return x;
}

Tensor randn(const Shape& shape, TensorOptions options, Generator* generator) {
  const Tensor x = empty(shape, options);
  normal_(x, 0, 1, generator);
  return x;
}

}  // namespace tenon
