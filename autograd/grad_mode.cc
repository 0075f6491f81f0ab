#include "tenon/autograd/grad_mode.h"

namespace tenon {
namespace {

thread_local bool enabled_here = true;

}  // namespace

bool grad_enabled() { return enabled_here; }

GradMode::GradMode(bool enabled) : previous_(enabled_here) { enabled_here = enabled; }
GradMode::~GradMode() { enabled_here = previous_; }

}  // namespace tenon
