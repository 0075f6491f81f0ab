#include "tenon/optim/optimizer.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tenon/core/factory.h"
#include "tenon/core/named_tensors.h"
#include "tenon/kernels/copy.h"
#include "tenon/optim/check_options.h"

namespace tenon {
namespace {

constexpr const char* kStep = "step";

std::string state_name(const NamedTensor& parameter, const std::string& state) {
  return parameter.name + "." + state;
}

// Kernels walk parameter, gradient and state in one order.
Tensor contiguous_gradient(const Tensor& gradient) {
  if (gradient.is_contiguous()) return gradient;
  Tensor copy = empty(gradient.shape(), {gradient.dtype(), gradient.device()});
  kernels::copy(gradient.device().type, gradient, copy);
  return copy;
}

}  // namespace

Optimizer::Optimizer(const char* name, std::vector<ParamGroup> groups, Rates defaults,
                     std::vector<std::string> state_names)
    : name_(name), state_names_(std::move(state_names)) {
  for (ParamGroup& group : groups) groups_.push_back(make_group(std::move(group), defaults));
  std::set<std::string> names;
  std::vector<Tensor> seen;
  for_each_entry([&](Entry& entry) {
    const auto& [parameter_name, tensor] = entry.parameter;
    TENON_CHECK(names.insert(parameter_name).second, name_,
                "a parameter given twice: ", parameter_name);
    for (const Tensor& other : seen) {
      TENON_CHECK(!other.is_same(tensor), name_, "a parameter given twice: the second time as ",
                  parameter_name);
    }
    seen.push_back(tensor);
  });
  TENON_CHECK(!names.empty(), name_, "no parameters: given an empty list");
}

template <class Visit>
void Optimizer::for_each_entry(const Visit& visit) {
  for (Group& group : groups_) {
    for (Entry& entry : group.entries) visit(entry);
  }
}

Optimizer::Group Optimizer::make_group(ParamGroup group, Rates defaults) const {
  Group result;
  result.rates = {group.lr.value_or(defaults.lr),
                  group.weight_decay.value_or(defaults.weight_decay)};
  check_not_negative(name_, "lr", result.rates.lr);
  check_not_negative(name_, "weight_decay", result.rates.weight_decay);
  for (NamedTensor& parameter : group.parameters) {
    const Tensor& tensor = parameter.tensor;
    TENON_CHECK(tensor.defined() && is_floating(tensor.dtype()), name_, "bad parameter ",
                parameter.name, ": given ", describe(tensor), ", wanted a floating tensor");
    TENON_CHECK(!tensor.autograd() || tensor.autograd()->is_leaf(), name_, "bad parameter ",
                parameter.name, ": it was computed, wanted a leaf");
    TENON_CHECK(tensor.is_contiguous(), name_, "bad parameter ", parameter.name,
                ": it is not contiguous: strides ", tensor.strides());
    result.entries.push_back({std::move(parameter), {}, 0});
    if (result.entries.back().parameter.tensor.requires_grad()) {
      make_states(result.entries.back());
    }
  }
  return result;
}

void Optimizer::make_states(Entry& entry) const {
  const Tensor& tensor = entry.parameter.tensor;
  while (entry.states.size() < state_names_.size()) {
    entry.states.push_back(zeros(
        tensor.shape(), {compute_dtype(tensor.dtype()), tensor.device(), Category::optimizer}));
  }
}

void Optimizer::check_unchanged(const Entry& entry) const {
  const auto& [name, tensor] = entry.parameter;
  for (const Tensor& state : entry.states) {
    TENON_CHECK(state.shape() == tensor.shape() && state.device() == tensor.device() &&
                    state.dtype() == compute_dtype(tensor.dtype()),
                name_, "parameter ", name, " has changed since the optimizer was made: now ",
                describe(tensor), ", its state is ", describe(state),
                " (convert or move the module first)");
  }
}

std::vector<Optimizer::Batch> Optimizer::next_batches(Group& group) const {
  std::map<std::tuple<DType, DType, DeviceType, int, int64_t>, Batch> batches;
  for (Entry& entry : group.entries) {
    const Tensor& tensor = entry.parameter.tensor;
    const Tensor gradient = tensor.grad();
    if (!gradient.defined()) continue;
    make_states(entry);
    check_unchanged(entry);
    ++entry.step;
    if (tensor.numel() == 0) continue;
    Batch& batch = batches[{tensor.dtype(), gradient.dtype(), tensor.device().type,
                            tensor.device().index, entry.step}];
    batch.step = entry.step;
    batch.rates = group.rates;
    batch.parameters.push_back(tensor);
    batch.gradients.push_back(contiguous_gradient(gradient));
    batch.states.resize(state_names_.size());
    for (size_t i = 0; i < entry.states.size(); ++i) batch.states[i].push_back(entry.states[i]);
  }
  std::vector<Batch> result;
  for (auto& [key, batch] : batches) result.push_back(std::move(batch));
  return result;
}

void Optimizer::step() {
  for (Group& group : groups_) {
    for (const Batch& batch : next_batches(group)) {
      update(batch);
      for (const Tensor& parameter : batch.parameters) parameter.bump_version();
    }
  }
}

void Optimizer::zero_grad() {
  for_each_entry([](Entry& entry) {
    const auto& record = entry.parameter.tensor.autograd();
    if (record) record->zero_grad();
  });
}

double Optimizer::lr(size_t group) const {
  TENON_CHECK(group < groups_.size(), name_, "no such group: given ", group, ", there are ",
              groups_.size());
  return groups_[group].rates.lr;
}

void Optimizer::set_lr(double lr) {
  for (size_t group = 0; group < groups_.size(); ++group) set_lr(lr, group);
}

void Optimizer::set_lr(double lr, size_t group) {
  check_not_negative(name_, "lr", lr);
  TENON_CHECK(group < groups_.size(), name_, "no such group: given ", group, ", there are ",
              groups_.size());
  groups_[group].rates.lr = lr;
}

std::vector<NamedTensor> Optimizer::parameters() const {
  std::vector<NamedTensor> result;
  for (const Group& group : groups_) {
    for (const Entry& entry : group.entries) result.push_back(entry.parameter);
  }
  return result;
}

std::vector<NamedTensor> Optimizer::state_dict() const {
  std::vector<NamedTensor> result;
  for (const Group& group : groups_) {
    for (const Entry& entry : group.entries) {
      for (size_t i = 0; i < entry.states.size(); ++i) {
        result.push_back({state_name(entry.parameter, state_names_[i]), entry.states[i]});
      }
      result.push_back({state_name(entry.parameter, kStep),
                        from_data<int64_t>({entry.step}, {}, Category::other, kCpu)});
    }
  }
  return result;
}

void Optimizer::load_state_dict(const std::vector<NamedTensor>& state) {
  std::set<std::string> given;
  for (const auto& [name, tensor] : state) given.insert(name);
  // A parameter that was frozen when this optimizer was made may have had a state when it was
  // saved.
  for_each_entry([&](Entry& entry) {
    if (!state_names_.empty() && given.contains(state_name(entry.parameter, state_names_[0]))) {
      make_states(entry);
    }
  });
  const std::vector<NamedTensor> mine = state_dict();
  copy_named_tensors(name_, state, mine);
  std::map<std::string, Tensor> by_name;
  for (const auto& [name, tensor] : mine) by_name.emplace(name, tensor);
  for_each_entry([&](Entry& entry) {
    entry.step = by_name.at(state_name(entry.parameter, kStep)).item<int64_t>();
  });
}

}  // namespace tenon
