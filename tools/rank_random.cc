#include "tenon/tools/rank_random.h"

#include <algorithm>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"

namespace tenon::tools {

// Ranks x (init seed, stream, offset, dropout seed, stream, offset).
std::vector<RankRandom> gather_random(ProcessGroup group) {
  constexpr int64_t kWords = 6;
  const PhiloxKey init = rank_context().init.state(), drop = rank_context().dropout.state();
  const std::vector<int64_t> words{
      static_cast<int64_t>(init.seed),   static_cast<int64_t>(init.stream),
      static_cast<int64_t>(init.offset), static_cast<int64_t>(drop.seed),
      static_cast<int64_t>(drop.stream), static_cast<int64_t>(drop.offset)};
  const Tensor all =
      empty({group.size() * kWords}, {.dtype = DType::i64, .category = Category::other});
  group.all_gather(all, from_data(words, {kWords}, Category::other), {.tag = "checkpoint"}).wait();
  std::vector<RankRandom> random;
  for (int rank = 0; rank < group.size(); ++rank) {
    const int64_t* const w = all.data<int64_t>() + rank * kWords;
    const auto key = [](const int64_t* at) {
      return PhiloxKey{static_cast<uint64_t>(at[0]), static_cast<uint64_t>(at[1]),
                       static_cast<uint64_t>(at[2])};
    };
    random.push_back({key(w), key(w + 3)});
  }
  return random;
}

void restore_random(const std::vector<RankRandom>& random) {
  RankContext& context = rank_context();
  const auto rank = static_cast<size_t>(context.rank());
  context.init.set_state(random.front().init);
  if (random.size() == static_cast<size_t>(context.ranks())) {
    context.dropout.set_state(random[rank].dropout);
    return;
  }
  PhiloxKey key = random.front().dropout;
  for (const RankRandom& other : random) key.offset = std::max(key.offset, other.dropout.offset);
  key.stream = context.dropout.state().stream;
  context.dropout.set_state(key);
}

}  // namespace tenon::tools
