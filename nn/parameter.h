// Parameters and buffers: tensors that register themselves with the module they are members of.
//   Parameter weight{this, "weight", tensor};
//   Buffer running_mean{this, "running_mean", zeros({8}), BufferSync::mean};
// Also the dtype in which modules are built.
#pragma once

#include <string>

#include "tenon/nn/module.h"

namespace tenon {

// The dtype of new modules' parameters: f32 unless a DefaultDType scope of this thread says other.
DType default_dtype();

class DefaultDType {
 public:
  explicit DefaultDType(DType dtype);
  ~DefaultDType();
  DefaultDType(const DefaultDType&) = delete;
  DefaultDType& operator=(const DefaultDType&) = delete;

 private:
  DType previous_;
};

// A leaf tensor that requires a gradient. An undefined tensor (a bias left out) is not registered.
class Parameter : public Tensor {
 public:
  Parameter(Module* owner, const std::string& name, const Tensor& value);
  ~Parameter();
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  // From now on this is the same parameter as `other`, which has the same shape.
  void tie(const Parameter& other);
  // The values in `dtype`, for computing: made again only after the values have changed. Gradients
  // go straight to this parameter's own gradient, in its own dtype.
  Tensor compute_copy(DType dtype) const;

 private:
  Module* owner_;
  mutable Tensor compute_copy_;  // of the values of `copied_` at `copied_version_`
  mutable std::weak_ptr<Storage> copied_;
  mutable uint32_t copied_version_ = 0;
};

// A tensor that belongs to the module's state and is not trained. It may be assigned.
class Buffer : public Tensor {
 public:
  Buffer(Module* owner, const std::string& name, const Tensor& value,
         BufferSync sync = BufferSync::broadcast);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(const Tensor& value) {
    Tensor::operator=(value);
    return *this;
  }
  BufferSync sync() const { return sync_; }

 private:
  Module* owner_;
  BufferSync sync_;
};

}  // namespace tenon
