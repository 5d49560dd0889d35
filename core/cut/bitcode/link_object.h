// The object file with which friday-ld puts a record into a program.
#pragma once

#include <string>

namespace friday::cut {

// A relocatable object without code, which changes nothing of a program but adds the section: it needs no executable
// stack, and it is content with indirect branch tracking and shadow stacks, which a linker turns on only if all of its
// inputs are. With --gc-sections, GNU ld drops what seems to be debug information of objects in which it must keep
// nothing else: `must_be_kept` adds an empty section that it keeps, of which lld would leave a flag in the program.
std::string link_object(const std::string& record, bool must_be_kept);

}  // namespace friday::cut
