#include "tenon/distributed/verify.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tenon/core/factory.h"

namespace tenon {
namespace {

constexpr Call kSetup{.tag = "setup"};

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The texts of all ranks, `longest` bytes each.
std::vector<std::string> gather_texts(ProcessGroup& group, std::string text, int64_t longest) {
  text.resize(static_cast<size_t>(longest));
  const TensorOptions bytes{.dtype = DType::u8, .device = kCpu, .category = Category::other};
  const Tensor mine = detail::from_bytes(text.data(), text.size(), {longest}, bytes);
  const Tensor all = empty({longest * group.size()}, bytes);
  group.all_gather(all, mine, kSetup).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto* begin = reinterpret_cast<const char*>(all.data<uint8_t>()) + rank * longest;
    texts.emplace_back(begin, strnlen(begin, static_cast<size_t>(longest)));
  }
  return texts;
}

[[noreturn]] void report(const char* op, int mine, const std::vector<std::string>& texts) {
  const std::vector<std::string> wanted = split_lines(texts[0]);
  if (texts[static_cast<size_t>(mine)] == texts[0]) {
    size_t rank = 0;
    while (texts[rank] == texts[0]) ++rank;
    throw Error(str("[", op, "] models differ between ranks: rank ", rank, " differs from rank 0"),
                ErrorKind::peer_lost);
  }
  const std::vector<std::string> given = split_lines(texts[static_cast<size_t>(mine)]);
  size_t line = 0;
  while (line < given.size() && line < wanted.size() && given[line] == wanted[line]) ++line;
  const auto text_at = [line](const std::vector<std::string>& lines) {
    return line < lines.size() ? lines[line] : std::string("nothing more");
  };
  fail(op, "models differ between ranks: at entry ", line, " rank ", mine, " has ", text_at(given),
       ", rank 0 has ", text_at(wanted), " (", given.size(), " and ", wanted.size(), " entries)");
}

}  // namespace

void verify_same_on_all_ranks(const char* op, ProcessGroup group,
                              const std::vector<std::string>& lines) {
  if (group.size() == 1) return;
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  const std::vector<int64_t> own{static_cast<int64_t>(fnv1a(text)),
                                 static_cast<int64_t>(text.size())};
  const Tensor all =
      empty({2 * group.size()}, {.dtype = DType::i64, .device = kCpu, .category = Category::other});
  group.all_gather(all, from_data(own, {2}, Category::other, kCpu), kSetup).wait();
  const auto* values = all.data<int64_t>();
  bool same = true;
  int64_t longest = 1;
  for (int rank = 0; rank < group.size(); ++rank) {
    same = same && values[2 * rank] == values[0] && values[2 * rank + 1] == values[1];
    longest = std::max(longest, values[2 * rank + 1]);
  }
  if (!same) report(op, group.rank(), gather_texts(group, text, longest));
}

}  // namespace tenon
