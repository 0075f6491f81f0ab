// Pointwise ops. Binary ops broadcast by numpy's rules and want one dtype and device.
#pragma once

#include <limits>

#include "tenon/core/tensor.h"

namespace tenon {

Tensor neg(const Tensor& x);
// scale * x + shift.
Tensor affine(const Tensor& x, double scale, double shift);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// x Phi(x), exact; gelu_tanh is GPT-2's approximation.
Tensor gelu(const Tensor& x);
Tensor gelu_tanh(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor clamp(const Tensor& x, double low = -std::numeric_limits<double>::infinity(),
             double high = std::numeric_limits<double>::infinity());
// x^exponent for x > 0 (exponents 1, 2, -1, 0.5 take any x of their domain).
Tensor pow(const Tensor& x, double exponent);

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
// silu(a) b: the gate of SwiGLU.
Tensor silu_mul(const Tensor& a, const Tensor& b);
// The same of the two halves of the last dimension: x (…, 2 F) to (…, F), with one gradient.
Tensor swiglu(const Tensor& x);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// Comparisons give bool tensors and have no gradient.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
// condition (bool) ? a : b, broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

// Another dtype; the gradient is cast back. The same dtype returns x itself.
Tensor to(const Tensor& x, DType dtype);
// On another device; x itself when it is there. The gradient goes back.
Tensor to(const Tensor& x, Device device);

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return affine(a, 1, b); }
inline Tensor operator-(const Tensor& a, double b) { return affine(a, 1, -b); }
inline Tensor operator*(const Tensor& a, double b) { return affine(a, b, 0); }
inline Tensor operator/(const Tensor& a, double b) { return affine(a, 1 / b, 0); }
inline Tensor operator+(double a, const Tensor& b) { return affine(b, 1, a); }
inline Tensor operator-(double a, const Tensor& b) { return affine(b, -1, a); }
inline Tensor operator*(double a, const Tensor& b) { return affine(b, a, 0); }
inline Tensor operator/(double a, const Tensor& b) { return reciprocal(b) * a; }

}  // namespace tenon
