// Handles of a library with what is cached beside them. A thread has one for itself while it is
// inside a call, so neither the library nor the cache needs a lock; one thread meets the same one
// again. They stay until the process ends: at exit the driver may be gone before them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/core/check.h"
#include "tenon/core/device.h"

namespace tenon::kernels::cuda {

// `Context` is made from a Device, which is the calling thread's current one.
template <class Context>
class LibraryPool {
 public:
  class Loan {
   public:
    Loan(LibraryPool& pool, Device device, std::unique_ptr<Context> context)
        : pool_(pool), device_(device), context_(std::move(context)) {}
    ~Loan() { pool_.give_back(device_, std::move(context_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    Context& operator*() const { return *context_; }
    Context* operator->() const { return context_.get(); }

   private:
    LibraryPool& pool_;
    const Device device_;
    std::unique_ptr<Context> context_;
  };

  Loan take(Device device) {
    Shelf& shelf = shelf_of(device);
    {
      const std::lock_guard lock(shelf.mutex);
      if (!shelf.free.empty()) {
        std::unique_ptr<Context> context = std::move(shelf.free.back());
        shelf.free.pop_back();
        return Loan(*this, device, std::move(context));
      }
    }
    return Loan(*this, device, std::make_unique<Context>(device));
  }

 private:
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<Context>> free;
  };

  Shelf& shelf_of(Device device) {
    TENON_ASSERT(device.index >= 0 && static_cast<size_t>(device.index) < shelves_.size());
    return shelves_[static_cast<size_t>(device.index)];
  }
  void give_back(Device device, std::unique_ptr<Context> context) {
    Shelf& shelf = shelf_of(device);
    const std::lock_guard lock(shelf.mutex);
    shelf.free.push_back(std::move(context));
  }

  std::array<Shelf, 64> shelves_;
};

}  // namespace tenon::kernels::cuda
