// The update of one element by each optimizer, the same for all devices. Parameter and states are
// of the compute dtype C; constants are converted to it once.
#pragma once

#include <cmath>

#include "tenon/kernels/optimizer.h"
#include "tenon/kernels/scalar_math.h"

namespace tenon::kernels {

template <class C>
struct SgdUpdate {
  static constexpr int kStates = 0;
  explicit SgdUpdate(const SgdStep& step)
      : lr(static_cast<C>(step.lr)), decay(static_cast<C>(step.weight_decay)) {}
  TENON_HD void operator()(C& p, C g) const { p -= lr * (g + decay * p); }

  C lr, decay;
};

template <class C>
struct MomentumUpdate {
  static constexpr int kStates = 1;
  // A first buffer is the gradient itself, without dampening.
  explicit MomentumUpdate(const SgdStep& step)
      : lr(static_cast<C>(step.lr)),
        decay(static_cast<C>(step.weight_decay)),
        factor(static_cast<C>(step.momentum)),
        keep(step.first ? C(0) : factor),
        take(step.first ? C(1) : static_cast<C>(1 - step.dampening)),
        first(step.first),
        nesterov(step.nesterov) {}
  TENON_HD void operator()(C& p, C g, C& buffer) const {
    const C gradient = g + decay * p;
    // Selected, not multiplied by 0: an unset buffer may hold NaN.
    const C old = first ? C(0) : buffer;
    const C updated = keep * old + take * gradient;
    buffer = updated;
    p -= lr * (nesterov ? gradient + factor * updated : updated);
  }

  C lr, decay, factor, keep, take;
  bool first, nesterov;
};

template <class C>
struct AdamUpdate {
  static constexpr int kStates = 2;
  explicit AdamUpdate(const AdamStep& step)
      : beta1(static_cast<C>(step.beta1)),
        beta2(static_cast<C>(step.beta2)),
        rest1(static_cast<C>(1 - step.beta1)),
        rest2(static_cast<C>(1 - step.beta2)),
        eps(static_cast<C>(step.eps)),
        rate(static_cast<C>(step.lr / step.correction1)),
        scale(static_cast<C>(1 / std::sqrt(step.correction2))),
        decay(static_cast<C>(step.decoupled ? 0 : step.weight_decay)),
        shrink(static_cast<C>(step.decoupled ? 1 - step.lr * step.weight_decay : 1)) {}
  TENON_HD void operator()(C& p, C g, C& m, C& v) const {
    const C gradient = g + decay * p;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    p = shrink * p - rate * m / (math::sqrt(v) * scale + eps);
  }

  C beta1, beta2, rest1, rest2, eps, rate, scale, decay, shrink;
};

template <class C>
struct AdadeltaUpdate {
  static constexpr int kStates = 2;
  explicit AdadeltaUpdate(const AdadeltaStep& step)
      : lr(static_cast<C>(step.lr)),
        rho(static_cast<C>(step.rho)),
        rest(static_cast<C>(1 - step.rho)),
        eps(static_cast<C>(step.eps)),
        decay(static_cast<C>(step.weight_decay)) {}
  TENON_HD void operator()(C& p, C g, C& squares, C& deltas) const {
    const C gradient = g + decay * p;
    squares = rho * squares + rest * gradient * gradient;
    const C delta = math::sqrt(deltas + eps) / math::sqrt(squares + eps) * gradient;
    deltas = rho * deltas + rest * delta * delta;
    p -= lr * delta;
  }

  C lr, rho, rest, eps, decay;
};

}  // namespace tenon::kernels
