#include "tenon/nn/module.h"

#include <algorithm>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/core/factory.h"
#include "tenon/core/runtime.h"
#include "tenon/nn/parameter.h"

namespace tenon {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

template <class Hook>
HookHandle add_hook(std::vector<std::shared_ptr<Hook>>& hooks, Hook hook) {
  auto entry = std::make_shared<Hook>(std::move(hook));
  hooks.push_back(entry);
  return HookHandle([&hooks, weak = std::weak_ptr<Hook>(entry)] {
    // The module owns the entry, so while it lives the list does too.
    if (const auto alive = weak.lock()) std::erase(hooks, alive);
  });
}

template <class Hook>
void run_hooks(const std::vector<std::shared_ptr<Hook>>& hooks, Module& module,
               const VisitTensors& tensors) {
  const auto copy = hooks;  // a hook may remove itself
  for (const auto& hook : copy) (*hook)(module, tensors);
}

}  // namespace

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> result;
  collect("", &result, nullptr);
  return result;
}

std::vector<NamedBuffer> Module::buffers() const {
  std::vector<NamedBuffer> result;
  collect("", nullptr, &result);
  return result;
}

void Module::collect(const std::string& prefix, std::vector<NamedTensor>* parameters,
                     std::vector<NamedBuffer>* buffers) const {
  for (const Member& member : members_) {
    const std::string name = join(prefix, member.name);
    if (member.child != nullptr) {
      member.child->collect(name, parameters, buffers);
    } else if (member.parameter != nullptr && parameters != nullptr) {
      const Tensor& parameter = *member.parameter;
      const bool tied = std::any_of(parameters->begin(), parameters->end(), [&](const auto& seen) {
        return seen.tensor.is_same(parameter);
      });
      if (!tied) parameters->push_back({name, parameter});
    } else if (member.buffer != nullptr && buffers != nullptr && member.buffer->defined()) {
      buffers->push_back({name, *member.buffer, member.buffer->sync()});
    }
  }
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters()) count += tensor.numel();
  return count;
}

std::vector<NamedModule> Module::children() const {
  std::vector<NamedModule> result;
  for (const Member& member : members_) {
    if (member.child != nullptr) result.push_back({member.name, member.child});
  }
  return result;
}

void Module::for_each_module(const std::function<void(const std::string&, Module&)>& visit) {
  for_each_module("", visit);
}

void Module::for_each_module(const std::string& name,
                             const std::function<void(const std::string&, Module&)>& visit) {
  visit(name, *this);
  for (const auto& [child_name, child] : children()) {
    child->for_each_module(join(name, child_name), visit);
  }
}

void Module::train(bool on) {
  for_each_module([on](const std::string&, Module& module) { module.training_ = on; });
}

void Module::zero_grad() {
  for (const auto& [name, tensor] : parameters()) tenon::zero_grad(tensor);
}

void Module::to(Device device) {
  replace_data(
      [device](const Tensor& x) { return x.device() == device ? x : copied_to(x, device); });
}

void Module::to(DType dtype) {
  TENON_CHECK(is_floating(dtype), "module", "parameters cannot have this dtype: given ", dtype,
              ", wanted f32, f64, f16 or bf16");
  replace_data([dtype](const Tensor& x) {
    if (!is_floating(x.dtype()) || x.dtype() == dtype) return x;
    const Tensor result = tenon::to(x, dtype);
    result.storage()->set_category(x.storage()->category());
    return result;
  });
}

void Module::replace_data(const std::function<Tensor(const Tensor&)>& with) {
  const NoGrad no_grad;
  auto replace = [&](Tensor tensor) {
    const Tensor data = tensor.detach();
    const Tensor replaced = with(data);
    if (replaced.is_same(data)) return;
    tensor.set_data(replaced);
    if (tensor.autograd()) set_grad_slot(tensor, {});
  };
  for (const auto& [name, tensor] : parameters()) replace(tensor);
  for (const auto& buffer : buffers()) replace(buffer.tensor);
}

void Module::set_compute_dtype(DType dtype) {
  TENON_CHECK(is_floating(dtype), "module", "cannot compute in this dtype: given ", dtype,
              ", wanted f32, f64, f16 or bf16");
  for_each_module([dtype](const std::string&, Module& module) { module.compute_dtype_ = dtype; });
}

Tensor Module::compute(const Parameter& parameter) const {
  const std::optional<DType> dtype = compute_dtype();
  if (!dtype || !parameter.defined()) return parameter;
  return parameter.compute_copy(*dtype);
}

Tensor Module::compute(const Tensor& x) const {
  const std::optional<DType> dtype = compute_dtype();
  return dtype && is_floating(x.dtype()) ? tenon::to(x, *dtype) : x;
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  return add_hook(pre_hooks_, std::move(hook));
}
HookHandle Module::register_forward_hook(ForwardHook hook) {
  return add_hook(hooks_, std::move(hook));
}
void Module::run_forward_pre_hooks(const VisitTensors& inputs) {
  run_hooks(pre_hooks_, *this, inputs);
}
void Module::run_forward_hooks(const VisitTensors& outputs) { run_hooks(hooks_, *this, outputs); }

void Module::add_member(Member member) {
  TENON_CHECK(!member.name.empty() && member.name.find('.') == std::string::npos, "module",
              "bad name of a member: given \"", member.name, "\", wanted a name without dots");
  for (const Member& other : members_) {
    TENON_CHECK(other.name != member.name, "module", "two members with one name: given \"",
                member.name, "\" twice, wanted different names");
  }
  members_.push_back(std::move(member));
}

void Module::remove_member(const void* member) {
  std::erase_if(members_, [member](const Member& other) {
    return other.parameter == member || other.buffer == member || other.child == member;
  });
}

ModuleRegistration::ModuleRegistration(Module* parent, const std::string& name, Module* child)
    : parent_(parent), child_(child) {
  parent_->add_member({.name = name, .child = child});
}
ModuleRegistration::~ModuleRegistration() { parent_->remove_member(child_); }

}  // namespace tenon
