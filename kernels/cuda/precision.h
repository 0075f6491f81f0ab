// How exactly libraries multiply f32.
#pragma once

namespace tenon::kernels::cuda {

// Whether products of f32 may round their inputs to TF32, 10 bits of mantissa ($TENON_TF32=1).
bool tf32_allowed();

}  // namespace tenon::kernels::cuda
