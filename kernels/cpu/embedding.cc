// Row look-up and its transpose.
#include "tenon/kernels/embedding.h"

#include "tenon/kernels/copy.h"
#include "tenon/kernels/cpu/row_index.h"

namespace tenon::kernels {
namespace {

void embedding_cpu(const Tensor& weight, const Tensor& ids, Tensor& out) {
  cpu::take_slices("embedding", weight, ids, out, 0);
}

void embedding_backward_cpu(const Tensor& dout, const Tensor& ids, Tensor& dweight,
                            bool accumulate) {
  if (!accumulate) fill(DeviceType::cpu, dweight, 0);
  cpu::add_slices("embedding_backward", dout, ids, dweight, 0);
}

void index_select_cpu(const Tensor& x, const Tensor& ids, Tensor& out, int axis) {
  cpu::take_slices("index_select", x, ids, out, axis);
}

void index_add_cpu(const Tensor& dout, const Tensor& ids, Tensor& dx, int axis) {
  cpu::add_slices("index_add", dout, ids, dx, axis);
}

[[maybe_unused]] const bool registered =
    embedding.set(DeviceType::cpu, embedding_cpu) &&
    embedding_backward.set(DeviceType::cpu, embedding_backward_cpu) &&
    index_select.set(DeviceType::cpu, index_select_cpu) &&
    index_add.set(DeviceType::cpu, index_add_cpu);

}  // namespace
}  // namespace tenon::kernels
