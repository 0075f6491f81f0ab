// Fused optimizer steps on the GPU: one pass over parameter, gradient and state of many tensors in
// few launches. A table of the tensors is the kernel's parameter; a block takes a chunk of one.
#include "tenon/kernels/optimizer.h"

#include <algorithm>
#include <utility>

#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/optimizer_lists.h"
#include "tenon/kernels/optimizer_math.h"

namespace tenon::kernels::cuda {
namespace {

constexpr int kTensors = 72;  // of a launch: parameters of a kernel have room for 4 KB
constexpr int kGroupSize = 4;
constexpr int64_t kChunk = 4 * kMapBlock * kGroupSize;  // elements of a block
constexpr int kMaxStates = 2;

struct TensorTable {
  void* parameters[kTensors];
  const void* gradients[kTensors];
  void* states[kMaxStates][kTensors];
  int64_t sizes[kTensors];
  int64_t first_block[kTensors];
  int count = 0;
  int64_t blocks = 0;
};
static_assert(sizeof(TensorTable) <= 4096 - 128, "parameters of a kernel have room for 4 KB");

// The tensor whose blocks `block` is one of.
__device__ int find_tensor(const TensorTable& table, int64_t block) {
  int low = 0, high = table.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.first_block[middle] <= block ? low : high) = middle;
  }
  return low;
}

__device__ bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Elements [at, at + kGroupSize) of `data`, as far as they lie before `end`.
template <class T>
__device__ Packed<T, kGroupSize> load_some(const T* data, int64_t at, int64_t end, bool packed) {
  if (packed && at + kGroupSize <= end) return load_packed<kGroupSize>(data + at);
  Packed<T, kGroupSize> values{};
#pragma unroll
  for (int j = 0; j < kGroupSize; ++j) {
    if (at + j < end) values.value[j] = data[at + j];
  }
  return values;
}
template <class T>
__device__ void store_some(T* data, int64_t at, int64_t end, bool packed,
                           const Packed<T, kGroupSize>& values) {
  if (packed && at + kGroupSize <= end) return store_packed(data + at, values);
#pragma unroll
  for (int j = 0; j < kGroupSize; ++j) {
    if (at + j < end) data[at + j] = values.value[j];
  }
}

// A first momentum buffer holds nothing that could be read.
template <class Update>
__device__ bool reads_states(const Update& update) {
  if constexpr (requires { update.first; }) return !update.first;
  return true;
}

template <class Update, class P, class G, size_t... K>
__device__ void step_tensor(const Update& update, const TensorTable& table, int tensor,
                            int64_t begin, int64_t end, std::index_sequence<K...>) {
  using C = Compute<P>;
  P* const parameter = static_cast<P*>(table.parameters[tensor]);
  const G* const gradient = static_cast<const G*>(table.gradients[tensor]);
  bool packed = is_aligned(parameter) && is_aligned(gradient);
  ((packed = packed && is_aligned(table.states[K][tensor])), ...);
  for (int64_t at = begin + int64_t{threadIdx.x} * kGroupSize; at < end;
       at += kMapBlock * kGroupSize) {
    auto p = load_some(parameter, at, end, packed);
    const auto g = load_some(gradient, at, end, packed);
    Packed<C, kGroupSize> state[kMaxStates] = {};
    if (reads_states(update)) {
      ((state[K] = load_some(static_cast<const C*>(table.states[K][tensor]), at, end, packed)),
       ...);
    }
#pragma unroll
    for (int j = 0; j < kGroupSize; ++j) {
      C value = to_compute(p.value[j]);
      update(value, static_cast<C>(to_compute(g.value[j])), state[K].value[j]...);
      p.value[j] = static_cast<P>(value);
    }
    store_some(parameter, at, end, packed, p);
    (store_some(static_cast<C*>(table.states[K][tensor]), at, end, packed, state[K]), ...);
  }
}

