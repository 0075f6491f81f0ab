// Memory that the processes of one node share. A window holds one equal piece per rank; each rank
// uses its own piece as ordinary tensor memory and its peers reach it directly.
//
// It is POSIX shared memory and not an MPI window, because those can only be freed by all ranks
// together, while tensors end their lives on each rank by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/core/memory_source.h"

namespace tenon::comm {

// A piece of memory with a name, by which other processes of the node find it.
class SharedSegment {
 public:
  // New zeroed memory under an unused name; null and a reason when the node has no room for it.
  static std::shared_ptr<SharedSegment> create(size_t bytes, std::string& reason);
  // The memory that another process created; null when this process cannot map it.
  static std::shared_ptr<SharedSegment> open(const std::string& name, size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  // Removes the name once all have opened it, so that nothing stays behind after a crash.
  void unlink();

 private:
  SharedSegment(std::string name, std::byte* data, size_t bytes, bool owner)
      : name_(std::move(name)), data_(data), bytes_(bytes), named_(owner) {}

  const std::string name_;
  std::byte* const data_;
  const size_t bytes_;
  bool named_;
};

class WindowRegistry;

class Window {
 public:
  // `ranks[i]` is the number in the world of the owner of piece i, `stride` the bytes of a piece.
  Window(uint64_t id, std::shared_ptr<SharedSegment> segment, size_t stride, std::vector<int> ranks,
         std::shared_ptr<WindowRegistry> registry);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  uint64_t id() const { return id_; }
  std::byte* base() const { return segment_->data(); }
  size_t bytes() const { return stride_ * ranks_.size(); }
  // The piece of a rank of the world; null when it has none.
  std::byte* piece(int world_rank) const;

 private:
  const uint64_t id_;
  const std::shared_ptr<SharedSegment> segment_;
  const size_t stride_;
  const std::vector<int> ranks_;
  const std::shared_ptr<WindowRegistry> registry_;
};

// The windows of this process, by address.
class WindowRegistry {
 public:
  void add(const std::shared_ptr<Window>& window);
  void remove(const Window& window);
  // The window that holds `address`, or null.
  std::shared_ptr<Window> find(const void* address) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<Window>> by_base_;
};

// One rank's piece as the memory of one Storage. The piece stays mapped while the storage lives,
// released or not.
class WindowSource : public MemorySource {
 public:
  WindowSource(std::shared_ptr<Window> window, std::byte* piece)
      : window_(std::move(window)), piece_(piece) {}
  void* allocate(size_t) override { return piece_; }
  void deallocate(void*, size_t) override {}

 private:
  const std::shared_ptr<Window> window_;
  std::byte* const piece_;
};

}  // namespace tenon::comm
