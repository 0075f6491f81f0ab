// Fused cross-entropy: one pass over the logits forward, one backward; no matrix of probabilities.
// The negative log-likelihood reads one element a row.
#include "tenon/kernels/loss.h"

#include "tenon/core/cuda/fault.h"
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cuda/reduce_kernel.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels::cuda {
namespace {

struct Targets {
  // A value that no target has, for a loss that leaves no row out.
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

  Targets(const char* op, const Tensor& targets, const Tensor& logits, int64_t ignored)
      : data(targets.raw_data()),
        stride(targets.strides()[0]),
        narrow(targets.dtype() == DType::i32),
        classes(logits.dim(1)),
        ignore_index(ignored),
        fault(tenon::cuda::fault_sink(logits.device(), {op, "target", "in row"})) {
    TENON_CHECK(narrow || targets.dtype() == DType::i64, op, "unsupported targets: given ",
                describe(targets), ", wanted i64 or i32");
  }

  // -1 for a row that does not count, as one with a wrong target does not.
  __device__ int64_t at(int64_t row) const {
    const int64_t target = narrow ? static_cast<const int32_t*>(data)[row * stride]
                                  : static_cast<const int64_t*>(data)[row * stride];
    if (target == ignore_index) return -1;
    if (target >= 0 && target < classes) return target;
    fault.raise(target, row, classes);
    return -1;
  }

  const void* data;
  int64_t stride;
  bool narrow;
  int64_t classes;
  int64_t ignore_index;
  tenon::cuda::FaultSink fault;
};

struct LossJob {
  Targets targets;
  int64_t rows;
  int64_t row_stride;  // of logits
  int64_t stride;
  double smoothing;
  double z_loss;
  int group = 1;  // threads of a row
};

// Sum of exp with a running maximum.
template <class C>
struct LogSumExp {
  template <int V>
  __device__ void add(const C (&x)[V]) {
    C peak = most;
    for (int j = 0; j < V; ++j) peak = MaxNumberOp()(peak, x[j]);
    if (peak > most) raise_to(peak);
    C part = 0;
    for (int j = 0; j < V; ++j) part += math::exp_not_positive(x[j] - shift());
    sum += static_cast<double>(part);
  }
  __device__ void raise_to(C peak) {
    if (sum != 0) sum *= math::exp(static_cast<double>(shift()) - static_cast<double>(peak));
    most = peak;
  }
  // What is subtracted before exp: the maximum, or 0 where that is -infinity (exp then gives 0).
  __device__ C shift() const { return most == lowest() ? C(0) : most; }
  __device__ static C lowest() { return -std::numeric_limits<C>::infinity(); }

  C most = lowest();
  double sum = 0;
};

// Leaves each row's log-sum-exp, and its loss with a 1 where it counts.
template <class T, int V>
__global__ void __launch_bounds__(kRowBlock, 3)  // f64 needs 80 registers
    loss_rows(const T* logits, Compute<T>* log_sum_exp, Pair<double>* losses, LossJob job) {
  using C = Compute<T>;
  const RowThread thread(job.group);
  const int64_t classes = job.targets.classes;
  thread.for_each_row(job.rows, [&](int64_t row, bool exists) {
    Rows<T, V, 1> rows(thread, exists ? classes : 0, nullptr);
    const T* const data = logits + row * job.row_stride;
    rows.set(0, data, job.stride);
    LogSumExp<C> exps;
    double total = 0;
    rows.load([&](int64_t, const auto& values) {
      exps.add(values.x[0]);
      if (job.smoothing == 0) return;
      C part = 0;
      for (int j = 0; j < V; ++j) part += values.x[0][j];
      total += static_cast<double>(part);
    });
    const C most = thread.reduce(exps.most, MaxNumberOp(), exps.lowest());
    if (most > exps.most) exps.raise_to(most);
    const auto sums = thread.reduce(Pair<double>{exps.sum, total}, AddPairOp(), {0, 0});
    if (!exists || thread.rank != 0) return;
    exps.most = most;
    const double normal = static_cast<double>(exps.shift()) + math::log(sums.a);
    log_sum_exp[row] = static_cast<C>(normal);
    const int64_t target = job.targets.at(row);
    losses[row] = {0, 0};
    if (target < 0) return;
    const auto logit = static_cast<double>(static_cast<C>(data[target * job.stride]));
    double value = normal - (1 - job.smoothing) * logit;
    if (job.smoothing != 0) value -= job.smoothing / static_cast<double>(classes) * sums.b;
    losses[row] = {value + job.z_loss * normal * normal, 1};
  });
}

struct LossSource {
  static constexpr int kOperands = 1;
  static constexpr int kVector = 1;
  using Value = Pair<double>;
  using Op = AddPairOp;
  __host__ __device__ static Value identity() { return {0, 0}; }

  template <bool rows, int V>
  __device__ void values(const Offsets<1>& place, int64_t, int64_t, Value (&values)[V]) const {
    values[0] = losses[place.at[0]];
  }

  const Value* losses;
  Op op{};
};

template <class C>
struct LossFinish {
  __device__ void operator()(int64_t, Pair<double> sums) const {
    const double total = divisor != 0 ? divisor : sums.b;
    *loss = static_cast<C>(total != 0 ? sums.a / total : 0);
    if (weight != nullptr) *weight = static_cast<C>(total != 0 ? 1 / total : 0);
  }

  double divisor;
  C* loss;
  C* weight;
};

template <class T, int V>
__global__ void __launch_bounds__(kRowBlock, 3)
    loss_backward_rows(const T* logits, const Compute<T>* log_sum_exp, const Compute<T>* weight,
                       AnyList dloss, T* dlogits, int64_t gradient_row_stride,
                       int64_t gradient_stride, LossJob job) {
  using C = Compute<T>;
  const RowThread thread(job.group);
  const int64_t classes = job.targets.classes;
  const C factor = static_cast<C>(static_cast<double>(*weight) * dloss.load<double>(0));
  const C on_target = static_cast<C>(1 - job.smoothing) * factor;
  const C everywhere = static_cast<C>(job.smoothing / static_cast<double>(classes)) * factor;
  thread.for_each_row(job.rows, [&](int64_t row, bool exists) {
    if (!exists) return;
    const int64_t target = job.targets.at(row);
    const C normal = log_sum_exp[row];
    const C scale = factor * (1 + static_cast<C>(2 * job.z_loss) * normal);
    Rows<T, V, 1> rows(thread, classes, nullptr);
    rows.set(0, logits + row * job.row_stride, job.stride);
    rows.write(dlogits + row * gradient_row_stride, gradient_stride, [&](int64_t i, auto& values) {
      for (int j = 0; j < V; ++j) {
        C& value = values.x[0][j];
        value = scale * math::exp_not_positive(value - normal) - everywhere;
        if (i + j == target) value -= on_target;
        if (target < 0) value = 0;
      }
    });
  });
}

LossJob loss_job(const char* op, const Tensor& logits, const Tensor& targets,
                 const CrossEntropyParams& params) {
  return {Targets(op, targets, logits, params.ignore_index),
          logits.dim(0),
          logits.strides()[0],
          logits.strides()[1],
          params.label_smoothing,
          params.z_loss};
}

// The rows' losses and how many count, in a fixed order; divisor 0: the number that count.
template <class C>
void sum_losses(const char* op, const Pair<double>* losses, int64_t rows, double divisor,
                const Tensor& loss, C* weight) {
  const Strides dense{1};
  const std::array<const Strides*, 1> strides{&dense};
  reduce(op, loss.device(), LoopPlan(Shape{1}, strides), LoopPlan(Shape{rows}, strides), false,
         LossSource{losses}, LossFinish<C>{divisor, loss.data<C>(), weight});
}

bool packs(const Tensor& matrix, int64_t vector) {
  return is_aligned(matrix) && matrix.strides()[1] == 1 && matrix.strides()[0] % vector == 0 &&
         matrix.dim(1) % vector == 0;
}

void cross_entropy_cuda(const Tensor& logits, const Tensor& targets, Tensor& loss,
                        Tensor& log_sum_exp, Tensor& weight, const CrossEntropyParams& params) {
  constexpr const char* op = "cross_entropy";
  LossJob job = loss_job(op, logits, targets, params);
  const tenon::cuda::Scratch scratch(logits.device(),
                                     static_cast<size_t>(job.rows) * sizeof(Pair<double>));
  auto* const losses = scratch.data<Pair<double>>();
  dispatch_floating(logits.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    with_vector<T>(packs(logits, kPacked<T>), [&]<int V>() {
      const RowGrid grid(job.rows, logits.dim(1), V, 0);
      job.group = grid.group;
      simt::launch(op, loss_rows<T, V>, dim3(grid.blocks), dim3(kRowBlock), 0,
                   tenon::cuda::stream_of(logits), logits.data<T>(), log_sum_exp.data<C>(), losses,
                   job);
    });
    sum_losses<C>(op, losses, job.rows, params.divisor, loss, weight.data<C>());
  });
}

void cross_entropy_backward_cuda(const Tensor& logits, const Tensor& targets,
                                 const Tensor& log_sum_exp, const Tensor& weight,
                                 const Tensor& dloss, Tensor& dlogits,
                                 const CrossEntropyParams& params) {
  if (logits.numel() == 0) return;
  constexpr const char* op = "cross_entropy_backward";
  LossJob job = loss_job(op, logits, targets, params);
  dispatch_floating(logits.dtype(), op, [&]<class T>() {
    using C = Compute<T>;
    const bool packed = packs(logits, kPacked<T>) && packs(dlogits, kPacked<T>);
    with_vector<T>(packed, [&]<int V>() {
      const RowGrid grid(job.rows, logits.dim(1), V, 0);
      job.group = grid.group;
      simt::launch(op, loss_backward_rows<T, V>, dim3(grid.blocks), dim3(kRowBlock), 0,
                   tenon::cuda::stream_of(logits), logits.data<T>(), log_sum_exp.data<C>(),
                   weight.data<C>(), AnyList(&dloss), dlogits.data<T>(), dlogits.strides()[0],
                   dlogits.strides()[1], job);
    });
  });
}

template <class T>
__global__ void __launch_bounds__(kRowBlock)
    nll_rows(const T* data, int64_t row_stride, int64_t stride, int64_t rows, Pair<double>* losses,
             Targets targets) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowBlock + threadIdx.x;
  if (row >= rows) return;
  const int64_t target = targets.at(row);
  losses[row] = {0, 1};
  if (target < 0) return;
  losses[row].a =
      -static_cast<double>(static_cast<Compute<T>>(data[row * row_stride + target * stride]));
}

