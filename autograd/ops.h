// The differentiable operations, found by argument-dependent lookup: relu(x), matmul(a, b), a + b.
// Each checks its arguments, computes with raw kernels and records its gradient.
#pragma once

#include "tenon/autograd/ops/attention.h"
#include "tenon/autograd/ops/conv.h"
#include "tenon/autograd/ops/dropout.h"
#include "tenon/autograd/ops/index.h"
#include "tenon/autograd/ops/inplace.h"
#include "tenon/autograd/ops/linear.h"
#include "tenon/autograd/ops/loss.h"
#include "tenon/autograd/ops/matmul.h"
#include "tenon/autograd/ops/norm.h"
#include "tenon/autograd/ops/pointwise.h"
#include "tenon/autograd/ops/random.h"
#include "tenon/autograd/ops/reduce.h"
#include "tenon/autograd/ops/shape.h"
#include "tenon/autograd/ops/softmax.h"
