// Module: the base of layers and models. Parameters, buffers and child modules register themselves
// where they are declared as members (parameter.h, child.h):
//   struct Mlp : Module {
//     Child<nn::Linear> fc1{this, "fc1", 784, 128};
//     Child<nn::Linear> fc2{this, "fc2", 128, 10};
//     Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
//   };
// forward is not virtual: it takes and returns what it likes. A module is neither copied nor moved.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "tenon/autograd/autocast.h"
#include "tenon/autograd/hooks.h"
#include "tenon/core/tensor.h"
#include "tenon/nn/for_each_tensor.h"

namespace tenon {

class Buffer;
class Module;
class Parameter;

// How ranks treat a buffer: all take rank 0's, all take the mean, or each keeps its own.
enum class BufferSync : uint8_t { broadcast, mean, local };

struct NamedBuffer {
  std::string name;
  Tensor tensor;
  BufferSync sync;
};
struct NamedModule {
  std::string name;
  Module* module;
};

using ForwardPreHook = std::function<void(Module&, const VisitTensors& inputs)>;
using ForwardHook = std::function<void(Module&, const VisitTensors& outputs)>;

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters in the order of registration, under dotted names ("blocks.0.fc.weight"). A
  // parameter that is reachable by several names (tied) appears once, under the first.
  std::vector<NamedTensor> parameters() const;
  // The buffers as they are now: a buffer that was assigned since is seen.
  std::vector<NamedBuffer> buffers() const;
  int64_t parameter_count() const;
  // The direct children.
  std::vector<NamedModule> children() const;
  // This module (with an empty name) and everything below it, parents first.
  void for_each_module(const std::function<void(const std::string& name, Module&)>& visit);

  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  void zero_grad();

  // Moves or converts all floating parameters and buffers in place: handles that others hold (an
  // optimizer's for example) follow. Gradients are dropped. Buffers of other dtypes only move.
  void to(Device device);
  void to(DType dtype);

  // The dtype in which layers that gain from it compute (bf16, f16): they use copies of their
  // parameters, made once per change of the parameter, and cast their inputs. Parameters and their
  // gradients keep their own dtype.
  void set_compute_dtype(DType dtype);
  // The one set, or else that of the thread's Autocast scope; absent: the dtype of the parameters.
  std::optional<DType> compute_dtype() const {
    return compute_dtype_ ? compute_dtype_ : autocast_dtype();
  }

  // Run by Child::operator() and call_module() around forward, in the order of registration.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  template <class Hook>
  requires std::is_invocable_v<Hook&, Module&> HookHandle register_forward_pre_hook(Hook hook) {
    return register_forward_pre_hook(
        ForwardPreHook([hook](Module& module, const VisitTensors&) mutable { hook(module); }));
  }
  HookHandle register_forward_hook(ForwardHook hook);
  void run_forward_pre_hooks(const VisitTensors& inputs);
  void run_forward_hooks(const VisitTensors& outputs);
  bool has_forward_pre_hooks() const { return !pre_hooks_.empty(); }
  bool has_forward_hooks() const { return !hooks_.empty(); }

 protected:
  // `parameter` and `x` in the compute dtype; themselves when it is theirs or there is none.
  Tensor compute(const Parameter& parameter) const;
  Tensor compute(const Tensor& x) const;

 private:
  friend class Buffer;
  friend class ModuleRegistration;
  friend class Parameter;

  // One of the three is set.
  struct Member {
    std::string name;
    Parameter* parameter = nullptr;
    Buffer* buffer = nullptr;
    Module* child = nullptr;
  };
  template <class Hook>
  using Hooks = std::vector<std::shared_ptr<Hook>>;

  void add_member(Member member);
  void remove_member(const void* member);
  void collect(const std::string& prefix, std::vector<NamedTensor>* parameters,
               std::vector<NamedBuffer>* buffers) const;
  void for_each_module(const std::string& name,
                       const std::function<void(const std::string&, Module&)>& visit);
  // Re-points every parameter, and every buffer for which `with` gives another tensor, at with(it).
  void replace_data(const std::function<Tensor(const Tensor&)>& with);

  std::vector<Member> members_;
  bool training_ = true;
  std::optional<DType> compute_dtype_;
  Hooks<ForwardPreHook> pre_hooks_;
  Hooks<ForwardHook> hooks_;
};

// Registers `child` under `parent` for as long as this object lives.
class ModuleRegistration {
 public:
  ModuleRegistration(Module* parent, const std::string& name, Module* child);
  ~ModuleRegistration();
  ModuleRegistration(const ModuleRegistration&) = delete;
  ModuleRegistration& operator=(const ModuleRegistration&) = delete;

 private:
  Module* parent_;
  Module* child_;
};

}  // namespace tenon
