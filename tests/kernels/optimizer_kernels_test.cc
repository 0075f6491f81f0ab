#include "tenon/kernels/optimizer.h"
#include "tenon/tests/support/device.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::TensorList;
using testing::max_error;
using testing::random_tensor;
using testing::tolerance;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};
constexpr int64_t kSizes[] = {1, 0, 7, 1024, 20000, 3};

// Parameters, gradients and two states; a wide gradient has the compute dtype.
struct Fixture {
  Fixture(DType dtype, bool wide_gradient) {
    unsigned seed = 1;
    for (const int64_t size : kSizes) {
      const DType state = compute_dtype(dtype);
      parameters.push_back(random_tensor({size}, dtype, seed++));
      gradients.push_back(random_tensor({size}, wide_gradient ? state : dtype, seed++));
      for (TensorList* list : {&first, &second}) list->push_back(non_negative(size, state, seed++));
    }
  }
  static Tensor non_negative(int64_t size, DType dtype, unsigned seed) {
    std::vector<double> values = random_tensor({size}, DType::f64, seed).to_vector();
    for (double& value : values) value = std::abs(value);
    return from_vector(values, {size}, {.dtype = dtype});
  }
  TensorList parameters, gradients, first, second;
};

// One element of parameter, gradient and states.
struct Element {
  double p, g, a, b;
};

// Runs `step` on all tensors and `element` on each element, and compares parameters and states.
template <class Step, class Update>
void check(const char* name, const Step& step, const Update& update) {
  for (const DType dtype : kFloating) {
    for (const bool wide : {false, true}) {
      const Fixture inputs(dtype, wide);
      Fixture results(dtype, wide);
      step(results);
      for (size_t i = 0; i < inputs.parameters.size(); ++i) {
        std::vector<double> p = inputs.parameters[i].to_vector();
        std::vector<double> a = inputs.first[i].to_vector();
        std::vector<double> b = inputs.second[i].to_vector();
        const std::vector<double> g = inputs.gradients[i].to_vector();
        for (size_t j = 0; j < p.size(); ++j) {
          Element element{p[j], g[j], a[j], b[j]};
          update(element);
          p[j] = element.p;
          a[j] = element.a;
          b[j] = element.b;
        }
        INFO(name << " " << dtype << " tensor " << i);
        CHECK(max_error(results.parameters[i].to_vector(), p) < tolerance(dtype));
        CHECK(max_error(results.first[i].to_vector(), a) < tolerance(compute_dtype(dtype)));
        CHECK(max_error(results.second[i].to_vector(), b) < tolerance(compute_dtype(dtype)));
      }
    }
  }
}

}  // namespace

TEST_CASE("sgd without momentum follows the formula") {
  check(
      "sgd",
      [](Fixture& f) {
        kernels::sgd(testing::device_type(), f.parameters, f.gradients, {},
                     {.lr = 0.1, .weight_decay = 0.01});
      },
      [](Element& e) { e.p -= 0.1 * (e.g + 0.01 * e.p); });
}

TEST_CASE("sgd with momentum, dampening and Nesterov follows the formula") {
  for (const bool nesterov : {false, true}) {
    for (const bool first : {false, true}) {
      check(
          "sgd",
          [=](Fixture& f) {
            kernels::sgd(testing::device_type(), f.parameters, f.gradients, f.first,
                         {.lr = 0.1,
                          .momentum = 0.9,
                          .dampening = 0.3,
                          .weight_decay = 0.01,
                          .nesterov = nesterov,
                          .first = first});
          },
          [=](Element& e) {
            const double g = e.g + 0.01 * e.p;
            e.a = first ? g : 0.9 * e.a + (1 - 0.3) * g;
            e.p -= 0.1 * (nesterov ? g + 0.9 * e.a : e.a);
          });
    }
  }
}

TEST_CASE("the first momentum step does not read the buffer") {
  Tensor parameter = ones({3}), momentum = full({3}, NAN);
  kernels::sgd(testing::device_type(), {parameter}, {ones({3})}, {momentum},
               {.lr = 0.5, .momentum = 0.9, .first = true});
  CHECK(parameter.to_vector() == std::vector<double>(3, 0.5));
  CHECK(momentum.to_vector() == std::vector<double>(3, 1));
}

TEST_CASE("adam and AdamW follow the formula") {
  for (const bool decoupled : {false, true}) {
    check(
        "adam",
        [=](Fixture& f) {
          kernels::adam(testing::device_type(), f.parameters, f.gradients, f.first, f.second,
                        {.lr = 0.01,
                         .beta1 = 0.9,
                         .beta2 = 0.99,
                         .eps = 1e-3,
                         .weight_decay = 0.1,
                         .correction1 = 0.19,
                         .correction2 = 0.0199,
                         .decoupled = decoupled});
        },
        [=](Element& e) {
          if (decoupled) e.p -= 0.01 * 0.1 * e.p;
          const double g = decoupled ? e.g : e.g + 0.1 * e.p;
          e.a = 0.9 * e.a + 0.1 * g;
          e.b = 0.99 * e.b + 0.01 * g * g;
          e.p -= 0.01 / 0.19 * e.a / (std::sqrt(e.b) / std::sqrt(0.0199) + 1e-3);
        });
  }
}

TEST_CASE("adadelta follows the formula") {
  check(
      "adadelta",
      [](Fixture& f) {
        kernels::adadelta(testing::device_type(), f.parameters, f.gradients, f.first, f.second,
                          {.lr = 0.5, .rho = 0.9, .eps = 1e-3, .weight_decay = 0.01});
      },
      [](Element& e) {
        const double g = e.g + 0.01 * e.p;
        e.a = 0.9 * e.a + 0.1 * g * g;
        const double delta = std::sqrt(e.b + 1e-3) / std::sqrt(e.a + 1e-3) * g;
        e.b = 0.9 * e.b + 0.1 * delta * delta;
        e.p -= 0.5 * delta;
      });
}

TEST_CASE("optimizers refuse lists that do not fit") {
  const TensorList two{ones({2}), ones({3})};
  CHECK_THROWS_WITH(kernels::sgd(testing::device_type(), two, {ones({2})}, {}, {}),
                    Catch::Contains("[sgd] as many gradients as parameters"));
  CHECK_THROWS_WITH(
      kernels::adam(testing::device_type(), two, two, two, {ones({2}), ones({4})}, {}),
      Catch::Contains("[adam] wanted a contiguous state"));
}

}  // namespace tenon
