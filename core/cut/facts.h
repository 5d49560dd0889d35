// What the analysis of a cut knows of a program: its functions, its objects in memory, how pointers flow between them,
// and what reads and writes memory how often. The compiler's tool (core/cut/bitcode) takes these facts from the bitcode
// of one module each; link() joins those of a program as a linker joins its objects. Nothing here knows LLVM.
//
// How the tool makes flows of bitcode:
// - `load` and `store` are of the 8 bytes at *(from) and *(to). A longer value (a structure, a vector) is several of
//   them, at pointers that are copies with offsets 8, 16, ...; one longer than 64 bytes is one, at kAnyOffset.
// - `move` with a length below 8: code that copies bytes, or words of 2 or 4 bytes. Pieces of pointers may go that
//   way.
// - A copy with kAnyOffset may lead to any place of the same object (p[i], p + n). For p->items[i].next the copies
//   have the offsets 16, kAnyOffset (with stride and span), and 8.
// - The tool makes no heap objects: allocators are calls, and the annotations say what is one. The size is
//   Handed::constant.
// - An argument that is passed by value in memory (byval): the callee has a stack object of its own, filled by a
//   `move` from its parameter.
// - A definition of a variadic function has one stack object "..." for its variable arguments, one `address` flow
//   from it to Function::variable_arguments, and va_start stores that pointer into the va_list's memory.
//
// The facts are of iTarget's data-flow graph: Wu et al., "Language-based replay via data flow cut", FSE 2010,
// section 3.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace friday::cut {

using Id = uint32_t;                              // an index into one of the lists of Facts
inline constexpr Id kNone = ~Id{0};               // no function, no pointer, ...
inline constexpr int64_t kAnyOffset = INT64_MIN;  // an offset or a length that is known only when the program runs

// How the linker joins names of several modules.
enum class Linkage : uint8_t {
  internal,  // of this module alone
  strong,    // defined here
  weak,      // defined here unless another module defines it strongly: weak, linkonce and common symbols
  declared,  // defined elsewhere, perhaps outside of all bitcode
};

// A place in the source, for people. `file` is empty and `line` 0 if the module was compiled without -g.
struct Place {
  std::string file;  // as the compiler was given it, made absolute with its working directory
  uint32_t line = 0;
};

// A value that is handed from function to function: an argument or a result.
struct Handed {
  Id pointer = kNone;  // what it may point to; kNone if it can carry no pointer
  uint32_t bytes = 0;
  // Of an argument or the result of a call whose callee this module does not define: the counter that sums its values
  // (those above 0), if it is an integer of 4 or 8 bytes. `read` and `fwrite` say there how many bytes they move.
  Id length = kNone;
  // Of an argument that is an integer constant: its value, so that malloc(40) has objects of 40 bytes. Else kAnyOffset.
  int64_t constant = kAnyOffset;
};

struct Function {
  std::string name{};  // the symbol
  Linkage linkage = Linkage::internal;
  Place place{};
  bool variadic = false;
  bool address_taken = false;  // in this module
  // Of the types of parameters and result, as the machine hands them over: an indirect call can reach functions of its
  // own shape only, if the program does as C demands (and with variadic functions any). 0, of a call: of any shape, as
  // it has no prototype or `...`.
  uint64_t shape = 0;
  std::vector<Handed> parameters{};
  Handed result{};
  // The pointer that a variadic function has to the memory with its variable arguments, which va_start hands out. It
  // points to an object of its own (ObjectKind::stack); a call does *(variable_arguments) = argument for each of `...`.
  Id variable_arguments = kNone;
  bool started = false;    // the loader calls it: a constructor or destructor
  Id object = kNone;       // that stands for the function where its address is taken
  Id first_block = kNone;  // of its blocks, which stand one after the other; kNone if declared
};

enum class ObjectKind : uint8_t { global, stack, heap, function };

// Memory that is told apart: a variable, all instances of a local variable, all that one site allocates.
struct Object {
  ObjectKind kind = ObjectKind::global;
  std::string name{};  // of a global or function its symbol; of a local variable its name, if it is known
  Linkage linkage = Linkage::internal;
  Id function = kNone;  // of a stack or heap object: which has the variable or the call; of a function: itself
  Id call = kNone;    // of a heap object: the call that allocates, if the tool knows one; the analysis makes the others
  uint64_t size = 0;  // in bytes, 0 if it is not known
  bool constant = false;       // never written after the start
  bool thread_local_ = false;  // each thread has its own
  Place place{};
};

