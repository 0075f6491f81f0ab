#include "tenon/tests/simt/hooks.h"

namespace simt {

Hooks hooks;

}  // namespace simt
