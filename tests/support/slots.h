// All kernel slots, by the header that declares them, and the ops of a list.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tenon/core/kernel_slot.h"
#include "tenon/kernels/pointwise_math.h"

namespace tenon::testing {

using Slots = std::vector<const KernelSlotBase*>;

// Those that a header lists by name; the templates of pointwise.h are not among them.
std::map<std::string, Slots> slots_by_header();

// body.operator()<Op>() for each op of the list.
template <class Body, class... Ops>
void for_each_op(kernels::OpList<Ops...>, const Body& body) {
  (body.template operator()<Ops>(), ...);
}

// Every slot that a backend must fill, the pointwise templates included.
Slots all_slots();

}  // namespace tenon::testing
