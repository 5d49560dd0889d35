// Messages and orders of a comparison in words.
#pragma once

#include <cstdint>
#include <string>

#include "core/study/naming.h"
#include "core/study/orders.h"

namespace friday {

std::string role_text(const Naming& naming, uint32_t role);
// "redis receives `SET price:f1 #` from crawler".
std::string text_of_name(const Naming& naming, uint32_t name);
std::string text_of(const Naming& naming, const Order& order);

}  // namespace friday
