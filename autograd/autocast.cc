#include "tenon/autograd/autocast.h"

#include "tenon/core/check.h"

namespace tenon {
namespace {

thread_local std::optional<DType> current;

}  // namespace

std::optional<DType> autocast_dtype() { return current; }

Autocast::Autocast(std::optional<DType> dtype) : previous_(current) {
  TENON_CHECK(!dtype || is_floating(*dtype), "autocast", "cannot compute in this dtype: given ",
              *dtype, ", wanted f32, f64, f16 or bf16");
  current = dtype;
}
Autocast::~Autocast() { current = previous_; }

}  // namespace tenon
