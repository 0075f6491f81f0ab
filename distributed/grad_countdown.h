// The one mechanism behind DDP and FSDP: post-accumulate hooks on a set of parameters tell when
// each gradient is complete, and one callback closes the backward.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "tenon/autograd/hooks.h"
#include "tenon/core/tensor.h"

namespace tenon {

class GradCountdown {
 public:
  struct Events {
    std::function<void()> begin;               // a backward brings its first gradient
    std::function<void(size_t leaf)> arrived;  // a leaf's gradient is complete
    std::function<void()> end;                 // all gradients of this backward exist
    std::function<void()> failed;              // or the backward threw
  };

  GradCountdown(const std::vector<Tensor>& leaves, Events events);
  ~GradCountdown();
  GradCountdown(const GradCountdown&) = delete;
  GradCountdown& operator=(const GradCountdown&) = delete;

 private:
  // Outlives this object while a backward still holds its callbacks.
  struct State {
    Events events;
    bool running = false;
    bool closed = false;
  };
  static void on_gradient(const std::shared_ptr<State>& state, size_t leaf);

  std::shared_ptr<State> state_;
  std::vector<HookHandle> hooks_;
};

}  // namespace tenon
