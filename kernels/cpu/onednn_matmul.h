// Matrix products through oneDNN: f32 and, where the processor has it, bf16.
#pragma once

#include "tenon/kernels/matmul_problem.h"

namespace tenon::kernels::onednn {

// No size may be 0. The bias is contiguous, f32 or of the inputs' dtype; out may be f32 for bf16.
// The activation is none or gelu: oneDNN's relu would turn NaN into 0.
void matmul(const MatmulProblem& problem);

}  // namespace tenon::kernels::onednn
