// Facts as text, one line each, for people and for tests.
#pragma once

#include <string>

#include "core/cut/facts.h"

namespace friday::cut {

std::string facts_text(const Facts& facts);

}  // namespace friday::cut
