#include "tenon/nn/data/tokens.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "tenon/core/check.h"

namespace tenon {

Tokens::Tokens(const std::vector<int32_t>& tokens, const std::string& name)
    : width_(sizeof(uint32_t)), size_(static_cast<int64_t>(tokens.size())), name_(name) {
  for (const int32_t token : tokens) {
    TENON_CHECK(token >= 0, "tokens", name, ": a token is negative: given ", token);
  }
  const auto copy = std::make_shared<const std::vector<uint32_t>>(tokens.begin(), tokens.end());
  data_ = copy->data();
  owner_ = copy;
}

Tokens::Tokens(std::shared_ptr<const void> owner, const uint16_t* data, int64_t size,
               const std::string& name)
    : owner_(std::move(owner)), data_(data), width_(sizeof(*data)), size_(size), name_(name) {}

Tokens::Tokens(std::shared_ptr<const void> owner, const uint32_t* data, int64_t size,
               const std::string& name)
    : owner_(std::move(owner)), data_(data), width_(sizeof(*data)), size_(size), name_(name) {}

void Tokens::check_range(int64_t begin, int64_t end) const {
  TENON_CHECK(begin >= 0 && begin <= end && end <= size_, "tokens", name_,
              ": no such tokens: given ", begin, " to ", end, ", there are ", size_);
}

// Calls body with a pointer to token `begin`, of the type that they are kept in.
template <class Body>
void Tokens::with_data(int64_t begin, const Body& body) const {
  if (width_ == sizeof(uint16_t)) {
    body(static_cast<const uint16_t*>(data_) + begin);
  } else {
    body(static_cast<const uint32_t*>(data_) + begin);
  }
}

void Tokens::copy(int64_t begin, int64_t count, int64_t* to) const {
  TENON_CHECK(begin >= 0 && count >= 0 && count <= size_ && begin <= size_ - count, "tokens", name_,
              ": no such tokens: given ", count, " from ", begin, " on, there are ", size_);
  with_data(begin, [&](const auto* from) { std::copy(from, from + count, to); });
}

Tokens Tokens::part(int64_t begin, int64_t end, const std::string& what) const {
  check_range(begin, end);
  Tokens result = *this;
  with_data(begin, [&](const auto* from) { result.data_ = from; });
  result.size_ = end - begin;
  result.name_ = str(name_, ", ", what);
  return result;
}

void Tokens::check_below(int64_t vocab_size, int64_t begin, int64_t end) const {
  check_range(begin, end);
  with_data(begin, [&](const auto* from) {
    const int64_t count = end - begin;
    // The maximum is found many at a time, the place of a wrong one is not.
    std::remove_cvref_t<decltype(*from)> largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, from[i]);
    if (largest < vocab_size) return;
    const auto* const wrong =
        std::find_if(from, from + count, [&](auto token) { return token >= vocab_size; });
    if (wrong == from + count) return;
    throw Error(str("[tokens] ", name_, ": token ", *wrong, " at place ", begin + (wrong - from),
                    " is not in the vocabulary: wanted numbers below ", vocab_size),
                ErrorKind::bad_data);
  });
}

}  // namespace tenon