// How pointers flow. A pointer is a value of one function that can carry an address: a pointer, an integer of its size,
// an aggregate or vector with one of these. `bytes`: how many are read or written.
enum class FlowKind : uint8_t {
  address,  // to = &object + offset
  copy,     // to = from + offset
  load,     // to = *(from)
  store,    // *(to) = from
  move,     // bytes from *(from) to *(to), as memcpy does; `offset` is the length
  initial,  // *(object + offset) = from, before the program starts
};

struct Flow {
  FlowKind kind = FlowKind::copy;
  Id to = kNone, from = kNone;
  Id object = kNone;   // of `address` and `initial`
  int64_t offset = 0;  // kAnyOffset if it is not known
  // Whose code does it; kNone: nobody's, it holds from the start (`initial`, constant expressions that several
  // functions share). A pointer of one function is mentioned by that function's flows, calls and accesses only, but for
  // parameters, results and variable_arguments; the analysis copies functions such as wrappers of malloc by this.
  Id function = kNone;
  // Of a copy with kAnyOffset, where the types say more: the offsets are multiples of `stride` (0: not known), and
  // within an array of `span` bytes (0: as long as the object is).
  uint32_t stride = 0, span = 0;
  auto operator<=>(const Flow&) const = default;
};

// A basic block: what the profile counts. Blocks of a function stand one after the other, its entry first.
struct Block {
  Id function = kNone;  // kNone in a program: of a weak definition that another one replaced, so it never runs
  uint32_t line = 0;
};

// A call site. A call of assembler text or of an intrinsic that touches memory is given as accesses, not as a call.
struct Call {
  Id function = kNone, block = kNone;  // where it stands
  Id callee = kNone;                   // kNone if it is indirect: then `target` is the pointer that is called
  Id target = kNone;
  uint64_t shape = 0;
  uint32_t line = 0;
  std::vector<Handed> arguments{};
  Handed result{};
};

// Where a block reads or writes memory by itself.
struct Access {
  Id function = kNone, block = kNone;
  Id pointer = kNone;
  bool reads = false, writes = false;
  uint32_t bytes = 0;  // each time; 0 if `length` counts them
  Id length = kNone;   // the counter of bytes, of a memcpy whose length is not constant
  uint32_t line = 0;
};

// Code that the compiler does not show: assembler text in a function, ...
struct Unseen {
  Id function = kNone;  // kNone: of the module as a whole
  uint32_t line = 0;
  std::string what;
};

// Another symbol for a function or a global object of this module.
struct Alias {
  std::string name;
  Linkage linkage = Linkage::strong;
  Id function = kNone, object = kNone;  // one of them
};

struct Facts {
  std::string module;  // the source file of a module, or the program's name
  std::string
      fingerprint;        // 32 hex digits: the XXH3-128 of the bitcode, of a program that of its modules' fingerprints
  uint32_t pointers = 0;  // their ids are 0 to pointers - 1
  uint32_t lengths = 0;   // counters of bytes
  std::vector<Function> functions;
  std::vector<Object> objects;
  std::vector<Flow> flows;
  std::vector<Block> blocks;
  std::vector<Call> calls;
  std::vector<Access> accesses;
  std::vector<Unseen> unseen;
  std::vector<Alias> aliases;  // empty in a program
  // Of a program: which modules it has, and where the blocks and the lengths of each begin. Empty in a module's facts.
  struct Module {
    std::string name, fingerprint;
    Id first_function = 0, first_block = 0, first_length = 0;
  };
  std::vector<Module> modules;
};

// A file of facts: docs/cut.md has its form. Reading checks every id and length, since files may be damaged or of a
// stranger.
std::expected<void, Error> write_facts(const Facts& facts, const std::filesystem::path& path);
std::expected<Facts, Error> read_facts(const std::filesystem::path& path);

// One program out of its modules, in the order of the linker. A symbol that two modules define strongly is an error
// that names both. What is declared and nowhere defined stays declared: it is outside of the bitcode.
std::expected<Facts, Error> link(std::string program, std::vector<Facts> modules);

// Where the items of a module are in a program: the program's ids by the module's. A function or object that another
// module defines has the id of that definition. kNone: dropped, since another definition replaced it.
struct ModuleIds {
  std::vector<Id> functions, objects, calls, accesses;
};
// A program, and the ids of its modules' items, in the order of Facts::modules.
struct LinkedProgram {
  Facts facts;
  std::vector<ModuleIds> ids;
};
std::expected<LinkedProgram, Error> link_with_ids(std::string program, std::vector<Facts> modules);

}  // namespace friday::cut
