// Copies between dtypes and layouts, and fill.
#include "tenon/kernels/copy.h"

#include <algorithm>

#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/convert.h"
#include "tenon/kernels/cpu/permuted_copy.h"
#include "tenon/kernels/loop_plan.h"

namespace tenon::kernels {
namespace {

// row(cursor, n) for the rows of `plan` in each thread's part.
template <class Row>
void for_each_row(const LoopPlan& plan, int64_t bytes, const Row& row) {
  parallel_for(
      plan.count, bytes,
      [&](int64_t begin, int64_t end) {
        LoopCursor cursor(plan, begin);
        while (begin < end) {
          const int64_t n = std::min(end - begin, cursor.left());
          row(cursor, n);
          cursor.advance(n);
          begin += n;
        }
      },
      64);
}

void copy_cpu(const Tensor& from, Tensor& to) {
  if (to.numel() == 0) return;
  const LoopPlan plan = LoopPlan::of({&to, &from});
  if (const auto permuted = permuted_plan(plan)) {
    cpu::copy_permuted(*permuted, from, to);
    return;
  }
  const cpu::RowConverter convert = cpu::row_converter(from.dtype(), to.dtype());
  const auto bytes = static_cast<int64_t>(from.nbytes() + to.nbytes());
  for_each_row(plan, bytes, [&](const LoopCursor& cursor, int64_t n) {
    convert(cpu::at_element(from.raw_data(), from.dtype(), cursor.offset(1)), plan.inner_stride(1),
            cpu::at_element(to.raw_data(), to.dtype(), cursor.offset(0)), plan.inner_stride(0), n);
  });
}

void fill_cpu(Tensor& out, double value) {
  if (out.numel() == 0) return;
  const LoopPlan plan = LoopPlan::of({&out});
  const cpu::RowConverter convert = cpu::row_converter(DType::f64, out.dtype());
  for_each_row(plan, static_cast<int64_t>(out.nbytes()), [&](const LoopCursor& cursor, int64_t n) {
    convert(&value, 0, cpu::at_element(out.raw_data(), out.dtype(), cursor.offset(0)),
            plan.inner_stride(0), n);
  });
}

[[maybe_unused]] const bool registered =
    copy.set(DeviceType::cpu, copy_cpu) && fill.set(DeviceType::cpu, fill_cpu);

}  // namespace
}  // namespace tenon::kernels
