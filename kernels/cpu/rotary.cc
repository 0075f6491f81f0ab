// Rotary position embedding, token by token: the angles of a token serve all its heads.
#include "tenon/kernels/rotary.h"

#include <algorithm>

#include "tenon/core/dispatch_dtype.h"
#include "tenon/core/parallel.h"

namespace tenon::kernels {
namespace {

// Turns a head's pairs (x[i], x[i + half]) by the angles; `sign` is -1 to turn back.
template <class T>
void turn(const T* x, T* out, const Compute<T>* cosines, const Compute<T>* sines, Compute<T> sign,
          int64_t half) {
  using C = Compute<T>;
#pragma GCC ivdep
  for (int64_t i = 0; i < half; ++i) {
    const C a = static_cast<C>(x[i]);
    const C b = static_cast<C>(x[i + half]);
    const C sine = sign * sines[i];
    out[i] = static_cast<T>(a * cosines[i] - b * sine);
    out[i + half] = static_cast<T>(b * cosines[i] + a * sine);
  }
}

void rotary_cpu(const Tensor& x, const Tensor& cosines, const Tensor& sines, Tensor& out,
                const RotaryParams& params) {
  const int64_t length = x.dim(1);
  const int64_t heads = x.dim(2);
  const int64_t width = x.dim(3);
  const Strides& from = x.strides();
  const Strides& to = out.strides();
  dispatch_floating(x.dtype(), "rotary", [&]<class T>() {
    using C = Compute<T>;
    const C sign = params.inverse ? C(-1) : C(1);
    parallel_for(
        x.dim(0) * length, static_cast<int64_t>(2 * x.nbytes()), [&](int64_t begin, int64_t end) {
          for (int64_t token = begin; token < end; ++token) {
            const int64_t batch = token / length, t = token % length;
            const C* const cosine = cosines.data<C>() + t * (width / 2);
            const C* const sine = sines.data<C>() + t * (width / 2);
            for (int64_t head = 0; head < heads; ++head) {
              const T* const source = x.data<T>() + batch * from[0] + t * from[1] + head * from[2];
              T* const target = out.data<T>() + batch * to[0] + t * to[1] + head * to[2];
              if (head < params.heads) {
                turn(source, target, cosine, sine, sign, width / 2);
              } else if (target != source) {
                std::copy_n(source, width, target);
              }
            }
          }
        });
  });
}

[[maybe_unused]] const bool registered = rotary.set(DeviceType::cpu, rotary_cpu);

}  // namespace
}  // namespace tenon::kernels
