#include "tenon/distributed/grad_countdown.h"

#include "tenon/autograd/engine.h"

namespace tenon {

GradCountdown::GradCountdown(const std::vector<Tensor>& leaves, Events events)
    : state_(std::make_shared<State>()) {
  state_->events = std::move(events);
  for (size_t i = 0; i < leaves.size(); ++i) {
    hooks_.push_back(register_post_accumulate_hook(
        leaves[i], [state = state_, i](const Tensor&) { on_gradient(state, i); }));
  }
}

GradCountdown::~GradCountdown() {
  state_->closed = true;
  for (HookHandle& hook : hooks_) hook.remove();
}

void GradCountdown::on_gradient(const std::shared_ptr<State>& state, size_t leaf) {
  if (!state->running) {
    state->running = true;
    on_backward_end(
        [state] {
          state->running = false;
          if (!state->closed) state->events.end();
        },
        [state] {
          state->running = false;
          if (!state->closed) state->events.failed();
        });
    state->events.begin();
  }
  state->events.arrived(leaf);
}

}  // namespace tenon
