// Where control may enter the code of one ELF file: found by decoding all of its functions once, linearly from where
// symbols and unwind entries say that they begin. Asked by who wants to move several instructions away together.
//
// What is told holds for code that compilers make. A function that jumps through a register or a table, or whose bytes
// are not all instructions, may be entered anywhere, and so may one that shares code with it (the cold part of a
// function). A landing pad of an exception is never reached by running through, so it is not among what can be asked
// for.
//
// Addresses are those of the file, as linked. Immutable once made; shared by all nodes that map the file.
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
  // Of a file on this machine, read and decoded at most once while somebody has it (about 20 ms a megabyte of code).
  // Null when it cannot be read or is no ELF file. Any thread.
  static std::shared_ptr<const CodeMap> of(const std::string& path);
  explicit CodeMap(std::string_view file);

  std::optional<uint64_t> address_of(uint64_t file_offset) const;
  // Where the function that holds the address begins.
  std::optional<uint64_t> function_at(uint64_t address) const;
  // Whether the only way into [low + 1, high) is through the instruction at `low`.
  bool is_straight(uint64_t low, uint64_t high) const;

 private:
  struct Segment {
    uint64_t offset, size, address;
  };
  struct Function {
    uint64_t low, high;
    uint32_t group;     // functions that jump into each other's middle are one
    bool open = false;  // of a group's first: any of its instructions may be entered
  };
  void decode(std::string_view file, const struct Elf& elf);
  uint32_t index_of(uint64_t address) const;  // of the function that holds it, or functions_.size()
  uint32_t group_of(uint32_t index) const;
  void join(uint32_t a, uint32_t b);

  std::vector<Segment> segments_;
  std::vector<Function> functions_;  // by address
  std::vector<uint64_t> targets_;    // of direct branches, sorted
};

}  // namespace friday
