// Turns a dtype known at run time into a template type:
//   dispatch_floating(x.dtype(), "exp", [&]<class T>() { … });
// A dtype outside the list is an Error that names the op and the dtypes it takes.
#pragma once

#include <utility>

#include "tenon/core/check.h"
#include "tenon/core/dtype.h"

namespace tenon {

// Calls body<T>() with the C++ type of `dtype` if it is one of Types.
template <class... Types, class Body>
void dispatch_types(DType dtype, const char* op, Body&& body) {
  bool found = false;
  auto attempt = [&]<class T>() {
    if (found || dtype != dtype_of<T>) return;
    found = true;
    body.template operator()<T>();
  };
  (attempt.template operator()<Types>(), ...);
  if (!found) {
    std::string wanted;
    ((wanted += str(wanted.empty() ? "" : ", ", name_of(dtype_of<Types>))), ...);
    fail(op, "unsupported dtype: given ", dtype, ", wanted one of ", wanted);
  }
}

template <class Body>
void dispatch_floating(DType dtype, const char* op, Body&& body) {
  dispatch_types<float, double, Float16, BFloat16>(dtype, op, std::forward<Body>(body));
}
template <class Body>
void dispatch_integral(DType dtype, const char* op, Body&& body) {
  dispatch_types<int64_t, int32_t, uint8_t>(dtype, op, std::forward<Body>(body));
}
template <class Body>
void dispatch_numeric(DType dtype, const char* op, Body&& body) {
  dispatch_types<float, double, Float16, BFloat16, int64_t, int32_t, uint8_t>(
      dtype, op, std::forward<Body>(body));
}
template <class Body>
void dispatch_all(DType dtype, const char* op, Body&& body) {
  dispatch_types<float, double, Float16, BFloat16, int64_t, int32_t, uint8_t, bool>(
      dtype, op, std::forward<Body>(body));
}

// The type a kernel computes in for elements of type T (float for the 16-bit formats).
template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<Float16> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

}  // namespace tenon
