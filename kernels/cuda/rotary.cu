// Rotary position embedding on the GPU: a thread turns a group of neighbouring pairs of a head.
#include "tenon/kernels/cuda/strided.h"
#include "tenon/kernels/rotary.h"

namespace tenon::kernels::cuda {
namespace {

struct HeadStrides {
  explicit HeadStrides(const Tensor& tensor)
      : batch(tensor.strides()[0]), position(tensor.strides()[1]), head(tensor.strides()[2]) {}
  bool packs(int64_t vector) const {
    return batch % vector == 0 && position % vector == 0 && head % vector == 0;
  }
  __device__ int64_t at(int64_t b, int64_t t, int64_t n) const {
    return b * batch + t * position + n * head;
  }

  int64_t batch, position, head;
};

struct RotaryJob {
  HeadStrides x, out;
  int64_t half;     // pairs of a head
  int64_t turned;   // heads
  int64_t visited;  // heads
  int64_t positions;
  bool inverse;
  int64_t in_head = 1;  // groups
  int64_t count = 0;    // groups
  Divisor by_head{}, by_heads{}, by_positions{};

  void lay_out(int64_t batches, int vector) {
    in_head = half / vector;
    count = batches * positions * visited * in_head;
    by_head = Divisor(in_head);
    by_heads = Divisor(visited);
    by_positions = Divisor(positions);
  }
};

template <class T, int V>
__global__ void __launch_bounds__(kMapBlock)
    turn_heads(const T* x, const Compute<T>* cosines, const Compute<T>* sines, T* out,
               RotaryJob job) {
  using C = Compute<T>;
  const int64_t step = int64_t{gridDim.x} * kMapBlock;
  for (int64_t group = int64_t{blockIdx.x} * kMapBlock + threadIdx.x; group < job.count;
       group += step) {
    const int64_t row = job.by_head.divide(group), i = (group - row * job.in_head) * V;
    const int64_t token = job.by_heads.divide(row), head = row - token * job.visited;
    const int64_t batch = job.by_positions.divide(token), position = token - batch * job.positions;
    const T* const from = x + job.x.at(batch, position, head) + i;
    T* const to = out + job.out.at(batch, position, head) + i;
    Packed<T, V> a = load_packed<V>(from), b = load_packed<V>(from + job.half);
    if (head < job.turned) {
      const Packed<C, V> cosine = load_packed<V>(cosines + position * job.half + i);
      const Packed<C, V> sine = load_packed<V>(sines + position * job.half + i);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C c = cosine.value[j], s = job.inverse ? -sine.value[j] : sine.value[j];
        const C first = static_cast<C>(a.value[j]), second = static_cast<C>(b.value[j]);
        a.value[j] = static_cast<T>(first * c - second * s);
        b.value[j] = static_cast<T>(second * c + first * s);
      }
    }
    store_packed(to, a);
    store_packed(to + job.half, b);
  }
}

void rotary_cuda(const Tensor& x, const Tensor& cosines, const Tensor& sines, Tensor& out,
                 const RotaryParams& params) {
  check_same_dtype("rotary", x, out);
  if (x.numel() == 0) return;
  const bool in_place = x.raw_data() == out.raw_data() && x.strides() == out.strides();
  RotaryJob job{HeadStrides(x),
                HeadStrides(out),
                x.dim(3) / 2,
                params.heads,
                in_place ? params.heads : x.dim(2),
                x.dim(1),
                params.inverse};
  dispatch_floating(x.dtype(), "rotary", [&]<class T>() {
    using C = Compute<T>;
    const bool packed = job.half % kPacked<T> == 0 && job.x.packs(kPacked<T>) &&
                        job.out.packs(kPacked<T>) && is_aligned(x) && is_aligned(out) &&
                        is_aligned(cosines) && is_aligned(sines);
    with_vector<T>(packed, [&]<int V>() {
      job.lay_out(x.dim(0), V);
      if (job.count == 0) return;
      simt::launch("rotary", turn_heads<T, V>, grid_for(x.device(), job.count, kMapBlock),
                   kMapBlock, 0, tenon::cuda::stream_of(x), x.data<T>(), cosines.data<C>(),
                   sines.data<C>(), out.data<T>(), job);
    });
  });
}

[[maybe_unused]] const bool registered = rotary.set(DeviceType::cuda, rotary_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
