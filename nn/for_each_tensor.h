// Visits every tensor inside a value: a tensor, tuple, pair, array, vector, optional, map, and any
// struct that offers for_each_tensor(visit) as a member or as a free function found by
// argument-dependent lookup. Hooks look at the inputs and outputs of modules this way.
#pragma once

#include <functional>
#include <optional>
#include <ranges>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "tenon/core/tensor.h"

namespace tenon {

using TensorVisitor = std::function<void(const Tensor&)>;
// Calls a visitor with each tensor of some value.
using VisitTensors = std::function<void(const TensorVisitor&)>;

namespace detail::for_each_tensor_lookup {

void for_each_tensor() = delete;  // stops ordinary lookup here, so that only users' own are found

template <class T, class Visit>
concept HasMember = requires(const T& value, Visit& visit) {
  value.for_each_tensor(visit);
};
template <class T, class Visit>
concept HasFree = requires(const T& value, Visit& visit) {
  for_each_tensor(value, visit);
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept MapLike = std::ranges::range<const T> && requires {
  typename T::mapped_type;
};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
concept WithoutTensors = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> ||
    std::is_null_pointer_v<T> || std::is_convertible_v<T, std::string_view>;

// Strict: a type that cannot hold tensors as far as we can see is refused at compile time;
// otherwise it is passed over.
template <bool strict>
struct ForEachTensor {
  template <class T, class Visit>
  void operator()(const T& value, Visit&& visit) const {
    if constexpr (std::is_base_of_v<Tensor, T>) {
      visit(static_cast<const Tensor&>(value));
    } else if constexpr (HasMember<T, Visit>) {
      value.for_each_tensor(visit);
    } else if constexpr (HasFree<T, Visit>) {
      for_each_tensor(value, visit);
    } else if constexpr (WithoutTensors<T>) {
      return;
    } else if constexpr (IsOptional<T>::value) {
      if (value) (*this)(*value, visit);
    } else if constexpr (TupleLike<T>) {
      std::apply([&](const auto&... parts) { ((*this)(parts, visit), ...); }, value);
    } else if constexpr (MapLike<T>) {
      for (const auto& [key, mapped] : value) (*this)(mapped, visit);
    } else if constexpr (std::ranges::range<const T>) {
      for (const auto& part : value) (*this)(part, visit);
    } else {
      static_assert(
          !strict, "give this type a member for_each_tensor(visit), so that hooks see its tensors");
    }
  }
};

}  // namespace detail::for_each_tensor_lookup

inline constexpr detail::for_each_tensor_lookup::ForEachTensor<true> for_each_tensor{};
// The same for values that may also be of types without tensors, such as options.
inline constexpr detail::for_each_tensor_lookup::ForEachTensor<false> for_each_tensor_if_any{};

}  // namespace tenon
