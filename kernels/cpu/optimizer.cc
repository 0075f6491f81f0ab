// Fused optimizer steps: one pass over parameter, gradient and state of all tensors. The elements
// of all tensors count as one range that is split over the threads, so that a few large and many
// small tensors are equally well spread.
#include "tenon/kernels/optimizer.h"

#include <algorithm>
#include <array>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/convert.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels {
namespace {

constexpr int64_t kChunk = 1024;  // elements

// A dense array of C for elements [begin, begin + n) of `tensor`: its own memory or `buffer`.
template <class C>
C* load(const Tensor& tensor, int64_t begin, int64_t n, C* buffer) {
  const void* data = cpu::at_element(tensor.raw_data(), tensor.dtype(), begin);
  if (tensor.dtype() == dtype_of<C>) return const_cast<C*>(static_cast<const C*>(data));
  cpu::row_converter(tensor.dtype(), dtype_of<C>)(data, 1, buffer, 1, n);
  return buffer;
}

// step(n, C* parameter, const C* gradient, C* state…) over dense arrays.
template <class C, size_t States, class Step>
void step_range(const Tensor& parameter, const Tensor& gradient,
                const std::array<const Tensor*, States>& states, int64_t begin, int64_t end,
                const Step& step) {
  alignas(64) C parameter_buffer[kChunk];
  alignas(64) C gradient_buffer[kChunk];
  std::array<C*, States> state{};
  for (; begin < end; begin += kChunk) {
    const int64_t n = std::min(kChunk, end - begin);
    C* p = load(parameter, begin, n, parameter_buffer);
    const C* g = load(gradient, begin, n, gradient_buffer);
    for (size_t k = 0; k < States; ++k) state[k] = states[k]->template data<C>() + begin;
    step(n, p, g, state);
    if (p == parameter_buffer) {
      cpu::row_converter(dtype_of<C>, parameter.dtype())(
          p, 1, cpu::at_element(parameter.raw_data(), parameter.dtype(), begin), 1, n);
    }
  }
}

void check_lists(const char* op, const TensorList& parameters, const TensorList& gradients,
                 std::initializer_list<const TensorList*> states) {
  TENON_CHECK(parameters.size() == gradients.size(), op,
              "as many gradients as parameters wanted: given ", gradients.size(), " for ",
              parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    TENON_CHECK(gradients[i].numel() == parameters[i].numel() && parameters[i].is_contiguous() &&
                    gradients[i].is_contiguous(),
                op, "wanted contiguous tensors of one shape: given parameter ",
                describe(parameters[i]), " and gradient ", describe(gradients[i]));
  }
  for (const TensorList* list : states) {
    TENON_CHECK(list->size() == parameters.size(), op,
                "as many states as parameters wanted: given ", list->size(), " for ",
                parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& state = (*list)[i];
      TENON_CHECK(state.numel() == parameters[i].numel() && state.is_contiguous() &&
                      state.dtype() == compute_dtype(parameters[i].dtype()),
                  op, "wanted a contiguous state in the compute dtype: given ", describe(state),
                  " for parameter ", describe(parameters[i]));
    }
  }
}

// Runs step.template run<C>(…) over all tensors; States tensors of state per parameter.
template <size_t States, class Step>
void step_all(const char* op, const TensorList& parameters, const TensorList& gradients,
              const std::array<const TensorList*, States>& lists, const Step& step) {
  std::vector<int64_t> ends(parameters.size());
  int64_t total = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    ends[i] = total += parameters[i].numel();
    bytes += static_cast<int64_t>(2 * parameters[i].nbytes() + gradients[i].nbytes());
    for (const TensorList* list : lists) bytes += 2 * static_cast<int64_t>((*list)[i].nbytes());
  }
  parallel_for(
      total, bytes,
      [&](int64_t begin, int64_t end) {
        size_t i =
            static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
        for (; i < ends.size() && begin < end; ++i) {
          const int64_t start = ends[i] - parameters[i].numel();
          const int64_t stop = std::min(end, ends[i]);
          if (begin == stop) continue;
          std::array<const Tensor*, States> states{};
          for (size_t k = 0; k < States; ++k) states[k] = &(*lists[k])[i];
          dispatch_types<float, double>(compute_dtype(parameters[i].dtype()), op, [&]<class C>() {
            step_range<C, States>(
                parameters[i], gradients[i], states, begin - start, stop - start,
                [&](int64_t n, C* p, const C* g, const std::array<C*, States>& state) {
                  step(n, p, g, state);
                });
          });
          begin = stop;
        }
      },
      64);
}

