// THE file for scalar math: forward and derivative of every pointwise op, once, as functors that
// the CPU and the CUDA loops share. A new op is a struct here and its name in the list at the end.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels {

// What backward reads: the input, the output, or nothing.
enum class Saves : uint8_t { nothing, input, output };

// Constants of an op, for example the slope of leaky_relu. Ops take them converted to T.
struct OpParams {
  double a = 0;
  double b = 0;
};
template <class T>
struct ParamsOf {
  T a;
  T b;
};

template <class... Ops>
struct OpList {};

// ---- unary: forward(x, p), backward(saved, dy, p)
// ------------------------------------------------

struct Negate {
  static constexpr const char* name = "neg";
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return -x;
  }
  template <class T>
  static TENON_HD T backward(T, T dy, ParamsOf<T>) {
    return -dy;
  }
};
// y = a x + b.
struct Affine {
  static constexpr const char* name = "affine";
  static constexpr Saves saves = Saves::nothing;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T> p) {
    return p.a * x + p.b;
  }
  template <class T>
  static TENON_HD T backward(T, T dy, ParamsOf<T> p) {
    return p.a * dy;
  }
};
struct Exp {
  static constexpr const char* name = "exp";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::exp(x);
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return dy * y;
  }
};
struct Log {
  static constexpr const char* name = "log";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::log(x);
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    return dy / x;
  }
};
struct Sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::sqrt(x);
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return dy / (T(2) * y);
  }
};
struct Rsqrt {
  static constexpr const char* name = "rsqrt";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return T(1) / math::sqrt(x);
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return T(-0.5) * dy * y * y * y;
  }
};
struct Square {
  static constexpr const char* name = "square";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return x * x;
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    return T(2) * x * dy;
  }
};
struct Reciprocal {
  static constexpr const char* name = "reciprocal";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return T(1) / x;
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return -dy * y * y;
  }
};
struct Abs {
  static constexpr const char* name = "abs";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return x < T(0) ? -x : x;
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    return x > T(0) ? dy : (x < T(0) ? -dy : T(0));
  }
};
struct Sin {
  static constexpr const char* name = "sin";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::sin(x);
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    return dy * math::cos(x);
  }
};
struct Cos {
  static constexpr const char* name = "cos";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::cos(x);
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    return -dy * math::sin(x);
  }
};
struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::tanh(x);
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return dy * (T(1) - y * y);
  }
};
struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return T(1) / (T(1) + math::exp(-x));
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return dy * y * (T(1) - y);
  }
};
struct Erf {
  static constexpr const char* name = "erf";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return math::erf(x);
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    return dy * T(1.1283791670955126) * math::exp(-x * x);  // 2 / sqrt(pi)
  }
};
struct Relu {
  static constexpr const char* name = "relu";
  static constexpr Saves saves = Saves::output;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return x < T(0) ? T(0) : x;  // keeps NaN
  }
  template <class T>
  static TENON_HD T backward(T y, T dy, ParamsOf<T>) {
    return y > T(0) ? dy : T(0);
  }
};
// a = slope for x < 0.
struct LeakyRelu {
  static constexpr const char* name = "leaky_relu";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T> p) {
    return x < T(0) ? p.a * x : x;
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T> p) {
    return x > T(0) ? dy : p.a * dy;
  }
};
// The exact form, x Phi(x) (Hendrycks and Gimpel, 2016).
struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752)));
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    const T cdf = T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752)));
    const T pdf = T(0.39894228040143268) * math::exp(T(-0.5) * x * x);
    return dy * (cdf + x * pdf);
  }
};
// The tanh form of GELU that GPT-2 uses.
struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T inner(T x) {
    return T(0.79788456080286536) * (x + T(0.044715) * x * x * x);
  }
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return T(0.5) * x * (T(1) + math::tanh(inner(x)));
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    const T t = math::tanh(inner(x));
    const T slope = T(0.79788456080286536) * (T(1) + T(3 * 0.044715) * x * x);
    return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
  }
};
struct Silu {
  static constexpr const char* name = "silu";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T>) {
    return x / (T(1) + math::exp(-x));
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T>) {
    const T s = T(1) / (T(1) + math::exp(-x));
    return dy * s * (T(1) + x * (T(1) - s));
  }
};
// x limited to [a, b].
struct Clamp {
  static constexpr const char* name = "clamp";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T> p) {
    const T low = x < p.a ? p.a : x;
    return low > p.b ? p.b : low;
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T> p) {
    return x >= p.a && x <= p.b ? dy : T(0);
  }
};
// x^a for x > 0.
struct PowScalar {
  static constexpr const char* name = "pow";
  static constexpr Saves saves = Saves::input;
  template <class T>
  static TENON_HD T forward(T x, ParamsOf<T> p) {
    return math::exp(p.a * math::log(x));
  }
  template <class T>
  static TENON_HD T backward(T x, T dy, ParamsOf<T> p) {
    return dy * p.a * math::exp((p.a - T(1)) * math::log(x));
  }
};

