// Backward: runs the recorded graph in reverse order of recording, newest node first, without
// recording. A leaf's hooks fire the moment its last contribution exists.
#pragma once

#include <functional>

#include "tenon/core/tensor.h"

namespace tenon {

struct BackwardOptions {
  Tensor gradient = {};       // of `root`'s shape; undefined: 1, for a root of one element
  bool retain_graph = false;  // keep what was saved, for another backward over the same graph
};

// Computes and accumulates the gradients of `root` into its leaves. An exception leaves no state
// behind but what was already added to gradients.
void backward(const Tensor& root, const BackwardOptions& options = {});

// Whether this thread is inside a backward.
bool in_backward();

// Only inside a backward: runs `done` on this thread when all gradients exist, in the order of
// registration. If the backward throws, `failed` runs instead.
void on_backward_end(std::function<void()> done, std::function<void()> failed = {});

}  // namespace tenon
