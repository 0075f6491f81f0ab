#include "tenon/tools/text_task.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "tenon/nn/data/text_corpus.h"
#include "tenon/nn/data/token_file.h"

namespace tenon::tools {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kGpt2Vocab = 50257;

TextData from_token_files(const TextOptions& options) {
  const int64_t vocab = options.vocab > 0 ? options.vocab : kGpt2Vocab;
  const TokenFileOptions reading{.vocab_size = vocab};
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = make_tokenizer(options.tokenizer, "");
  if (fs::is_directory(options.data)) {
    const auto part = [&](const char* name) {
      return TokenDataset(read_token_file((fs::path(options.data) / name).string(), reading));
    };
    return {part("train.bin"), part("val.bin"), tokenizer, vocab};
  }
  TokenSplit split = split_tokens(read_token_file(options.data, reading), options.train_fraction);
  return {std::move(split.train), std::move(split.validation), tokenizer, vocab};
}

TextData from_text(const TextOptions& options) {
  const std::string text = read_text(options.data);
  const std::shared_ptr<const Tokenizer> tokenizer =
      make_tokenizer(options.tokenizer.empty() ? "char" : options.tokenizer, text);
  TokenSplit split =
      split_tokens(Tokens(tokenizer->encode(text), options.data), options.train_fraction);
  return {std::move(split.train), std::move(split.validation), tokenizer, tokenizer->vocab_size()};
}

}  // namespace

TextData load_text_data(const TextOptions& options) {
  const bool tokens = fs::is_directory(options.data) || options.data.ends_with(".bin");
  return tokens ? from_token_files(options) : from_text(options);
}

TextTask::TextTask(TextData data, int64_t context, Json model_config)
    : data_(std::move(data)), context_(context), model_config_(std::move(model_config)) {}

void TextTask::start(const SamplerOptions& options) {
  options_ = options;
  sampler_.emplace(data_.train, WindowOptions{.batch = options.batch,
                                              .length = context_,
                                              .rank = options.rank,
                                              .ranks = options.ranks,
                                              .seed = options.seed});
}

SamplerPosition TextTask::position() const {
  const int64_t steps = sampler_->position() / global_batch();
  return {steps / steps_per_epoch(), steps % steps_per_epoch()};
}

void TextTask::set_position(SamplerPosition position) {
  sampler_->set_position((position.epoch * steps_per_epoch() + position.step) * global_batch());
}

TaskStep TextTask::next() {
  const SamplerPosition at = position();
  WindowStep step = sampler_->next();
  return {at, step.global, step.local(),
          [this, offsets = std::move(step.offsets)](int64_t begin, int64_t end) -> TaskBatch {
            const std::span<const int64_t> all(offsets);
            const TokenBatch batch = data_.train.batch(
                all.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                context_);
            return {batch.tokens, batch.targets};
          }};
}

HeldOut TextTask::held_out(ProcessGroup group, int64_t batch) const {
  const SequentialWindows windows(
      data_.validation,
      {.batch = batch, .length = context_, .rank = group.rank(), .ranks = group.size()});
  return {windows.steps(), [this, windows, number = int64_t{0}]() mutable -> TaskBatch {
            const WindowStep step = windows.step(number++);
            if (step.local() == 0) return {};
            const TokenBatch tokens = data_.validation.batch(step.offsets, step.length);
            return {tokens.tokens, tokens.targets};
          }};
}

std::string TextTask::description() const {
  return str(data_.train.size(), " training tokens of ", data_.vocab, " kinds");
}

std::string TextTask::result(const Evaluation& evaluation) const {
  char text[96];
  std::snprintf(text, sizeof text, "validation loss %.4f (%.3f bits a token, %lld tokens)",
                evaluation.loss, evaluation.loss / std::log(2.0),
                static_cast<long long>(evaluation.total));
  return text;
}

Json TextTask::config() const {
  Json config = model_config_;
  config["vocab"] = data_.vocab;
  config["tokenizer"] = data_.tokenizer ? Json::parse(data_.tokenizer->to_json()) : Json();
  return config;
}

void TextTask::set_flops(int64_t parameters, int64_t layers, int64_t dim) {
  const double per_token =
      6.0 * static_cast<double>(parameters) + 12.0 * static_cast<double>(layers * dim * context_);
  flops_ = per_token * static_cast<double>(context_);
}

}  // namespace tenon::tools
