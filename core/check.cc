#include "tenon/core/check.h"

namespace tenon {

void internal_error(const char* file, int line, const char* condition) {
  throw Error(str("[internal] ", file, ":", line, ": ", condition,
                  " does not hold; this is a bug in tenon, please report it"));
}

}  // namespace tenon
