// One run of backward: gradients on their way, and the leaves that still wait for contributions.
// Internal to autograd.
#pragma once

#include <functional>
#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tenon/autograd/meta.h"
#include "tenon/autograd/node.h"

namespace tenon {

class BackwardPass {
 public:
  explicit BackwardPass(bool retain_graph) : retain_graph_(retain_graph) {}
  bool retains_graph() const { return retain_graph_; }

  void run(const Tensor& root, const Tensor& gradient);
  void on_end(std::function<void()> done, std::function<void()> failed);
  // Of the callbacks that are not done.
  void run_failed_callbacks() noexcept;

  // For the sinks: a gradient for an input, whole or to be filled in place.
  void add(const Edge& edge, const Tensor& gradient);
  void write(const Edge& edge, const FillGradient& fill, bool wider);

 private:
  // A gradient on its way to a node. `owned`: nobody else sees its memory, so it may be added to.
  struct Pending {
    Tensor gradient;
    bool owned = false;
  };
  struct Later {
    std::shared_ptr<Node> node;
    bool operator<(const Later& other) const { return node->sequence < other.node->sequence; }
  };

  void count_leaf_edges(const std::shared_ptr<Node>& root);
  void run_node(const std::shared_ptr<Node>& node);
  Pending& pending_of(const std::shared_ptr<Node>& node);
  Tensor& owned_gradient(const Edge& edge, Pending& pending);
  void add_to_leaf(const Edge& edge, const Tensor& gradient);
  void arrived(LeafMeta& leaf);
  void complete(LeafMeta& leaf);

  const bool retain_graph_;
  std::shared_ptr<Node> root_;
  std::priority_queue<Later> queue_;
  std::unordered_map<Node*, Pending> pending_;
  // Leaves by what they still wait for. A leaf that got nothing has no hooks to run.
  struct Waiting {
    int contributions = 0;
    bool touched = false;
  };
  std::unordered_map<LeafMeta*, Waiting> waiting_;
  std::vector<LeafMeta*> leaves_;  // in the order of the walk, which is the same on every rank
  std::vector<std::pair<std::function<void()>, std::function<void()>>> callbacks_;
  size_t callbacks_done_ = 0;
};

}  // namespace tenon
