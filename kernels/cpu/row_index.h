// Taking slices of a tensor by a list of ids, and adding slices at them: what embedding and
// index_select share.
#pragma once

#include "tenon/core/tensor.h"

namespace tenon::kernels::cpu {

// out = x at `ids` along `axis`. `op` names the caller in errors.
void take_slices(const char* op, const Tensor& x, const Tensor& ids, Tensor& out, int axis);
// to += from at `ids` along `axis`, in the order of ids; `to` may have a wider dtype.
void add_slices(const char* op, const Tensor& from, const Tensor& ids, Tensor& to, int axis);

}  // namespace tenon::kernels::cpu
