// Sums over any axes.
#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/sum_loops.h"
#include "tenon/kernels/reduce.h"

namespace tenon::kernels {
namespace {

using cpu::Wide;

template <class T, class W>
void write(const LoopPlan& kept, const std::vector<W>& sums, Tensor& out, double scale,
           bool accumulate) {
  T* const data = out.data<T>();
  parallel_for(kept.count, kept.count * 16, [&](int64_t begin, int64_t end) {
    LoopCursor cursor(kept, begin);
    for (int64_t i = begin; i < end; ++i, cursor.advance(1)) {
      T& element = data[cursor.offset(1)];
      W sum = sums[static_cast<size_t>(i)];
      if (scale != 1) sum = static_cast<W>(static_cast<double>(sum) * scale);
      if (accumulate) sum += static_cast<W>(static_cast<Compute<T>>(element));
      element = static_cast<T>(static_cast<Compute<T>>(sum));
    }
  });
}

void sum_cpu(const Tensor& x, Tensor& out, AxisMask axes, double scale, bool accumulate) {
  if (out.numel() == 0) return;
  const cpu::SumPlan plan{LoopPlan::over(~axes, {&x, &out}), LoopPlan::over(axes, {&x}),
                          static_cast<int64_t>(x.nbytes())};
  const DType type = is_floating(x.dtype()) ? compute_dtype(x.dtype()) : DType::i64;
  dispatch_types<float, double, int64_t>(type, "sum", [&]<class C>() {
    const std::vector<Wide<C>> sums = cpu::sum_over<C>(plan, cpu::PlainSource<C>(plan, x));
    dispatch_types<float, double, Float16, BFloat16, int64_t, int32_t>(
        out.dtype(), "sum", [&]<class T>() { write<T>(plan.kept, sums, out, scale, accumulate); });
  });
}

[[maybe_unused]] const bool registered = sum.set(DeviceType::cpu, sum_cpu);

}  // namespace
}  // namespace tenon::kernels
