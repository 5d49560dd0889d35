// Where control flow may enter the code of one ELF file. Used to decide whether several instructions can be moved away
// together. Found by decoding all functions once, linearly from the starts given by symbols and unwind entries.
//
// The answers are reliable for compiler-generated code. A function that jumps through a register or table, or whose
// bytes are not all instructions, is assumed to be entered anywhere; so is a function that shares code with it (such as
// its cold part). Landing pads of exceptions need no attention: they are never reached by falling through, so no
// movable sequence contains one.
//
// Addresses are link-time addresses of the file. Immutable once made; all nodes that map the file share one CodeMap.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace friday {

class CodeMap {
 public:
  // The map of a file on this machine. The file is read and decoded at most once while any caller holds the result
  // (about 20 ms for each megabyte of code). Null if the file cannot be read or is not ELF. May be called from any
  // thread.
  static std::shared_ptr<const CodeMap> of(const std::string& path);
  explicit CodeMap(std::string_view file);

  std::optional<uint64_t> address_of(uint64_t file_offset) const;
  // The start of the function that contains the address.
  std::optional<uint64_t> function_at(uint64_t address) const;
  // Whether [low + 1, high) can be reached only through the instruction at `low`.
  bool is_straight(uint64_t low, uint64_t high) const;

 private:
  struct Segment {
    uint64_t offset, size, address;
  };
  struct Function {
    uint64_t low, high;
    uint32_t group;     // functions that jump into each other's middle form one group
    bool open = false;  // meaningful for a group's first function: any instruction of the group may be entered
  };
  void decode(std::string_view file, const struct Elf& elf);
  uint32_t index_of(uint64_t address) const;  // index of the function that contains the address, or functions_.size()
  uint32_t group_of(uint32_t index) const;
  void join(uint32_t a, uint32_t b);

  std::vector<Segment> segments_;
  std::vector<Function> functions_;  // sorted by address
  std::vector<uint64_t> targets_;    // targets of direct branches, sorted
};

}  // namespace friday
