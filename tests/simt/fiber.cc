#include "tenon/tests/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "the switch is written for x86-64"
#endif

// Saves the registers that a function must keep, on the stack that is left.
extern "C" void simt_switch_stack(void** save, void* load);
extern "C" void simt_fiber_entry();
asm(R"(
.text
.p2align 4
.globl simt_switch_stack
.hidden simt_switch_stack
.type simt_switch_stack, @function
simt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch_stack, .-simt_switch_stack

.globl simt_fiber_entry
.hidden simt_fiber_entry
.type simt_fiber_entry, @function
simt_fiber_entry:
  movq %r13, %rdi
  xorl %ebp, %ebp
  callq *%r12
  ud2
.size simt_fiber_entry, .-simt_fiber_entry
)");

namespace simt {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStack = 256 << 10;  // red zones make frames large
#else
constexpr size_t kStack = 64 << 10;
#endif
constexpr size_t kGuard = 4096;
constexpr size_t kPerChunk = 32;

}  // namespace

void finish_switch([[maybe_unused]] Fiber* entered, [[maybe_unused]] Fiber* left) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(entered->fake_stack, &bottom, &bytes);
  if (left != nullptr) {
    left->bottom = static_cast<char*>(const_cast<void*>(bottom));
    left->bytes = bytes;
  }
#endif
}

void switch_fiber(Fiber& from, const Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  simt_switch_stack(&from.stack_pointer, to.stack_pointer);
}

FiberPool::~FiberPool() {
  for (char* chunk : chunks_) munmap(chunk, kPerChunk * (kStack + kGuard));
}

void FiberPool::prepare(Fiber& fiber, size_t index) const {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(fiber.bottom, fiber.bytes);
#endif
  fiber.fake_stack = nullptr;
  // Tops at the same offset in their pages would share a few sets of the cache.
  char* top = fiber.bottom + fiber.bytes - 64 * (index % 32);
  auto* frame = reinterpret_cast<void**>(top) - 9;  // so that the body finds it aligned
  frame[0] = nullptr;                               // r15
  frame[1] = nullptr;                               // r14
  frame[2] = argument_;                             // r13
  frame[3] = reinterpret_cast<void*>(body_);        // r12
  frame[4] = nullptr;                               // rbx
  frame[5] = nullptr;                               // rbp
  frame[6] = reinterpret_cast<void*>(&simt_fiber_entry);
  frame[7] = nullptr;
  frame[8] = nullptr;
  fiber.stack_pointer = frame;
}

Fiber* FiberPool::make() {
  const size_t index = fibers_.size();
  if (index % kPerChunk == 0) {
    void* chunk = mmap(nullptr, kPerChunk * (kStack + kGuard), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (chunk == MAP_FAILED) {
      std::perror("simt: no memory for stacks");
      std::abort();
    }
    chunks_.push_back(static_cast<char*>(chunk));
  }
  char* start = chunks_.back() + (index % kPerChunk) * (kStack + kGuard);
  mprotect(start, kGuard, PROT_NONE);
  Fiber& fiber = fibers_.emplace_back();
  fiber.bottom = start + kGuard;
  fiber.bytes = kStack;
  prepare(fiber, index);
  return &fiber;
}

Fiber* FiberPool::take() {
  if (free_.empty()) return make();
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void FiberPool::reset() {
  free_.clear();
  for (size_t i = 0; i < fibers_.size(); ++i) {
    prepare(fibers_[i], i);
    free_.push_back(&fibers_[i]);
  }
}

bool FiberPool::holds(const void* address) const {
  for (const char* chunk : chunks_) {
    const auto* a = static_cast<const char*>(address);
    if (a >= chunk && a < chunk + kPerChunk * (kStack + kGuard)) return true;
  }
  return false;
}

}  // namespace simt
