#include "core/rsp/registers.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/rsp/text.h"

namespace friday {
namespace {

// Offsets in an XSAVE area (Intel SDM volume 1, 13.4). The AVX component follows the header directly on every
// processor.
constexpr size_t kX87Control = 0, kX87Status = 2, kX87Tags = 4, kX87Opcode = 6, kX87Ip = 8, kX87Dp = 16, kMxcsr = 24,
                 kSt = 32, kXmm = 160, kXstateBv = 512, kYmmHigh = 576, kYmmEnd = 832;
constexpr uint64_t kBitX87 = 1, kBitSse = 2, kBitAvx = 4;
constexpr unsigned kSt0 = 24, kFctrl = 32, kFstat = 33, kFtag = 34, kFiseg = 35, kFioff = 36, kFoseg = 37, kFooff = 38,
                   kFop = 39, kXmm0 = 40, kMxcsrNumber = 56, kFsBase = 58, kGsBase = 59;

#define FIELD(name) offsetof(user_regs_struct, name)
constexpr std::array<size_t, 24> kGeneral = {FIELD(rax), FIELD(rbx), FIELD(rcx), FIELD(rdx), FIELD(rsi), FIELD(rdi),
                                             FIELD(rbp), FIELD(rsp), FIELD(r8),  FIELD(r9),  FIELD(r10), FIELD(r11),
                                             FIELD(r12), FIELD(r13), FIELD(r14), FIELD(r15), FIELD(rip), FIELD(eflags),
                                             FIELD(cs),  FIELD(ss),  FIELD(ds),  FIELD(es),  FIELD(fs),  FIELD(gs)};

std::optional<size_t> general_offset(unsigned number) {
  if (number < kGeneral.size()) return kGeneral[number];
  if (number == kRegisterOrigRax) return FIELD(orig_rax);
  if (number == kFsBase) return FIELD(fs_base);
  if (number == kGsBase) return FIELD(gs_base);
  return {};
}
#undef FIELD

// The place of a register that is stored in the XSAVE area as it is. gdb's control registers are always 32 bits wide.
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

// The XSAVE area has one tag bit for each physical register (1: not empty); gdb expects the two-bit tags of FSTENV.
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

bool available(unsigned number, size_t area) { return area >= (number >= kRegisterFirstYmmHigh ? kYmmEnd : kYmmHigh); }

// Builds the target description; registers get their numbers in the order in which they are added.
class Description {
 public:
  void open(const char* feature) { xml_ += fmt::format("<feature name=\"org.gnu.gdb.i386.{}\">\n", feature); }
  void close() { xml_ += "</feature>\n"; }
  void add(std::string_view name, std::string_view type) {
    xml_ += fmt::format("<reg name=\"{}\" bitsize=\"{}\" type=\"{}\" regnum=\"{}\"/>\n", name,
                        8 * register_size(number_), type, number_);
    ++number_;
  }
  void add_indexed(const char* pattern, int count, const char* type) {
    for (int i = 0; i < count; ++i) add(fmt::format(fmt::runtime(pattern), i), type);
  }
  void flags(const char* id, std::initializer_list<std::pair<const char*, int>> bits) {
    xml_ += fmt::format("<flags id=\"{}\" size=\"4\">\n", id);
    for (auto [name, bit] : bits) xml_ += fmt::format("<field name=\"{0}\" start=\"{1}\" end=\"{1}\"/>\n", name, bit);
    xml_ += "</flags>\n";
  }
  void vector(const char* id, const char* type, int count) {
    xml_ += fmt::format("<vector id=\"{}\" type=\"{}\" count=\"{}\"/>\n", id, type, count);
  }
  void union_of(const char* id, std::initializer_list<std::pair<const char*, const char*>> fields) {
    xml_ += fmt::format("<union id=\"{}\">\n", id);
    for (auto [name, type] : fields) xml_ += fmt::format("<field name=\"{}\" type=\"{}\"/>\n", name, type);
    xml_ += "</union>\n";
  }
  std::string finish() && { return std::move(xml_) + "</target>\n"; }

 private:
  std::string xml_ =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target version=\"1.0\">\n"
      "<architecture>i386:x86-64</architecture>\n<osabi>GNU/Linux</osabi>\n";
  unsigned number_ = 0;
};

void describe_core(Description& text) {
  text.open("core");
  for (const char* name : {"rax", "rbx", "rcx", "rdx", "rsi", "rdi"}) text.add(name, "int64");
  for (const char* name : {"rbp", "rsp"}) text.add(name, "data_ptr");
  for (int i = 8; i < 16; ++i) text.add(fmt::format("r{}", i), "int64");
  text.add("rip", "code_ptr");
  text.flags("i386_eflags", {{"CF", 0},
                             {"", 1},
                             {"PF", 2},
                             {"AF", 4},
                             {"ZF", 6},
                             {"SF", 7},
                             {"TF", 8},
                             {"IF", 9},
                             {"DF", 10},
                             {"OF", 11},
                             {"NT", 14},
                             {"RF", 16},
                             {"VM", 17},
                             {"AC", 18},
                             {"VIF", 19},
                             {"VIP", 20},
                             {"ID", 21}});
  text.add("eflags", "i386_eflags");
  for (const char* name : {"cs", "ss", "ds", "es", "fs", "gs"}) text.add(name, "int32");
  text.add_indexed("st{}", 8, "i387_ext");
  for (const char* name : {"fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"}) text.add(name, "int");
  text.close();
}

void describe_sse(Description& text) {
  text.open("sse");
  text.vector("v4f", "ieee_single", 4);
  text.vector("v2d", "ieee_double", 2);
  text.vector("v16i8", "int8", 16);
  text.vector("v8i16", "int16", 8);
  text.vector("v4i32", "int32", 4);
  text.vector("v2i64", "int64", 2);
  text.union_of("vec128", {{"v4_float", "v4f"},
                           {"v2_double", "v2d"},
                           {"v16_int8", "v16i8"},
                           {"v8_int16", "v8i16"},
                           {"v4_int32", "v4i32"},
                           {"v2_int64", "v2i64"},
                           {"uint128", "uint128"}});
  text.flags("i386_mxcsr", {{"IE", 0},
                            {"DE", 1},
                            {"ZE", 2},
                            {"OE", 3},
                            {"UE", 4},
                            {"PE", 5},
                            {"DAZ", 6},
                            {"IM", 7},
                            {"DM", 8},
                            {"ZM", 9},
                            {"OM", 10},
                            {"UM", 11},
                            {"PM", 12},
                            {"FZ", 15}});
  text.add_indexed("xmm{}", 16, "vec128");
  text.add("mxcsr", "i386_mxcsr");
  text.close();
}

std::string describe_registers() {
  Description text;
  describe_core(text);
  describe_sse(text);
  text.open("linux");
  text.add("orig_rax", "int");
  text.close();
  text.open("segments");
  text.add("fs_base", "int");
  text.add("gs_base", "int");
  text.close();
  text.open("avx");
  text.add_indexed("ymm{}h", 16, "uint128");
  text.close();
  return std::move(text).finish();
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
