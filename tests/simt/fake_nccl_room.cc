#include "tenon/tests/simt/fake_nccl_room.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

namespace simt::nccl {

struct Room::Header {
  std::atomic<uint32_t> joined;
  std::atomic<uint32_t> gone;  // a rank that gave up, plus 1
  std::atomic<uint64_t> arrived;
};
struct Room::Seat {
  Signature signature;
};
struct Room::Box {
  std::atomic<uint32_t> bytes;  // that wait for the receiver
  Signature signature;
  std::byte data[kBox];
};

namespace {

constexpr size_t kHeader = 4096;

double timeout() {
  static const double value = [] {
    const char* text = std::getenv("TENON_EMULATED_NCCL_TIMEOUT_S");
    return text != nullptr ? std::atof(text) : 20.0;
  }();
  return value;
}

std::string name_of(const ncclUniqueId& id) {
  std::string name = "/tenon_fake_nccl_";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(id.internal[i]));
    name += digits;
  }
  return name;
}

}  // namespace

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string describe(const Signature& signature) {
  constexpr const char* kKinds[] = {"all_reduce", "reduce_scatter", "all_gather",
                                    "broadcast",  "send",           "recv"};
  return "call " + std::to_string(signature.sequence) + ", " + kKinds[signature.kind] + " of " +
         std::to_string(signature.count) + " elements, dtype " + std::to_string(signature.dtype) +
         ", op " + std::to_string(signature.op) + ", root " + std::to_string(signature.root);
}

Room::Room(const ncclUniqueId& id, int rank, int ranks) : rank_(rank), ranks_(ranks) {
  const auto count = static_cast<size_t>(ranks);
  bytes_ = kHeader + count * (sizeof(Seat) + kChunk) + count * count * sizeof(Box);
  const std::string name = name_of(id);
  const int file = ::shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
    give_up(ncclSystemError, "no shared memory for the communicator");
    return;
  }
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) {
    give_up(ncclSystemError, "cannot map the communicator's shared memory");
    return;
  }
  memory_ = static_cast<std::byte*>(memory);
  auto& header = *reinterpret_cast<Header*>(memory_);
  header.joined.fetch_add(1);
  const double begin = seconds();
  while (header.joined.load() < static_cast<uint32_t>(ranks)) {
    if (!pause(seconds() - begin)) break;
  }
  if (rank == 0) ::shm_unlink(name.c_str());
}

Room::~Room() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Room::Seat& Room::seat(int rank) const { return reinterpret_cast<Seat*>(memory_ + kHeader)[rank]; }
std::byte* Room::piece(int rank) const {
  const auto count = static_cast<size_t>(ranks_);
  return memory_ + kHeader + count * sizeof(Seat) + static_cast<size_t>(rank) * kChunk;
}
Room::Box& Room::box(int from, int to) const {
  auto* boxes = reinterpret_cast<Box*>(piece(ranks_));
  return boxes[from * ranks_ + to];
}

bool Room::give_up(ncclResult_t result, const std::string& why) {
  if (result_ == ncclSuccess) {
    why_ = why;
    result_ = result;
  }
  if (memory_ != nullptr) {
    reinterpret_cast<Header*>(memory_)->gone = static_cast<uint32_t>(rank_) + 1;
  }
  return false;
}

void Room::abort() {
  aborted_ = true;
  if (memory_ != nullptr) {
    reinterpret_cast<Header*>(memory_)->gone = static_cast<uint32_t>(rank_) + 1;
  }
}

bool Room::ended() const { return aborted_ || result_ != ncclSuccess; }

bool Room::pause(double waited_seconds) {
  if (ended()) return false;
  const uint32_t gone = reinterpret_cast<Header*>(memory_)->gone.load();
  if (gone != 0) {
    return give_up(ncclRemoteError, "rank " + std::to_string(gone - 1) + " gave up or aborted");
  }
  if (waited_seconds > timeout()) {
    return give_up(ncclRemoteError, "a peer did not come within " + std::to_string(timeout()) +
                                        " s, while rank " + std::to_string(rank_) + " waits");
  }
  if (waited_seconds < 0.002) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

bool Room::barrier() {
  if (ended()) return false;
  auto& arrived = reinterpret_cast<Header*>(memory_)->arrived;
  const auto ranks = static_cast<uint64_t>(ranks_);
  const uint64_t target = (arrived.fetch_add(1) / ranks + 1) * ranks;
  const double begin = seconds();
  while (arrived.load() < target) {
    if (!pause(seconds() - begin)) return false;
  }
  return true;
}

bool Room::meet(const Signature& signature) {
  if (ended()) return false;
  seat(rank_).signature = signature;
  if (!barrier()) return false;
  for (int other = 1; other < ranks_; ++other) {
    if (seat(other).signature == seat(0).signature) continue;
    give_up(ncclInvalidUsage, "ranks differ: rank 0 calls " + describe(seat(0).signature) +
                                  "; rank " + std::to_string(other) + " calls " +
                                  describe(seat(other).signature));
    return false;
  }
  return barrier();
}

size_t Room::try_send(int to, const Signature& signature, const std::byte* data, size_t bytes) {
  Box& target = box(rank_, to);
  if (target.bytes.load() != 0) return 0;
  const size_t part = bytes < kBox ? bytes : kBox;
  target.signature = signature;
  std::memcpy(target.data, data, part);
  target.bytes.store(static_cast<uint32_t>(part));
  return part;
}

size_t Room::try_receive(int from, const Signature& signature, std::byte* data, size_t bytes) {
  Box& source = box(from, rank_);
  const size_t part = source.bytes.load();
  if (part == 0) return 0;
  if (source.signature.count != signature.count || source.signature.dtype != signature.dtype) {
    give_up(ncclInvalidUsage, "rank " + std::to_string(from) + " calls " +
                                  describe(source.signature) + "; rank " + std::to_string(rank_) +
                                  " calls " + describe(signature));
    return 0;
  }
  std::memcpy(data, source.data, part < bytes ? part : bytes);
  source.bytes.store(0);
  return part;
}

}  // namespace simt::nccl
