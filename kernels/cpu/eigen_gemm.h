// Matrix products through Eigen: for f64, and for f32 where oneDNN is missing.
#pragma once

#include "tenon/kernels/matmul_problem.h"

namespace tenon::kernels {

// f32 or f64 throughout, bias included (contiguous); any size may be 0.
void eigen_gemm(const MatmulProblem& problem);

}  // namespace tenon::kernels
