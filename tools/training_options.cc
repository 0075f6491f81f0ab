#include "tenon/tools/training_options.h"

#include <algorithm>

#include "tenon/optim/adadelta.h"
#include "tenon/optim/adam.h"
#include "tenon/optim/adamw.h"
#include "tenon/optim/sgd.h"
#include "tenon/tools/output_file.h"
#include "tenon/tools/threads.h"

namespace tenon::tools {
namespace {

double default_lr(const std::string& optimizer) {
  if (optimizer == "adadelta") return 1;
  return optimizer == "sgd" ? 0.05 : 1e-3;
}

void add_model_flags(CommandLine& line, TrainingOptions& options,
                     const std::vector<std::string>& models, const std::string& model_flag) {
  line.heading("Model and data");
  line.add("--data", options.data, "The data set: its folder or file");
  line.add_choice(model_flag, options.model, models, "Model to train");
  line.add("--dropout", options.dropout,
           "Probability of all dropout layers; default: the model's own")
      .between(0.0, 0.999);
  line.add_choice("--dtype", options.dtype, {"f64", "f32", "bf16"},
                  "Precision; bf16 computes in bf16 and keeps parameters in f32");
  line.add_choice("--device", options.device, {"cpu", "cuda"}, "Where to compute");
  line.heading("Ranks");
  line.add_choice("--parallel", options.parallel, {"none", "ddp"},
                  "How ranks share the work; none is for a single rank");
  line.add("--threads", options.threads, "Threads per rank; 0: cores / ranks of this node")
      .at_least(0);
  line.add("--bucket-bytes", options.bucket_bytes, "DDP: bytes of gradients per collective")
      .at_least(1);
}

void add_loop_flags(CommandLine& line, TrainingOptions& options) {
  line.heading("Steps");
  line.add("--epochs", options.epochs,
           str("Passes over the data set; default: ", options.default_epochs,
               ", or no limit with --max-steps"))
      .at_least(1);
  line.add("--max-steps", options.max_steps,
           "Steps after which the run ends, counted from its first start; 0: no limit")
      .at_least(0);
  line.add("--batch", options.batch, "Samples per rank and backward pass").at_least(1);
  line.add("--accumulate", options.accumulate, "Backward passes per step").at_least(1);
  line.add("--seed", options.seed, "Seed of initial values, order of samples and dropout");
}

void add_optimizer_flags(CommandLine& line, TrainingOptions& options) {
  line.heading("Optimizer");
  line.add_choice("--optimizer", options.optimizer, {"sgd", "adam", "adamw", "adadelta"},
                  "Update rule");
  line.add("--lr", options.lr, "Learning rate; default: sgd 0.05, adam and adamw 0.001, adadelta 1")
      .at_least(0);
  line.add("--momentum", options.momentum, "sgd: momentum").between(0.0, 1.0);
  line.add("--weight-decay", options.weight_decay, "Weight decay").at_least(0);
  line.add("--beta1", options.beta1, "adam, adamw: decay of the mean").between(0.0, 1.0);
  line.add("--beta2", options.beta2, "adam, adamw: decay of the mean square; adadelta takes 0.9")
      .between(0.0, 1.0);
  line.add("--clip", options.clip, "Largest norm of the gradients; 0: no limit").at_least(0);
  line.add_choice("--schedule", options.schedule, {"constant", "cosine", "step"},
                  "Learning rate over time; step: times --gamma after each epoch");
  line.add("--schedule-steps", options.schedule_steps,
           "cosine: the step that reaches --min-lr; 0: the run's last")
      .at_least(0);
  line.add("--warmup", options.warmup,
           str("Steps of linear warm-up; otherwise ", options.usual_warmup,
               options.usual_warmup > 0 ? ", or a tenth of the run if that is less" : ""))
      .at_least(0);
  line.add("--min-lr", options.min_lr, "Smallest learning rate of cosine and step").at_least(0);
  line.add("--gamma", options.gamma, "step: factor per epoch").above(0);
}

void add_output_flags(CommandLine& line, TrainingOptions& options) {
  line.heading("Output");
  line.add("--log", options.log, "File for one JSON object a line; a resumed run appends");
  line.add("--print-every", options.print_every, "Steps per progress line").at_least(1);
  line.add("--eval-every", options.eval_every,
           "Steps between evaluations; 0: after each epoch. The run ends with one in any case")
      .at_least(0);
  line.add_switch("--quiet", options.quiet, "Print the result alone");
  line.add("--save", options.save, "Folder for checkpoints; the run's last step is saved");
  line.add("--save-every", options.save_every, "Steps between checkpoints; 0: only the last")
      .at_least(0);
  line.add("--resume", options.resume,
           "Checkpoint to go on from: one, or a --save folder (its latest)");
  line.heading("Testing");
  line.add("--fail-rank", options.fail_rank, "Rank that fails on purpose; -1: none").at_least(-1);
  line.add("--fail-step", options.fail_step, "Step in which it fails").at_least(0);
  line.add_choice("--fail-how", options.fail_how, {"throw", "kill"},
                  "throw: an error; kill: SIGKILL to itself");
}

// What a schedule or an optimizer refuses came from a flag.
template <class Make>
auto from_flags(Make make) {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.what(), ErrorKind::usage);
  }
}

