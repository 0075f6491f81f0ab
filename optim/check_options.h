// Checks of an optimizer's options, with errors that name optimizer and option.
#pragma once

#include <cmath>

#include "tenon/core/check.h"

namespace tenon {

inline void check_not_negative(const char* optimizer, const char* option, double value) {
  TENON_CHECK(value >= 0 && std::isfinite(value), optimizer, "bad ", option, ": given ", value,
              ", wanted a finite number of at least 0");
}
inline void check_below_one(const char* optimizer, const char* option, double value) {
  TENON_CHECK(value >= 0 && value < 1, optimizer, "bad ", option, ": given ", value,
              ", wanted [0, 1)");
}

}  // namespace tenon
