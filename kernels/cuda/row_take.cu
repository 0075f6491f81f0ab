// Embedding and index_select on the GPU.
#include "tenon/kernels/copy.h"
#include "tenon/kernels/cuda/row_index.h"
#include "tenon/kernels/embedding.h"

namespace tenon::kernels::cuda {
namespace {

template <class Bits, int V>
__global__ void __launch_bounds__(kMapBlock)
    take_kernel(Slices slices, IdList ids, int64_t limit, int64_t to_stride, int64_t from_stride,
                Bits* to, const Bits* from, tenon::cuda::FaultSink fault) {
  const int64_t step = int64_t{gridDim.x} * kMapBlock;
  for (int64_t unit = int64_t{blockIdx.x} * kMapBlock + threadIdx.x; unit < slices.work();
       unit += step) {
    const auto share = slices.share(unit);
    int64_t id = ids[share.slice];
    if (id < 0 || id >= limit) {
      fault.raise(id, share.slice, limit);
      if (limit == 0) return;
      id = 0;
    }
    const auto place = slices.groups().template place<V>(share.group);
    const auto values = slices.groups().template load<V>(from + id * from_stride, 1, place);
    slices.groups().template store<V>(to + share.slice * to_stride, 0, place, values);
  }
}

void take_slices(const char* op, const Tensor& x, const Tensor& ids, Tensor& out, int axis) {
  const IdList list(op, ids);
  check_same_dtype(op, x, out);
  if (out.numel() == 0) return;
  const auto fault = tenon::cuda::fault_sink(out.device(), {op, "id", "at place"});
  with_bits(size_of(x.dtype()), [&]<class Bits>() {
    constexpr int kVector = kGroup<Bits>;
    const Slices slices(out, x, axis, kVector, list.count);
    simt::launch(op, take_kernel<Bits, kVector>, grid_for(out.device(), slices.work(), kMapBlock),
                 kMapBlock, 0, tenon::cuda::stream_of(out), slices, list, x.dim(axis),
                 out.strides()[axis], x.strides()[axis], static_cast<Bits*>(out.raw_data()),
                 data_or_null<const Bits>(x), fault);
  });
}

void embedding_cuda(const Tensor& weight, const Tensor& ids, Tensor& out) {
  take_slices("embedding", weight, ids, out, 0);
}

void index_select_cuda(const Tensor& x, const Tensor& ids, Tensor& out, int axis) {
  take_slices("index_select", x, ids, out, axis);
}

[[maybe_unused]] const bool registered = embedding.set(DeviceType::cuda, embedding_cuda) &&
                                         index_select.set(DeviceType::cuda, index_select_cuda);

}  // namespace
}  // namespace tenon::kernels::cuda
