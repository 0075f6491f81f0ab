#include "tenon/kernels/cpu/onednn_matmul.h"

#include "tenon/kernels/cpu/onednn_support.h"

#ifdef TENON_USE_ONEDNN

namespace tenon::kernels::onednn {
namespace {

using Dims = dnnl::memory::dims;

constexpr int kResidual = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;

Desc describe(const MatmulProblem& problem, const MatmulOperand& operand, int64_t rows,
              int64_t columns) {
  Dims sizes;
  Dims strides;
  for (int i = 0; i < problem.batch.size(); ++i) {
    const bool repeats = operand.batch_strides[i] == 0;
    sizes.push_back(repeats ? 1 : problem.batch[i]);
    strides.push_back(operand.batch_strides[i]);
  }
  sizes.insert(sizes.end(), {rows, columns});
  strides.insert(strides.end(), {operand.row, operand.column});
  // oneDNN wants a stride of a dimension of size 1, too, that spans what lies inside it.
  int64_t span = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) span = std::max(span, sizes[i] * strides[i]);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1 && i + 2 < sizes.size()) strides[i] = span;
  }
  return Desc(sizes, type_of(operand.dtype), strides);
}

Desc describe_bias(const MatmulProblem& problem) {
  const auto rank = static_cast<size_t>(problem.batch.size() + 2);
  Dims sizes(rank, 1);
  Dims strides(rank, problem.n);
  sizes.back() = problem.n;
  strides.back() = 1;
  return Desc(sizes, type_of(problem.bias->dtype()), strides);
}

Executable make(const MatmulProblem& problem) {
  const Desc a = describe(problem, problem.a, problem.m, problem.k);
  const Desc b = describe(problem, problem.b, problem.k, problem.n);
  const Desc out = describe(problem, problem.out, problem.m, problem.n);
  dnnl::post_ops post_ops;
  if (problem.accumulate) post_ops.append_sum(1.0f);
  if (problem.activation == Activation::gelu) {
    post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
  }
  if (problem.residual != nullptr) post_ops.append_binary(dnnl::algorithm::binary_add, out);
  std::vector<Executable::Argument> arguments{
      {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}};
  dnnl::matmul::desc operation(a, b, out);
  if (problem.bias != nullptr) {
    arguments.push_back({DNNL_ARG_BIAS, describe_bias(problem)});
    operation = dnnl::matmul::desc(a, b, arguments.back().desc, out);
  }
  if (problem.residual != nullptr) arguments.push_back({kResidual, out});
  const dnnl::matmul::primitive_desc primitive(operation, attributes(post_ops), engine());
  return Executable(dnnl::matmul(primitive), arguments, primitive.scratchpad_desc());
}

Key key_of(const MatmulProblem& problem, int threads) {
  Key key;
  key.add(problem.m, problem.n, problem.k, problem.activation, problem.accumulate,
          problem.residual != nullptr, threads,
          problem.bias != nullptr ? static_cast<int>(problem.bias->dtype()) : -1);
  for (const auto* operand : {&problem.a, &problem.b, &problem.out}) {
    key.add(operand->dtype, operand->row, operand->column);
    for (int i = 0; i < problem.batch.size(); ++i) {
      key.add(problem.batch[i], operand->batch_strides[i]);
    }
  }
  return key;
}

}  // namespace

void matmul(const MatmulProblem& problem) {
  thread_local Cache<Executable> cache;
  with_errors("matmul", [&] {
    const ThreadScope scope(problem.flops());
    Executable& executable =
        cache.get(key_of(problem, scope.threads()), [&] { return make(problem); });
    const void* const bias = problem.bias != nullptr ? problem.bias->raw_data() : nullptr;
    if (bias != nullptr && problem.residual != nullptr) {
      executable.run({problem.a.data, problem.b.data, problem.out.data, bias, problem.residual});
    } else if (bias != nullptr || problem.residual != nullptr) {
      executable.run({problem.a.data, problem.b.data, problem.out.data,
                      bias != nullptr ? bias : problem.residual});
    } else {
      executable.run({problem.a.data, problem.b.data, problem.out.data});
    }
  });
}

}  // namespace tenon::kernels::onednn

#endif
