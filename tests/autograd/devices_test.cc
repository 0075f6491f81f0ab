// Tensors on different devices. The other device is only a name: its memory is the host's, and no
// kernel touches it.
#include <catch2/catch.hpp>

#include "tenon/autograd/engine.h"
#include "tenon/autograd/meta.h"
#include "tenon/autograd/ops.h"
#include "tenon/core/factory.h"
#include "tenon/tests/support/device.h"

namespace tenon {
namespace {

using Catch::Contains;

Tensor elsewhere(const Shape& shape, DType dtype = DType::f32) {
  const auto bytes = static_cast<size_t>(shape.numel()) * size_of(dtype);
  const Device device{DeviceType::cuda, 1};
  return Tensor(std::make_shared<Storage>(bytes, device, Category::other, caching_source(kCpu)),
                dtype, shape);
}

TEST_CASE("devices: ops refuse tensors on different ones and name both") {
  const Tensor x = ones({2, 2}), other = elsewhere({2, 2});
  const Tensor ids = zeros({2}, {.dtype = DType::i64}), other_ids = elsewhere({2}, DType::i64);
  CHECK_THROWS_WITH(
      add(x, other),
      testing::here("[add] tensors on different devices: given f32 (2, 2) on cpu and f32 (2, 2) on "
                    "cuda:1"));
  auto refused = [](const char* op) {
    return Contains(str("[", op, "] tensors on different devices: given "));
  };
  CHECK_THROWS_WITH(lt(other, x), refused("lt"));
  CHECK_THROWS_WITH(where(elsewhere({2, 2}, DType::boolean), x, x), refused("where"));
  CHECK_THROWS_WITH(matmul(x, other), refused("matmul"));
  CHECK_THROWS_WITH(linear(x, other), refused("linear"));
  CHECK_THROWS_WITH(linear(x, x, elsewhere({2})), refused("linear"));
  CHECK_THROWS_WITH(conv2d(ones({1, 1, 2, 2}), elsewhere({1, 1, 1, 1})), refused("conv2d"));
  CHECK_THROWS_WITH(conv2d(ones({1, 1, 2, 2}), ones({1, 1, 1, 1}), elsewhere({1})),
                    refused("conv2d"));
  CHECK_THROWS_WITH(layer_norm(x, elsewhere({2})), refused("layer_norm"));
  CHECK_THROWS_WITH(batch_norm(x, {}, {}, elsewhere({2}), {}), refused("batch_norm"));
  CHECK_THROWS_WITH(concat({x, other}), refused("concat"));
  CHECK_THROWS_WITH(embedding(x, other_ids), refused("embedding"));
  CHECK_THROWS_WITH(index_select(other, ids), refused("index_select"));
  CHECK_THROWS_WITH(cross_entropy(x, other_ids), refused("cross_entropy"));
  CHECK_THROWS_WITH(nll_loss(other, ids), refused("nll_loss"));
  CHECK_THROWS_WITH(mse_loss(x, other), refused("sub"));
  CHECK_THROWS_WITH(copy_(x, other), refused("copy_"));
  CHECK_THROWS_WITH(add_(x, other), refused("add_"));
}

TEST_CASE("devices: gradients stay on the device of their tensor") {
  const Tensor a = set_requires_grad(ones({2}));
  CHECK_THROWS_WITH(set_grad_slot(a, elsewhere({2})),
                    Contains("[set_grad_slot] tensors on different devices"));
  CHECK_THROWS_WITH(backward(a * 2, {.gradient = elsewhere({2})}),
                    Contains("[backward] tensors on different devices"));
}

}  // namespace
}  // namespace tenon
