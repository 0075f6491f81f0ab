// The whole way from a token file to shuffled batches, for a program that needs no more:
// read_token_file, WindowSampler and TokenDataset in one.
#pragma once

#include <string>

#include "tenon/nn/data/token_file.h"
#include "tenon/nn/data/window_sampler.h"

namespace tenon {

class TokenLoader {
 public:
  TokenLoader(const std::string& path, WindowOptions options, TokenFileOptions file = {})
      : data_(read_token_file(path, file)), sampler_(data_, options) {}

  // This rank's next batch.
  TokenBatch next() {
    const WindowStep step = sampler_.next();
    return data_.batch(step.offsets, step.length);
  }
  int64_t position() const { return sampler_.position(); }
  void set_position(int64_t position) { sampler_.set_position(position); }

 private:
  TokenDataset data_;
  WindowSampler sampler_;
};

}  // namespace tenon
