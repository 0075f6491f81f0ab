#include "tenon/tools/training_bench.h"

#include <map>

#include "tenon/autograd/ops.h"
#include "tenon/core/allocator.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/core/runtime.h"
#include "tenon/nn/safetensors.h"
#include "tenon/nn/state.h"
#include "tenon/nn/transformer.h"
#include "tenon/optim/adadelta.h"
#include "tenon/optim/adamw.h"
#include "tenon/optim/sgd.h"
#include "tenon/tools/models.h"
#include "tenon/tools/resident_memory.h"

namespace tenon::tools {
namespace {

constexpr int kBatches = 8;
constexpr uint64_t kSeed = 1234;

const std::map<std::string, nn::GptOptions> kTransformers{
    {"nanogpt", {.vocab = 65, .layers = 4, .heads = 4, .dim = 128, .context = 64, .bias = false}},
    {"gpt", {.vocab = 65, .layers = 6, .heads = 6, .dim = 384, .context = 256, .bias = false}},
    {"gpt2", {.vocab = 50257, .layers = 12, .heads = 12, .dim = 768, .context = 1024}}};

std::unique_ptr<Trainable> make_model(const std::string& name, const Parallelism& parallelism) {
  if (name == "mlp") return make_trainable<Mlp>(parallelism);
  if (name == "cnn") return make_trainable<Cnn>(parallelism);
  return make_trainable<nn::Gpt>(parallelism, kTransformers.at(name));
}

std::vector<int64_t> random_ids(int64_t count, int64_t kinds, Generator& numbers) {
  std::vector<int64_t> ids;
  for (const double x : rand({count}, {}, &numbers).to_vector()) {
    ids.push_back(static_cast<int64_t>(x * static_cast<double>(kinds)));
  }
  return ids;
}

// Inputs and targets of a batch.
std::pair<Tensor, Tensor> random_batch(const BenchRecipe& recipe, Generator& numbers) {
  if (recipe.tokens == 0) {
    const Tensor images = randn({recipe.batch, 1, 28, 28}, {}, &numbers);
    return {images, from_data(random_ids(recipe.batch, 10, numbers), {recipe.batch})};
  }
  const Shape shape{recipe.batch, recipe.tokens};
  const int64_t vocab = kTransformers.at(recipe.model).vocab;
  const Tensor tokens = from_data(random_ids(shape.numel(), vocab, numbers), shape);
  return {tokens, from_data(random_ids(shape.numel(), vocab, numbers), shape)};
}

std::unique_ptr<Optimizer> make_optimizer(const BenchRecipe& recipe, const Module& module) {
  if (recipe.optimizer == "sgd") {
    return std::make_unique<Sgd>(module.parameters(), SgdOptions{.lr = recipe.lr});
  }
  if (recipe.optimizer == "adamw") {
    return std::make_unique<AdamW>(module.parameters(), AdamWOptions{.lr = recipe.lr});
  }
  return std::make_unique<Adadelta>(module.parameters(), AdadeltaOptions{.lr = recipe.lr});
}

void write_tensors(const BenchRecipe& recipe, int rank, const std::string& path) {
  seed(kSeed);
  const std::unique_ptr<Trainable> model = make_model(recipe.model, {});
  std::vector<NamedTensor> tensors = state_dict(model->module());
  for (NamedTensor& tensor : tensors) tensor.name = "model." + tensor.name;
  Generator numbers(kSeed, static_cast<uint64_t>(rank) + 1);
  for (int i = 0; i < kBatches; ++i) {
    const auto [inputs, targets] = random_batch(recipe, numbers);
    tensors.push_back({str("inputs.", i), inputs});
    tensors.push_back({str("targets.", i), targets});
  }
  save_safetensors(path, tensors);
}

}  // namespace

void BenchTensors::move_batches(Device device) {
  for (Tensor& tensor : inputs) tensor = to(tensor, device);
  for (Tensor& tensor : targets) tensor = to(tensor, device);
}

const std::vector<std::string>& bench_models() {
  static const std::vector<std::string> models{"mlp", "cnn", "nanogpt", "gpt", "gpt2"};
  return models;
}

BenchRecipe bench_recipe(const std::string& model, int ranks) {
  if (model == "mlp") return {model, 128, 0, "sgd", 0.05};
  if (model == "cnn") return {model, 64, 0, "adadelta", 1};
  if (model == "nanogpt") return {model, 12, 64, "adamw", 1e-3};
  if (model == "gpt2") return {model, 1, 256, "adamw", 3e-4};
  TENON_CHECK(8 % ranks == 0, "bench_train", "8 sequences cannot be split over ", ranks, " ranks");
  return {model, 8 / ranks, 256, "adamw", 1e-3};
}

BenchTensors make_bench_tensors(const BenchRecipe& recipe, int rank, const std::string& path) {
  write_tensors(recipe, rank, path);
  caching_allocator(kCpu).release_cached();
  BenchTensors result;
  result.inputs.resize(kBatches);
  result.targets.resize(kBatches);
  const std::string prefix = "model.";
  for (const auto& [name, tensor] : load_safetensors(path).tensors) {
    if (name.starts_with(prefix)) {
      result.weights.push_back({name.substr(prefix.size()), tensor});
    } else {
      const size_t dot = name.find('.');
      auto& list = name.starts_with("inputs") ? result.inputs : result.targets;
      list.at(std::stoul(name.substr(dot + 1))) = tensor;
    }
  }
  return result;
}

TrainingBench::TrainingBench(const BenchRecipe& recipe, const std::string& dtype,
                             const BenchTensors& tensors, const Parallelism& parallelism)
    : recipe_(recipe), tensors_(tensors), model_(make_model(recipe.model, parallelism)) {
  if (dtype == "bf16") model_->module().set_compute_dtype(DType::bf16);
  reset();
}

void TrainingBench::reset() {
  load_state_dict(model_->module(), tensors_.weights);
  optimizer_.reset();  // the old one's state and the new one's do not fit together
  optimizer_ = make_optimizer(recipe_, model_->module());
  next_ = 0;
}

double TrainingBench::check(int64_t steps) {
  PhaseClock unused;
  model_->module().eval();
  double loss = 0;
  for (int64_t i = 0; i < steps; ++i) loss = step(unused).item<double>();
  model_->module().train();
  reset();
  return loss;
}

double TrainingBench::run(int64_t steps) {
  const int64_t begin = now_ns(), faults = minor_page_faults();
  clock_.resume();
  for (int64_t i = 0; i < steps; ++i) step(clock_);
  synchronize(default_device());
  steps_ += steps;
  page_faults_ = static_cast<double>(minor_page_faults() - faults) / static_cast<double>(steps);
  return static_cast<double>(now_ns() - begin) / 1e6 / static_cast<double>(steps);
}

Tensor TrainingBench::step(PhaseClock& clock) {
  const Tensor& inputs = tensors_.inputs[next_];
  const Tensor& targets = tensors_.targets[next_];
  next_ = (next_ + 1) % tensors_.inputs.size();
  optimizer_->zero_grad();
  const Tensor loss = cross_entropy(model_->forward(inputs), targets);
  clock.lap(Phase::forward);
  loss.backward();
  clock.lap(Phase::backward);
  clock.exposed(model_->stats().exposed);
  optimizer_->step();
  clock.lap(Phase::optimizer);
  return loss.detach();
}

}  // namespace tenon::tools
