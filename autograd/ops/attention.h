// Attention, and the rotary embedding of its queries and keys.
#pragma once

#include <optional>

#include "tenon/core/tensor.h"

namespace tenon {

struct AttentionOptions {
  bool causal = true;                // query t sees keys up to t + S - T
  std::optional<double> scale = {};  // of the scores; absent: 1 / sqrt(D)
};
// softmax(scale q k^T) v for q (B, H, T, D), k and v (B, G, S, D), G heads of which serve H / G
// heads of q each: (B, H, T, D). Memory grows with T + S, not with their product.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& = {});
// The same from one tensor (B, T, (H + 2 G) D) with the heads of queries, keys and values one after
// another, as one layer makes them: (B, T, H D). The gradient is one tensor, too.
Tensor self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                      const AttentionOptions& = {});
// Where heads [first, first + count) of such a tensor (B, T, N D) are, as (B, count, T, D): a view
// without a gradient record.
Tensor heads_of(const Tensor& packed, int64_t first, int64_t count, int64_t head_dim);

// Angles for rotary(): position p turns pair i by p base^(-2 i / D).
struct RotaryTable {
  Tensor cosines, sines;  // (positions, D / 2)
};
RotaryTable rotary_table(int64_t positions, int64_t head_dim, double base, DType dtype,
                         Device device);
// x (B, T, N D) with the first `heads` of its N heads of size D turned by the angles of positions
// `start`, start + 1, … (RoFormer, Su et al. 2021; pairs are (i, i + D / 2)), the others as they
// are.
Tensor rotary(const Tensor& x, const RotaryTable& table, int64_t heads, int64_t start = 0);

}  // namespace tenon
