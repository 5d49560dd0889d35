// A program's facts from a directory, as `friday-bitcode facts PROGRAM -o DIRECTORY` writes them.
#pragma once

#include <string>

#include "core/base/error.h"
#include "core/cut/facts.h"

namespace friday::cut {

// Joins all files *.facts of the directory in the order of their names, which is the linker's. `program` is the name
// that messages give to the whole. Fails with not_found if there are none.
Result<LinkedProgram> read_program(const std::string& program, const std::string& directory);

}  // namespace friday::cut
