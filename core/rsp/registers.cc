#include "core/rsp/registers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "core/rsp/text.h"

namespace friday {
namespace {

// Offsets in an XSAVE area (Intel SDM 1, 13.4). The AVX component lies right behind the header on every processor.
constexpr size_t kX87Control = 0, kX87Status = 2, kX87Tags = 4, kX87Opcode = 6, kX87Ip = 8, kX87Dp = 16, kMxcsr = 24,
                 kSt = 32, kXmm = 160, kXstateBv = 512, kYmmHigh = 576, kYmmEnd = 832;
constexpr uint64_t kBitX87 = 1, kBitSse = 2, kBitAvx = 4;
constexpr unsigned kSt0 = 24, kFctrl = 32, kFstat = 33, kFtag = 34, kFiseg = 35, kFioff = 36, kFoseg = 37, kFooff = 38,
                   kFop = 39, kXmm0 = 40, kMxcsrNumber = 56, kFsBase = 58, kGsBase = 59;

#define FIELD(name) offsetof(user_regs_struct, name)
constexpr std::array<size_t, 24> kGeneral = {
    FIELD(rax), FIELD(rbx), FIELD(rcx), FIELD(rdx), FIELD(rsi), FIELD(rdi), FIELD(rbp), FIELD(rsp),
    FIELD(r8),  FIELD(r9),  FIELD(r10), FIELD(r11), FIELD(r12), FIELD(r13), FIELD(r14), FIELD(r15),
    FIELD(rip), FIELD(eflags), FIELD(cs), FIELD(ss), FIELD(ds), FIELD(es), FIELD(fs), FIELD(gs)};

std::optional<size_t> general_offset(unsigned number) {
  if (number < kGeneral.size()) return kGeneral[number];
  if (number == kRegisterOrigRax) return FIELD(orig_rax);
  if (number == kFsBase) return FIELD(fs_base);
  if (number == kGsBase) return FIELD(gs_base);
  return {};
}
#undef FIELD

// Where a register stands unchanged in the XSAVE area. gdb's control registers are 32 bits wide whatever the area has.
struct Place {
  size_t offset, size;
};

std::optional<Place> plain_place(unsigned number) {
  if (number >= kSt0 && number < kFctrl) return Place{kSt + 16 * (number - kSt0), 10};
  if (number >= kXmm0 && number < kMxcsrNumber) return Place{kXmm + 16 * (number - kXmm0), 16};
  if (number >= kRegisterFirstYmmHigh && number < kRegisterCount)
    return Place{kYmmHigh + 16 * (number - kRegisterFirstYmmHigh), 16};
  switch (number) {
    case kFctrl: return Place{kX87Control, 2};
    case kFstat: return Place{kX87Status, 2};
    case kFiseg: return Place{kX87Ip + 4, 2};
    case kFioff: return Place{kX87Ip, 4};
    case kFoseg: return Place{kX87Dp + 4, 2};
    case kFooff: return Place{kX87Dp, 4};
    case kFop: return Place{kX87Opcode, 2};
    case kMxcsrNumber: return Place{kMxcsr, 4};
    default: return {};
  }
}

// The XSAVE area keeps one bit a physical register (not empty); gdb wants the two-bit tags of FSTENV.
uint16_t full_tags(std::span<const std::byte> area) {
  enum { valid, zero, special, empty };
  uint16_t status;
  memcpy(&status, &area[kX87Status], sizeof status);
  unsigned top = status >> 11 & 7;
  uint16_t tags = 0;
  for (unsigned physical = 0; physical < 8; ++physical) {
    unsigned tag = empty;
    if (std::to_integer<unsigned>(area[kX87Tags]) >> physical & 1) {
      const std::byte* st = &area[kSt + 16 * ((physical + 8 - top) % 8)];
      uint64_t mantissa;
      uint16_t exponent;
      memcpy(&mantissa, st, 8);
      memcpy(&exponent, st + 8, 2);
      exponent &= 0x7fff;
      if (exponent == 0) tag = mantissa == 0 ? zero : special;
      else tag = exponent != 0x7fff && mantissa >> 63 ? valid : special;
    }
    tags |= static_cast<uint16_t>(tag << 2 * physical);
  }
  return tags;
}

std::byte abridged_tags(uint16_t tags) {
  unsigned bits = 0;
  for (unsigned physical = 0; physical < 8; ++physical)
    if ((tags >> 2 * physical & 3) != 3) bits |= 1u << physical;
  return static_cast<std::byte>(bits);
}

uint64_t component_bit(unsigned number) {
  if (number >= kRegisterFirstYmmHigh) return kBitAvx;
  return number >= kXmm0 ? kBitSse : kBitX87;
}

bool available(unsigned number, size_t area) {
  return area >= (number >= kRegisterFirstYmmHigh ? kYmmEnd : kYmmHigh);
}

std::string describe_registers() {
  constexpr const char* kCore[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
                                   "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
  constexpr const char* kFloat[] = {"fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"};
  std::string xml =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target version=\"1.0\">\n"
      "<architecture>i386:x86-64</architecture>\n<osabi>GNU/Linux</osabi>\n";
  unsigned number = 0;
  auto add = [&](std::string name, const char* type) {
    xml += fmt::format("<reg name=\"{}\" bitsize=\"{}\" type=\"{}\" regnum=\"{}\"/>\n", name, 8 * register_size(number),
                       type, number);
    ++number;
  };
  auto open = [&](const char* feature) { xml += fmt::format("<feature name=\"org.gnu.gdb.i386.{}\">\n", feature); };
  auto close = [&] { xml += "</feature>\n"; };

  open("core");
  for (const char* name : kCore) {
    bool pointer = number == kRegisterRbp || number == kRegisterRsp;
    add(name, pointer ? "data_ptr" : "int64");
  }
  add("rip", "code_ptr");
  xml += "<flags id=\"i386_eflags\" size=\"4\">\n";
  constexpr std::pair<const char*, int> kFlags[] = {{"CF", 0},  {"", 1},    {"PF", 2},  {"AF", 4},  {"ZF", 6},  {"SF", 7},
                                                    {"TF", 8},  {"IF", 9},  {"DF", 10}, {"OF", 11}, {"NT", 14}, {"RF", 16},
                                                    {"VM", 17}, {"AC", 18}, {"VIF", 19}, {"VIP", 20}, {"ID", 21}};
  for (auto [name, bit] : kFlags) xml += fmt::format("<field name=\"{0}\" start=\"{1}\" end=\"{1}\"/>\n", name, bit);
  xml += "</flags>\n";
  add("eflags", "i386_eflags");
  for (const char* name : {"cs", "ss", "ds", "es", "fs", "gs"}) add(name, "int32");
  for (int i = 0; i < 8; ++i) add(fmt::format("st{}", i), "i387_ext");
  for (const char* name : kFloat) add(name, "int");
  close();

  open("sse");
  constexpr std::tuple<const char*, const char*, int> kLanes[] = {
      {"v4f", "ieee_single", 4}, {"v2d", "ieee_double", 2}, {"v16i8", "int8", 16},
      {"v8i16", "int16", 8},     {"v4i32", "int32", 4},     {"v2i64", "int64", 2}};
  for (auto [id, type, count] : kLanes)
    xml += fmt::format("<vector id=\"{}\" type=\"{}\" count=\"{}\"/>\n", id, type, count);
  xml += "<union id=\"vec128\">\n";
  constexpr std::pair<const char*, const char*> kViews[] = {
      {"v4_float", "v4f"},   {"v2_double", "v2d"}, {"v16_int8", "v16i8"}, {"v8_int16", "v8i16"},
      {"v4_int32", "v4i32"}, {"v2_int64", "v2i64"}, {"uint128", "uint128"}};
  for (auto [name, type] : kViews) xml += fmt::format("<field name=\"{}\" type=\"{}\"/>\n", name, type);
  xml += "</union>\n<flags id=\"i386_mxcsr\" size=\"4\">\n";
  constexpr const char* kMxcsrFlags[] = {"IE", "DE", "ZE", "OE", "UE", "PE", "DAZ", "IM", "DM", "ZM", "OM", "UM", "PM"};
  int bit = 0;
  for (const char* name : kMxcsrFlags) {
    xml += fmt::format("<field name=\"{0}\" start=\"{1}\" end=\"{1}\"/>\n", name, bit);
    ++bit;
  }
  xml += "<field name=\"FZ\" start=\"15\" end=\"15\"/>\n</flags>\n";
  for (int i = 0; i < 16; ++i) add(fmt::format("xmm{}", i), "vec128");
  add("mxcsr", "i386_mxcsr");
  close();

  open("linux");
  add("orig_rax", "int");
  close();
  open("segments");
  add("fs_base", "int");
  add("gs_base", "int");
  close();
  open("avx");
  for (int i = 0; i < 16; ++i) add(fmt::format("ymm{}h", i), "uint128");
  close();
  return xml + "</target>\n";
}

}  // namespace

bool is_extended(unsigned number) {
  return number >= kRegisterFirstX87 && number < kRegisterCount &&
         (number < kRegisterOrigRax || number >= kRegisterFirstYmmHigh);
}

size_t register_size(unsigned number) {
  if (number >= kRegisterCount) return 0;
  if (number < kRegisterEflags || (number >= kRegisterOrigRax && number <= kGsBase)) return 8;
  if (number >= kSt0 && number < kFctrl) return 10;
  if ((number >= kXmm0 && number < kMxcsrNumber) || number >= kRegisterFirstYmmHigh) return 16;
  return 4;
}

void RegisterFile::append(std::string& out, unsigned number) const {
  size_t size = register_size(number);
  if (auto offset = general_offset(number)) {
    auto bytes = std::as_bytes(std::span(&general, 1));
    append_hex(out, bytes.subspan(*offset, size));
    return;
  }
  if (!available(number, extended.size())) {
    out.append(2 * size, 'x');
    return;
  }
  std::array<std::byte, 16> value{};
  if (number == kFtag) {
    uint16_t tags = full_tags(extended);
    memcpy(value.data(), &tags, sizeof tags);
  } else if (auto place = plain_place(number)) {
    memcpy(value.data(), &extended[place->offset], place->size);
    if (number == kFop) value[1] &= std::byte{7};  // the opcode has 11 bits
  }
  append_hex(out, std::span(value).first(size));
}

bool RegisterFile::set(unsigned number, std::span<const std::byte> value) {
  size_t size = register_size(number);
  if (!size || value.size() != size) return false;
  if (auto offset = general_offset(number)) {
    auto* field = reinterpret_cast<std::byte*>(&general) + *offset;
    memset(field, 0, 8);
    memcpy(field, value.data(), size);
    return true;
  }
  if (!available(number, extended.size())) return false;
  if (number == kFtag) {
    uint16_t tags;
    memcpy(&tags, value.data(), sizeof tags);
    extended[kX87Tags] = abridged_tags(tags);
  } else if (auto place = plain_place(number)) {
    memcpy(&extended[place->offset], value.data(), place->size);
  }
  uint64_t in_use;
  memcpy(&in_use, &extended[kXstateBv], sizeof in_use);
  in_use |= component_bit(number);
  memcpy(&extended[kXstateBv], &in_use, sizeof in_use);
  return true;
}

void fill_initial_state(std::vector<std::byte>& extended) {
  if (extended.size() < kYmmHigh) return;
  uint64_t in_use;
  memcpy(&in_use, &extended[kXstateBv], sizeof in_use);
  auto clear = [&](size_t from, size_t to) { memset(&extended[from], 0, to - from); };
  if (!(in_use & kBitX87)) {
    constexpr uint16_t kControl = 0x37f;  // what FNINIT loads
    clear(0, kMxcsr);
    clear(kSt, kXmm);
    memcpy(&extended[kX87Control], &kControl, sizeof kControl);
  }
  if (!(in_use & kBitSse)) clear(kXmm, kXmm + 256);
  if (!(in_use & kBitAvx) && extended.size() >= kYmmEnd) clear(kYmmHigh, kYmmEnd);
}

const std::string& target_description() {
  static const std::string text = describe_registers();
  return text;
}

}  // namespace friday
