#include "tenon/nn/data/token_dataset.h"

#include <algorithm>

#include "tenon/core/factory.h"

namespace tenon {

TokenBatch TokenDataset::batch(std::span<const int64_t> offsets, int64_t length) const {
  TENON_CHECK(length > 0 && length <= targets(), "tokens", name(),
              ": bad length of a window: given ", length, ", wanted 1 to ", targets());
  const auto count = static_cast<int64_t>(offsets.size());
  const TensorOptions options{.dtype = DType::i64, .device = kCpu};
  const TokenBatch result{empty({count, length}, options), empty({count, length}, options)};
  if (count == 0) return result;
  std::vector<int64_t> window(static_cast<size_t>(length) + 1);
  int64_t* tokens = result.tokens.data<int64_t>();
  int64_t* targets = result.targets.data<int64_t>();
  for (const int64_t offset : offsets) {
    tokens_.copy(offset, length + 1, window.data());
    tokens = std::copy(window.begin(), window.end() - 1, tokens);
    targets = std::copy(window.begin() + 1, window.end(), targets);
  }
  return result;
}

TokenSplit split_tokens(const Tokens& tokens, double fraction) {
  TENON_CHECK(fraction >= 0 && fraction <= 1, "tokens", tokens.name(),
              ": bad fraction to train on: given ", fraction, ", wanted 0 <= fraction <= 1");
  const auto first = static_cast<int64_t>(fraction * static_cast<double>(tokens.size()));
  return {TokenDataset(tokens.part(0, first, str("the first ", first, " to train on"))),
          TokenDataset(tokens.part(first, tokens.size(), "the rest to validate on"))};
}

}  // namespace tenon
