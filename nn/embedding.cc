#include "tenon/nn/embedding.h"

#include "tenon/autograd/ops/index.h"
#include "tenon/nn/init.h"
#include "tenon/nn/layer_support.h"

namespace tenon::nn {
namespace {

Tensor normal_weight(int64_t count, int64_t features) {
  check_positive("embedding", "number of rows", count);
  check_positive("embedding", "number of features", features);
  const Tensor weight = new_parameter({count, features});
  init::normal_(weight);
  return weight;
}

}  // namespace

Embedding::Embedding(int64_t count, int64_t features)
    : weight(this, "weight", normal_weight(count, features)) {}

// Only the rows that were looked up are cast, not the whole table.
Tensor Embedding::forward(const Tensor& ids) { return compute(embedding(weight, ids)); }

}  // namespace tenon::nn
