// The text of core/mi/gdb_friday.py, embedded at build time. It registers the MI commands -friday-plan, -friday-locate,
// -friday-symbols and -friday-source in a gdb; the head of that file documents their JSON. MiSession loads it at start.
#pragma once

#include <string_view>

namespace friday {

std::string_view gdb_helper_script();

}  // namespace friday
