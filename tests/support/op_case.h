// One description of an op, and everything that is tested of it: its values against a naive f64
// reference, its gradient numerically, every memory layout of inputs and of the incoming gradient,
// accumulation into gradients that are there, gradient slots of a wider dtype, and all dtypes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tenon/core/tensor.h"
#include "tenon/tests/support/array.h"
#include "tenon/tests/support/tolerances.h"

namespace tenon::testing {

// How to make one input.
struct Input {
  enum class Kind { values, indices, mask };
  Shape shape;
  Kind kind = Kind::values;
  double low = -2, high = 2;   // values: uniform; indices: low … high - 1
  bool differentiable = true;  // of values
};
inline Input values(const Shape& shape, double low = -2, double high = 2) {
  return {shape, Input::Kind::values, low, high, true};
}
inline Input constant(const Shape& shape, double low = -2, double high = 2) {
  return {shape, Input::Kind::values, low, high, false};
}
inline Input indices(const Shape& shape, int64_t count) {
  return {shape, Input::Kind::indices, 0, static_cast<double>(count), false};
}
inline Input mask(const Shape& shape) { return {shape, Input::Kind::mask, 0, 2, false}; }

struct OpCase {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>&)> function;
  std::function<Array(const std::vector<Array>&)> reference;  // empty: not compared
  std::vector<std::vector<Input>> inputs;                     // several sets, each tested in full
  bool gradient = true;
  double loosen = 1;  // factor on the tolerances
};

// Reports failures through Catch2, with the op's name and the variant.
void check_op(const OpCase& op);

}  // namespace tenon::testing
