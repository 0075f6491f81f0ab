// How GPT-2 cuts text into pieces before byte pair encoding; merges never cross a cut. The rule,
// as its authors wrote it, the first alternative that matches counting:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// Bytes that are no valid UTF-8 are taken for symbols, so any text is cut without loss.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tenon {

// Where the piece that begins at `begin`, which must lie inside `text`, ends.
size_t gpt2_piece_end(std::string_view text, size_t begin);

// All pieces, in order.
std::vector<std::string_view> gpt2_split(std::string_view text);

}  // namespace tenon
