// The texts of core/mi/gdb_*.py, embedded at build time. In gdb they register the MI commands -friday-plan,
// -friday-locate and others; the files document the JSON of each command. MiSession loads them at its start.
#pragma once

#include <string_view>

namespace friday {

std::string_view gdb_helper_script();

}  // namespace friday
