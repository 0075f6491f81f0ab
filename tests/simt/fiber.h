// Fibers for emulated threads: an own stack each and a switch of about ten instructions.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

namespace simt {

struct Fiber {
  void* stack_pointer = nullptr;  // while it is switched away
  char* bottom = nullptr;         // of the stack; ASan wants to know
  size_t bytes = 0;
  void* fake_stack = nullptr;  // ASan's
};

// Returns when something switches back to `from`.
void switch_fiber(Fiber& from, const Fiber& to);

class FiberPool {
 public:
  // Every fiber calls body(argument), which must not return.
  FiberPool(void (*body)(void*), void* argument) : body_(body), argument_(argument) {}
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber* take();
  void give(Fiber* fiber) { free_.push_back(fiber); }
  // All fibers begin anew; what their stacks held is forgotten.
  void reset();
  bool holds(const void* address) const;

 private:
  void prepare(Fiber& fiber, size_t index) const;
  Fiber* make();

  void (*const body_)(void*);
  void* const argument_;
  std::deque<Fiber> fibers_;
  std::vector<Fiber*> free_;
  std::vector<char*> chunks_;
};

// To be called first by the body, and after every switch, so that ASan knows the stack. The fiber
// that was left tells its bounds: the only way to learn those of the OS thread.
void finish_switch(Fiber* entered, Fiber* left);

}  // namespace simt
