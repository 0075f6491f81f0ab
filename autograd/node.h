// The recorded graph. An op computes its output with raw kernels and then calls
//   return record("mul", output, {a, b}, [saved…](const Tensor& grad, GradSinks& into) { … });
// Backward functions run without recording and give gradients to the sinks of their inputs.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tenon/autograd/saved_tensor.h"
#include "tenon/core/tensor.h"

namespace tenon {

class BackwardPass;
class GradSinks;
class LeafMeta;
class Node;

using FillGradient = std::function<void(Tensor& out, bool accumulate)>;

// Where the gradient of one input goes. At most one of add() and write() may be called; where
// nobody wants the gradient both do nothing.
class GradSink {
 public:
  // Whether anybody wants this gradient: if not, there is no need to compute it.
  bool needed() const;
  // Gives a gradient of the input's shape. It must not be written to afterwards.
  void add(const Tensor& gradient);
  // Lets `fill` compute straight into the place where the gradient lives: a new tensor of the
  // input's shape and layout, the gradient slot of a parameter, or a gradient that is partly there
  // already
  // (`accumulate`). `out` has the input's dtype.
  void write(const FillGradient& fill);
  // The same for kernels that can write a wider dtype than they read: `out` may be a slot of one.
  void write_wider(const FillGradient& fill);

 private:
  friend class GradSinks;
  GradSink(BackwardPass& pass, Node& node, size_t input)
      : pass_(pass), node_(node), input_(input) {}
  BackwardPass& pass_;
  Node& node_;
  size_t input_;
};

class GradSinks {
 public:
  GradSinks(BackwardPass& pass, Node& node) : pass_(pass), node_(node) {}
  GradSink operator[](size_t input) { return {pass_, node_, input}; }
  // Whether the memory of a saved tensor may be used for gradients: no later backward reads it, and
  // no other tensor shows it.
  bool may_overwrite(const SavedTensor& saved) const;

 private:
  BackwardPass& pass_;
  Node& node_;
};

using BackwardFn = std::function<void(const Tensor& grad, GradSinks& into)>;

// What an edge of the graph leads to, and how the input looked in forward.
struct Edge {
  std::shared_ptr<Node> node;      // an input that was computed
  std::shared_ptr<LeafMeta> leaf;  // or a leaf that requires a gradient; neither: not needed
  Shape shape;
  Strides strides;
  DType dtype = DType::f32;
  Device device;
  bool needed() const { return node != nullptr || leaf != nullptr; }
};

class Node {
 public:
  Node(const char* op, const Tensor& output, std::initializer_list<Tensor> inputs, BackwardFn fn);
  Node(const char* op, const Tensor& output, const std::vector<Tensor>& inputs, BackwardFn fn);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const char* op;
  const uint64_t sequence;  // order of recording on this thread
  Shape shape;              // of the output
  DType dtype;
  std::vector<Edge> edges;
  BackwardFn fn;
  bool released = false;  // a backward has used the graph up
  std::vector<std::shared_ptr<std::function<void(const Tensor&)>>> hooks;
};

// Whether record() would record for these inputs.
bool needs_grad(std::initializer_list<Tensor> inputs);

// Makes `output` remember how to differentiate it, if recording is on and an input requires a
// gradient. Returns output.
Tensor record(const char* op, Tensor output, std::initializer_list<Tensor> inputs, BackwardFn fn);
Tensor record(const char* op, Tensor output, const std::vector<Tensor>& inputs, BackwardFn fn);

}  // namespace tenon
