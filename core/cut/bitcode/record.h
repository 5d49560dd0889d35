// What `friday cc` leaves in the files that it makes, in a section of its own (kSection) that no segment loads:
//
//   - in each object file, the LLVM bitcode of its source as it was before optimisation, with the arguments that turn
//   it
//     into the same machine code again (Record::Kind::module);
//   - in each linked file, the linker's command (Record::Kind::link).
//
// A linker appends the sections of the objects that it takes, so a program has the records of exactly its modules, in
// their order, however the objects travelled: renamed, in archives, through `ld -r` or libtool.
//
// The name of the section begins with ".debug", but not with ".debug_": strip(1) then removes it and debuggers and dwz
// leave it alone. The section is aligned to one byte, so nothing lies between two records.
//
// encode() needs no LLVM and none of Friday's libraries (the compiler's plug-in and the linker use it); read_records()
// is for files that may be damaged or of a stranger.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace friday::cut {

inline constexpr std::string_view kSection = ".debug.friday";
inline constexpr std::string_view kMagic = "FRIDAYr1";  // its last character is the version of the format

// A file of the format: this head, `text_bytes` of strings that each end in a NUL, `stored_bytes` of compressed data.
// All numbers are little-endian.
struct RecordHead {
  char magic[8];
  uint64_t record_bytes;  // of the whole record, this head included
  uint32_t kind;
  uint32_t text_bytes;
  uint64_t stored_bytes;    // of a module the bitcode, compressed by zstd; of a link see Record::stored
  uint64_t plain_bytes;     // of the bitcode
  uint8_t fingerprint[16];  // XXH3-128 of the bitcode, in canonical form
  uint64_t checksum;        // of the strings and the stored data: checksum_of()
};
static_assert(sizeof(RecordHead) == 64);

struct Record {
  enum class Kind : uint32_t { module = 1, link = 2 };
  Kind kind = Kind::module;
  std::string source{};     // of a module: the source file, as the compiler was given it
  std::string directory{};  // in which the compiler or the linker ran
  // Of a module: those of `clang -cc1`, without input and output. Of a link: the linker's path and its arguments, with
  // the contents of response files in their place.
  std::vector<std::string> arguments{};
  // Of a module the bitcode, compressed. Of a link the inputs that are gone when the compiler ends (link_inputs.h).
  std::string stored{};
  uint64_t plain_bytes = 0;
  std::array<uint8_t, 16> fingerprint{};
};

// Fills in what encode() writes of the bitcode: compressed bytes, length, fingerprint.
void store_bitcode(Record& record, std::string_view bitcode);
void store_fingerprint(Record& record, std::string_view bitcode);
std::string encode(const Record& record);
// 64-bit FNV-1a, over words of 8 bytes and then the bytes that are left.
uint64_t checksum_of(std::string_view bytes);
// 32 hex digits.
std::string fingerprint_text(const Record& record);

}  // namespace friday::cut
