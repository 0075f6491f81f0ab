#include "tenon/tools/alternate.h"

#include <algorithm>

#include "tenon/core/factory.h"

namespace tenon::tools {
namespace {

double largest(ProcessGroup group, double value) {
  const Tensor one = from_vector({value}, {1}, {.dtype = DType::f64});
  group.all_reduce(one, ReduceOp::max).wait();
  return one.item<double>();
}

}  // namespace

double Timings::best() const { return *std::min_element(ms.begin(), ms.end()); }

double Timings::median() const {
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

TimingPair alternate(int pairs, const std::function<double()>& a,
                     const std::function<double()>& b) {
  TimingPair result;
  for (int i = 0; i < pairs; ++i) {
    if (i % 2 == 0) result.a.ms.push_back(a());
    result.b.ms.push_back(b());
    if (i % 2 == 1) result.a.ms.push_back(a());
  }
  return result;
}

double timed_run(ProcessGroup group, const std::function<double()>& run) {
  group.barrier().wait();
  return largest(group, run());
}

}  // namespace tenon::tools
