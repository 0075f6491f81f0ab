#include "tenon/distributed/comm/shared_window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tenon/core/check.h"

namespace tenon::comm {
namespace {

std::byte* map_file(int file, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

std::shared_ptr<SharedSegment> SharedSegment::create(size_t bytes, std::string& reason) {
  static std::atomic<int> number{0};
  const std::string name = str("/tenon.", ::getpid(), ".", ++number);
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) {
    reason = str("no shared memory on this node: ", std::strerror(errno));
    return nullptr;
  }
  // Takes the pages now: a full /dev/shm is an error here and not a SIGBUS later.
  const int status = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  std::byte* data = status == 0 ? map_file(file, bytes) : nullptr;
  ::close(file);
  if (data == nullptr) {
    ::shm_unlink(name.c_str());
    reason = str("/dev/shm has no room for ", bytes,
                 " bytes: ", std::strerror(status != 0 ? status : errno));
    return nullptr;
  }
  return std::shared_ptr<SharedSegment>(new SharedSegment(name, data, bytes, true));
}

std::shared_ptr<SharedSegment> SharedSegment::open(const std::string& name, size_t bytes) {
  const int file = ::shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0) return nullptr;
  std::byte* data = map_file(file, bytes);
  ::close(file);
  if (data == nullptr) return nullptr;
  return std::shared_ptr<SharedSegment>(new SharedSegment(name, data, bytes, false));
}

SharedSegment::~SharedSegment() {
  unlink();
  ::munmap(data_, bytes_);
}

void SharedSegment::unlink() {
  if (std::exchange(named_, false)) ::shm_unlink(name_.c_str());
}

Window::Window(uint64_t id, std::shared_ptr<SharedSegment> segment, size_t stride,
               std::vector<int> ranks, std::shared_ptr<WindowRegistry> registry)
    : id_(id),
      segment_(std::move(segment)),
      stride_(stride),
      ranks_(std::move(ranks)),
      registry_(std::move(registry)) {}

Window::~Window() { registry_->remove(*this); }

std::byte* Window::piece(int world_rank) const {
  const auto found = std::ranges::find(ranks_, world_rank);
  if (found == ranks_.end()) return nullptr;
  return base() + static_cast<size_t>(found - ranks_.begin()) * stride_;
}

void WindowRegistry::add(const std::shared_ptr<Window>& window) {
  const std::lock_guard lock(mutex_);
  by_base_[window->base()] = window;
}

void WindowRegistry::remove(const Window& window) {
  const std::lock_guard lock(mutex_);
  by_base_.erase(window.base());
}

std::shared_ptr<Window> WindowRegistry::find(const void* address) const {
  std::shared_ptr<Window> window;  // outlives the lock, as its end takes the lock too
  const auto* byte = static_cast<const std::byte*>(address);
  {
    const std::lock_guard lock(mutex_);
    auto after = by_base_.upper_bound(byte);
    if (after == by_base_.begin()) return nullptr;
    window = std::prev(after)->second.lock();
  }
  return window && byte < window->base() + window->bytes() ? window : nullptr;
}

}  // namespace tenon::comm
