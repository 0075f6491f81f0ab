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
      return {1e-13, 1e-12};
    case DType::f32:
      return {2e-6, 4e-6};
    case DType::f16:
      return {0x1p-10, 0x1p-9};
    case DType::bf16:
      return {0x1p-7, 0x1p-6};
    default:
      return {0, 0};  // integers are exact
  }
}

}  // namespace tenon::testing
