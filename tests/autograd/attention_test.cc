// Attention, rotary embedding, and the parts of a transformer that are one op: linear_add, swiglu.
#include "tenon/autograd/ops/attention.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/ops/linear.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

// q (B, H, T, D), k and v (B, G, S, D), by the definition.
Array attention_reference(const Array& q, const Array& k, const Array& v,
                          const AttentionOptions& options) {
  const int64_t share = q.dim(1) / k.dim(1), length = q.dim(2), keys = k.dim(2), size = q.dim(3);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(size)));
  Array out(q.shape);
  for_each_index(Shape{q.dim(0), q.dim(1), length}, [&](const Dims& at) {
    const int64_t b = at[0], h = at[1], t = at[2], g = h / share;
    const int64_t seen = options.causal ? t + keys - length + 1 : keys;
    std::vector<double> weights;
    double total = 0;
    for (int64_t s = 0; s < seen; ++s) {
      double score = 0;
      for (int64_t d = 0; d < size; ++d) score += q[Dims{b, h, t, d}] * k[Dims{b, g, s, d}];
      weights.push_back(std::exp(scale * score));
      total += weights.back();
    }
    for (int64_t s = 0; s < seen; ++s) {
      for (int64_t d = 0; d < size; ++d) {
        out[Dims{b, h, t, d}] += weights[static_cast<size_t>(s)] / total * v[Dims{b, g, s, d}];
      }
    }
  });
  return out;
}

// Heads [first, first + count) of a packed (B, T, N D) array.
Array heads_of(const Array& packed, int64_t first, int64_t count, int64_t size) {
  Array heads(Shape{packed.dim(0), count, packed.dim(1), size});
  for_each_index(heads.shape, [&](const Dims& i) {
    heads[i] = packed[Dims{i[0], i[2], (first + i[1]) * size + i[3]}];
  });
  return heads;
}

using InputSets = std::vector<std::vector<Input>>;

void check_attention(const InputSets& inputs) {
  for (const AttentionOptions& options :
       {AttentionOptions{}, AttentionOptions{.causal = false}, AttentionOptions{.scale = 0.3}}) {
    check_op(
        {.name = str("attention, causal ", options.causal),
         .function = [&](const Tensors& in) { return attention(in[0], in[1], in[2], options); },
         .reference =
             [&](const Arrays& in) { return attention_reference(in[0], in[1], in[2], options); },
         .inputs = inputs,
         .loosen = 4});
  }
}

// Small, because an emulated device computes whole blocks for each numeric gradient.
TEST_CASE("attention: values, gradients, layouts and dtypes") {
  check_attention({{values({2, 1, 2, 3}), values({2, 1, 2, 3}), values({2, 1, 2, 3})},
                   {values({1, 2, 2, 3}), values({1, 1, 5, 3}), values({1, 1, 5, 3})},
                   {values({1, 1, 1, 1}), values({1, 1, 1, 1}), values({1, 1, 1, 1})}});
}

TEST_CASE("attention: more heads and samples", "[host]") {
  check_attention({{values({2, 2, 3, 4}), values({2, 2, 3, 4}), values({2, 2, 3, 4})},
                   {values({1, 4, 2, 3}), values({1, 2, 5, 3}), values({1, 2, 5, 3})}});
}

// The CPU's blocks; tests/cuda has the device's.
TEST_CASE("attention: blocks of queries and keys, and their edges", "[host]") {
  for (const bool causal : {true, false}) {
    const AttentionOptions options{.causal = causal};
    check_op(
        {.name = str("attention in blocks, causal ", causal),
         .function = [&](const Tensors& in) { return attention(in[0], in[1], in[2], options); },
         .reference =
             [&](const Arrays& in) { return attention_reference(in[0], in[1], in[2], options); },
         .inputs = {{values({1, 1, 70, 5}), values({1, 1, 131, 5}), values({1, 1, 131, 5})},
                    {values({1, 2, 129, 3}), values({1, 1, 129, 3}), values({1, 1, 129, 3})}},
         .loosen = 8});
  }
}

void check_self_attention(const InputSets& inputs, bool gradient = true) {
  const auto reference = [](const Arrays& in) {
    const int64_t size = in[0].dim(2) / 8;
    const Array heads = attention_reference(
        heads_of(in[0], 0, 4, size), heads_of(in[0], 4, 2, size), heads_of(in[0], 6, 2, size), {});
    Array out(Shape{in[0].dim(0), in[0].dim(1), 4 * size});
    for_each_index(heads.shape, [&](const Dims& i) {
      out[Dims{i[0], i[2], i[1] * size + i[3]}] = heads[i];
    });
    return out;
  };
  check_op({.name = "self_attention",
            .function = [](const Tensors& in) { return self_attention(in[0], 4, 2); },
            .reference = reference,
            .inputs = inputs,
            .gradient = gradient,
            .loosen = 4});
}

TEST_CASE("self_attention: values, gradients, layouts and dtypes") {
  check_self_attention({{values({1, 2, 16})}, {values({2, 1, 8})}});
  check_self_attention({{values({1, 35, 8})}}, false);
}

TEST_CASE("self_attention: more tokens and samples", "[host]") {
  check_self_attention({{values({2, 3, 16})}, {values({1, 1, 8})}, {values({1, 35, 8})}});
}

