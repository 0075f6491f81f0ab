#include "tenon/autograd/backward_pass.h"

#include <unordered_set>

#include "tenon/core/factory.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/pointwise.h"

namespace tenon {
namespace {

void run_hooks(const std::vector<std::shared_ptr<GradHook>>& hooks, const Tensor& gradient) {
  const std::vector<std::shared_ptr<GradHook>> copy = hooks;  // a hook may remove itself
  for (const auto& hook : copy) (*hook)(gradient);
}

// A fresh tensor laid out like the input was in forward.
Tensor like_input(const Edge& edge) {
  const Tensor fresh = empty(edge.shape, {edge.dtype, edge.device});
  int64_t dense = 0;
  for (int i = 0; i < edge.shape.size(); ++i) dense += (edge.shape[i] - 1) * edge.strides[i];
  if (edge.shape.numel() == 0 || dense + 1 != edge.shape.numel()) return fresh;
  const Tensor permuted = fresh.as_strided(edge.shape, edge.strides);
  return permuted.is_dense() ? permuted : fresh;
}

void copy_or_accumulate(const Tensor& from, Tensor& to, bool accumulate) {
  if (accumulate) {
    kernels::accumulate(to.device().type, from, to, 1.0);
  } else {
    kernels::copy(to.device().type, from, to);
  }
}

}  // namespace

bool GradSinks::may_overwrite(const SavedTensor& saved) const {
  return !pass_.retains_graph() && saved.is_sole_owner();
}

bool GradSink::needed() const { return node_.edges[input_].needed(); }

void GradSink::add(const Tensor& gradient) {
  const Edge& edge = node_.edges[input_];
  TENON_CHECK(gradient.shape() == edge.shape && gradient.dtype() == edge.dtype, node_.op,
              "wrong gradient for input ", input_, ": given ", describe(gradient), ", wanted ",
              edge.dtype, " ", edge.shape);
  if (edge.needed()) pass_.add(edge, gradient);
}

void GradSink::write(const FillGradient& fill) {
  if (needed()) pass_.write(node_.edges[input_], fill, false);
}
void GradSink::write_wider(const FillGradient& fill) {
  if (needed()) pass_.write(node_.edges[input_], fill, true);
}

void BackwardPass::on_end(std::function<void()> done, std::function<void()> failed) {
  callbacks_.emplace_back(std::move(done), std::move(failed));
}

void BackwardPass::run_failed_callbacks() noexcept {
  for (size_t i = callbacks_done_; i < callbacks_.size(); ++i) {
    const std::function<void()>& failed = callbacks_[i].second;
    if (!failed) continue;
    try {
      failed();
    } catch (...) {  // the first error is the one to report
    }
  }
}

void BackwardPass::count_leaf_edges(const std::shared_ptr<Node>& root) {
  std::unordered_set<const Node*> seen{root.get()};
  std::vector<const Node*> stack{root.get()};
  while (!stack.empty()) {
    const Node* const node = stack.back();
    stack.pop_back();
    TENON_CHECK(!node->released, "backward", "the graph was used up by an earlier backward at op ",
                node->op, ": wanted a fresh forward, or retain_graph in the first backward");
    for (const Edge& edge : node->edges) {
      if (edge.leaf && waiting_[edge.leaf.get()].contributions++ == 0) {
        leaves_.push_back(edge.leaf.get());
      }
      if (edge.node && seen.insert(edge.node.get()).second) stack.push_back(edge.node.get());
    }
  }
}

void BackwardPass::run(const Tensor& root, const Tensor& gradient) {
  if (root.autograd()->is_leaf()) {
    Edge edge;
    edge.leaf = std::static_pointer_cast<LeafMeta>(root.autograd());
    edge.shape = root.shape();
    edge.strides = root.strides();
    edge.dtype = root.dtype();
    edge.device = root.device();
    waiting_[edge.leaf.get()].contributions = 1;
    add(edge, gradient);
  } else {
    // A copy: a hook may let go of the root, and the graph must stay until the end.
    root_ = static_cast<NodeMeta&>(*root.autograd()).node;
    count_leaf_edges(root_);
    pending_of(root_).gradient = gradient;
    while (!queue_.empty()) {
      const std::shared_ptr<Node> next = queue_.top().node;
      queue_.pop();
      run_node(next);
    }
  }
  // Leaves whose other consumers got no gradient are complete only now.
  for (LeafMeta* const leaf : leaves_) {
    const Waiting waiting = waiting_.at(leaf);
    if (waiting.touched && waiting.contributions > 0) complete(*leaf);
  }
  // By index, and moved out: a callback may register another.
  for (; callbacks_done_ < callbacks_.size(); ++callbacks_done_) {
    const std::function<void()> done = std::move(callbacks_[callbacks_done_].first);
    done();
  }
}

BackwardPass::Pending& BackwardPass::pending_of(const std::shared_ptr<Node>& node) {
  const auto [found, is_new] = pending_.try_emplace(node.get());
  if (is_new) queue_.push({node});
  return found->second;
}

void BackwardPass::run_node(const std::shared_ptr<Node>& node) {
  const Tensor gradient = std::move(pending_.at(node.get()).gradient);
  pending_.erase(node.get());
  if (!node->hooks.empty()) run_hooks(node->hooks, gradient);
  GradSinks sinks(*this, *node);
  if (retain_graph_) {
    node->fn(gradient, sinks);
    return;
  }
  const BackwardFn fn = std::move(node->fn);
  node->released = true;
  fn(gradient, sinks);
}

// The pending gradient of a computed input, in memory that nobody else sees.
Tensor& BackwardPass::owned_gradient(const Edge& edge, Pending& pending) {
  if (!pending.owned) {
    Tensor own = like_input(edge);
    kernels::copy(own.device().type, pending.gradient, own);
    pending.gradient = own;
    pending.owned = true;
  }
  return pending.gradient;
}

void BackwardPass::add(const Edge& edge, const Tensor& gradient) {
  if (edge.leaf) {
    add_to_leaf(edge, gradient);
    return;
  }
  Pending& pending = pending_of(edge.node);
  if (!pending.gradient.defined()) {
    pending.gradient = gradient;
  } else if (pending.owned) {
    kernels::accumulate(edge.device.type, gradient, pending.gradient, 1.0);
  } else {
    Tensor total = like_input(edge);
    kernels::Binary<kernels::Add>::forward(edge.device.type, pending.gradient, gradient, total);
    pending = {total, true};
  }
}

void BackwardPass::write(const Edge& edge, const FillGradient& fill, bool wider) {
  if (edge.leaf) {
    LeafMeta& leaf = *edge.leaf;
    const bool fits = !leaf.slot.defined() || leaf.slot.dtype() == edge.dtype ||
                      (wider && leaf.slot.dtype() == compute_dtype(edge.dtype));
    if (!fits) {
      Tensor exact = like_input(edge);
      fill(exact, false);
      add_to_leaf(edge, exact);
      return;
    }
    if (!leaf.slot.defined()) {
      leaf.slot = empty(edge.shape, {edge.dtype, edge.device, Category::gradient});
    }
    fill(leaf.slot, leaf.present);
    leaf.slot.bump_version();
    leaf.present = true;
    arrived(leaf);
    return;
  }
  Pending& pending = pending_of(edge.node);
  if (!pending.gradient.defined()) {
    Tensor fresh = like_input(edge);
    fill(fresh, false);
    pending_.at(edge.node.get()) = {fresh, true};
  } else {
    fill(owned_gradient(edge, pending), true);
  }
}

void BackwardPass::add_to_leaf(const Edge& edge, const Tensor& gradient) {
  LeafMeta& leaf = *edge.leaf;
  if (!leaf.slot.defined()) {
    leaf.slot = empty(edge.shape, {edge.dtype, edge.device, Category::gradient});
  }
  copy_or_accumulate(gradient, leaf.slot, leaf.present);
  leaf.slot.bump_version();
  leaf.present = true;
  arrived(leaf);
}

void BackwardPass::arrived(LeafMeta& leaf) {
  Waiting& waiting = waiting_[&leaf];
  waiting.touched = true;
  if (--waiting.contributions == 0) complete(leaf);
}

void BackwardPass::complete(LeafMeta& leaf) {
  run_hooks(leaf.grad_hooks, leaf.slot);
  run_hooks(leaf.post_accumulate_hooks, leaf.slot);
}

}  // namespace tenon
