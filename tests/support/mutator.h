// Damage to the bytes of a file, for tests of its reader: the same for the same seed.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tenon::testing {

class Mutator {
 public:
  // `fragments` are what is put in now and then: the values that a reader may trip over.
  Mutator(unsigned seed, std::vector<std::string> fragments)
      : random_(seed), fragments_(std::move(fragments)) {}

  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  // `bytes` with one to three changes, mostly among the first `head`.
  std::string damaged(std::string bytes, size_t head) {
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      const size_t reach = std::min(below(4) == 0 ? bytes.size() : head, bytes.size());
      change(bytes, below(reach));
    }
    return bytes;
  }

 private:
  void change(std::string& bytes, size_t at) {
    switch (below(7)) {
      case 0:  // a byte
        if (!bytes.empty()) bytes[at] = static_cast<char>(random_());
        break;
      case 1:  // a bit
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.resize(below(8) == 0 ? at : bytes.size() - std::min(bytes.size(), 1 + below(9)));
        break;
      case 3:  // some are missing
        bytes.erase(at, 1 + below(12));
        break;
      case 4:  // some come twice
        bytes.insert(at, bytes.substr(at, 1 + below(60)));
        break;
      case 5: {  // a fragment over the same number of bytes
        const std::string& fragment = any_fragment();
        bytes.replace(at, fragment.size(), fragment);
        break;
      }
      default: {  // a fragment in place of a run of digits, if there is one
        size_t end = at;
        while (end < bytes.size() && bytes[end] >= '0' && bytes[end] <= '9') ++end;
        bytes.replace(at, end - at, any_fragment());
      }
    }
  }
  const std::string& any_fragment() { return fragments_[below(fragments_.size())]; }

  std::mt19937 random_;
  std::vector<std::string> fragments_;
};

}  // namespace tenon::testing
