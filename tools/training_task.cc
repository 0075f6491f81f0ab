#include "tenon/tools/training_task.h"

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"

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

Evaluation evaluate(const TrainingTask& task, Trainable& model, ProcessGroup group, int64_t batch) {
  const NoGrad no_grad;
  model.module().eval();
  double loss = 0;
  int64_t correct = 0, total = 0;
  const HeldOut held_out = task.held_out(group, batch);
  for (int64_t step = 0; step < held_out.steps; ++step) {
    const TaskBatch part = held_out.next();
    if (!part.targets.defined()) continue;
    const Tensor logits = model.forward_alone(to(part.inputs, default_device()));
    const Tensor targets = to(part.targets, default_device());
    loss += cross_entropy(logits, targets, {.divisor = 1}).item<double>();
    if (!task.is_text()) correct += count_correct(logits, part.targets);
    total += part.targets.numel();
  }
  model.module().train();
  const Tensor sums =
      from_vector({loss, static_cast<double>(correct), static_cast<double>(total)}, {3},
                  {.dtype = DType::f64, .device = kCpu, .category = Category::other});
  group.all_reduce(sums, ReduceOp::sum, {.tag = "eval"}).wait();
  const double* const sum = sums.data<double>();
  return {sum[0] / sum[2], static_cast<int64_t>(sum[1]), static_cast<int64_t>(sum[2])};
}

}  // namespace tenon::tools
