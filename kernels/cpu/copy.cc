// Copies between dtypes and layouts, and fill.
#include "tenon/kernels/copy.h"

#include <algorithm>

#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/convert.h"
#include "tenon/kernels/cpu/loop_plan.h"
#include "tenon/kernels/cpu/permuted_copy.h"

namespace tenon::kernels {
namespace {

void copy_cpu(const Tensor& from, Tensor& to) {
  if (to.numel() == 0) return;
  const cpu::LoopPlan plan = cpu::LoopPlan::of({&to, &from});
  if (cpu::is_permuted(plan)) {
    cpu::copy_permuted(plan, from, to);
    return;
  }
  const cpu::RowConverter convert = cpu::row_converter(from.dtype(), to.dtype());
  const int64_t bytes =
      plan.count * static_cast<int64_t>(size_of(from.dtype()) + size_of(to.dtype()));
  parallel_for(
      plan.count, bytes,
      [&](int64_t begin, int64_t end) {
        cpu::LoopCursor cursor(plan, begin);
        while (begin < end) {
          const int64_t n = std::min(end - begin, cursor.left());
          convert(cpu::at_element(from.raw_data(), from.dtype(), cursor.offset(1)),
                  plan.inner_stride(1),
                  cpu::at_element(to.raw_data(), to.dtype(), cursor.offset(0)),
                  plan.inner_stride(0), n);
          cursor.advance(n);
          begin += n;
        }
      },
      64);
}

void fill_cpu(Tensor& out, double value) {
  if (out.numel() == 0) return;
  const cpu::LoopPlan plan = cpu::LoopPlan::of({&out});
  const cpu::RowConverter convert = cpu::row_converter(DType::f64, out.dtype());
  const int64_t bytes = plan.count * static_cast<int64_t>(size_of(out.dtype()));
  parallel_for(
      plan.count, bytes,
      [&](int64_t begin, int64_t end) {
        cpu::LoopCursor cursor(plan, begin);
        while (begin < end) {
          const int64_t n = std::min(end - begin, cursor.left());
          convert(&value, 0, cpu::at_element(out.raw_data(), out.dtype(), cursor.offset(0)),
                  plan.inner_stride(0), n);
          cursor.advance(n);
          begin += n;
        }
      },
      64);
}

[[maybe_unused]] const bool registered =
    copy.set(DeviceType::cpu, copy_cpu) && fill.set(DeviceType::cpu, fill_cpu);

}  // namespace
}  // namespace tenon::kernels
