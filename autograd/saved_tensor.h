// A tensor kept for backward: a detached alias and the version it had. If its values were changed
// in place since, unpack() is an Error that names the op and the tensor.
#pragma once

#include <functional>
#include <memory>

#include "tenon/core/tensor.h"

namespace tenon {

// While in scope on this thread, saved tensors are packed by `pack` and recovered by `unpack`
// (recompute, offload). `pack` gets a detached tensor; the packed form is opaque.
struct SavedTensorHooks {
  std::function<std::shared_ptr<void>(const Tensor&)> pack;
  std::function<Tensor(const std::shared_ptr<void>&)> unpack;
};
class SavedTensorHooksScope {
 public:
  explicit SavedTensorHooksScope(SavedTensorHooks hooks);
  ~SavedTensorHooksScope();
  SavedTensorHooksScope(const SavedTensorHooksScope&) = delete;
  SavedTensorHooksScope& operator=(const SavedTensorHooksScope&) = delete;
};

class SavedTensor {
 public:
  SavedTensor() = default;  // nothing saved
  // `op` and `what` (for example "weight") are for the error text and must be literals.
  SavedTensor(const Tensor& tensor, const char* op, const char* what);
  // The tensor; undefined if nothing was saved.
  Tensor unpack() const;
  // Whether nothing else refers to the tensor's memory. Never of one that hooks have packed.
  bool is_sole_owner() const {
    return !hooks_ && tensor_.defined() && tensor_.storage().use_count() == 1;
  }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  const char* op_ = "";
  const char* what_ = "";
  std::shared_ptr<const SavedTensorHooks> hooks_;
  std::shared_ptr<void> packed_;
};

}  // namespace tenon
