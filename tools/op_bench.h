// The ops that bench_ops times, each as one entry: a name and a function that prepares its tensors
// and returns how to run it once and how much work that is.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tenon/core/rank_context.h"
#include "tenon/core/tensor.h"

namespace tenon::tools {

// Where the ops run.
inline DeviceType op_device() { return default_device().type; }

struct OpRun {
  std::string shape;
  double work = 0;        // bytes that cross memory at least, or floating-point operations
  bool computes = false;  // work counts operations
  std::function<void()> run;
};

// Makes the tensors of one op.
struct OpSetup {
  DType dtype = DType::f32;
  int64_t size = 0;       // elements of pointwise ops
  int64_t sequences = 8;  // of the GPT's ops
  int64_t tokens = 256;   // of each sequence

  // Rows of kRow elements that make up `size`.
  Shape rows() const;
  static constexpr int64_t kRow = 1024;
  int64_t gpt_rows() const { return sequences * tokens; }

  Tensor random(const Shape& shape) const { return random(shape, dtype); }
  Tensor random(const Shape& shape, DType type) const;
  Tensor blank(const Shape& shape) const { return blank(shape, dtype); }
  Tensor blank(const Shape& shape, DType type) const;
  // Of the compute dtype: statistics, optimizer state.
  Tensor state(const Shape& shape) const;
  // Shape (N, C, H, W), channels-last in memory.
  Tensor image(const Shape& shape) const;
  // i64 in [0, limit).
  Tensor ids(int64_t count, int64_t limit) const;
};

struct OpEntry {
  std::string name;
  std::function<OpRun(const OpSetup&)> setup;
  std::vector<DType> dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16};

  bool exists_for(DType dtype) const;
};

// `touched`: the tensors read or written; one that is both stands there twice.
OpRun moves(const Shape& shape, std::initializer_list<Tensor> touched, std::function<void()> run);
OpRun computes(std::string shape, double flops, std::function<void()> run);

// By how they are limited.
std::vector<OpEntry> memory_ops();
std::vector<OpEntry> compute_ops();
// Those of a transformer's step, of both kinds.
std::vector<OpEntry> gpt_ops();

}  // namespace tenon::tools
