// The driver of the elementwise kernels. An op is one dense loop over plain arrays of the type it
// computes in; the driver cuts the tensors into chunks that fit the L1 cache and brings operands of
// any dtype and layout into that form (in place where they have it already). So layouts, 16-bit
// formats and broadcasting cost no code per op, and an element's value cannot depend on its layout.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "tenon/core/parallel.h"
#include "tenon/core/tensor.h"
#include "tenon/kernels/cpu/chunk_operand.h"

namespace tenon::kernels::cpu {

inline constexpr int64_t kThreadAlign = 64;  // elements; threads do not share cache lines

// An operand that remembers its last chunk: one that repeats in every row (a bias, a scalar) is
// packed once, because chunks of short rows are whole rows.
template <class C>
class RepeatedOperand {
 public:
  RepeatedOperand(const LoopPlan& plan, int operand, const Tensor& tensor)
      : operand_(plan, operand, tensor),
        period_(plan.inner_stride(operand) == 0 ? 1 : plan.inner()),
        repeats_(plan.repeats(operand)) {}

  const C* load(int64_t begin, int64_t n, C* buffer) {
    if (!repeats_) return operand_.load(begin, n, buffer);
    const int64_t phase = begin % period_;
    if (phase == phase_ && n <= length_) return last_;
    last_ = operand_.load(begin, n, buffer);
    phase_ = phase;
    length_ = n;
    return last_;
  }

 private:
  ChunkOperand<C> operand_;
  int64_t period_;
  bool repeats_;
  int64_t phase_ = -1;
  int64_t length_ = 0;
  const C* last_ = nullptr;
};

// out = op(in…) element by element. `dense` is void(int64_t n, Out* out, const In*… in) over dense
// arrays, with Out and In the compute types of the operands; out may be one of the inputs.
template <class Out, class... In, class Dense, class... Tensors>
void map_elements(const Dense& dense, const Tensor& out, const Tensors&... in) {
  static_assert(sizeof...(In) == sizeof...(Tensors));
  if (out.numel() == 0) return;
  const LoopPlan plan = LoopPlan::of({&out, &in...});
  const int64_t bytes = static_cast<int64_t>((size_of(out.dtype()) + ... + size_of(in.dtype())));
  parallel_for(
      plan.count, plan.count * bytes,
      [&](int64_t begin, int64_t end) {
        const ChunkOperand<Out> result(plan, 0, out);
        auto inputs = [&]<size_t... I>(std::index_sequence<I...>) {
          return std::tuple<RepeatedOperand<In>...>{
              RepeatedOperand<In>(plan, static_cast<int>(I + 1), in)...};
        }
        (std::index_sequence_for<In...>{});
        alignas(64) Out out_buffer[kChunk];
        alignas(64) std::tuple<std::array<In, kChunk>...> buffers;
        for (int64_t n = 0; begin < end; begin += n) {
          n = chunk_length(plan, begin, end);
          Out* const target = result.target(begin, n, out_buffer);
          [&]<size_t... I>(std::index_sequence<I...>) {
            dense(n, target, std::get<I>(inputs).load(begin, n, std::get<I>(buffers).data())...);
          }
          (std::index_sequence_for<In...>{});
          result.store(begin, n, target, out_buffer);
        }
      },
      kThreadAlign);
}

}  // namespace tenon::kernels::cpu
