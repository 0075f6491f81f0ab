#include "tenon/autograd/gradcheck.h"

#include <cmath>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/random.h"
#include "tenon/core/factory.h"

namespace tenon {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

// The inputs as fresh leaves, element `at` of input `which` moved by `shift`.
std::vector<Tensor> fresh_inputs(const std::vector<Tensor>& inputs, size_t which, size_t at,
                                 double shift) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) {
      result.push_back(inputs[i]);
      continue;
    }
    std::vector<double> values = inputs[i].to_vector();
    if (i == which && at < values.size()) values[at] += shift;
    // Same layout as the given input: views are checked as views.
    const Tensor copy = empty_like(inputs[i]);
    copy_(copy, from_vector(values, inputs[i].shape(),
                            {.dtype = DType::f64, .device = inputs[i].device()}));
    result.push_back(set_requires_grad(copy, inputs[i].requires_grad()));
  }
  return result;
}

}  // namespace

void gradcheck(const char* name, const std::function<Tensor(const std::vector<Tensor>&)>& function,
               const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const std::vector<Tensor> leaves = fresh_inputs(inputs, 0, 0, 0);
  const Tensor output = function(leaves);
  TENON_CHECK(output.dtype() == DType::f64, name, "gradcheck wants an f64 output: given ",
              describe(output));
  Generator generator(options.seed);
  const Tensor projection = randn(output.shape(), {.dtype = DType::f64}, &generator);
  const std::vector<double> direction = projection.to_vector();
  backward(output, {.gradient = projection});
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    const Tensor grad = leaves[i].grad();
    const std::vector<double> recorded =
        grad.defined() ? grad.to_vector()
                       : std::vector<double>(static_cast<size_t>(inputs[i].numel()), 0.0);
    for (size_t at = 0; at < recorded.size(); ++at) {
      const NoGrad no_grad;
      const double above =
          dot(function(fresh_inputs(inputs, i, at, options.step)).to_vector(), direction);
      const double below =
          dot(function(fresh_inputs(inputs, i, at, -options.step)).to_vector(), direction);
      const double numeric = (above - below) / (2 * options.step);
      TENON_CHECK(
          std::abs(numeric - recorded[at]) <= options.tolerance * std::max(1.0, std::abs(numeric)),
          name, "wrong gradient: input ", i, " ", inputs[i].shape(), " element ", at, " has ",
          recorded[at], " recorded and ", numeric, " numerically");
    }
  }
}

}  // namespace tenon
