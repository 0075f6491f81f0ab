// The tokens of byte pair encoding, from a file as tiktoken keeps them: a line is a token's bytes
// in base64, a space and its rank. A token's number is its rank, and pairs of lower rank merge
// first. Reading trusts nothing: every Error is bad_data and names file and line.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon {

class BpeRanks {
 public:
  explicit BpeRanks(const std::string& path);
  BpeRanks(const BpeRanks&) = delete;
  BpeRanks& operator=(const BpeRanks&) = delete;

  const std::string& path() const { return path_; }
  uint32_t checksum() const { return checksum_; }  // of the file's content: CRC-32
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  const std::string& bytes_of(int32_t rank) const { return tokens_[static_cast<size_t>(rank)]; }
  // The rank of the token with these bytes; -1 if there is none.
  int32_t find(std::string_view bytes) const {
    if (bytes.size() > longest_) return -1;
    const auto found = rank_of_.find(bytes);
    return found == rank_of_.end() ? -1 : found->second;
  }
  int32_t of_byte(unsigned char byte) const { return rank_of_byte_[byte]; }

 private:
  struct Line;
  [[noreturn]] void bad(size_t line, const std::string& text) const;
  std::vector<Line> read_lines(std::string_view content) const;
  void number(std::vector<Line> lines);
  void index(const std::vector<size_t>& line_of);

  std::string path_;
  uint32_t checksum_ = 0;
  size_t longest_ = 0;
  std::vector<std::string> tokens_;                        // by rank
  std::unordered_map<std::string_view, int32_t> rank_of_;  // of what tokens_ holds
  std::array<int32_t, 256> rank_of_byte_{};
};

}  // namespace tenon