TEST_CASE("attention: a result does not depend on the number of threads") {
  const Tensor qkv = from_vector(std::vector<double>(2 * 80 * 3 * 8, 0.5), {2, 80, 24});
  const int threads = num_threads();
  set_num_threads(1);
  const auto one = self_attention(qkv, 1, 1).to_vector();
  set_num_threads(threads);
  CHECK(self_attention(qkv, 1, 1).to_vector() == one);
}

TEST_CASE("rotary: values, gradients, layouts and dtypes") {
  for (const int64_t start : {0, 3}) {
    check_op({.name = str("rotary from ", start),
              .function =
                  [&](const Tensors& in) {
                    const RotaryTable table =
                        rotary_table(8, 4, 100, in[0].dtype(), in[0].device());
                    return rotary(in[0], table, 2, start);
                  },
              .reference =
                  [&](const Arrays& in) {
                    Array y = in[0];
                    for_each_index(Shape{y.dim(0), y.dim(1), 2, 2}, [&](const Dims& i) {
                      const auto frequency =
                          1.0f / std::pow(100.0f, static_cast<float>(2 * i[3]) / 4.0f);
                      const float angle = static_cast<float>(start + i[1]) * frequency;
                      const double c = std::cos(angle), s = std::sin(angle);
                      const Dims a{i[0], i[1], i[2] * 4 + i[3]}, b{i[0], i[1], i[2] * 4 + i[3] + 2};
                      y[a] = in[0][a] * c - in[0][b] * s;
                      y[b] = in[0][b] * c + in[0][a] * s;
                    });
                    return y;
                  },
              .inputs = {{values({2, 3, 12})}, {values({1, 1, 8})}}});
  }
}

TEST_CASE("linear_add: values, gradients, layouts and dtypes") {
  check_op({.name = "linear_add",
            .function =
                [](const Tensors& in) {
                  return linear_add(in[0], in[1], in.size() > 3 ? in[3] : Tensor(), in[2]);
                },
            .reference =
                [](const Arrays& in) {
                  Array y = in[2];
                  const int64_t depth = in[0].dim(-1), width = in[1].dim(0);
                  for (size_t i = 0; i < y.values.size(); ++i) {
                    const auto row = static_cast<int64_t>(i) / width;
                    const auto column = static_cast<int64_t>(i) % width;
                    for (int64_t k = 0; k < depth; ++k) {
                      y.values[i] += in[0].values[static_cast<size_t>(row * depth + k)] *
                                     in[1][Dims{column, k}];
                    }
                    if (in.size() > 3) y.values[i] += in[3][Dims{column}];
                  }
                  return y;
                },
            .inputs = {{values({3, 4}), values({5, 4}), values({3, 5}), values({5})},
                       {values({2, 3, 4}), values({2, 4}), values({2, 3, 2})}}});
}

TEST_CASE("swiglu: values, gradients, layouts and dtypes") {
  check_op({.name = "swiglu",
            .function = [](const Tensors& in) { return swiglu(in[0]); },
            .reference =
                [](const Arrays& in) {
                  Shape shape = in[0].shape;
                  const int last = shape.size() - 1;
                  shape[last] /= 2;
                  Array y(shape);
                  for_each_index(shape, [&](const Dims& i) {
                    Dims other = i;
                    other[last] += shape[last];
                    const double gate = in[0][i];
                    y[i] = gate / (1 + std::exp(-gate)) * in[0][other];
                  });
                  return y;
                },
            .inputs = {{values({3, 8})}, {values({2, 2, 6})}, {values({2})}}});
}

TEST_CASE("attention, rotary, swiglu: wrong arguments") {
  const Tensor q = ones({1, 2, 3, 4});
  CHECK_THROWS_WITH(attention(q, ones({1, 3, 3, 4}), ones({1, 3, 3, 4})),
                    Contains("[attention] shapes do not fit: given q (1, 2, 3, 4)"));
  CHECK_THROWS_WITH(attention(q, ones({1, 2, 2, 4}), ones({1, 2, 2, 4})),
                    Contains("[attention] more queries than keys: given 3 and 2"));
  CHECK_THROWS_WITH(self_attention(ones({1, 2, 10}), 2, 2),
                    Contains("[self_attention] wrong shape: given (1, 2, 10)"));
  CHECK_THROWS_WITH(self_attention(ones({1, 2, 10}), 3, 2), Contains("wrong heads"));
  const RotaryTable table = rotary_table(4, 2, 10, DType::f32, default_device());
  CHECK_THROWS_WITH(rotary(ones({1, 3, 4}), table, 2, 2), Contains("[rotary] too long"));
  CHECK_THROWS_WITH(rotary(ones({1, 3, 4}), table, 3), Contains("[rotary] wrong shape"));
  CHECK_THROWS_WITH(rotary_table(4, 3, 10, DType::f32, kCpu), Contains("even size"));
  CHECK_THROWS_WITH(swiglu(ones({3})), Contains("[swiglu] wrong shape: given (3)"));
  CHECK_THROWS_WITH(linear_add(ones({2, 3}), ones({4, 3}), {}, ones({2, 3})),
                    Contains("[linear_add] wrong residual"));
}

}  // namespace
}  // namespace tenon
