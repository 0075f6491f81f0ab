#include "tenon/autograd/node.h"

#include <algorithm>
#include <atomic>

#include "tenon/autograd/grad_mode.h"
#include "tenon/autograd/meta.h"

namespace tenon {
namespace {

uint64_t next_sequence() {
  static std::atomic<uint64_t> counter{0};
  return ++counter;
}

// Nodes that die free their inputs' nodes from a list, not by recursion: graphs are deep.
thread_local std::vector<std::shared_ptr<Node>>* dying = nullptr;

Edge edge_to(const Tensor& input) {
  Edge edge;
  if (!input.defined()) return edge;
  edge.shape = input.shape();
  edge.strides = input.strides();
  edge.dtype = input.dtype();
  edge.device = input.device();
  if (!input.requires_grad()) return edge;
  if (input.autograd()->is_leaf()) {
    edge.leaf = std::static_pointer_cast<LeafMeta>(input.autograd());
  } else {
    edge.node = static_cast<NodeMeta&>(*input.autograd()).node;
  }
  return edge;
}

template <class Inputs>
std::vector<Edge> edges_to(const Inputs& inputs) {
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& input : inputs) edges.push_back(edge_to(input));
  return edges;
}

template <class Inputs>
bool any_needs_grad(const Inputs& inputs) {
  return grad_enabled() && std::any_of(inputs.begin(), inputs.end(),
                                       [](const Tensor& input) { return input.requires_grad(); });
}

template <class Inputs>
Tensor record_from(const char* op, Tensor output, const Inputs& inputs, BackwardFn fn) {
  if (any_needs_grad(inputs)) {
    output.set_autograd(
        std::make_shared<NodeMeta>(std::make_shared<Node>(op, output, inputs, std::move(fn))));
  }
  return output;
}

}  // namespace

Node::Node(const char* op_name, const Tensor& output, std::initializer_list<Tensor> inputs,
           BackwardFn backward_fn)
    : op(op_name),
      sequence(next_sequence()),
      shape(output.shape()),
      dtype(output.dtype()),
      edges(edges_to(inputs)),
      fn(std::move(backward_fn)) {}

Node::Node(const char* op_name, const Tensor& output, const std::vector<Tensor>& inputs,
           BackwardFn backward_fn)
    : op(op_name),
      sequence(next_sequence()),
      shape(output.shape()),
      dtype(output.dtype()),
      edges(edges_to(inputs)),
      fn(std::move(backward_fn)) {}

Node::~Node() {
  std::vector<std::shared_ptr<Node>> list;
  const bool outermost = dying == nullptr;
  if (outermost) dying = &list;
  for (Edge& edge : edges) {
    if (edge.node) dying->push_back(std::move(edge.node));
  }
  if (!outermost) return;
  while (!list.empty()) {
    const std::shared_ptr<Node> node = std::move(list.back());
    list.pop_back();
  }
  dying = nullptr;
}

bool needs_grad(std::initializer_list<Tensor> inputs) { return any_needs_grad(inputs); }

Tensor record(const char* op, Tensor output, std::initializer_list<Tensor> inputs, BackwardFn fn) {
  return record_from(op, std::move(output), inputs, std::move(fn));
}
Tensor record(const char* op, Tensor output, const std::vector<Tensor>& inputs, BackwardFn fn) {
  return record_from(op, std::move(output), inputs, std::move(fn));
}

}  // namespace tenon