template <class T>
__global__ void __launch_bounds__(kRowBlock)
    nll_backward_rows(AnyList dloss, T* gradient, int64_t row_stride, int64_t stride, int64_t rows,
                      Targets targets) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowBlock + threadIdx.x;
  if (row >= rows) return;
  const int64_t target = targets.at(row);
  if (target < 0) return;
  gradient[row * row_stride + target * stride] =
      static_cast<T>(static_cast<Compute<T>>(-dloss.load<double>(0) / static_cast<double>(rows)));
}

void nll_loss_cuda(const Tensor& log_probabilities, const Tensor& targets, Tensor& loss) {
  constexpr const char* op = "nll_loss";
  const int64_t rows = log_probabilities.dim(0);
  const Strides& steps = log_probabilities.strides();
  const tenon::cuda::Scratch scratch(loss.device(),
                                     static_cast<size_t>(rows) * sizeof(Pair<double>));
  auto* const losses = scratch.data<Pair<double>>();
  dispatch_floating(log_probabilities.dtype(), op, [&]<class T>() {
    if (rows > 0) {
      simt::launch(op, nll_rows<T>, dim3(static_cast<unsigned>(divide_up(rows, kRowBlock))),
                   dim3(kRowBlock), 0, tenon::cuda::stream_of(loss), log_probabilities.data<T>(),
                   steps[0], steps[1], rows, losses,
                   Targets(op, targets, log_probabilities, Targets::kNone));
    }
    sum_losses<Compute<T>>(op, losses, rows, static_cast<double>(rows), loss, nullptr);
  });
}