using UnaryOps =
    OpList<Negate, Affine, Exp, Log, Sqrt, Rsqrt, Square, Reciprocal, Abs, Sin, Cos, Tanh, Sigmoid,
           Erf, Relu, LeakyRelu, Gelu, GeluTanh, Silu, Clamp, PowScalar>;

// ---- binary: forward(a, b), and the two partial derivatives times dy
// -----------------------------

struct Add {
  static constexpr const char* name = "add";
  static constexpr bool uses_inputs = false;  // whether the derivatives read a and b
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return a + b;
  }
  template <class T>
  static TENON_HD T backward_a(T, T, T dy) {
    return dy;
  }
  template <class T>
  static TENON_HD T backward_b(T, T, T dy) {
    return dy;
  }
};
struct Sub {
  static constexpr const char* name = "sub";
  static constexpr bool uses_inputs = false;
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return a - b;
  }
  template <class T>
  static TENON_HD T backward_a(T, T, T dy) {
    return dy;
  }
  template <class T>
  static TENON_HD T backward_b(T, T, T dy) {
    return -dy;
  }
};
struct Mul {
  static constexpr const char* name = "mul";
  static constexpr bool uses_inputs = true;
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return a * b;
  }
  template <class T>
  static TENON_HD T backward_a(T, T b, T dy) {
    return dy * b;
  }
  template <class T>
  static TENON_HD T backward_b(T a, T, T dy) {
    return dy * a;
  }
};
struct Div {
  static constexpr const char* name = "div";
  static constexpr bool uses_inputs = true;
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return a / b;
  }
  template <class T>
  static TENON_HD T backward_a(T, T b, T dy) {
    return dy / b;
  }
  template <class T>
  static TENON_HD T backward_b(T a, T b, T dy) {
    return -dy * a / (b * b);
  }
};
// Equal arguments share the gradient half and half.
struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr bool uses_inputs = true;
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return a > b || a != a ? a : b;
  }
  template <class T>
  static TENON_HD T backward_a(T a, T b, T dy) {
    return a > b ? dy : (a == b ? dy / T(2) : T(0));
  }
  template <class T>
  static TENON_HD T backward_b(T a, T b, T dy) {
    return backward_a(b, a, dy);
  }
};
struct Minimum {
  static constexpr const char* name = "minimum";
  static constexpr bool uses_inputs = true;
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return a < b || a != a ? a : b;
  }
  template <class T>
  static TENON_HD T backward_a(T a, T b, T dy) {
    return a < b ? dy : (a == b ? dy / T(2) : T(0));
  }
  template <class T>
  static TENON_HD T backward_b(T a, T b, T dy) {
    return backward_a(b, a, dy);
  }
};

// The gate of SwiGLU (Shazeer 2020): silu(a) b.
struct SiluMul {
  static constexpr const char* name = "silu_mul";
  static constexpr bool uses_inputs = true;
  template <class T>
  static TENON_HD T forward(T a, T b) {
    return Silu::forward(a, {}) * b;
  }
  template <class T>
  static TENON_HD T backward_a(T a, T b, T dy) {
    return Silu::backward(a, dy * b, {});
  }
  template <class T>
  static TENON_HD T backward_b(T a, T, T dy) {
    return dy * Silu::forward(a, {});
  }
};

// Binary ops that integers do not have.
template <class Op>
inline constexpr bool kFloatingOnly = std::is_same_v<Op, Div> || std::is_same_v<Op, SiluMul>;

using BinaryOps = OpList<Add, Sub, Mul, Div, Maximum, Minimum, SiluMul>;

// ---- comparisons
// ---------------------------------------------------------------------------------

#define TENON_COMPARISON(Name, text, symbol)  \
  struct Name {                               \
    static constexpr const char* name = text; \
    template <class T>                        \
    static TENON_HD bool forward(T a, T b) {  \
      return a symbol b;                      \
    }                                         \
  };
TENON_COMPARISON(Equal, "eq", ==)
TENON_COMPARISON(NotEqual, "ne", !=)
TENON_COMPARISON(Less, "lt", <)
TENON_COMPARISON(LessEqual, "le", <=)
TENON_COMPARISON(Greater, "gt", >)
TENON_COMPARISON(GreaterEqual, "ge", >=)
#undef TENON_COMPARISON

using ComparisonOps = OpList<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual>;

}  // namespace tenon::kernels
