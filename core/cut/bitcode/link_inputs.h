// The files that a linker's command names, and what they are. friday-ld asks it when a program is linked,
// friday-bitcode when it is linked again. Needs no LLVM and none of Friday's libraries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/cut/bitcode/record.h"

namespace friday::cut {

enum class InputKind : uint8_t {
  other,     // no file, a linker script, a shared object, or a file that cannot be read
  object,    // a relocatable object without records: of the assembler, or of another compiler
  recorded,  // one that has records of modules, or is bitcode of -flto
  archive,
};

struct LinkInput {
  size_t argument = 0;  // where it stands in the command
  std::string path;     // for -lNAME the file that the linker takes; relative to `directory`, if it is
  InputKind kind = InputKind::other;
};

// Of the bytes of a file. Damaged files are `other`.
InputKind kind_of(std::string_view file);

// Objects and archives that the command names, in its order. `arguments`: the linker's path and its arguments, without
// response files; `directory`: where it ran, empty for the current one. A file that is missing is not among them.
std::vector<LinkInput> inputs_of(const std::vector<std::string>& arguments, const std::string& directory);

// The linker's output: what follows the last -o; a.out without one.
std::string output_of(const std::vector<std::string>& arguments);

// A file that a link took, and that is gone when the compiler ends: clang puts the objects of sources that it links in
// the same run into the directory for temporary files. Those with records come back from these.
struct KeptInput {
  std::string path;
  bool has_records = false;
  std::string bytes{};  // empty if it has records
};
std::string encode_inputs(const std::vector<KeptInput>& inputs);
// Nothing if the text is damaged.
std::vector<KeptInput> decode_inputs(std::string_view text);

}  // namespace friday::cut
