#include "tenon/nn/generate.h"

#include <cmath>
#include <numeric>

namespace tenon::nn {

int32_t sample_token(const Tensor& logits, const SamplingOptions& options, double uniform) {
  TENON_CHECK(logits.ndim() == 1 && logits.numel() > 0, "sample_token",
              "wrong logits: given shape ", logits.shape(), ", wanted (V)");
  TENON_CHECK(
      options.temperature >= 0 && options.top_k >= 0 && options.top_p > 0 && options.top_p <= 1,
      "sample_token", "wanted temperature >= 0, top_k >= 0 and top_p in (0, 1]");
  const std::vector<double> values = logits.to_vector();
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  // Of equal logits the first token counts as the more likely one.
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  if (options.temperature == 0) return order[0];
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  std::vector<double> weights;
  double total = 0;
  for (const int32_t token : order) {
    const double above = values[static_cast<size_t>(order[0])] - values[static_cast<size_t>(token)];
    weights.push_back(std::exp(-above / options.temperature));
    total += weights.back();
  }
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * total)) {
    kept += weights[count++];
  }
  double left = uniform * kept;
  for (size_t i = 0; i < count; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[count - 1];
}

}  // namespace tenon::nn
