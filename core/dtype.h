// Element types of tensors, and the C++ type behind each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "tenon/core/half.h"

namespace tenon {

enum class DType : uint8_t { f32, f64, f16, bf16, i64, i32, u8, boolean };
inline constexpr int kDTypeCount = 8;

constexpr size_t size_of(DType dtype) {
  constexpr size_t kSizes[kDTypeCount] = {4, 8, 2, 2, 8, 4, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}
constexpr const char* name_of(DType dtype) {
  constexpr const char* kNames[kDTypeCount] = {"f32", "f64", "f16", "bf16",
                                               "i64", "i32", "u8",  "bool"};
  return kNames[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return dtype <= DType::bf16; }
// The type a kernel computes in: f64 for f64, f32 for the other floating types.
constexpr DType compute_dtype(DType dtype) {
  return is_floating(dtype) && dtype != DType::f64 ? DType::f32 : dtype;
}
// The dtype called `name` ("f32", "bf16", …); an unknown name is an Error that lists the valid
// ones.
DType dtype_from_name(const std::string& name);
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace tenon
