#include "tenon/kernels/cpu/convert.h"

#include <type_traits>

#include "tenon/core/dispatch_dtype.h"

namespace tenon::kernels::cpu {
namespace {

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Compute<From>>(value) != Compute<From>{0};
  } else {
    return static_cast<To>(static_cast<Compute<From>>(value));
  }
}

template <class From, class To>
void convert_row(const void* from_data, int64_t from_stride, void* to_data, int64_t to_stride,
                 int64_t n) {
  const From* from = static_cast<const From*>(from_data);
  To* to = static_cast<To*>(to_data);
  if (from_stride == 1 && to_stride == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
  } else if (from_stride == 0 && to_stride == 1) {
    const To value = convert<To>(*from);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_stride] = convert<To>(from[i * from_stride]);
  }
}

}  // namespace

RowConverter row_converter(DType from, DType to) {
  RowConverter result = nullptr;
  dispatch_all(from, "copy", [&]<class From>() {
    dispatch_all(to, "copy", [&]<class To>() { result = convert_row<From, To>; });
  });
  return result;
}

}  // namespace tenon::kernels::cpu
