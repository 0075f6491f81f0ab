// Element i of a pointwise or optimizer kernel depends on element i of its inputs only, to the bit:
// not on offset, length, layout or the number of threads. Sharded optimizers rely on it.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "tenon/core/rank_context.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/optimizer.h"
#include "tenon/kernels/pointwise.h"
#include "tenon/tests/support/device.h"
#include "tenon/tests/support/random_tensor.h"
#include "tenon/tests/support/slots.h"

namespace tenon {
namespace {

using namespace kernels;
using testing::random_tensor;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr int64_t kWhole = 160;
constexpr OpParams kParams{0.3, 0.8};

// A kernel over 1-d tensors: inputs in, one output out (whose old values may count).
using Kernel = std::function<void(const std::vector<Tensor>& in, Tensor& out)>;

Tensor clone(const Tensor& x) {
  Tensor result = empty(x.shape(), {.dtype = x.dtype()});
  copy(testing::device_type(), x, result);
  return result;
}

// Runs `kernel` on slices of every length and several offsets, and on every second element.
void check_slices(const char* name, DType dtype, const std::vector<Tensor>& in, const Tensor& old,
                  const Kernel& kernel) {
  INFO(name << " " << dtype);
  Tensor whole = clone(old);
  kernel(in, whole);
  bool same = true;
  for (int64_t length = 1; length <= 67; ++length) {
    for (const int64_t offset : {int64_t{1}, int64_t{16}, 11 + length % 7}) {
      std::vector<Tensor> parts;
      for (const Tensor& tensor : in) parts.push_back(tensor.alias(offset, {length}));
      Tensor part = clone(old.alias(offset, {length}));
      kernel(parts, part);
      same = same && testing::same_bits(part, whole.alias(offset, {length}));
    }
  }
  CHECK(same);
  std::vector<Tensor> spaced;
  for (const Tensor& tensor : in) spaced.push_back(tensor.as_strided({kWhole / 2}, {2}, 1));
  Tensor result = clone(old.as_strided({kWhole / 2}, {2}, 1));
  kernel(spaced, result);
  CHECK(testing::same_bits(result, clone(whole.as_strided({kWhole / 2}, {2}, 1))));
}

}  // namespace

TEST_CASE("a slice of a unary kernel's result is its result on the slice") {
  for (const DType dtype : kFloating) {
    const Tensor x = random_tensor({kWhole}, dtype, 1), dy = random_tensor({kWhole}, dtype, 2);
    const Tensor old = random_tensor({kWhole}, dtype, 3);
    testing::for_each_op(UnaryOps{}, [&]<class Op>() {
      check_slices(Op::name, dtype, {x}, old, [](const std::vector<Tensor>& in, Tensor& out) {
        Unary<Op>::forward(testing::device_type(), in[0], out, kParams);
      });
      for (const bool add : {false, true}) {
        check_slices(Op::name, dtype, {x, dy}, old,
                     [add](const std::vector<Tensor>& in, Tensor& out) {
                       Unary<Op>::backward(testing::device_type(), in[0], in[1], out, kParams, add);
                     });
      }
    });
  }
}

TEST_CASE("a slice of a binary kernel's result is its result on the slice") {
  for (const DType dtype : kFloating) {
    const Tensor a = random_tensor({kWhole}, dtype, 1), b = random_tensor({kWhole}, dtype, 2);
    const Tensor dy = random_tensor({kWhole}, dtype, 3), old = random_tensor({kWhole}, dtype, 4);
    const Tensor flags = zeros({kWhole}, {.dtype = DType::boolean});
    testing::for_each_op(BinaryOps{}, [&]<class Op>() {
      check_slices(Op::name, dtype, {a, b}, old, [](const std::vector<Tensor>& in, Tensor& out) {
        Binary<Op>::forward(testing::device_type(), in[0], in[1], out);
      });
      check_slices(
          Op::name, dtype, {a, b, dy}, old, [](const std::vector<Tensor>& in, Tensor& out) {
            Binary<Op>::backward(testing::device_type(), in[0], in[1], in[2], &out, nullptr);
          });
      check_slices(
          Op::name, dtype, {a, b, dy}, old, [](const std::vector<Tensor>& in, Tensor& out) {
            Binary<Op>::backward(testing::device_type(), in[0], in[1], in[2], nullptr, &out);
          });
    });
    testing::for_each_op(ComparisonOps{}, [&]<class Op>() {
      check_slices(Op::name, dtype, {a, b}, flags, [](const std::vector<Tensor>& in, Tensor& out) {
        Comparison<Op>::forward(testing::device_type(), in[0], in[1], out);
      });
    });
  }
}

TEST_CASE("a slice of where, accumulate and scale is their result on the slice") {
  for (const DType dtype : kFloating) {
    const Tensor a = random_tensor({kWhole}, dtype, 1), b = random_tensor({kWhole}, dtype, 2);
    const Tensor old = random_tensor({kWhole}, dtype, 3);
    Tensor condition = empty({kWhole}, {.dtype = DType::boolean});
    Comparison<Less>::forward(testing::device_type(), a, b, condition);
    check_slices("where", dtype, {condition, a, b}, old,
                 [](const std::vector<Tensor>& in, Tensor& out) {
                   where(testing::device_type(), in[0], in[1], in[2], out);
                 });
    check_slices("accumulate", dtype, {a}, old, [](const std::vector<Tensor>& in, Tensor& out) {
      accumulate(testing::device_type(), in[0], out, 0.3);
    });
    check_slices("scale", dtype, {}, old, [](const std::vector<Tensor>&, Tensor& out) {
      scale(testing::device_type(), out, 0.3);
    });
  }
}

namespace {

// An optimizer step over one tensor and its slices. States of Adam and Adadelta are not negative.
struct OptimizerCase {
  const char* name;
  size_t states;
  std::function<void(const TensorList& parameters, const TensorList& gradients,
                     const std::vector<TensorList>& states)>
      step;
};

std::vector<OptimizerCase> optimizer_cases() {
  std::vector<OptimizerCase> cases;
  cases.push_back({"sgd", 0, [](const auto& p, const auto& g, const auto&) {
                     sgd(testing::device_type(), p, g, {}, {.lr = 0.1, .weight_decay = 0.01});
                   }});
  for (const bool nesterov : {false, true}) {
    cases.push_back(
        {"sgd with momentum", 1, [nesterov](const auto& p, const auto& g, const auto& states) {
           sgd(testing::device_type(), p, g, states[0],
               {.lr = 0.1,
                .momentum = 0.9,
                .dampening = nesterov ? 0 : 0.1,
                .weight_decay = 0.01,
                .nesterov = nesterov});
         }});
    cases.push_back({"adam", 2, [nesterov](const auto& p, const auto& g, const auto& states) {
                       adam(testing::device_type(), p, g, states[0], states[1],
                            {.lr = 0.01,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .eps = 1e-8,
                             .weight_decay = 0.1,
                             .correction1 = 0.1,
                             .correction2 = 0.01,
                             .decoupled = nesterov});
                     }});
  }
  cases.push_back({"adadelta", 2, [](const auto& p, const auto& g, const auto& states) {
                     adadelta(testing::device_type(), p, g, states[0], states[1],
                              {.lr = 1, .rho = 0.9, .eps = 1e-6, .weight_decay = 0.01});
                   }});
  return cases;
}

Tensor non_negative(DType dtype, unsigned seed) {
  std::vector<double> values = random_tensor({kWhole}, DType::f64, seed).to_vector();
  for (double& value : values) value = std::abs(value);
  return from_vector(values, {kWhole}, {.dtype = dtype});
}

}  // namespace

TEST_CASE("a slice of an optimizer step is the step of the slice") {
  for (const OptimizerCase& optimizer : optimizer_cases()) {
    for (const DType dtype : kFloating) {
      const DType state_dtype = compute_dtype(dtype);
      INFO(optimizer.name << " " << dtype);
      const Tensor parameter = random_tensor({kWhole}, dtype, 1);
      const Tensor gradient = random_tensor({kWhole}, state_dtype, 2);
      const Tensor states[2] = {non_negative(state_dtype, 3), non_negative(state_dtype, 4)};
      const auto run = [&](int64_t offset, int64_t length) {
        std::vector<Tensor> result{clone(parameter.alias(offset, {length}))};
        std::vector<TensorList> lists;
        for (size_t k = 0; k < optimizer.states; ++k) {
          result.push_back(clone(states[k].alias(offset, {length})));
          lists.push_back({result.back()});
        }
        optimizer.step({result[0]}, {clone(gradient.alias(offset, {length}))}, lists);
        return result;
      };
      const std::vector<Tensor> whole = run(0, kWhole);
      bool same = true;
      for (int64_t length = 1; length <= 67; ++length) {
        const int64_t offset = 1 + length % 13;
        const std::vector<Tensor> part = run(offset, length);
        for (size_t k = 0; k < part.size(); ++k) {
          same = same && testing::same_bits(part[k], whole[k].alias(offset, {length}));
        }
      }
      CHECK(same);
    }
  }
}

TEST_CASE("one thread and several give the same bits") {
  const Tensor x = random_tensor({100003}, DType::f32, 1);
  Tensor one = empty({100003}), several = empty({100003});
  const int before = num_threads();
  set_num_threads(1);
  Unary<Gelu>::forward(testing::device_type(), x, one, {});
  set_num_threads(3);
  Unary<Gelu>::forward(testing::device_type(), x, several, {});
  set_num_threads(before);
  CHECK(testing::same_bits(one, several));
}

}  // namespace tenon
