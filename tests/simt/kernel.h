// What emulated device code is made of, independent of CUDA's names: where a thread is, shared
// arrays, warp exchanges, barriers, and the launch. device.h gives them CUDA's names.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenon/core/cuda/check.h"

namespace simt {

struct Site {
  const char* file;
  int line;
};

// Of the running emulated thread; set at every switch.
struct Coordinates {
  uint3 thread;
  uint3 block;
  uint3 block_size;
  uint3 grid_size;
  unsigned number;  // of the thread in its block
};
// One for each OS thread, not thread_local: that costs a call at each use.
extern __thread Coordinates here __attribute__((tls_model("initial-exec")));

inline unsigned lane() { return here.number & 31u; }

// One for each SIMT_SHARED declaration and instantiation; its address is the array's identity.
struct SharedSite {
  const char* name;
  size_t bytes;
  size_t alignment;
};
void* shared_array(const SharedSite* site);
void* dynamic_shared();

enum class Vote { none, count, all, any };
int block_barrier(Vote vote, int predicate, Site site);

// What a lane brings to a warp function. When all lanes of the mask are there, `compute` gets what
// all of them brought and fills in the results; it returns the lanes that asked for the value of
// one that does not take part.
struct WarpCall {
  const char* name;
  unsigned mask;
  uint64_t value;
  unsigned argument;
  unsigned (*compute)(const WarpCall* lanes, unsigned present, uint64_t* results);
  Site site;
};
uint64_t warp_exchange(const WarpCall& call);

// 16 bytes that a kernel copies to shared memory while it goes on.
struct AsyncCopy {
  void* to;
  const void* from;  // null: zeros
};
// Of the running thread.
void add_copy(const AsyncCopy& copy);
void commit_copies();
// The next copy to make until no more than `pending` groups are left; false if there is none.
bool next_copy(int pending, AsyncCopy& copy);

// Before an atomic operation: in random schedules others may go first.
void before_atomic(const void* address, size_t bytes, Site site);
// __threadfence and its kin.
void fence();
// An error in device code (__trap).
void trap(Site site);

// A kernel with its arguments. Device code may read it, and nothing else of the host's.
class KernelCall {
 public:
  explicit KernelCall(size_t bytes, size_t parameter_bytes)
      : bytes(bytes), parameter_bytes(parameter_bytes) {}
  virtual ~KernelCall() = default;
  virtual void run() const = 0;

  const size_t bytes;            // of this object
  const size_t parameter_bytes;  // of the kernel's parameters
};

template <class... Parameters>
class BoundKernel final : public KernelCall {
 public:
  BoundKernel(void (*kernel)(Parameters...), Parameters... parameters)
      : KernelCall(sizeof(*this), (sizeof(Parameters) + ... + 0)),
        kernel_(kernel),
        parameters_(parameters...) {}
  void run() const override { std::apply(kernel_, parameters_); }

 private:
  void (*const kernel_)(Parameters...);
  const std::tuple<Parameters...> parameters_;
};

cudaError_t enqueue_kernel(const char* op, dim3 grid, dim3 block, size_t shared_bytes,
                           cudaStream_t stream, std::shared_ptr<const KernelCall> call);

template <class... Parameters, class... Arguments>
void launch(const char* op, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const cudaError_t error =
      enqueue_kernel(op, grid, block, shared_bytes, stream,
                     std::make_shared<const BoundKernel<std::remove_cv_t<Parameters>...>>(
                         kernel, static_cast<std::remove_cv_t<Parameters>>(arguments)...));
  tenon::cuda::check_launch(error, op, grid, block, shared_bytes, stream);
}

}  // namespace simt
