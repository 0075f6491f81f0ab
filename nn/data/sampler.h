// Which samples each rank takes in each step. The order of an epoch depends on seed and epoch only,
// and step k takes the k-th run of ranks * batch samples of it: so N ranks with batch B use in step
// k exactly what one rank with batch N B uses. Every sample is used once per epoch, without padding
// and without leaving any out; in a smaller last step the ranks' shares differ by at most one and
// some may be empty. With shuffle = false this is the sampler for evaluation.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon {

struct SamplerOptions {
  int64_t batch = 1;  // samples per rank and step
  int rank = 0;
  int ranks = 1;
  uint64_t seed = 0;
  bool shuffle = true;
};

// Where a sampler stands: the next step it gives. Saved and restored for an exact resume.
struct SamplerPosition {
  int64_t epoch = 0;
  int64_t step = 0;
  bool operator==(const SamplerPosition&) const = default;
};

struct SamplerStep {
  std::vector<int64_t> samples;  // of this rank
  int64_t global = 0;            // samples of all ranks in this step
  SamplerPosition position;
  bool ends_epoch = false;
  int ranks = 1;
  int64_t local() const { return static_cast<int64_t>(samples.size()); }
  // What to multiply a rank's mean loss by, so that the mean of all ranks' gradients is that of
  // the global batch.
  double loss_scale() const {
    return static_cast<double>(local()) * ranks / static_cast<double>(global);
  }
};

class DistributedSampler {
 public:
  explicit DistributedSampler(int64_t size, SamplerOptions options = {});

  // The step at position(), which moves on, after the last step of an epoch to the next epoch.
  SamplerStep next();
  SamplerPosition position() const { return position_; }
  void set_position(SamplerPosition position);

  int64_t size() const { return size_; }
  int64_t steps_per_epoch() const;

 private:
  void order_epoch(int64_t epoch);

  int64_t size_;
  SamplerOptions options_;
  SamplerPosition position_;
  int64_t ordered_epoch_ = -1;
  std::vector<int64_t> order_;  // of ordered_epoch_
};

}  // namespace tenon
