// Where what a finding is about happens in a run, also in one that was not compared, such as one onto which its order
// was forced.
#pragma once

#include <cstddef>
#include <optional>

#include "core/study/naming.h"
#include "core/study/orders.h"

namespace friday {

// The event of the run at which a message of the order is sent or received, at the first place where the order holds;
// or, if `holds` is false, where it could and does not: of three messages the last one without the one between, of two
// the second one. `message`: which one, from 0; in a place without the one between, that one is the first of the run.
// None if there is no such place.
std::optional<size_t> moment_in(const Talk& talk, const Naming& naming, const Order& order, bool holds, size_t message);

}  // namespace friday
