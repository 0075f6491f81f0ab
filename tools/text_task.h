// Modelling text: windows of its tokens at random places to train on, and the loss over the whole
// held-out part.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tenon/nn/data/token_dataset.h"
#include "tenon/nn/data/tokenizer.h"
#include "tenon/nn/data/window_sampler.h"
#include "tenon/tools/training_task.h"

namespace tenon::tools {

struct TextOptions {
  std::string data;       // a text, a token file (.bin), or a folder with train.bin and val.bin
  std::string tokenizer;  // "byte", "char" or "bpe:FILE"; for token files only to print samples
  double train_fraction = 0.9;  // of a single file
  int64_t context = 64;
  int64_t vocab = 0;  // of token files: 0: 50257, GPT-2's
};

// The tokens of both parts, how many kinds there are, and what they mean (null: not known).
struct TextData {
  TokenDataset train;
  TokenDataset validation;
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t vocab = 0;
};
TextData load_text_data(const TextOptions& options);

class TextTask : public TrainingTask {
 public:
  // `model_config` is what a checkpoint of the model must agree with.
  TextTask(TextData data, int64_t context, Json model_config);

  void start(const SamplerOptions& options) override;
  int64_t steps_per_epoch() const override { return sampler_->steps_per_epoch(); }
  SamplerPosition position() const override;
  void set_position(SamplerPosition position) override;
  TaskStep next() override;
  HeldOut held_out(ProcessGroup group, int64_t batch) const override;
  int64_t targets_per_sample() const override { return context_; }
  bool is_text() const override { return true; }
  double flops_per_sample() const override { return flops_; }
  std::string description() const override;
  std::string result(const Evaluation& evaluation) const override;
  Json config() const override;

  // Of a model with `parameters` that take part in products, by the definition of PaLM (Chowdhery
  // et al. 2022, appendix B): 6 per parameter and token, and 12 layers x dim x context for
  // attention.
  void set_flops(int64_t parameters, int64_t layers, int64_t dim);
  const TextData& data() const { return data_; }

 private:
  int64_t global_batch() const { return options_.batch * options_.ranks; }

  const TextData data_;
  const int64_t context_;
  const Json model_config_;
  SamplerOptions options_;
  double flops_ = 0;
  std::optional<WindowSampler> sampler_;
};

}  // namespace tenon::tools