void nll_loss_backward_cuda(const Tensor& targets, const Tensor& dloss,
                            Tensor& dlog_probabilities) {
  constexpr const char* op = "nll_loss_backward";
  fill(DeviceType::cuda, dlog_probabilities, 0.0);
  const int64_t rows = dlog_probabilities.dim(0);
  if (rows == 0) return;
  const Strides& steps = dlog_probabilities.strides();
  dispatch_floating(dlog_probabilities.dtype(), op, [&]<class T>() {
    simt::launch(op, nll_backward_rows<T>, dim3(static_cast<unsigned>(divide_up(rows, kRowBlock))),
                 dim3(kRowBlock), 0, tenon::cuda::stream_of(dlog_probabilities), AnyList(&dloss),
                 dlog_probabilities.data<T>(), steps[0], steps[1], rows,
                 Targets(op, targets, dlog_probabilities, Targets::kNone));
  });
}

[[maybe_unused]] const bool registered =
    cross_entropy.set(DeviceType::cuda, cross_entropy_cuda) &&
    cross_entropy_backward.set(DeviceType::cuda, cross_entropy_backward_cuda) &&
    nll_loss.set(DeviceType::cuda, nll_loss_cuda) &&
    nll_loss_backward.set(DeviceType::cuda, nll_loss_backward_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
