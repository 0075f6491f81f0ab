#include "tenon/kernels/rank_reduce.h"

#include <catch2/catch.hpp>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::RankReduce;
using kernels::ReduceOp;
using testing::random_tensor;

// Element by element in the order of ranks, in the compute type, rounded once.
template <class T>
std::vector<double> naive(const std::vector<Tensor>& sources, ReduceOp op, int divisor) {
  using C = Compute<T>;
  std::vector<double> result;
  for (int64_t i = 0; i < sources[0].numel(); ++i) {
    C value = static_cast<C>(sources[0].data<T>()[i]);
    for (size_t r = 1; r < sources.size(); ++r) {
      const C next = static_cast<C>(sources[r].data<T>()[i]);
      if (op == ReduceOp::max) value = std::max(value, next);
      if (op == ReduceOp::min) value = std::min(value, next);
      if (op == ReduceOp::sum || op == ReduceOp::mean) value = value + next;
    }
    if (op == ReduceOp::mean) value = value / static_cast<C>(divisor);
    result.push_back(static_cast<double>(static_cast<C>(static_cast<T>(value))));
  }
  return result;
}

template <class T>
void check(int64_t count, size_t ranks, size_t destinations, bool in_place, ReduceOp op) {
  std::vector<Tensor> sources, results;
  for (size_t r = 0; r < ranks; ++r) {
    const Tensor values = random_tensor({count}, DType::f64, static_cast<unsigned>(r + 1));
    std::vector<double> scaled = values.to_vector();
    for (double& value : scaled) value *= 100;
    sources.push_back(from_vector(scaled, {count}, {dtype_of<T>, kCpu}));
  }
  const std::vector<double> wanted = naive<T>(sources, op, static_cast<int>(ranks));
  for (size_t k = 0; k < destinations; ++k) {
    results.push_back(in_place ? sources[k % ranks] : empty({count}, {dtype_of<T>, kCpu}));
  }
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Tensor& source : sources) from.push_back(source.raw_data());
  for (const Tensor& result : results) to.push_back(result.raw_data());
  kernels::rank_reduce(DeviceType::cpu,
                       RankReduce{from, to, count, dtype_of<T>, op, static_cast<int>(ranks)});
  for (const Tensor& result : results) {
    INFO(dtype_of<T> << " " << count << " ranks " << ranks << " destinations " << destinations);
    CHECK(result.to_vector() == wanted);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("rank_reduce gives the bits of the naive loop in the order of ranks", "", float,
                   double, BFloat16, Float16, int64_t) {
  for (const int64_t count : {0, 1, 15, 2047, 5000}) {
    for (const size_t ranks : {1, 2, 3, 5}) {
      for (const size_t destinations : {1, 2, 3}) {
        for (const bool in_place : {false, true}) {
          if (in_place && destinations > ranks) continue;
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
            if (op == ReduceOp::mean && std::is_same_v<TestType, int64_t>) continue;
            check<TestType>(count, ranks, destinations, in_place, op);
          }
        }
      }
    }
  }
}

TEST_CASE("rank_reduce refuses a mean of integers by name") {
  int64_t value = 1;
  const void* from = &value;
  void* to = &value;
  CHECK_THROWS_WITH(
      kernels::rank_reduce(DeviceType::cpu,
                           RankReduce{{&from, 1}, {&to, 1}, 1, DType::i64, ReduceOp::mean, 1}),
      Catch::Contains("[rank_reduce] mean of integers"));
}

}  // namespace tenon
