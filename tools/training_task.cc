#include "tenon/tools/training_task.h"

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"

namespace tenon::tools {

int64_t count_correct(const Tensor& logits, const Tensor& targets) {
  const NoGrad no_grad;
  const Tensor guesses = copied_to(argmax(logits.detach(), 1), kCpu);
  const int64_t* const guess = guesses.data<int64_t>();
  const int64_t* const target = targets.data<int64_t>();
  int64_t correct = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) correct += guess[i] == target[i];
  return correct;
}

Evaluation join_evaluations(double loss, int64_t correct, int64_t total, ProcessGroup group) {
  const Tensor sums =
      from_vector({loss, static_cast<double>(correct), static_cast<double>(total)}, {3},
                  {.dtype = DType::f64, .device = kCpu, .category = Category::other});
  group.all_reduce(sums, ReduceOp::sum, {.tag = "eval"}).wait();
  const double* const sum = sums.data<double>();
  return {sum[0] / sum[2], static_cast<int64_t>(sum[1]), static_cast<int64_t>(sum[2])};
}

}  // namespace tenon::tools
