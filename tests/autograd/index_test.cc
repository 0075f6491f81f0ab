// Look-ups by index tensors.
#include <catch2/catch.hpp>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/index.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/op_case.h"

namespace tenon {
namespace {

using namespace testing;
using Catch::Contains;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;
using Arrays = std::vector<Array>;

TEST_CASE("embedding: values, gradients, layouts and dtypes") {
  check_op({.name = "embedding",
            .function = [](const Tensors& in) { return embedding(in[0], in[1]); },
            .reference =
                [](const Arrays& in) {
                  Shape shape = in[1].shape;
                  shape.push_back(in[0].dim(1));
                  Array y(shape);
                  for_each_index(in[1].shape, [&](const Dims& i) {
                    for (int64_t k = 0; k < in[0].dim(1); ++k) {
                      Dims to = i;
                      to.push_back(k);
                      y[to] = in[0][Dims{static_cast<int64_t>(in[1][i]), k}];
                    }
                  });
                  return y;
                },
            .inputs = {{values({5, 3}), indices({8}, 5)},  // with repetitions
                       {values({4, 6}), indices({2, 3}, 4)},
                       {values({3, 2}), indices({}, 3)},
                       {values({1, 1}), indices({1}, 1)},
                       {values({3, 2}), indices({0}, 3)}}});
}

TEST_CASE("index_select: values, gradients, layouts and dtypes") {
  for (const int axis : {0, 1}) {
    check_op({.name = str("index_select ", axis),
              .function = [=](const Tensors& in) { return index_select(in[0], in[1], axis); },
              .reference =
                  [=](const Arrays& in) {
                    Shape shape = in[0].shape;
                    shape[axis] = in[1].dim(0);
                    Array y(shape);
                    for_each_index(shape, [&](const Dims& i) {
                      Dims from = i;
                      from[axis] = static_cast<int64_t>(in[1][Dims{i[axis]}]);
                      y[i] = in[0][from];
                    });
                    return y;
                  },
              .inputs = {{values({4, 4}), indices({7}, 4)},
                         {values({3, 3, 2}), indices({2}, 3)},
                         {values({2, 2}), indices({0}, 2)}}});
  }
  CHECK(index_select(arange(5), from_data<int32_t>({4, 0, 4}, {3})).to_vector() ==
        Numbers{4, 0, 4});
}

TEST_CASE("embedding: many repetitions add up in f32 in a wide slot") {
  const Tensor weight = set_requires_grad(ones({2, 3}, {.dtype = DType::bf16}));
  const Tensor slot = zeros({2, 3});
  set_grad_slot(weight, slot);
  sum(embedding(weight, zeros({1000}, {.dtype = DType::i64}))).backward();
  CHECK(slot.to_vector() == Numbers{1000, 1000, 1000, 0, 0, 0});
}

TEST_CASE("look-ups: wrong arguments") {
  const Tensor weight = ones({3, 2});
  CHECK_THROWS_WITH(settled([&] {
                      embedding(weight, from_data<int64_t>({0, 3}, {2}));
                    }),
                    Contains("[embedding]") && Contains("3"));
  CHECK_THROWS_WITH(settled([&] { embedding(weight, from_data<int32_t>({-1}, {1})); }),
                    Contains("[embedding]") && Contains("-1"));
  CHECK_THROWS_WITH(
      embedding(weight, ones({2})),
      here("[embedding] wrong dtype of indices: given f32 (2) on cpu, wanted i64 or i32"));
  CHECK_THROWS_WITH(embedding(ones({3}), arange(2)),
                    "[embedding] wrong weight: given (3), wanted (V, D)");
  CHECK_THROWS_WITH(settled([&] { index_select(weight, from_data<int64_t>({2}, {1}), 1); }),
                    Contains("[index_select]"));
  CHECK_THROWS_WITH(index_select(weight, zeros({1, 1}, {.dtype = DType::i64})),
                    "[index_select] wrong indices: given (1, 1), wanted one dimension");
  CHECK_THROWS_WITH(index_select(weight, arange(1), 2), Contains("axis out of range"));
}

}  // namespace
}  // namespace tenon
