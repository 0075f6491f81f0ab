// The base of optimizers: parameter groups, state tensors by name, and the batching that lets a
// fused kernel update many parameters in one pass. Knows leaf tensors, no modules.
//   AdamW optimizer(model.parameters(), {.lr = 3e-4});
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/tensor.h"

namespace tenon {

// Parameters that share their options; what is absent is the optimizer's own.
struct ParamGroup {
  std::vector<NamedTensor> parameters;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

// All parameters under the optimizer's own options.
inline std::vector<ParamGroup> one_group(std::vector<NamedTensor> parameters) {
  std::vector<ParamGroup> groups(1);
  groups[0].parameters = std::move(parameters);
  return groups;
}

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter whose gradient is present.
  void step();
  // Forgets the gradients; their memory stays.
  void zero_grad();

  // Of one group; set_lr without a group sets all of them.
  double lr(size_t group = 0) const;
  void set_lr(double lr);
  void set_lr(double lr, size_t group);
  size_t group_count() const { return groups_.size(); }
  // All parameters, group after group.
  std::vector<NamedTensor> parameters() const;

  // The state by name: "fc1.weight.momentum", and "fc1.weight.step" (i64), the number of updates so
  // far. Tensors but the latter are the live ones. Learning rates are not part of it: a schedule or
  // the options give them.
  std::vector<NamedTensor> state_dict() const;
  // Copies a state in; names, shapes and dtypes must match exactly, else one Error lists all
  // differences and nothing is changed.
  void load_state_dict(const std::vector<NamedTensor>& state);

 protected:
  struct Rates {
    double lr = 0;
    double weight_decay = 0;
  };
  // Parameters of one group with one dtype, device and number of updates.
  struct Batch {
    std::vector<Tensor> parameters;
    std::vector<Tensor> gradients;
    std::vector<std::vector<Tensor>> states;  // by state name, then by parameter
    int64_t step = 0;                         // this update's number, from 1
    Rates rates;
    DeviceType device() const { return parameters.front().device().type; }
  };

  // `name` begins errors. State tensors, one per name and parameter, are made now, as zeros.
  Optimizer(const char* name, std::vector<ParamGroup> groups, Rates defaults,
            std::vector<std::string> state_names);
  // Calls the fused kernel.
  virtual void update(const Batch& batch) = 0;

 private:
  struct Entry {
    NamedTensor parameter;
    std::vector<Tensor> states;  // none yet while the parameter needs no gradient
    int64_t step = 0;            // updates so far
  };
  struct Group {
    std::vector<Entry> entries;
    Rates rates;
  };

  Group make_group(ParamGroup group, Rates defaults) const;
  void make_states(Entry& entry) const;
  void check_unchanged(const Entry& entry) const;
  // Counts an update of each parameter that has a gradient, and sorts them into batches.
  std::vector<Batch> next_batches(Group& group) const;
  template <class Visit>
  void for_each_entry(const Visit& visit);

  const char* name_;
  std::vector<std::string> state_names_;
  std::vector<Group> groups_;
};

}  // namespace tenon