void sgd_cpu(const TensorList& parameters, const TensorList& gradients, const TensorList& momentum,
             const SgdStep& options) {
  if (options.momentum == 0) {
    check_lists("sgd", parameters, gradients, {});
    step_all<0>("sgd", parameters, gradients, {},
                [&]<class C>(int64_t n, C* p, const C* g, const std::array<C*, 0>&) {
                  const C lr = static_cast<C>(options.lr);
                  const C decay = static_cast<C>(options.weight_decay);
#pragma GCC ivdep
                  for (int64_t i = 0; i < n; ++i) p[i] -= lr * (g[i] + decay * p[i]);
                });
    return;
  }
  check_lists("sgd", parameters, gradients, {&momentum});
  step_all<1>("sgd", parameters, gradients, {&momentum},
              [&]<class C>(int64_t n, C* p, const C* g, const std::array<C*, 1>& state) {
                const C lr = static_cast<C>(options.lr);
                const C decay = static_cast<C>(options.weight_decay);
                const C factor = static_cast<C>(options.momentum);
                // A first buffer is the gradient itself, without dampening.
                const C keep = options.first ? C(0) : factor;
                const C take = options.first ? C(1) : static_cast<C>(1 - options.dampening);
                const bool first = options.first;
                const bool nesterov = options.nesterov;
                C* buffer = state[0];
#pragma GCC ivdep
                for (int64_t i = 0; i < n; ++i) {
                  const C gradient = g[i] + decay * p[i];
                  // Selected, not multiplied by 0: an unset buffer may hold NaN.
                  const C old = first ? C(0) : buffer[i];
                  const C updated = keep * old + take * gradient;
                  buffer[i] = updated;
                  p[i] -= lr * (nesterov ? gradient + factor * updated : updated);
                }
              });
}

void adam_cpu(const TensorList& parameters, const TensorList& gradients, const TensorList& mean,
              const TensorList& variance, const AdamStep& options) {
  check_lists("adam", parameters, gradients, {&mean, &variance});
  step_all<2>("adam", parameters, gradients, {&mean, &variance},
              [&]<class C>(int64_t n, C* p, const C* g, const std::array<C*, 2>& state) {
                const C beta1 = static_cast<C>(options.beta1);
                const C beta2 = static_cast<C>(options.beta2);
                const C rest1 = static_cast<C>(1 - options.beta1);
                const C rest2 = static_cast<C>(1 - options.beta2);
                const C eps = static_cast<C>(options.eps);
                const C step = static_cast<C>(options.lr / options.correction1);
                const C scale = static_cast<C>(1 / std::sqrt(options.correction2));
                const C decay = static_cast<C>(options.decoupled ? 0 : options.weight_decay);
                const C shrink =
                    static_cast<C>(options.decoupled ? 1 - options.lr * options.weight_decay : 1);
                C* m = state[0];
                C* v = state[1];
#pragma GCC ivdep
                for (int64_t i = 0; i < n; ++i) {
                  const C gradient = g[i] + decay * p[i];
                  m[i] = beta1 * m[i] + rest1 * gradient;
                  v[i] = beta2 * v[i] + rest2 * gradient * gradient;
                  p[i] = shrink * p[i] - step * m[i] / (math::sqrt(v[i]) * scale + eps);
                }
              });
}

void adadelta_cpu(const TensorList& parameters, const TensorList& gradients,
                  const TensorList& square_average, const TensorList& delta_average,
                  const AdadeltaStep& options) {
  check_lists("adadelta", parameters, gradients, {&square_average, &delta_average});
  step_all<2>("adadelta", parameters, gradients, {&square_average, &delta_average},
              [&]<class C>(int64_t n, C* p, const C* g, const std::array<C*, 2>& state) {
                const C lr = static_cast<C>(options.lr);
                const C rho = static_cast<C>(options.rho);
                const C rest = static_cast<C>(1 - options.rho);
                const C eps = static_cast<C>(options.eps);
                const C decay = static_cast<C>(options.weight_decay);
                C* squares = state[0];
                C* deltas = state[1];
#pragma GCC ivdep
                for (int64_t i = 0; i < n; ++i) {
                  const C gradient = g[i] + decay * p[i];
                  squares[i] = rho * squares[i] + rest * gradient * gradient;
                  const C delta =
                      math::sqrt(deltas[i] + eps) / math::sqrt(squares[i] + eps) * gradient;
                  deltas[i] = rho * deltas[i] + rest * delta * delta;
                  p[i] -= lr * delta;
                }
              });
}

[[maybe_unused]] const bool registered = sgd.set(DeviceType::cpu, sgd_cpu) &&
                                         adam.set(DeviceType::cpu, adam_cpu) &&
                                         adadelta.set(DeviceType::cpu, adadelta_cpu);

}  // namespace
}  // namespace tenon::kernels
