#include "tenon/kernels/cpu/onednn_support.h"

#ifndef TENON_USE_ONEDNN

namespace tenon::kernels::onednn {

bool supports(DType) { return false; }

}  // namespace tenon::kernels::onednn

#else

#include <omp.h>

#include "tenon/core/factory.h"
#include "tenon/core/rank_context.h"

namespace tenon::kernels::onednn {
namespace {

// A fork and join of a spinning team costs 1-2 us, as long as this work on one core.
constexpr double kParallelFlops = 1e6;

}  // namespace

bool supports(DType dtype) {
  if (dtype == DType::f32) return true;
  if (dtype != DType::bf16) return false;
  static const bool has_avx512 = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (isa & wanted) == wanted;
  }();
  return has_avx512;
}

const dnnl::engine& engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);  // outlives all
  return *engine;
}

const dnnl::stream& stream() {
  thread_local const dnnl::stream stream(engine());
  return stream;
}

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::primitive_attr attributes(const dnnl::post_ops& post_ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post_ops);
  return attributes;
}

ThreadScope::ThreadScope(double flops) : previous_(omp_get_max_threads()) {
  threads_ = flops < kParallelFlops || omp_in_parallel() ? 1 : num_threads();
  if (threads_ != previous_) omp_set_num_threads(threads_);
}

ThreadScope::~ThreadScope() {
  if (threads_ != previous_) omp_set_num_threads(previous_);
}

Executable::Executable(dnnl::primitive primitive, const std::vector<Argument>& arguments,
                       const Desc& scratchpad)
    : primitive_(std::move(primitive)), scratchpad_bytes_(scratchpad.get_size()) {
  auto add = [this](int id, const Desc& desc) {
    memories_.push_back(dnnl::memory(desc, engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({id, memories_.back().get()});
  };
  for (const auto& argument : arguments) add(argument.id, argument.desc);
  if (scratchpad_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, scratchpad);
}

Executable Executable::reorder(const Desc& from, const Desc& to, bool accumulate) {
  dnnl::post_ops post_ops;
  if (accumulate) post_ops.append_sum(1.0f);
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes(post_ops));
  return Executable(dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
                    desc.scratchpad_desc());
}

void Executable::run(std::initializer_list<const void*> data) {
  size_t i = 0;
  for (const void* address : data) memories_[i++].set_data_handle(const_cast<void*>(address));
  Tensor scratchpad;
  if (scratchpad_bytes_ > 0) {
    scratchpad =
        empty({static_cast<int64_t>(scratchpad_bytes_)}, {DType::u8, kCpu, Category::other});
    memories_[i].set_data_handle(scratchpad.raw_data());
  }
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()),
                             arguments_.data()),
      "could not execute a primitive");
}

size_t Key::hash() const {
  uint64_t hash = size_;
  for (size_t i = 0; i < size_; ++i) {
    hash = (hash ^ static_cast<uint64_t>(values_[i])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace tenon::kernels::onednn

#endif
