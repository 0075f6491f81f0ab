// What the tests of kernels/ do not reach: more tensors than a launch takes, tensors of several
// chunks, of several dtypes in one call, and at places that are not aligned.
#include "tenon/kernels/optimizer.h"

#include <catch2/catch.hpp>

#include "tenon/tests/support/device_pair.h"
#include "tenon/tests/support/random_tensor.h"

namespace tenon {
namespace {

using kernels::TensorList;
using testing::kCuda;
using testing::max_error;
using testing::tolerance;
using Pair = testing::DevicePair;

struct Lists {
  TensorList parameters, gradients, first, second;
};

// The same lists on both devices; states are positive.
struct Fixture {
  void add(int64_t size, DType dtype, DType gradient, int64_t offset = 0) {
    const auto part = [&](DType type) {
      return Pair({size + offset}, type, seed++).view({size}, {1}, offset);
    };
    append(&Lists::parameters, part(dtype));
    append(&Lists::gradients, part(gradient));
    for (TensorList Lists::*list : {&Lists::first, &Lists::second}) {
      std::vector<double> values = part(DType::f64).cpu.to_vector();
      for (double& value : values) value = value * value;
      const Tensor state = from_vector(values, {size}, {compute_dtype(dtype), kCpu});
      append(list, {state, copied_to(state, kCuda)});
    }
  }
  void append(TensorList Lists::*list, const Pair& pair) {
    (cpu.*list).push_back(pair.cpu);
    (cuda.*list).push_back(pair.cuda);
  }
  void check() const {
    for (TensorList Lists::*list : {&Lists::parameters, &Lists::first, &Lists::second}) {
      for (size_t i = 0; i < (cpu.*list).size(); ++i) {
        INFO("tensor " << i << " " << describe((cuda.*list)[i]));
        CHECK(max_error((cuda.*list)[i].to_vector(), (cpu.*list)[i].to_vector()) <
              2 * tolerance((cpu.*list)[i].dtype()));
      }
    }
  }

  Lists cpu, cuda;
  unsigned seed = 1;
};

void check_all(Fixture& f) {
  const auto both = [&](const auto& step) {
    step(DeviceType::cpu, f.cpu);
    step(DeviceType::cuda, f.cuda);
    f.check();
  };
  both([](DeviceType device, Lists& lists) {
    kernels::sgd(device, lists.parameters, lists.gradients, {}, {.lr = 0.1, .weight_decay = 0.01});
  });
  for (const bool first : {true, false}) {
    both([=](DeviceType device, Lists& lists) {
      kernels::sgd(device, lists.parameters, lists.gradients, lists.first,
                   {.lr = 0.1, .momentum = 0.9, .nesterov = true, .first = first});
    });
  }
  both([](DeviceType device, Lists& lists) {
    kernels::adam(device, lists.parameters, lists.gradients, lists.first, lists.second,
                  {.lr = 0.01,
                   .beta1 = 0.9,
                   .beta2 = 0.99,
                   .eps = 1e-3,
                   .weight_decay = 0.1,
                   .correction1 = 0.2,
                   .correction2 = 0.3,
                   .decoupled = true});
  });
}

}  // namespace

TEST_CASE("cuda optimizers: tensors of several chunks, and more of them than a launch takes") {
  Fixture f;
  for (const int64_t size : {1, 4095, 4096, 4097, 9001, 0}) f.add(size, DType::f32, DType::f32);
  for (int i = 0; i < 150; ++i) f.add(1 + i % 7, DType::f32, DType::f32);
  check_all(f);
}

TEST_CASE("cuda optimizers: dtypes mixed in one call, aligned or not") {
  Fixture f;
  for (const int64_t offset : {0, 1, 4}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const DType gradient : {dtype, compute_dtype(dtype), DType::f64}) {
        f.add(1030, dtype, gradient, offset);
      }
    }
  }
  check_all(f);
}

TEST_CASE("cuda optimizers: adadelta, and no tensors at all") {
  Fixture f;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) f.add(1500, dtype, dtype);
  const kernels::AdadeltaStep step{.lr = 0.5, .rho = 0.9, .eps = 1e-3, .weight_decay = 0.01};
  kernels::adadelta(DeviceType::cpu, f.cpu.parameters, f.cpu.gradients, f.cpu.first, f.cpu.second,
                    step);
  kernels::adadelta(DeviceType::cuda, f.cuda.parameters, f.cuda.gradients, f.cuda.first,
                    f.cuda.second, step);
  f.check();
  kernels::adadelta(DeviceType::cuda, {}, {}, {}, {}, step);
}

TEST_CASE("cuda optimizers: a step of a slice is the slice of the step, to the bit") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Fixture whole, split;
    whole.add(3000, dtype, dtype);
    split.add(3000, dtype, dtype);
    const auto step = [](const Lists& lists, int64_t begin, int64_t size) {
      const auto part = [&](const TensorList& list) {
        return TensorList{list[0].alias(begin, {size})};
      };
      kernels::adam(DeviceType::cuda, part(lists.parameters), part(lists.gradients),
                    part(lists.first), part(lists.second),
                    {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1});
    };
    step(whole.cuda, 0, 3000);
    step(split.cuda, 0, 1021);
    step(split.cuda, 1021, 1979);
    CHECK(split.cuda.parameters[0].to_vector() == whole.cuda.parameters[0].to_vector());
    CHECK(split.cuda.first[0].to_vector() == whole.cuda.first[0].to_vector());
    CHECK(split.cuda.second[0].to_vector() == whole.cuda.second[0].to_vector());
  }
}

}  // namespace tenon
