// The reduction over ranks whose memory is a device's, bit by bit as on the CPU.
#include "tenon/kernels/rank_reduce.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::RankReduce;
using kernels::ReduceOp;
using testing::kCuda;
using Pair = testing::DevicePair;

struct Case {
  int64_t count;
  int64_t offset;  // of every tensor in its memory
  size_t ranks;
  size_t destinations;
  bool in_place;
};

Pair numbers(int64_t count, DType dtype, unsigned seed) {
  if (is_floating(dtype)) return {{count}, dtype, seed};
  std::vector<double> values = testing::random_tensor({count}, DType::f64, seed).to_vector();
  for (double& value : values) value = std::floor(1000 * value);
  const Tensor list = from_vector(values, {count}, {dtype, kCpu});
  return {list, copied_to(list, kCuda)};
}

void check(const Case& c, DType dtype, ReduceOp op) {
  INFO(dtype << " " << c.count << " ranks " << c.ranks << " op " << static_cast<int>(op));
  std::vector<Pair> sources, results;
  for (size_t r = 0; r < c.ranks; ++r) {
    sources.push_back(numbers(c.count + c.offset, dtype, static_cast<unsigned>(r))
                          .view({c.count}, {1}, c.offset));
  }
  for (size_t k = 0; k < c.destinations; ++k) {
    results.push_back(c.in_place
                          ? sources[k]
                          : numbers(c.count + c.offset, dtype, 99).view({c.count}, {1}, c.offset));
  }
  for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda}) {
    const auto data = [device](const Pair& pair) {
      return (device == DeviceType::cpu ? pair.cpu : pair.cuda).raw_data();
    };
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Pair& source : sources) from.push_back(data(source));
    for (const Pair& result : results) to.push_back(data(result));
    kernels::rank_reduce(device,
                         RankReduce{from, to, c.count, dtype, op, static_cast<int>(c.ranks)});
  }
  for (const Pair& result : results) CHECK(result.cuda.to_vector() == result.cpu.to_vector());
}

}  // namespace

TEST_CASE("cuda rank_reduce: the bits of the CPU") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
      if (op == ReduceOp::mean && !is_floating(dtype)) continue;
      for (const Case& c :
           {Case{0, 0, 2, 1, false}, Case{1, 0, 1, 1, false}, Case{7, 0, 2, 2, true},
            Case{1003, 0, 3, 3, true}, Case{5000, 1, 5, 2, false}, Case{264, 8, 40, 40, true}}) {
        check(c, dtype, op);
      }
    }
  }
}

TEST_CASE("cuda rank_reduce: refuses more ranks than its kernel takes") {
  Tensor x = empty({4}, {DType::f32, kCuda});
  const std::vector<const void*> from(129, x.raw_data());
  void* to = x.raw_data();
  CHECK_THROWS_WITH(
      kernels::rank_reduce(DeviceType::cuda,
                           RankReduce{from, {&to, 1}, 4, DType::f32, ReduceOp::sum, 1}),
      Catch::Contains("too many ranks on one device: given 129"));
}

}  // namespace tenon
