// Fused optimizer steps: one pass over parameter, gradient and state of all tensors. The elements
// of all tensors count as one range that is split over the threads, so that a few large and many
// small tensors are equally well spread.
#include "tenon/kernels/optimizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"
#include "tenon/kernels/cpu/convert.h"
#include "tenon/kernels/optimizer_lists.h"
#include "tenon/kernels/optimizer_math.h"

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

// Elements [begin, end) of one tensor.
template <class Update, class C>
void step_range(const Update& update, const Tensor& parameter, const Tensor& gradient,
                const std::array<const Tensor*, Update::kStates>& states, int64_t begin,
                int64_t end) {
  alignas(64) C parameter_buffer[kChunk];
  alignas(64) C gradient_buffer[kChunk];
  for (; begin < end; begin += kChunk) {
    const int64_t n = std::min(kChunk, end - begin);
    C* p = load(parameter, begin, n, parameter_buffer);
    const C* g = load(gradient, begin, n, gradient_buffer);
    [&]<size_t... K>(std::index_sequence<K...>) {
      const std::array<C*, sizeof...(K)> state{(states[K]->template data<C>() + begin)...};
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) update(p[i], g[i], state[K][i]...);
    }
    (std::make_index_sequence<Update::kStates>{});
    if (p == parameter_buffer) {
      cpu::row_converter(dtype_of<C>, parameter.dtype())(
          p, 1, cpu::at_element(parameter.raw_data(), parameter.dtype(), begin), 1, n);
    }
  }
}

// Update<C> on all tensors.
template <template <class> class Update, class Step, class... Lists>
void step_all(const char* op, const Step& step, const TensorList& parameters,
              const TensorList& gradients, const Lists&... lists) {
  check_lists(op, parameters, gradients, {&lists...});
  std::vector<int64_t> ends(parameters.size());
  int64_t total = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    ends[i] = total += parameters[i].numel();
    const size_t states = (size_t{0} + ... + lists[i].nbytes());
    bytes += static_cast<int64_t>(2 * parameters[i].nbytes() + gradients[i].nbytes() + 2 * states);
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
          dispatch_types<float, double>(compute_dtype(parameters[i].dtype()), op, [&]<class C>() {
            step_range<Update<C>, C>(Update<C>(step), parameters[i], gradients[i], {&lists[i]...},
                                     begin - start, stop - start);
          });
          begin = stop;
        }
      },
      64);
}

void sgd_cpu(const TensorList& parameters, const TensorList& gradients, const TensorList& momentum,
             const SgdStep& step) {
  if (step.momentum == 0) {
    step_all<SgdUpdate>("sgd", step, parameters, gradients);
  } else {
    step_all<MomentumUpdate>("sgd", step, parameters, gradients, momentum);
  }
}

void adam_cpu(const TensorList& parameters, const TensorList& gradients, const TensorList& mean,
              const TensorList& variance, const AdamStep& step) {
  step_all<AdamUpdate>("adam", step, parameters, gradients, mean, variance);
}

void adadelta_cpu(const TensorList& parameters, const TensorList& gradients,
                  const TensorList& square_average, const TensorList& delta_average,
                  const AdadeltaStep& step) {
  step_all<AdadeltaUpdate>("adadelta", step, parameters, gradients, square_average, delta_average);
}

[[maybe_unused]] const bool registered = sgd.set(DeviceType::cpu, sgd_cpu) &&
                                         adam.set(DeviceType::cpu, adam_cpu) &&
                                         adadelta.set(DeviceType::cpu, adadelta_cpu);

}  // namespace
}  // namespace tenon::kernels
