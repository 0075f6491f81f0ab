// All kernel slots, by the header that declares them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tenon/core/kernel_slot.h"

namespace tenon::testing {

using Slots = std::vector<const KernelSlotBase*>;

// Those that a header lists by name; the templates of pointwise.h are not among them.
std::map<std::string, Slots> slots_by_header();

// Every slot that a backend must fill, the pointwise templates included.
Slots all_slots();

}  // namespace tenon::testing
