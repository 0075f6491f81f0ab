#include "tenon/nn/data/bpe_tokenizer.h"

#include <algorithm>

#include "tenon/core/check.h"
#include "tenon/nn/data/gpt2_split.h"

namespace tenon {
namespace {

// Merges the pairs of one piece, lowest rank first and leftmost among equals. Parts are a linked
// list and candidates a heap, so that n bytes take n log n steps. One object serves many pieces:
// its memory is kept.
class Merger {
 public:
  explicit Merger(const BpeRanks& ranks) : ranks_(ranks) {}

  void append_tokens(std::string_view piece, std::vector<int32_t>& tokens) {
    start(piece);
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), later);
      const Candidate best = candidates_.back();
      candidates_.pop_back();
      if (is_pair(best)) merge(best);
    }
    for (size_t i = 0; i < piece.size(); i = parts_[i].end) tokens.push_back(parts_[i].token);
  }

 private:
  // A part is known by the byte that it begins with.
  struct Part {
    size_t before;  // where the part before it begins; itself for the first
    size_t end;
    int32_t token;  // -1: its bytes have become part of one that begins before them
  };
  struct Candidate {
    int32_t rank;
    size_t begin;
    size_t end;
  };
  static bool later(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.begin > b.begin;
  }

  void start(std::string_view piece) {
    piece_ = piece;
    parts_.clear();
    candidates_.clear();
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto byte = static_cast<unsigned char>(piece[i]);
      parts_.push_back({i == 0 ? 0 : i - 1, i + 1, ranks_.of_byte(byte)});
    }
    for (size_t i = 0; i < piece.size(); ++i) consider(i);
  }

  // The part at `begin` and the one after it, if together they are a token.
  void consider(size_t begin) {
    const size_t next = parts_[begin].end;
    if (next == piece_.size()) return;
    const size_t end = parts_[next].end;
    const int32_t rank = ranks_.find(piece_.substr(begin, end - begin));
    if (rank < 0) return;
    candidates_.push_back({rank, begin, end});
    std::push_heap(candidates_.begin(), candidates_.end(), later);
  }

  // Whether the candidate still is what two neighbouring parts make.
  bool is_pair(const Candidate& candidate) const {
    const Part& part = parts_[candidate.begin];
    return part.token >= 0 && part.end < candidate.end && parts_[part.end].end == candidate.end;
  }

  void merge(const Candidate& pair) {
    parts_[parts_[pair.begin].end].token = -1;
    parts_[pair.begin].end = pair.end;
    parts_[pair.begin].token = pair.rank;
    if (pair.end < piece_.size()) {
      parts_[pair.end].before = pair.begin;
      consider(pair.begin);
    }
    if (pair.begin > 0) consider(parts_[pair.begin].before);
  }

  const BpeRanks& ranks_;
  std::string_view piece_;
  std::vector<Part> parts_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  Merger merger(ranks_);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_piece_end(text, begin);
    const std::string_view piece = text.substr(begin, end - begin);
    if (const int32_t token = ranks_.find(piece); token >= 0) {
      tokens.push_back(token);
    } else {
      merger.append_tokens(piece, tokens);
    }
    begin = end;
  }
  return tokens;
}

std::vector<int32_t> BpeTokenizer::encode_with_special(std::string_view text) const {
  std::vector<int32_t> tokens;
  while (true) {
    const size_t special = text.find(kEndOfText);
    const std::vector<int32_t> part = encode(text.substr(0, special));
    tokens.insert(tokens.end(), part.begin(), part.end());
    if (special == text.npos) return tokens;
    tokens.push_back(end_of_text());
    text.remove_prefix(special + kEndOfText.size());
  }
}

std::string BpeTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    TENON_CHECK(token >= 0 && token < vocab_size(), "bpe", "no such token: given ", token,
                ", wanted 0 <= token < ", vocab_size());
    text += token == end_of_text() ? kEndOfText : std::string_view(ranks_.bytes_of(token));
  }
  return text;
}

}  // namespace tenon
