// Times one collective over sizes, as nccl-tests does: every iteration starts together and on
// freshly written data, the slowest rank counts, results are checked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/distributed/comm/process_group.h"
#include "tenon/tools/mpi_peer.h"
#include "tenon/tools/run_log.h"

namespace tenon::tools {

struct CollectiveOptions {
  std::string collective = "all_reduce";
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int64_t min_bytes = 8;
  int64_t max_bytes = 128 << 20;
  double factor = 2;
  int iters = 20;
  int warmup = 5;
  int check = 1;         // iterations whose result is checked
  bool window = true;    // memory of the group; false: ordinary memory
  bool async = false;    // through the communication thread
  bool compare = false;  // with MPI's own
};

// Microseconds of the iterations of one placement, the slowest rank of each; empty when the
// collective has no such placement.
struct CollectiveTimes {
  std::vector<double> us = {};
  int64_t wrong = 0;  // elements, over all ranks
  double quantile(double q) const;
};

struct CollectiveRow {
  int64_t bytes = 0;  // the larger buffer of a rank
  int64_t count = 0;  // elements of all_reduce and broadcast, otherwise of a rank's part
  CollectiveTimes out_of_place = {};
  CollectiveTimes in_place = {};
  CollectiveTimes mpi =
      {};  // the better of its two placements, in iterations that alternate with ours
};

class CollectiveBench {
 public:
  // Collective; memory for the largest size is taken here.
  CollectiveBench(ProcessGroup group, const CollectiveOptions& options);

  // The sizes that the options ask for, rounded to whole elements per rank.
  std::vector<int64_t> sizes() const;
  CollectiveRow measure(int64_t bytes);

  // Bytes per second that cross a link, per byte per second of the algorithm.
  double bus_factor() const;
  bool has_root() const { return options_.collective == "broadcast"; }
  bool reduces() const;

 private:
  // One way of running the collective.
  struct Placement {
    std::function<void()> prepare;
    std::function<void()> run;
    Tensor result = {};  // undefined: not checked
  };
  Tensor make(int64_t elements);
  Tensor first(const Tensor& tensor, int64_t count) const { return tensor.alias(0, {count}); }
  Placement in_place(int64_t count);
  Placement out_of_place(int64_t count);
  Work launch(const Tensor& output, const Tensor& input);
  void send_around(const Tensor& output, const Tensor& input);
  std::vector<CollectiveTimes> alternate(const std::vector<Placement>& placements, int64_t count);
  void refill(const Tensor& tensor) const;
  double expected(int64_t i, int64_t count) const;
  int64_t count_wrong(const Tensor& on_device, int64_t count) const;
  bool has_parts() const;

  ProcessGroup group_;
  const CollectiveOptions options_;
  Call call_;
  Tensor pattern_;  // what every input begins with
  Tensor whole_;
  Tensor other_;
  Tensor peer_whole_;
  Tensor peer_other_;
  std::unique_ptr<MpiPeer> peer_;
};

// A row as JSON: times, their percentiles, bandwidths.
Json to_json(const CollectiveRow& row, const CollectiveOptions& options, double bus_factor);

}  // namespace tenon::tools
