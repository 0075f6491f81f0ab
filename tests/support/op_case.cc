#include "tenon/tests/support/op_case.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/gradcheck.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/core/factory.h"
#include "tenon/core/random.h"
#include "tenon/tests/support/layouts.h"

namespace tenon::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;

struct Outcome {
  Numbers output;
  std::vector<Numbers> gradients;  // of each input; empty where it has none
};

// How to run the op once.
struct Run {
  bool computed = false;   // inputs are results of another op, used by two calls of this one
  bool twice = false;      // two backwards accumulate
  bool wide_slot = false;  // gradients go to slots of a wider dtype
  int only = -1;           // the one input that requires a gradient
  Layout gradient = Layout::contiguous;
  bool dense_gradient = false;  // its values, but row-major
};

Numbers draw(const Input& input, uint64_t seed) {
  Numbers numbers;
  for (int64_t i = 0; i < input.shape.numel(); ++i) {
    const double u = uniform_from_bits(philox(seed, 1, static_cast<uint64_t>(i))[0]);
    const double x = input.low + u * (input.high - input.low);
    numbers.push_back(input.kind == Input::Kind::values ? x : std::floor(x));
  }
  return numbers;
}

DType dtype_for(const Input& input, DType floating, DType index) {
  if (input.kind == Input::Kind::mask) return DType::boolean;
  return input.kind == Input::Kind::indices ? index : floating;
}

// A gradient for the output: eighths, exact in every dtype.
Numbers direction_of(const Shape& shape) {
  Numbers direction;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    direction.push_back(static_cast<double>((i * 7919 + 3) % 17 - 8) / 8);
  }
  return direction;
}

DType wider(DType dtype) { return size_of(dtype) == 2 ? DType::f32 : DType::f64; }

class OpChecker {
 public:
  OpChecker(const OpCase& op, size_t set) : op_(op), inputs_(op.inputs[set]), set_(set) {
    for (size_t i = 0; i < inputs_.size(); ++i) numbers_.push_back(draw(inputs_[i], 11 * i + set));
  }

