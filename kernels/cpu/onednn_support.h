// What all kernels over oneDNN share: engine and stream, primitives that are ready to run, the
// cache that keeps them, and the limit on threads for small work. Compiled to nothing but
// kHaveOneDnn where oneDNN is missing; the kernels then use Eigen.
#pragma once

#include "tenon/core/dtype.h"

// oneDNN's threads come from libgomp, which TSan cannot see into: that build does without both.
#if defined(TENON_HAVE_ONEDNN) && !defined(TENON_SERIAL_PARALLEL)
#define TENON_USE_ONEDNN 1
#endif

namespace tenon::kernels::onednn {

#ifdef TENON_USE_ONEDNN
inline constexpr bool kHaveOneDnn = true;
#else
inline constexpr bool kHaveOneDnn = false;
#endif

// Whether oneDNN computes in `dtype` on this processor.
bool supports(DType dtype);

}  // namespace tenon::kernels::onednn

#ifdef TENON_USE_ONEDNN

#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/check.h"

namespace tenon::kernels::onednn {

using Desc = dnnl::memory::desc;

const dnnl::engine& engine();
const dnnl::stream& stream();  // of the calling thread
dnnl::memory::data_type type_of(DType dtype);
// Attributes with the scratchpad in our hands, so that its memory is counted and reused.
dnnl::primitive_attr attributes(const dnnl::post_ops& post_ops = {});

// Sets the size of the OpenMP team that oneDNN uses on this thread, until the end of the scope:
// one thread where a fork would cost more than it saves.
class ThreadScope {
 public:
  explicit ThreadScope(double flops);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  int threads() const { return threads_; }

 private:
  int threads_;
  int previous_;
};

// A primitive with its arguments; a run only sets their addresses.
class Executable {
 public:
  struct Argument {
    int id;  // DNNL_ARG_…
    Desc desc;
  };
  Executable() = default;
  Executable(dnnl::primitive primitive, const std::vector<Argument>& arguments,
             const Desc& scratchpad = Desc());
  // A copy between two layouts of one shape; `accumulate`: to += from.
  static Executable reorder(const Desc& from, const Desc& to, bool accumulate = false);

  bool defined() const { return static_cast<bool>(primitive_); }
  // One address per argument, in the order of the constructor.
  void run(std::initializer_list<const void*> data);

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  size_t scratchpad_bytes_ = 0;
};

// The numbers that tell one primitive from another.
class Key {
 public:
  template <class... Values>
  void add(Values... values) {
    ((values_[size_++] = static_cast<int64_t>(values)), ...);
  }
  bool operator==(const Key& other) const {
    return size_ == other.size_ &&
           std::memcmp(values_.data(), other.values_.data(), size_ * sizeof(int64_t)) == 0;
  }
  size_t hash() const;

 private:
  std::array<int64_t, 48> values_;
  size_t size_ = 0;
};

// Keeps what is expensive to make. One object per thread: no locks, and ranks that are threads
// never share an Executable, whose addresses change with every run.
template <class Entry>
class Cache {
 public:
  template <class Make>
  Entry& get(const Key& key, Make&& make) {
    if (const auto found = entries_.find(key); found != entries_.end()) return *found->second;
    // Shapes that never come back (sequence lengths) must not pile up; a full start is rare.
    if (entries_.size() >= kCapacity) entries_.clear();
    return *entries_.emplace(key, std::make_unique<Entry>(make())).first->second;
  }

 private:
  static constexpr size_t kCapacity = 512;
  struct Hash {
    size_t operator()(const Key& key) const { return key.hash(); }
  };
  std::unordered_map<Key, std::unique_ptr<Entry>, Hash> entries_;
};

// Runs `body`; an exception of oneDNN becomes an Error of `op`.
template <class Body>
void with_errors(const char* op, Body&& body) {
  try {
    body();
  } catch (const dnnl::error& error) {
    fail(op, "oneDNN failed with status ", static_cast<int>(error.status), ": ", error.what());
  }
}

}  // namespace tenon::kernels::onednn

#endif  // TENON_USE_ONEDNN
