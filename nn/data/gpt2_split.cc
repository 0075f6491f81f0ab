#include "tenon/nn/data/gpt2_split.h"

#include "tenon/nn/data/unicode.h"

namespace tenon {
namespace {

using unicode::Class;

// The bytes of the contraction that `text` begins with; 0 if with none.
size_t contraction(std::string_view text) {
  if (text[0] != '\'') return 0;
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

struct Run {
  size_t end;   // behind its last character
  size_t last;  // where that begins
};

// The longest run of characters of one class; there is one at `begin`.
Run run_of(Class wanted, std::string_view text, size_t begin) {
  Run run{begin, begin};
  while (run.end < text.size()) {
    const unicode::Character next = unicode::character_at(text, run.end);
    if (unicode::class_of(next.code) != wanted) break;
    run = {run.end + next.bytes, run.end};
  }
  return run;
}

Class class_at(std::string_view text, size_t at) {
  return unicode::class_of(unicode::character_at(text, at).code);
}

}  // namespace

size_t gpt2_piece_end(std::string_view text, size_t begin) {
  if (const size_t bytes = contraction(text.substr(begin)); bytes > 0) return begin + bytes;
  // A space belongs to what follows it.
  const size_t word = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
  if (const Class found = class_at(text, word); found != Class::space) {
    return run_of(found, text, word).end;
  }
  const Run spaces = run_of(Class::space, text, begin);
  // Before something else the last of several spaces is left for it.
  return spaces.end == text.size() || spaces.last == begin ? spaces.end : spaces.last;
}

std::vector<std::string_view> gpt2_split(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_piece_end(text, begin);
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

}  // namespace tenon
