// A sequence of token numbers, which never changes: in memory, or in a mapped file that is read
// where it is used. A handle: copies and parts share the data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

class Tokens {
 public:
  // `name` says in errors where they come from.
  Tokens(const std::vector<int32_t>& tokens, const std::string& name);
  // `size` numbers of 2 or 4 bytes at `data`, which lives as long as `owner`.
  Tokens(std::shared_ptr<const void> owner, const uint16_t* data, int64_t size,
         const std::string& name);
  Tokens(std::shared_ptr<const void> owner, const uint32_t* data, int64_t size,
         const std::string& name);

  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

  // Tokens begin, begin + 1, … of these into to[0], … to[count - 1].
  void copy(int64_t begin, int64_t count, int64_t* to) const;
  // Those from `begin` to before `end`; errors name them as "NAME, WHAT".
  Tokens part(int64_t begin, int64_t end, const std::string& what) const;
  // A bad_data Error if one of those from `begin` to before `end` is no number below `vocab_size`.
  void check_below(int64_t vocab_size, int64_t begin, int64_t end) const;
  void check_below(int64_t vocab_size) const { check_below(vocab_size, 0, size_); }

 private:
  void check_range(int64_t begin, int64_t end) const;
  template <class Body>
  void with_data(int64_t begin, const Body& body) const;

  std::shared_ptr<const void> owner_;
  const void* data_;
  int64_t width_;  // bytes of a token: 2 or 4
  int64_t size_;
  std::string name_;
};

}  // namespace tenon