  void check() {
    const bool runs = attempt("forward in f64", [&] {
      const Tensors inputs = tensors(DType::f64);
      compare_with_reference("forward in f64", inputs, run_forward(inputs), DType::f64);
    });
    if (!runs) return;
    if (op_.gradient) check_gradient();
    check_layouts();
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) check_dtype(dtype);
    attempt("i32 indices", [&] {
      compare("i32 indices", run(tensors(DType::f64, Layout::contiguous, DType::i32)),
              run(tensors(DType::f64)), DType::f64);
    });
  }

 private:
  template <class Body>
  bool attempt(const std::string& variant, Body&& body) {
    INFO(op_.name << ", inputs " << set_ << ", " << variant);
    try {
      body();
      return true;
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
      return false;
    }
  }

  Tensors tensors(DType dtype, Layout layout = Layout::contiguous, DType index = DType::i64,
                  int which = -1) const {
    Tensors result;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool here = which < 0 || static_cast<size_t>(which) == i;
      const Layout own = here && applies(layout, inputs_[i].shape) ? layout : Layout::contiguous;
      result.push_back(
          make_tensor(numbers_[i], inputs_[i].shape, dtype_for(inputs_[i], dtype, index), own));
    }
    return result;
  }

  bool wants_gradient(size_t input, int only = -1) const {
    return op_.gradient && inputs_[input].differentiable &&
           inputs_[input].kind == Input::Kind::values &&
           (only < 0 || static_cast<size_t>(only) == input);
  }

  Tensor run_forward(const Tensors& inputs) const {
    const NoGrad no_grad;
    return op_.function(inputs);
  }

  Outcome run(const Tensors& inputs, const Run& how = {}) const {
    Tensors leaves;
    for (size_t i = 0; i < inputs.size(); ++i) {
      leaves.push_back(inputs[i].detach());
      if (!wants_gradient(i, how.only)) continue;
      set_requires_grad(leaves[i]);
      if (how.wide_slot) {
        set_grad_slot(leaves[i], zeros(leaves[i].shape(), {.dtype = wider(inputs[i].dtype())}));
      }
    }
    Outcome outcome;
    if (!op_.gradient) return {op_.function(leaves).to_vector(), {}};
    for (int pass = 0; pass < (how.twice ? 2 : 1); ++pass) {
      const Tensor output = run_graph(leaves, how);
      outcome.output = output.to_vector();
      Tensor gradient =
          make_tensor(direction_of(output.shape()), output.shape(), output.dtype(), how.gradient);
      if (how.dense_gradient) {
        gradient = make_tensor(gradient.to_vector(), output.shape(), output.dtype());
      }
      backward(output, {.gradient = gradient});
    }
    for (const Tensor& leaf : leaves) {
      const Tensor grad = leaf.grad();
      outcome.gradients.push_back(grad.defined() ? grad.to_vector() : Numbers{});
    }
    return outcome;
  }

  Tensor run_graph(const Tensors& leaves, const Run& how) const {
    if (!how.computed) return op_.function(leaves);
    Tensors inputs;
    for (size_t i = 0; i < leaves.size(); ++i) {
      inputs.push_back(wants_gradient(i) ? affine(leaves[i], 1, 0) : leaves[i]);
    }
    return add(op_.function(inputs), op_.function(inputs));
  }

  void close(const char* what, const Numbers& got, const Numbers& wanted, double tolerance) const {
    INFO(what);
    REQUIRE(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
      const double allowed = op_.loosen * tolerance * std::max(1.0, std::abs(wanted[i]));
      if (!(std::abs(got[i] - wanted[i]) <= allowed) && got[i] != wanted[i]) {
        FAIL_CHECK("element " << i << ": got " << got[i] << ", wanted " << wanted[i]
                              << ", allowed difference " << allowed);
        return;
      }
    }
  }

  void compare(const std::string& variant, const Outcome& got, const Outcome& wanted, DType dtype,
               double gradient_factor = 1, double output_factor = 1) const {
    INFO(op_.name << ", inputs " << set_ << ", " << variant);
    const Tolerance tolerance = tolerance_of(dtype);
    Numbers output = wanted.output;
    for (double& value : output) value *= output_factor;
    close("output", got.output, output, tolerance.forward);
    for (size_t i = 0; i < wanted.gradients.size(); ++i) {
      if (got.gradients[i].empty()) continue;
      Numbers gradient = wanted.gradients[i];
      for (double& value : gradient) value *= gradient_factor;
      close(str("gradient of input ", i).c_str(), got.gradients[i], gradient, tolerance.gradient);
    }
  }

  void compare_with_reference(const std::string& variant, const Tensors& inputs,
                              const Tensor& output, DType dtype) const {
    if (!op_.reference) return;
    INFO(op_.name << ", inputs " << set_ << ", " << variant);
    std::vector<Array> arrays;
    for (const Tensor& input : inputs) arrays.emplace_back(input);
    const Array wanted = op_.reference(arrays);
    CHECK(output.shape() == wanted.shape);
    close("output", output.to_vector(), wanted.values, tolerance_of(dtype).forward);
  }

  void check_gradient() {
    attempt("gradient", [&] {
      Tensors inputs = tensors(DType::f64);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (wants_gradient(i)) set_requires_grad(inputs[i]);
      }
      gradcheck(op_.name.c_str(), op_.function, inputs, {.tolerance = 1e-6 * op_.loosen});
    });
    const Tensors inputs = tensors(DType::f64);
    Outcome plain;
    attempt("one backward", [&] { plain = run(inputs); });
    if (plain.gradients.empty()) return;
    attempt("two backwards",
            [&] { compare("two backwards", run(inputs, {.twice = true}), plain, DType::f64, 2); });
    attempt("computed inputs, used twice", [&] {
      compare("computed inputs, used twice", run(inputs, {.computed = true}), plain, DType::f64, 2,
              2);
    });
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!wants_gradient(i)) continue;
      const std::string variant = str("only input ", i, " requires a gradient");
      attempt(variant, [&] {
        compare(variant, run(inputs, {.only = static_cast<int>(i)}), plain, DType::f64);
      });
    }
  }

  void check_layouts() {
    for (const Layout layout : kLayouts) {
      if (layout == Layout::contiguous) continue;
      const std::string variant = str("layout ", name_of(layout));
      attempt(variant, [&] {
        for (int which = -1; which < static_cast<int>(inputs_.size()); ++which) {
          if (!any_applies(layout, which)) continue;
          const Tensors strided = tensors(DType::f64, layout, DType::i64, which);
          Tensors dense;
          for (const Tensor& x : strided) {
            dense.push_back(make_tensor(x.to_vector(), x.shape(), x.dtype()));
          }
          const Outcome wanted = run(dense);
          compare(str(variant, " of input ", which), run(strided), wanted, DType::f64);
          if (!op_.gradient) continue;
          compare(str(variant, " of computed input ", which), run(strided, {.computed = true}),
                  wanted, DType::f64, 2, 2);
        }
      });
      if (op_.gradient)
        attempt(variant + " of the gradient", [&] { check_gradient_layout(layout); });
    }
  }

  // Whether the layout changes input `which`, or one of all (-1) of several.
  bool any_applies(Layout layout, int which) const {
    if (which >= 0) return applies(layout, inputs_[static_cast<size_t>(which)].shape);
    return inputs_.size() > 1 &&
           std::any_of(inputs_.begin(), inputs_.end(),
                       [&](const Input& input) { return applies(layout, input.shape); });
  }

  void check_gradient_layout(Layout layout) {
    const Tensors inputs = tensors(DType::f64);
    const Tensor output = run_forward(inputs);
    if (!applies(layout, output.shape())) return;
    compare(str("layout ", name_of(layout), " of the gradient"), run(inputs, {.gradient = layout}),
            run(inputs, {.gradient = layout, .dense_gradient = true}), DType::f64);
  }

  void check_dtype(DType dtype) {
    const std::string variant = name_of(dtype);
    attempt(variant, [&] {
      const Tensors inputs = tensors(dtype);
      compare_with_reference(variant, inputs, run_forward(inputs), dtype);
      Tensors exact;
      for (const Tensor& x : inputs) {
        exact.push_back(
            make_tensor(x.to_vector(), x.shape(), is_floating(x.dtype()) ? DType::f64 : x.dtype()));
      }
      const Outcome wanted = run(exact);
      compare(variant + ", gradient", run(inputs), wanted, dtype);
      compare(variant + ", transposed", run(tensors(dtype, Layout::transposed)), wanted, dtype);
      compare(variant + ", narrowed", run(tensors(dtype, Layout::narrowed)), wanted, dtype);
      if (!op_.gradient) return;
      compare(variant + ", two backwards", run(inputs, {.twice = true}), wanted, dtype, 2);
      compare(variant + ", wide slots", run(inputs, {.wide_slot = true}), wanted, dtype);
      compare(variant + ", wide slots, two backwards",
              run(inputs, {.twice = true, .wide_slot = true}), wanted, dtype, 2);
    });
  }

  const OpCase& op_;
  const std::vector<Input>& inputs_;
  const size_t set_;
  std::vector<Numbers> numbers_;
};

}  // namespace

void check_op(const OpCase& op) {
  for (size_t set = 0; set < op.inputs.size(); ++set) OpChecker(op, set).check();
}

}  // namespace tenon::testing
