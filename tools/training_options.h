// The flags that all training programs share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/distributed/comm/world.h"
#include "tenon/optim/optimizer.h"
#include "tenon/optim/schedule.h"
#include "tenon/tools/cli.h"
#include "tenon/tools/run_log.h"

namespace tenon::tools {

struct TrainingOptions {
  std::string data;
  std::string model;
  std::string parallel = "ddp";
  std::string dtype = "f32";
  std::string device = "cpu";
  std::optional<double> dropout;
  int threads = 0;
  size_t bucket_bytes = size_t{25} << 20;

  std::optional<int64_t> epochs;  // absent: until max_steps, or default_epochs without that
  int64_t default_epochs = 1;
  int64_t max_steps = 0;
  int64_t batch = 64;
  int64_t accumulate = 1;
  uint64_t seed = 1;

  std::string optimizer = "sgd";
  std::optional<double> lr;
  double momentum = 0.9;
  double weight_decay = 0;
  bool decay_matrices = false;  // weight decay for parameters of two dimensions or more alone
  double beta1 = 0.9;
  double beta2 = 0.999;
  double clip = 0;
  std::string schedule = "constant";
  int64_t schedule_steps = 0;
  std::optional<int64_t> warmup;  // of --warmup; otherwise usual_warmup, or a tenth of the steps
  int64_t usual_warmup = 0;
  double min_lr = 0;
  double gamma = 0.85;

  std::string log;
  int64_t print_every = 100;
  int64_t eval_every = 0;
  bool quiet = false;
  std::string save;
  int64_t save_every = 0;
  std::string resume;

  int fail_rank = -1;
  int64_t fail_step = 0;
  std::string fail_how = "throw";
};

// Adds the flags; what `options` holds becomes the defaults.
void add_training_flags(CommandLine& line, TrainingOptions& options,
                        const std::vector<std::string>& models,
                        const std::string& model_flag = "--model");

// Fills in what depends on other flags and on the world; a combination that makes no sense is a
// usage Error. Sets this rank's threads.
void resolve(TrainingOptions& options, World& world);

// All options as the start line of the log holds them.
Json to_json(const TrainingOptions& options);

std::unique_ptr<Optimizer> make_optimizer(const TrainingOptions& options,
                                          const std::vector<NamedTensor>& parameters);
Schedule make_schedule(const TrainingOptions& options, int64_t steps_per_epoch);
// The number of the run's last step.
int64_t last_step(const TrainingOptions& options, int64_t steps_per_epoch);

}  // namespace tenon::tools
