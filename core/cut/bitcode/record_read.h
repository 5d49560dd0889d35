// Reads the records (record.h) of a program, a shared object or an object file.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cut/bitcode/record.h"

namespace friday::cut {

// All records of a file, in the order in which the linker took the objects. A file that has none is no error: the list
// is empty. A file that is no ELF file of x86-64 is, and so is a damaged record.
Result<std::vector<Record>> read_records(const std::string& path);
// The same of a file's bytes; `path` is named in errors.
Result<std::vector<Record>> records_in(std::string_view file, const std::string& path);

// The bitcode of a module's record. Its fingerprint is checked.
Result<std::string> bitcode_of(const Record& record);

}  // namespace friday::cut
