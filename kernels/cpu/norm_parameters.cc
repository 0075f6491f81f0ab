#include "tenon/kernels/cpu/norm_parameters.h"

#include "tenon/core/dispatch_dtype.h"
#include "tenon/kernels/cpu/convert.h"

namespace tenon::kernels::cpu {

template <class C>
std::vector<C> parameter_values(const Tensor* parameter, int64_t n, C otherwise) {
  std::vector<C> values(static_cast<size_t>(n), otherwise);
  if (parameter == nullptr || n == 0) return values;
  row_converter(parameter->dtype(), dtype_of<C>)(parameter->raw_data(), parameter->strides()[0],
                                                 values.data(), 1, n);
  return values;
}
template std::vector<float> parameter_values(const Tensor*, int64_t, float);
template std::vector<double> parameter_values(const Tensor*, int64_t, double);

void write_gradient(const std::vector<double>& values, Tensor* gradient, bool accumulate) {
  if (gradient == nullptr || values.empty()) return;
  dispatch_floating(gradient->dtype(), "norm", [&]<class T>() {
    T* const data = gradient->data<T>();
    const int64_t stride = gradient->strides()[0];
    for (size_t i = 0; i < values.size(); ++i) {
      T& element = data[static_cast<int64_t>(i) * stride];
      const double old = accumulate ? static_cast<double>(static_cast<Compute<T>>(element)) : 0;
      element = static_cast<T>(static_cast<Compute<T>>(old + values[i]));
    }
  });
}

}  // namespace tenon::kernels::cpu
