// Open MPI's own reductions, to compare with. The only file of the tools that calls MPI.
#pragma once

#include <memory>
#include <string>

#include "tenon/distributed/comm/process_group.h"

namespace tenon::tools {

class MpiPeer {
 public:
  // `collective` is all_reduce or reduce_scatter; an Error that says so for anything MPI has no
  // counterpart of.
  MpiPeer(const std::string& collective, DType dtype, ReduceOp op);
  ~MpiPeer();

  // Reduces `whole` in place, or into `output` (for reduce_scatter: this rank's part). Blocks.
  void run_in_place(const Tensor& whole);
  void run(const Tensor& output, const Tensor& whole);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::tools
