// The CPU as a device: huge-page memory, memcpy, and streams on which everything is immediate.
#include <malloc.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tenon/core/runtime.h"
#include "tenon/core/trace.h"

namespace tenon {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class CpuRuntime : public Runtime {
 public:
  CpuRuntime() {
    // Buffers that libraries malloc and free every step must not fault their pages in each time.
    ::mallopt(M_MMAP_MAX, 0);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
    ::mallopt(M_TOP_PAD, 64 << 20);
  }
  void* allocate(int, size_t bytes) override {
    // Ask for one page more and give the unaligned ends back, so that huge pages fit.
    const size_t wanted = bytes + kHugePage;
    void* const raw =
        ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(raw);
    const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (skip > 0) ::munmap(begin, skip);
    if (wanted - skip > bytes) ::munmap(begin + skip + bytes, wanted - skip - bytes);
    ::madvise(begin + skip, bytes, MADV_HUGEPAGE);  // a hint: plain pages work too
    return begin + skip;
  }
  void deallocate(int, void* data, size_t bytes) override { ::munmap(data, bytes); }
  std::string memory_report(int) override { return std::strerror(errno); }
  void copy(void* to, const void* from, size_t bytes, Stream) override {
    std::memmove(to, from, bytes);
  }
  void copy_async(void* to, const void* from, size_t bytes, Stream) override {
    std::memmove(to, from, bytes);
  }
  void zero(void* data, size_t bytes, Stream) override { std::memset(data, 0, bytes); }
  void* allocate_pinned(size_t bytes) override { return allocate(0, bytes); }
  void deallocate_pinned(void* data, size_t bytes) override { deallocate(0, data, bytes); }
  Stream create_stream(int, StreamPriority) override { return {kCpu, ++streams_}; }
  StreamEvent record_event(Stream stream) override { return {stream.device}; }
  StreamEvent record_timed_event(Stream stream) override {
    return {stream.device, std::make_shared<int64_t>(now_ns())};
  }
  int64_t elapsed_ns(const StreamEvent& from, const StreamEvent& to) override {
    return *static_cast<const int64_t*>(to.handle.get()) -
           *static_cast<const int64_t*>(from.handle.get());
  }
  void wait_event(Stream, const StreamEvent&) override {}
  void synchronize(const StreamEvent&) override {}
  void synchronize(Stream) override {}
  int device_count() const override { return 1; }
  std::string describe(int) override { return "cpu"; }

 private:
  std::atomic<uint64_t> streams_{0};
};

[[maybe_unused]] const bool registered = set_runtime(DeviceType::cpu, new CpuRuntime());

}  // namespace
}  // namespace tenon
