#include "tenon/core/dtype.h"

#include "tenon/core/check.h"

namespace tenon {

DType dtype_from_name(const std::string& name) {
  std::string valid;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (name == name_of(dtype)) return dtype;
    valid += str(i == 0 ? "" : ", ", name_of(dtype));
  }
  fail("dtype", "unknown dtype: given '", name, "', wanted one of ", valid);
}

}  // namespace tenon
