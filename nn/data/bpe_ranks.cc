#include "tenon/nn/data/bpe_ranks.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "tenon/core/check.h"
#include "tenon/nn/data/text_corpus.h"

namespace tenon {
namespace {

// The six bits of a character of base64; -1 if it is none.
constexpr int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// Padded to a multiple of four, as the standard wants it; unused bits must be zero.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int digit = base64_digit(c);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  if (bits != 0) return std::nullopt;
  return bytes;
}

// What an error shows of a line of a file that may be anything.
std::string shown(std::string_view text) {
  std::string result = "\"";
  for (const char c : text.substr(0, 40)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > 40 ? "…\"" : "\"");
}

}  // namespace

struct BpeRanks::Line {
  size_t number;
  std::string token;
  int32_t rank;
};

BpeRanks::BpeRanks(const std::string& path) : path_(path) {
  const std::string content = read_text(path);
  checksum_ = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(content.data()), content.size()));
  number(read_lines(content));
}

// Line 0 means the file as a whole.
void BpeRanks::bad(size_t line, const std::string& text) const {
  const std::string place = line == 0 ? path_ : str(path_, " line ", line);
  throw Error(str("[bpe] ", place, ": ", text), ErrorKind::bad_data);
}

std::vector<BpeRanks::Line> BpeRanks::read_lines(std::string_view content) const {
  std::vector<Line> lines;
  size_t number = 0;
  while (!content.empty()) {
    ++number;
    const size_t end = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    if (space == line.npos) {
      bad(number, str("no rank: given ", shown(line), ", wanted base64, a space and a number"));
    }
    const std::string_view digits = line.substr(space + 1);
    const char* const digits_end = digits.data() + digits.size();
    int32_t rank = -1;
    const auto [stop, error] = std::from_chars(digits.data(), digits_end, rank);
    if (error != std::errc() || stop != digits_end || rank < 0) {
      bad(number, str("bad rank: given ", shown(digits), ", wanted a number from 0 on"));
    }
    std::optional<std::string> token = decode_base64(line.substr(0, space));
    if (!token) bad(number, str("bad base64: given ", shown(line.substr(0, space))));
    lines.push_back({number, std::move(*token), rank});
  }
  return lines;
}

// Ranks are all of 0 … lines - 1, in any order.
void BpeRanks::number(std::vector<Line> lines) {
  tokens_.resize(lines.size());
  std::vector<size_t> line_of(lines.size());
  for (Line& line : lines) {
    const auto rank = static_cast<size_t>(line.rank);
    if (rank >= lines.size()) {
      bad(line.number, str("rank ", rank, " is too large: the file has ", lines.size(),
                           " tokens, wanted each rank from 0 to ", lines.size() - 1, " once"));
    }
    if (line_of[rank] != 0) {
      bad(line.number, str("rank ", rank, " for the second time, first in line ", line_of[rank]));
    }
    line_of[rank] = line.number;
    tokens_[rank] = std::move(line.token);
  }
  index(line_of);
}

void BpeRanks::index(const std::vector<size_t>& line_of) {
  rank_of_.reserve(tokens_.size());
  for (size_t rank = 0; rank < tokens_.size(); ++rank) {
    longest_ = std::max(longest_, tokens_[rank].size());
    const auto [place, added] = rank_of_.emplace(tokens_[rank], static_cast<int32_t>(rank));
    if (!added) {
      const auto first = static_cast<size_t>(place->second);
      bad(std::max(line_of[rank], line_of[first]),
          str("the same token as in line ", std::min(line_of[rank], line_of[first])));
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    rank_of_byte_[static_cast<size_t>(byte)] = find({&text, 1});
    if (rank_of_byte_[static_cast<size_t>(byte)] < 0) {
      bad(0, str("no token for the single byte ", byte, ": wanted one for each of the 256"));
    }
  }
}

}  // namespace tenon