// All parameters, or apart those that do not decay.
std::vector<ParamGroup> groups_of(const TrainingOptions& options,
                                  const std::vector<NamedTensor>& parameters) {
  if (!options.decay_matrices) return one_group(parameters);
  std::vector<ParamGroup> groups(2);
  groups[1].weight_decay = 0;
  for (const NamedTensor& parameter : parameters) {
    groups[parameter.tensor.ndim() >= 2 ? 0 : 1].parameters.push_back(parameter);
  }
  if (groups[1].parameters.empty()) groups.pop_back();
  return groups;
}

std::unique_ptr<Optimizer> construct_optimizer(const TrainingOptions& options,
                                               std::vector<ParamGroup> groups) {
  const double lr = *options.lr, decay = options.weight_decay;
  if (options.optimizer == "sgd") {
    return std::make_unique<Sgd>(
        std::move(groups),
        SgdOptions{.lr = lr, .momentum = options.momentum, .weight_decay = decay});
  }
  if (options.optimizer == "adadelta") {
    return std::make_unique<Adadelta>(std::move(groups),
                                      AdadeltaOptions{.lr = lr, .weight_decay = decay});
  }
  if (options.optimizer == "adam") {
    return std::make_unique<Adam>(
        std::move(groups),
        AdamOptions{
            .lr = lr, .beta1 = options.beta1, .beta2 = options.beta2, .weight_decay = decay});
  }
  return std::make_unique<AdamW>(
      std::move(groups),
      AdamWOptions{
          .lr = lr, .beta1 = options.beta1, .beta2 = options.beta2, .weight_decay = decay});
}

}  // namespace

void add_training_flags(CommandLine& line, TrainingOptions& options,
                        const std::vector<std::string>& models, const std::string& model_flag) {
  add_model_flags(line, options, models, model_flag);
  add_loop_flags(line, options);
  add_optimizer_flags(line, options);
  add_output_flags(line, options);
}

void resolve(TrainingOptions& options, World& world) {
  const auto usage = [](const std::string& text) { throw Error(text, ErrorKind::usage); };
  if (options.parallel == "none" && world.size() > 1) {
    usage(str("[flags] --parallel none is for a single rank: given ", world.size(),
              " ranks, wanted ddp"));
  }
  if (options.fail_rank >= world.size()) {
    usage(str("[flags] --fail-rank: given ", options.fail_rank, ", there are ", world.size(),
              " ranks"));
  }
  if (options.save_every > 0 && options.save.empty()) {
    usage("[flags] --save-every has no use without --save DIR");
  }
  if (world.rank() == 0) check_output_folder("--save", options.save);
  if (!options.epochs && options.max_steps == 0) options.epochs = options.default_epochs;
  if (!options.lr) options.lr = default_lr(options.optimizer);
  options.threads = use_threads(options.threads, world);
  if (options.device == "cuda") world.use(DeviceType::cuda);
}

Json to_json(const TrainingOptions& options) {
  Json json{{"data", options.data},
            {"model", options.model},
            {"parallel", options.parallel},
            {"dtype", options.dtype},
            {"device", options.device},
            {"threads", options.threads},
            {"bucket_bytes", options.bucket_bytes},
            {"max_steps", options.max_steps},
            {"batch", options.batch},
            {"accumulate", options.accumulate},
            {"seed", options.seed},
            {"optimizer", options.optimizer},
            {"lr", *options.lr},
            {"momentum", options.momentum},
            {"weight_decay", options.weight_decay},
            {"beta1", options.beta1},
            {"beta2", options.beta2},
            {"clip", options.clip},
            {"schedule", options.schedule},
            {"schedule_steps", options.schedule_steps},
            {"warmup", options.warmup ? Json(*options.warmup) : Json(nullptr)},
            {"min_lr", options.min_lr},
            {"gamma", options.gamma},
            {"save", options.save},
            {"save_every", options.save_every},
            {"resume", options.resume},
            {"eval_every", options.eval_every}};
  json["epochs"] = options.epochs ? Json(*options.epochs) : Json(nullptr);
  json["dropout"] = options.dropout ? Json(*options.dropout) : Json(nullptr);
  return json;
}

std::unique_ptr<Optimizer> make_optimizer(const TrainingOptions& options,
                                          const std::vector<NamedTensor>& parameters) {
  return from_flags([&] { return construct_optimizer(options, groups_of(options, parameters)); });
}

Schedule make_schedule(const TrainingOptions& options, int64_t steps_per_epoch) {
  const int64_t steps =
      options.schedule_steps > 0 ? options.schedule_steps : last_step(options, steps_per_epoch);
  return from_flags([&] {
    return Schedule({.kind = schedule_from_name(options.schedule),
                     .lr = *options.lr,
                     .min_lr = options.min_lr,
                     .warmup = options.warmup.value_or(std::min(options.usual_warmup, steps / 10)),
                     .steps = steps,
                     .step_size = steps_per_epoch,
                     .gamma = options.gamma});
  });
}

int64_t last_step(const TrainingOptions& options, int64_t steps_per_epoch) {
  if (!options.epochs) return options.max_steps;
  const int64_t all = *options.epochs * steps_per_epoch;
  return options.max_steps > 0 ? std::min(options.max_steps, all) : all;
}

}  // namespace tenon::tools
