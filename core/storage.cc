#include "tenon/core/storage.h"

#include "tenon/core/check.h"
#include "tenon/core/rank_context.h"

namespace tenon {

Storage::Storage(size_t bytes, Device device, Category category,
                 std::shared_ptr<MemorySource> source)
    : bytes_(bytes),
      device_(device),
      category_(category),
      source_(source ? std::move(source) : caching_source(device)),
      counters_(rank_context().memory) {
  materialize();
}

Storage::~Storage() { release(); }

void Storage::materialize() {
  if (data_ != nullptr) return;
  counters_->add(category_, bytes_);
  try {
    data_ = source_->allocate(bytes_);
  } catch (...) {
    counters_->subtract(category_, bytes_);
    throw;
  }
}

void Storage::release() {
  if (data_ == nullptr) return;
  source_->deallocate(data_, bytes_);
  data_ = nullptr;
  counters_->subtract(category_, bytes_);
}

void Storage::set_category(Category category) {
  if (data_ != nullptr) counters_->move(category_, category, bytes_);
  category_ = category;
}

void Storage::throw_released() const {
  fail("storage", "read of released memory: ", bytes_, " bytes of ", name_of(category_), " on ",
       device_, ", wanted materialized memory");
}

}  // namespace tenon
