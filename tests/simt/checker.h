// The access checker: every access of a kernel, found by the compiler's instrumentation
// (-fsanitize=thread, with our own call-outs), against what is known of that memory. For every four
// bytes: which are allocated and initialised, and who wrote and read them last. It finds accesses
// outside of allocations, reads of what nobody wrote, and pairs of accesses that nothing orders: in
// a block, between blocks, and between the tasks of streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "tenon/tests/simt/clock.h"
#include "tenon/tests/simt/machine.h"
#include "tenon/tests/simt/stream_task.h"

namespace simt::checker {

inline constexpr uint32_t kManyBlocks = 0xffffffffu;
inline constexpr uint32_t kNoBlock = 0xfffffffeu;  // not in a kernel

// Who touched memory last, and when.
struct Record {
  uint32_t task = 0;   // index in the table of tasks; 0: nobody
  uint32_t block = 0;  // number in the grid
  uint32_t epoch = 0;  // barriers that the block had passed
  uint16_t thread : 10 = 0;
  uint16_t bytes : 4 = 0;  // which of the four, as bits
  uint16_t many_threads : 1 = 0;
  uint16_t many_warps : 1 = 0;
  uint16_t warp_epoch : 15 = 0;  // whole-warp __syncwarps, the last bits
  uint16_t atomic : 1 = 0;
};
static_assert(sizeof(Record) == 16);

struct Cell {
  Record writer;
  Record readers[2];  // of two tasks that nothing orders
};

// Of each four bytes: the low bits say which are initialised, the high ones which are allocated.
using State = uint8_t;

// The state and the cells of a range of memory; pages come as they are used.
class Shadow {
 public:
  explicit Shadow(size_t bytes);
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  State& state(size_t offset) { return states_[offset / 4]; }
  Cell& cell(size_t offset) { return cells_[offset / 4]; }
  void set(size_t offset, size_t bytes, bool allocated, bool initialised);
  // Keeps what is initialised, so that a later access is known to be one after a free.
  void set_freed(size_t offset, size_t bytes);

 private:
  size_t granules_;
  State* states_;
  Cell* cells_;
};

// Up to where another block's accesses are ordered before this block's.
struct Release {
  uint32_t epoch;
  uint16_t thread;
};
using Releases = std::unordered_map<uint32_t, Release>;

// A running kernel; the machine's, and kept for its next one.
struct Kernel {
  explicit Kernel(Machine& machine) : machine(machine), shared(SharedArena::kBytes) {}

  Machine& machine;
  Shadow shared;
  uint32_t task = 0;
  const Task* stream_task = nullptr;
  std::set<std::pair<Kind, const void*>> reported;
  // Atomics after a __threadfence hand a block's earlier writes to blocks that come later.
  bool fence_seen = false;
  bool block_fenced = false;
  std::unordered_map<const void*, Releases> released;
  Releases known;
};

// The kernel that the calling OS thread runs, or nullptr.
extern __thread Kernel* running_kernel __attribute__((tls_model("initial-exec")));

struct Touch {
  const void* address;
  size_t bytes;
  bool write;
  bool atomic;
  const void* code;  // where in the program
};

// What the call-outs do in kernels and, for pinned memory, in host code.
void touch_in_kernel(Kernel& kernel, const Touch& touch);
void touch_in_host_code(const Touch& touch);
// Whether host code has to tell of the access.
bool concerns_host(const void* address);

// Enters the checker's hooks; called once.
void install();

// The table of tasks.
uint32_t number_of(const Task& task);
bool comes_before(uint32_t task, const Clock& clock);
std::string name_of(uint32_t task);

// One at a time: a kernel, or a library task's accesses.
std::recursive_mutex& mutex();

// Texts of reports: an address, a record, a place in the code.
std::string describe(const Kernel* kernel, const void* address);
std::string describe(const Record& record, bool shared);
std::string describe_code(const void* code);

}  // namespace simt::checker
