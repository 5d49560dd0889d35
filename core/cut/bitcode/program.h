// The linked files that make a program, with the records that `friday cc` left in them (record.h): the program itself,
// and shared objects that it loads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cut/bitcode/record.h"

namespace friday::cut {

struct LinkedFile {
  std::string path;
  std::vector<Record> modules;      // in the linker's order
  std::optional<Record> link;       // how it was linked; nothing if another linker did it
  std::vector<std::string> needed;  // the shared objects that it names (DT_NEEDED)
};

// Fails if the file has no records at all: it was built by another compiler, or stripped.
Result<LinkedFile> read_linked(const std::string& path);

// Code of a file of which there is no bitcode, for people: objects, members of archives, shared objects.
std::vector<std::string> unseen_code(const LinkedFile& file);

// Of the source, without directories.
std::string short_name(const Record& module);

}  // namespace friday::cut
