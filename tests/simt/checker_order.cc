// When is one access ordered before another? In the same thread; by a barrier of the block; by a
// whole __syncwarp of the warp; by a __threadfence and an atomic between blocks; by the streams,
// events and the host between tasks.
#include "tenon/tests/simt/checker_memory.h"

namespace simt::checker {
namespace {

bool same_warp(const Record& a, const Record& b) {
  return a.many_warps == 0 && a.thread / 32 == b.thread / 32;
}

bool ordered_in_block(const Record& earlier, const Record& now) {
  if (earlier.epoch < now.epoch) return true;
  if (earlier.many_threads == 0 && earlier.thread == now.thread) return true;
  return same_warp(earlier, now) && earlier.warp_epoch != now.warp_epoch;
}

bool released_by_block(const Record& earlier, const Kernel* kernel) {
  if (kernel == nullptr) return false;
  const auto entry = kernel->known.find(earlier.block);
  if (entry == kernel->known.end()) return false;
  const Release& release = entry->second;
  return earlier.epoch < release.epoch ||
         (earlier.epoch == release.epoch && earlier.many_threads == 0 &&
          earlier.thread == release.thread);
}

// A later write by anyone is compared with this one record for all readers of a task.
void merge_reader(Record& reader, const Record& now) {
  if (reader.block != now.block) {
    reader.block = kManyBlocks;
  } else if (reader.epoch < now.epoch) {
    reader = now;
    return;
  } else if (reader.thread != now.thread) {
    if (!same_warp(reader, now)) {
      reader.many_warps = 1;
    } else if (reader.warp_epoch != now.warp_epoch) {
      reader = now;
      return;
    }
    reader.many_threads = 1;
  }
  reader.bytes |= now.bytes;
}

void enter_reader(Cell& cell, const Record& now, const Clock& clock) {
  for (Record& reader : cell.readers) {
    if (reader.task == now.task) return merge_reader(reader, now);
  }
  for (Record& reader : cell.readers) {
    if (reader.task == 0 || comes_before(reader.task, clock)) {
      reader = now;
      return;
    }
  }
  cell.readers[0] = cell.readers[1];
  cell.readers[1] = now;
}

}  // namespace

bool unordered(const Record& earlier, const Record& now, const Clock& clock, const Kernel* kernel) {
  if (earlier.task == 0 || (earlier.bytes & now.bytes) == 0) return false;
  if (earlier.atomic != 0 && now.atomic != 0) return false;
  if (earlier.task != now.task) return !comes_before(earlier.task, clock);
  if (now.block == kNoBlock) return false;
  if (earlier.block != now.block) return !released_by_block(earlier, kernel);
  return !ordered_in_block(earlier, now);
}

Record enter(Cell& cell, const Record& now, bool write, const Clock& clock, const Kernel* kernel) {
  Record racing;
  if (unordered(cell.writer, now, clock, kernel)) racing = cell.writer;
  if (!write) {
    enter_reader(cell, now, clock);
    return racing;
  }
  for (Record& reader : cell.readers) {
    if (racing.task == 0 && unordered(reader, now, clock, kernel)) racing = reader;
    if ((reader.bytes & ~now.bytes) == 0) reader = Record{};  // what comes after now is after it
  }
  cell.writer = now;
  return racing;
}

}  // namespace simt::checker
