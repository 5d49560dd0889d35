// The texts of core/mi/gdb_*.py, embedded at build time. They register the MI commands -friday-plan, -friday-locate and
// so on in a gdb; the heads of the files document their JSON. MiSession loads them at start.
#pragma once

#include <string_view>

namespace friday {

std::string_view gdb_helper_script();

}  // namespace friday
