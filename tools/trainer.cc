#include "tenon/tools/trainer.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <limits>

#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/optim/clip.h"
#include "tenon/tools/machine_ceilings.h"
#include "tenon/tools/rank_random.h"
#include "tenon/tools/stop_signal.h"

namespace tenon::tools {
namespace {

RunLog open_log(const TrainingOptions& options, bool leader) {
  return RunLog(leader ? options.log : "", !options.resume.empty());
}

// Gives the task its share of the samples, before anything else asks it.
TrainingTask& started(TrainingTask& task, const TrainingOptions& options, const World& world) {
  task.start({.batch = options.batch * options.accumulate,
              .rank = world.rank(),
              .ranks = world.size(),
              .seed = options.seed});
  return task;
}

// Share of the ranks' peak performance that one sample a second needs. The peak is that of
// multiply-adds in the type that is computed in, measured now.
double utilization_per_sample(const TrainingTask& task, const TrainingOptions& options, int ranks) {
  if (task.flops_per_sample() == 0 || options.quiet) return 0;
  const double gflop = measure_gflop(dtype_from_name(options.dtype), int64_t{1} << 20, 0.05);
  rank_context().memory->reset_peak();  // of the run, without this measurement
  return task.flops_per_sample() / (gflop * 1e9 * ranks);
}

}  // namespace

Trainer::Trainer(const World& world, const TrainingOptions& options, TrainingTask& task,
                 const ModelFactory& make_model)
    : options_(options),
      task_(started(task, options, world)),
      group_(world.group()),
      device_(world.device()),
      last_step_(last_step(options, task_.steps_per_epoch())),
      schedule_(make_schedule(options, task_.steps_per_epoch())),
      log_(open_log(options, world.rank() == 0)) {
  set_default_device(device_);
  seed(options.seed);
  Parallelism parallelism{group_, {}};
  if (options.parallel == "ddp") parallelism.ddp = DdpOptions{.bucket_bytes = options.bucket_bytes};
  {
    const DefaultDType dtype(options.dtype == "f64" ? DType::f64 : DType::f32);
    model_ = make_model(parallelism);
  }
  if (options.dtype == "bf16") model_->module().set_compute_dtype(DType::bf16);
  optimizer_ = make_optimizer(options, model_->module().parameters());
  if (!options.resume.empty()) resume();
  introduce();
}

void Trainer::resume() {
  const std::string checkpoint = find_checkpoint(options_.resume);
  const TrainingState state = load_training_state(checkpoint);
  const auto differs = [&](const char* flag, const auto& given, const auto& saved) {
    if (given == saved) return;
    throw Error(
        str("[resume] ", checkpoint, " was made with ", flag, " ", saved, ": given ", given),
        ErrorKind::usage);
  };
  differs("--model", options_.model, state.model);
  differs("--optimizer", options_.optimizer, state.optimizer);
  differs("--seed", options_.seed, state.seed);
  // Not Json: here the order of keys does not count.
  const nlohmann::json config = task_.config(), saved = nlohmann::json::parse(state.config);
  for (const auto& [name, value] : config.items()) {
    differs(name.c_str(), value.dump(), saved.value(name, nlohmann::json()).dump());
  }
  load_weights(checkpoint, model_->module(), *optimizer_);
  const int64_t global = options_.batch * options_.accumulate * group_.size();
  if (state.samples % global != 0) {
    throw Error(str("[resume] ", checkpoint, " stands at sample ", state.samples,
                    " of its epoch, which is no multiple of the global batch ", global,
                    ": choose --batch and --accumulate so that it is"),
                ErrorKind::usage);
  }
  task_.set_position({state.epoch, state.samples / global});
  step_ = state.step;
  restore_random(state.random);
  say(str("resumed from ", checkpoint, " after step ", step_));
  if (state.random.size() != static_cast<size_t>(group_.size())) {
    say(str("made by ", state.random.size(), " ranks, now ", group_.size(),
            ": dropout goes on with other random numbers"));
  }
}

void Trainer::introduce() {
  const int64_t steps = task_.steps_per_epoch();
  progress_ = Progress(last_step_, (last_step_ + steps - 1) / steps,
                       utilization_per_sample(task_, options_, group_.size()));
  const int64_t parameters = model_->module().parameter_count();
  say(str(options_.model, ": ", parameters, " parameters, ", options_.dtype, ", ", group_.size(),
          group_.size() == 1 ? " rank x " : " ranks x ", options_.threads,
          options_.threads == 1 ? " thread" : " threads", ", ", task_.description(), ", ",
          task_.steps_per_epoch(), " steps an epoch"));
  if (device_ != kCpu) say(runtime(device_.type).describe(device_.index));
  if (const std::string note = group_.note(); !note.empty()) say(note);
  log_.write("start", {{"config", to_json(options_)},
                       {"ranks", group_.size()},
                       {"threads", options_.threads},
                       {"device", options_.device},
                       {"parameters", parameters},
                       {"git", git_revision()},
                       {"seed", options_.seed},
                       {"step", step_}});
}

void Trainer::run() {
  const int64_t begin = now_ns(), first = step_;
  catch_stop_signal();
  while (!done()) {
    const bool epoch_ends = task_.position().step + 1 == task_.steps_per_epoch();
    train_step();
    evaluate_if_due(epoch_ends);
    save_if_due();
  }
  report_pending();
  print_progress();
  if (stopped_) {
    say(str("stopped by SIGTERM after step ", step_,
            options_.save.empty() ? "; nothing is saved without --save" : ", which is saved"));
  } else if (!evaluation_) {
    evaluate();
  }
  const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
  log_.write("end", {{"steps", step_},
                     {"seconds", seconds},
                     {"reason", stopped_                           ? "sigterm"
                                : last_step_ == options_.max_steps ? "max_steps"
                                                                   : "epochs"}});
  if (!leader()) return;
  if (!options_.quiet) {
    std::printf("%lld steps in %.1f s\n", static_cast<long long>(step_ - first), seconds);
  }
  if (evaluation_) std::printf("%s\n", task_.result(*evaluation_).c_str());
  std::fflush(stdout);
}

void Trainer::train_step() {
  StepRecord record;
  record.step = step_ + 1;
  rank_context().step = record.step;
  fail_if_asked();
  evaluation_.reset();
  const Traffic before = rank_context().traffic.of("ddp");
  const TaskStep sample = task_.next();
  record.epoch = sample.position.epoch + 1;
  record.samples = sample.global;
  if (task_.is_text()) record.tokens = sample.global * task_.targets_per_sample();
  record.lr = schedule_.lr_at(step_);
  double totals[2] = {0, 0};  // loss, correct
  optimizer_->zero_grad();
  accumulate_gradients(sample, record.clock, totals);
  DdpStats stats = model_->stats();
  record.clock.exposed(stats.exposed);
  const Traffic after = rank_context().traffic.of("ddp");
  record.traffic = {after.calls - before.calls, after.bytes - before.bytes};
  update(record);
  report_pending();
  const Tensor sums =
      from_vector({totals[0] / group_.size(), totals[1], stop_requested() ? 1.0 : 0.0}, {3},
                  {.dtype = DType::f64, .device = kCpu, .category = Category::other});
  Work work = group_.all_reduce(sums, ReduceOp::sum, {.tag = "log"});
  record.clock.lap(Phase::optimizer);
  pending_ = Pending{std::move(record), std::move(stats), sums, std::move(work)};
  ++step_;
}

void Trainer::fail_if_asked() const {
  if (group_.rank() != options_.fail_rank || step_ + 1 != options_.fail_step) return;
  if (options_.fail_how == "kill") std::raise(SIGKILL);
  fail("fail", "failed on purpose, as --fail-rank and --fail-step asked");
}

void Trainer::accumulate_gradients(const TaskStep& sample, PhaseClock& clock, double* totals) {
  // The sum over all samples of the step, of every rank and pass, divided by their number; DDP
  // takes the mean over the ranks, hence the factor.
  const double divisor =
      static_cast<double>(sample.global * task_.targets_per_sample()) / group_.size();
  // A rank without samples still takes part in the collectives.
  const int64_t passes = std::max<int64_t>(1, (sample.local + options_.batch - 1) / options_.batch);
  for (int64_t pass = 0; pass < passes; ++pass) {
    const TaskBatch batch =
        sample.batch(sample.local * pass / passes, sample.local * (pass + 1) / passes);
    clock.lap(Phase::data);
    const Tensor targets = to(batch.targets, device_);
    const Tensor logits = model_->forward(to(batch.inputs, device_));
    const Tensor loss = cross_entropy(logits, targets, {.divisor = divisor});
    totals[0] += loss.item<double>();
    if (!task_.is_text()) {
      totals[1] += static_cast<double>(count_correct(logits, batch.targets));
    }
    clock.lap(Phase::forward);
    const std::optional<NoSync> alone = pass + 1 < passes ? model_->no_sync() : std::nullopt;
    loss.backward();
    clock.lap(Phase::backward);
  }
}

void Trainer::update(StepRecord& record) {
  record.grad_norm = std::numeric_limits<double>::quiet_NaN();
  const std::vector<NamedTensor> parameters = optimizer_->parameters();
  if (options_.clip > 0) {
    record.grad_norm = clip_grad_norm(parameters, options_.clip);
  } else if (log_.enabled()) {
    record.grad_norm = grad_norm(parameters);
  }
  optimizer_->set_lr(record.lr);
  optimizer_->step();
}

// A step late, when the collective has long been done: training never waits for the log.
void Trainer::report_pending() {
  if (!pending_) return;
  Pending pending = std::move(*pending_);
  pending_.reset();
  pending.work.wait();
  const double* const sums = pending.totals.data<double>();
  pending.record.loss = sums[0];
  stopped_ = stopped_ || sums[2] > 0;
  pending.record.accuracy = sums[1] / static_cast<double>(pending.record.samples);
  if (!leader()) return;
  pending.record.clock.wait();
  TENON_CHECK(std::isfinite(sums[0]), "train", "the loss of step ", pending.record.step, " is ",
              sums[0], ": wanted a finite one (a smaller --lr, --clip or --warmup may help)");
  pending.record.comm_ms = static_cast<double>(pending.stats.comm_ns()) / 1e6;
  log_.write("step", to_json(pending.record, *rank_context().memory));
  progress_.add(pending.record);
  if (pending.record.step % options_.print_every == 0) print_progress();
}

void Trainer::print_progress() {
  if (!progress_.empty()) say(progress_.line(*rank_context().memory));
}

void Trainer::evaluate_if_due(bool epoch_ended) {
  const bool due = options_.eval_every > 0 ? step_ % options_.eval_every == 0 : epoch_ended;
  if (!due) return;
  report_pending();
  print_progress();
  evaluate();
}

void Trainer::evaluate() {
  evaluation_ = tools::evaluate(task_, *model_, group_, options_.batch);
  char text[128];
  std::snprintf(text, sizeof text, "eval step %lld: %s loss %.4f", static_cast<long long>(step_),
                task_.is_text() ? "validation" : "test", evaluation_->loss);
  Json fields{{"step", step_}, {"loss", evaluation_->loss}};
  std::string line = text;
  if (!task_.is_text()) {
    std::snprintf(text, sizeof text, " accuracy %.4f", evaluation_->accuracy());
    line += text;
    fields["accuracy"] = evaluation_->accuracy();
  }
  say(line);
  log_.write("eval", fields);
}

void Trainer::save_if_due() {
  const bool due = options_.save_every > 0 && step_ % options_.save_every == 0;
  if (options_.save.empty() || !(due || done())) return;
  report_pending();
  const int64_t begin = now_ns();
  const TrainingState state = training_state();
  std::string path;
  if (leader()) path = save_checkpoint(options_.save, state, model_->module(), *optimizer_);
  // Nobody goes on, or ends, before the checkpoint is there.
  group_.barrier({.tag = "checkpoint"}).wait();
  log_.write(
      "checkpoint",
      {{"step", step_}, {"path", path}, {"ms", static_cast<double>(now_ns() - begin) / 1e6}});
}

TrainingState Trainer::training_state() {
  const SamplerPosition position = task_.position();
  return {.step = step_,
          .epoch = position.epoch,
          .samples = position.step * options_.batch * options_.accumulate * group_.size(),
          .seed = options_.seed,
          .model = options_.model,
          .optimizer = options_.optimizer,
          .config = task_.config().dump(),
          .random = gather_random(group_)};
}

void Trainer::say(const std::string& text) const {
  if (!leader() || options_.quiet) return;
  std::cout << text << std::endl;
}

}  // namespace tenon::tools