template <class Update, class P, class G>
__global__ void __launch_bounds__(kMapBlock) step_kernel(Update update, TensorTable table) {
  const int tensor = find_tensor(table, blockIdx.x);
  const int64_t begin = (blockIdx.x - table.first_block[tensor]) * kChunk;
  const int64_t end = min(begin + kChunk, table.sizes[tensor]);
  step_tensor<Update, P, G>(update, table, tensor, begin, end,
                            std::make_index_sequence<Update::kStates>{});
}

using Lists = std::initializer_list<const TensorList*>;

void append(TensorTable& table, const Tensor& parameter, const Tensor& gradient, Lists states,
            size_t i) {
  const auto at = static_cast<size_t>(table.count++);
  table.parameters[at] = parameter.raw_data();
  table.gradients[at] = gradient.raw_data();
  size_t k = 0;
  for (const TensorList* list : states) table.states[k++][at] = (*list)[i].raw_data();
  table.sizes[at] = parameter.numel();
  table.first_block[at] = table.blocks;
  table.blocks += (parameter.numel() + kChunk - 1) / kChunk;
}

// A step of the tensors from `first` on that have the dtypes of that one; marks them in `done`.
template <class Update, class P, class G>
void step_alike(const char* op, const Update& update, const TensorList& parameters,
                const TensorList& gradients, Lists states, size_t first, std::vector<bool>& done) {
  TensorTable table;
  const auto launch = [&] {
    simt::launch(op, step_kernel<Update, P, G>, static_cast<unsigned>(table.blocks), kMapBlock, 0,
                 tenon::cuda::stream_of(parameters[first]), update, table);
    table.count = 0;
    table.blocks = 0;
  };
  for (size_t i = first; i < parameters.size(); ++i) {
    if (done[i] || parameters[i].dtype() != dtype_of<P> || gradients[i].dtype() != dtype_of<G>) {
      continue;
    }
    done[i] = true;
    if (parameters[i].numel() == 0) continue;
    append(table, parameters[i], gradients[i], states, i);
    if (table.count == kTensors) launch();
  }
  launch();
}

// Update<C> on all tensors.
template <template <class> class Update, class Step>
void step_all(const char* op, const Step& step, const TensorList& parameters,
              const TensorList& gradients, Lists states) {
  check_lists(op, parameters, gradients, states);
  std::vector<bool> done(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (done[i]) continue;
    dispatch_floating(parameters[i].dtype(), op, [&]<class P>() {
      using C = Compute<P>;
      dispatch_floating(gradients[i].dtype(), op, [&]<class G>() {
        if constexpr (std::is_same_v<G, P> || std::is_same_v<G, C> || std::is_same_v<G, double>) {
          step_alike<Update<C>, P, G>(op, Update<C>(step), parameters, gradients, states, i, done);
        } else {
          fail(op, "a gradient of the parameter's or a wider dtype is wanted: given ",
               describe(gradients[i]), " for ", describe(parameters[i]));
        }
      });
    });
  }
}

void sgd_cuda(const TensorList& parameters, const TensorList& gradients, const TensorList& momentum,
              const SgdStep& step) {
  if (step.momentum == 0) {
    step_all<SgdUpdate>("sgd", step, parameters, gradients, {});
  } else {
    step_all<MomentumUpdate>("sgd", step, parameters, gradients, {&momentum});
  }
}

void adam_cuda(const TensorList& parameters, const TensorList& gradients, const TensorList& mean,
               const TensorList& variance, const AdamStep& step) {
  step_all<AdamUpdate>("adam", step, parameters, gradients, {&mean, &variance});
}

void adadelta_cuda(const TensorList& parameters, const TensorList& gradients,
                   const TensorList& square_average, const TensorList& delta_average,
                   const AdadeltaStep& step) {
  step_all<AdadeltaUpdate>("adadelta", step, parameters, gradients,
                           {&square_average, &delta_average});
}

[[maybe_unused]] const bool registered = sgd.set(DeviceType::cuda, sgd_cuda) &&
                                         adam.set(DeviceType::cuda, adam_cuda) &&
                                         adadelta.set(DeviceType::cuda, adadelta_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
