// How close a result must come to the f64 reference, by dtype: |got - wanted| is at most the
// tolerance times max(1, |wanted|). One table for all tests of ops.
#pragma once

#include "tenon/core/dtype.h"

namespace tenon::testing {

struct Tolerance {
  double forward;
  double gradient;  // more roundings: of the saved tensors and of each gradient on its way
};

constexpr Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-12, 1e-11};
    case DType::f32:
      return {2e-6, 1e-5};
    case DType::f16:
      return {0x1p-10, 0x1p-8};
    case DType::bf16:
      return {0x1p-7, 0x1p-5};
    default:
      return {0, 0};  // integers are exact
  }
}

}  // namespace tenon::testing
