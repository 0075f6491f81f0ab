// Child modules as members, and calling modules with their hooks.
//   Child<nn::Linear> fc1{this, "fc1", 784, 128};         y = fc1(x)  runs hooks and
//   Linear::forward Child<nn::Linear> fc2{this, "fc2", 128, 10, {.bias = false}}; ChildList<Block>
//   blocks{this, "blocks", 12, config};  names blocks.0 … blocks.11
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "tenon/nn/parameter.h"

namespace tenon {

// Runs `body(module)` between the pre and post hooks of `module`. `inputs` is what the pre hooks
// see.
template <class T, class Body, class... Inputs>
auto call_with_hooks(T& module, Body&& body, const Inputs&... inputs) {
  if (module.has_forward_pre_hooks()) {
    module.run_forward_pre_hooks(
        [&](const TensorVisitor& visit) { (for_each_tensor_if_any(inputs, visit), ...); });
  }
  if constexpr (std::is_void_v<std::invoke_result_t<Body, T&>>) {
    std::invoke(std::forward<Body>(body), module);
    if (module.has_forward_hooks()) module.run_forward_hooks([](const TensorVisitor&) {});
  } else {
    auto outputs = std::invoke(std::forward<Body>(body), module);
    if (module.has_forward_hooks()) {
      module.run_forward_hooks(
          [&](const TensorVisitor& visit) { for_each_tensor(outputs, visit); });
    }
    return outputs;
  }
}

// module.forward(args…) with hooks. What Child does, for a module that is nobody's child.
template <class T, class... Args>
auto call_module(T& module, Args&&... args) {
  return call_with_hooks(
      module,
      [&](T& target) -> decltype(auto) { return target.forward(std::forward<Args>(args)...); },
      args...);
}

template <class T>
class Child {
 public:
  template <class... Args>
  requires std::is_constructible_v<T, Args...> Child(Module* parent, const std::string& name,
                                                     Args&&... args)
      : module_(std::forward<Args>(args)...), registration_(parent, name, &module_) {}
  // Lets options be written in braces: {this, "conv", 1, 32, 3, {.padding = {1, 1}}}.
  template <class Layer = T>
  Child(Module* parent, const std::string& name, int64_t a, typename Layer::Options&& options)
      : module_(a, std::move(options)), registration_(parent, name, &module_) {}
  template <class Layer = T>
  Child(Module* parent, const std::string& name, int64_t a, int64_t b,
        typename Layer::Options&& options)
      : module_(a, b, std::move(options)), registration_(parent, name, &module_) {}
  template <class Layer = T>
  Child(Module* parent, const std::string& name, int64_t a, int64_t b, int64_t c,
        typename Layer::Options&& options)
      : module_(a, b, c, std::move(options)), registration_(parent, name, &module_) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  template <class... Args>
  auto operator()(Args&&... args) {
    return call_module(module_, std::forward<Args>(args)...);
  }
  // The same around another method: child.call(&T::encode, x).
  template <class Method, class... Args>
  auto call(Method method, Args&&... args) {
    return call_with_hooks(
        module_,
        [&](T& target) -> decltype(auto) {
          return std::invoke(method, target, std::forward<Args>(args)...);
        },
        args...);
  }

  T* operator->() { return &module_; }
  const T* operator->() const { return &module_; }
  T& operator*() { return module_; }
  const T& operator*() const { return module_; }

 private:
  T module_;
  ModuleRegistration registration_;
};

// Children of one type, named by their number. A deque, because modules do not move.
template <class T>
class ChildList : public Module {
 public:
  // `count` children, each constructed from `args`.
  template <class... Args>
  ChildList(Module* parent, const std::string& name, int64_t count, const Args&... args)
      : registration_(parent, name, this) {
    for (int64_t i = 0; i < count; ++i) emplace_back(args...);
  }
  ChildList(Module* parent, const std::string& name) : registration_(parent, name, this) {}

  // One more child.
  template <class... Args>
  Child<T>& emplace_back(Args&&... args) {
    return children_.emplace_back(this, std::to_string(children_.size()),
                                  std::forward<Args>(args)...);
  }
  size_t size() const { return children_.size(); }
  Child<T>& operator[](size_t i) { return children_.at(i); }
  const Child<T>& operator[](size_t i) const { return children_.at(i); }
  auto begin() { return children_.begin(); }
  auto end() { return children_.end(); }

 private:
  ModuleRegistration registration_;
  std::deque<Child<T>> children_;
};

}  // namespace tenon
