#include "core/record/analysis.h"

#include <sys/auxv.h>

#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "core/base/elf.h"
#include "core/record/loops.h"

namespace friday {
namespace {

using shim::Site;

struct Instruction {
  uint64_t address;
  uint8_t length;
  bool movable;  // has the same effect at another address: no branch, no rip-relative operand
  ZydisMnemonic mnemonic;
  uint8_t detail;   // rdrand: register and width; lsl: 1 if the selector is in a register
  uint64_t target;  // target of a direct branch; 0: none
};

// Instructions that the shim emulates.
bool is_emulated(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_PAUSE:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
    case ZYDIS_MNEMONIC_RDPID:
    case ZYDIS_MNEMONIC_LSL:
    case ZYDIS_MNEMONIC_XGETBV:
    case ZYDIS_MNEMONIC_RDGSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_LGS:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
    case ZYDIS_MNEMONIC_XBEGIN: return true;
    default: return false;
  }
}

// c7 f8 and the 4-byte displacement of the abort handler; compilers emit no other form
constexpr unsigned kXbeginLength = 6;

// Matches mov to %gs and pop %gs.
bool loads_gs(const ZydisDecodedInstruction& in) {
  constexpr unsigned kGs = 5;
  if (in.mnemonic == ZYDIS_MNEMONIC_MOV)
    return in.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && in.opcode == 0x8e && in.raw.modrm.reg == kGs;
  return in.mnemonic == ZYDIS_MNEMONIC_POP && in.opcode_map == ZYDIS_OPCODE_MAP_0F && in.opcode == 0xa9;
}

class Scanner {
 public:
  explicit Scanner(const Elf& elf) : elf_(elf) {
    ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    uint64_t end = 0;
    for (const auto& s : elf_.segments)
      if (s.p_type == PT_LOAD && s.p_flags & PF_X && elf_.at<char>(s.p_offset, s.p_filesz))
        end = std::max(end, s.p_offset + s.p_filesz);
    targets_.resize(end);
  }

  std::vector<Site> run() {
    const std::vector<uint64_t> starts = elf_.function_starts();
    for (size_t i = 0; i < starts.size(); i++) decode(starts[i], i + 1 < starts.size() ? starts[i + 1] : ~0ull);
    std::vector<Site> sites;
    for (const auto& run : runs_) choose(run, sites);
    std::sort(sites.begin(), sites.end(), in_order);
    widen_pauses(sites);
    add_loops(sites);
    return sites;
  }

 private:
  // The C library and the loader are in every process, and their waiting loops contain a pause or a system call anyway.
  bool waits_by_calls_only() const {
    const std::string_view name = elf_.soname();
    return name == "libc.so.6" || name == "ld-linux-x86-64.so.2";
  }

  static bool in_order(const Site& a, const Site& b) { return a.offset < b.offset; }

  // Decodes from `start` to `end` or the end of the segment. Keeps only the neighbourhoods of interesting instructions.
  void decode(uint64_t start, uint64_t end) {
    uint64_t offset = elf_.offset_of(start);
    for (const auto& s : elf_.segments)
      if (s.p_type == PT_LOAD && start >= s.p_vaddr && start < s.p_vaddr + s.p_filesz)
        end = std::min(end, s.p_vaddr + s.p_filesz);
    if (offset == ~0ull || end <= start || !elf_.at<char>(offset, end - start)) return;
    std::vector<Instruction> run;
    bool interesting = false, jumps_unknown = false, loops = false;
    for (uint64_t address = start; address < end;) {
      ZydisDecodedInstruction decoded;
      const char* bytes = elf_.content.data() + offset + (address - start);
      if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&decoder_, nullptr, bytes, end - address, &decoded))) break;
      const bool relative = decoded.attributes & ZYDIS_ATTRIB_IS_RELATIVE;
      const auto category = decoded.meta.category;
      const bool branch = category == ZYDIS_CATEGORY_COND_BR || category == ZYDIS_CATEGORY_UNCOND_BR ||
                          category == ZYDIS_CATEGORY_CALL || category == ZYDIS_CATEGORY_RET ||
                          category == ZYDIS_CATEGORY_INTERRUPT || category == ZYDIS_CATEGORY_SYSCALL;
      Instruction in{address, decoded.length, !relative && !branch, decoded.mnemonic, 0, 0};
      if (branch && decoded.raw.imm[0].is_relative) {
        const uint64_t target = address + decoded.length + static_cast<uint64_t>(decoded.raw.imm[0].value.s);
        if (const uint64_t to = elf_.offset_of(target); to < targets_.size()) targets_[to] = true;
        if (category != ZYDIS_CATEGORY_CALL) in.target = target;
        loops = loops || (in.target >= start && in.target <= address);
      } else {
        jumps_unknown = jumps_unknown || category == ZYDIS_CATEGORY_UNCOND_BR;
      }
      if (decoded.mnemonic == ZYDIS_MNEMONIC_RDRAND || decoded.mnemonic == ZYDIS_MNEMONIC_RDSEED)
        in.detail =
            static_cast<uint8_t>((decoded.raw.modrm.rm | (decoded.raw.rex.B << 3)) | (decoded.operand_width == 16   ? 0
                                                                                      : decoded.operand_width == 32 ? 1
                                                                                                                    : 2)
                                                                                         << 4);
      if (loads_gs(decoded)) in.mnemonic = ZYDIS_MNEMONIC_WRGSBASE;
      if (decoded.mnemonic == ZYDIS_MNEMONIC_LSL) in.detail = decoded.raw.modrm.mod == 3;
      interesting = interesting || decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL || is_emulated(in.mnemonic);
      run.push_back(in);
      address += decoded.length;
    }
    if (loops && counts_loops_) find_loops(run, offset - start, jumps_unknown);
    if (interesting) runs_.push_back(std::move(run));
  }

  // `delta` converts an address of the function to its file offset.
  void find_loops(const std::vector<Instruction>& run, uint64_t delta, bool jumps_unknown) {
    for (const auto& in : run) {
      const uint64_t end = in.address + in.length;
      if (in.target < run.front().address || in.target > in.address || end - in.target > kLongestLoop) continue;
      auto at = std::lower_bound(run.begin(), run.end(), in.target,
                                 [](const Instruction& i, uint64_t address) { return i.address < address; });
      if (at->address != in.target) continue;
      auto windows =
          loop_windows(decoder_, elf_.content.substr(in.target + delta, end - in.target), in.target, jumps_unknown);
      if (!windows.empty()) loops_.push_back(std::move(windows));
    }
  }

  // A `pause` that can move to a stub with what follows it becomes a loop site: to enter the shim by a jump takes a
  // hundredth of the time of a fault.
  void widen_pauses(std::vector<Site>& sites) const {
    constexpr uint64_t kEnough = 64;  // bytes, to find what sets the flags
    unsigned done = 0;
    for (size_t i = 0; i < sites.size() && done < shim::kMaxLoops / 2; i++) {
      Site& site = sites[i];
      if (site.kind != shim::kSitePause) continue;
      const auto window = pause_window(decoder_, elf_.content.substr(site.offset, kEnough), site.offset);
      if (!window) continue;
      const bool taken = i + 1 < sites.size() && site.offset + window->length + 2 > sites[i + 1].offset;
      if (taken || is_entered(site.offset, window->length)) continue;
      site = Site{site.offset, shim::kSiteLoop, window->length, window->displacement};
      done++;
    }
  }

  // Adds a site to each loop at a window that no branch enters and that overlaps no other site.
  void add_loops(std::vector<Site>& sites) const {
    std::vector<Site> chosen;
    const auto overlap = [](const Site& a, const Site& b) {
      return a.offset < b.offset + b.length + 2 && b.offset < a.offset + a.length + 2;
    };
    for (const auto& windows : loops_) {
      for (const LoopWindow& window : windows) {
        const uint64_t offset = elf_.offset_of(window.start);
        if (is_entered(offset, window.length)) continue;
        const Site site{offset, shim::kSiteLoop, window.length, window.displacement};
        auto next = std::lower_bound(sites.begin(), sites.end(), site, in_order);
        const bool taken =
            (next != sites.end() && overlap(site, *next)) || (next != sites.begin() && overlap(site, next[-1]));
        if (!taken) chosen.push_back(site);
        if (!taken) break;
      }
    }
    std::sort(chosen.begin(), chosen.end(), in_order);
    const size_t others = sites.size();
    const auto pauses =
        static_cast<size_t>(std::ranges::count_if(sites, [](const Site& s) { return s.kind == shim::kSiteLoop; }));
    for (const Site& site : chosen)
      if (sites.size() == others || !overlap(site, sites.back())) sites.push_back(site);
    if (const size_t most = shim::kMaxLoops - pauses; sites.size() - others > most) sites.resize(others + most);
    std::sort(sites.begin(), sites.end(), in_order);
  }

  bool is_target(uint64_t address) const { return targets_at(elf_.offset_of(address)); }
  bool targets_at(uint64_t offset) const { return offset < targets_.size() && targets_[offset]; }
  // Whether a branch leads behind the first of the `length` bytes at that offset.
  bool is_entered(uint64_t offset, unsigned length) const {
    for (unsigned i = 1; i < length; i++)
      if (targets_at(offset + i)) return true;
    return false;
  }

  void choose(const std::vector<Instruction>& run, std::vector<Site>& sites) {
    for (size_t i = 0; i < run.size(); i++) {
      const auto& in = run[i];
      auto add = [&](uint64_t address, unsigned kind, unsigned length, unsigned detail) {
        sites.push_back(Site{elf_.offset_of(address), kind, length, detail});
      };
      switch (in.mnemonic) {
        case ZYDIS_MNEMONIC_XSAVE:
        case ZYDIS_MNEMONIC_XSAVE64:
        case ZYDIS_MNEMONIC_XSAVEOPT:
        case ZYDIS_MNEMONIC_XSAVEOPT64:
          if (in.movable && in.length <= sizeof(shim::Patch::original)) add(in.address, shim::kSiteXsave, in.length, 0);
          break;
        case ZYDIS_MNEMONIC_XSAVEC:
        case ZYDIS_MNEMONIC_XSAVEC64:
          if (in.movable && in.length <= sizeof(shim::Patch::original)) add(in.address, shim::kSiteXsave, in.length, 1);
          break;
        case ZYDIS_MNEMONIC_PAUSE: add(in.address, shim::kSitePause, in.length, 0); break;
        case ZYDIS_MNEMONIC_RDTSC: add(in.address, shim::kSiteRdtsc, in.length, 0); break;
        case ZYDIS_MNEMONIC_RDTSCP: add(in.address, shim::kSiteRdtscp, in.length, 0); break;
        case ZYDIS_MNEMONIC_CPUID: add(in.address, shim::kSiteCpuid, in.length, 0); break;
        case ZYDIS_MNEMONIC_RDPID: add(in.address, shim::kSiteRdpid, in.length, 0); break;
        case ZYDIS_MNEMONIC_XGETBV: add(in.address, shim::kSiteXgetbv, in.length, 0); break;
        case ZYDIS_MNEMONIC_RDGSBASE: add(in.address, shim::kSiteGsBase, in.length, 0); break;
        case ZYDIS_MNEMONIC_WRGSBASE:
        case ZYDIS_MNEMONIC_LGS: add(in.address, shim::kSiteGsBase, in.length, 1); break;
        case ZYDIS_MNEMONIC_XBEGIN:
          if (in.length == kXbeginLength) add(in.address, shim::kSiteXbegin, in.length, 0);
          break;
        case ZYDIS_MNEMONIC_LSL:
          if (in.detail) add(in.address, shim::kSiteLsl, in.length, 0);
          break;
        case ZYDIS_MNEMONIC_RDRAND: add(in.address, shim::kSiteRdrand, in.length, in.detail); break;
        case ZYDIS_MNEMONIC_RDSEED: add(in.address, shim::kSiteRdseed, in.length, in.detail); break;
        case ZYDIS_MNEMONIC_SYSCALL:
          if (unsigned length = room_before(run, i)) add(in.address - length, shim::kSiteBefore, length, 0);
          else if (unsigned after = room_after(run, i)) add(in.address, shim::kSiteAfter, after, 0);
          break;
        default: break;
      }
    }
  }

  // How many bytes before the call can move to the site's stub: whole instructions, at least 5 bytes, with no branch
  // target among them. The sequence by which unwinders recognise a signal frame (mov $15, %rax; syscall) must stay in
  // place.
  unsigned room_before(const std::vector<Instruction>& run, size_t call) const {
    unsigned length = 0;
    uint64_t offset = elf_.offset_of(run[call].address);
    static constexpr uint8_t kSignalReturn[7] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0};
    if (offset >= 7 && memcmp(elf_.content.data() + offset - 7, kSignalReturn, 7) == 0) return 0;
    for (size_t i = call; i-- > 0;) {
      if (!run[i].movable || !takes_part(run[i])) return 0;
      length += run[i].length;
      if (length > sizeof(shim::Patch::original)) return 0;
      if (length >= 5) return length;
      if (is_target(run[i].address)) return 0;
    }
    return 0;
  }

  unsigned room_after(const std::vector<Instruction>& run, size_t call) const {
    unsigned length = run[call].length;
    uint64_t offset = elf_.offset_of(run[call].address);
    static constexpr uint8_t kSignalReturn[7] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0};
    if (offset >= 7 && memcmp(elf_.content.data() + offset - 7, kSignalReturn, 7) == 0) return 0;
    for (size_t i = call + 1; i < run.size(); i++) {
      if (!run[i].movable || !takes_part(run[i]) || is_target(run[i].address)) return 0;
      length += run[i].length;
      if (length > sizeof(shim::Patch::original)) return 0;
      if (length >= 5) return length;
    }
    return 0;
  }

  // Instructions that are sites themselves cannot move.
  static bool takes_part(const Instruction& in) { return !is_emulated(in.mnemonic); }

  const Elf& elf_;
  const bool counts_loops_ = !waits_by_calls_only();
  ZydisDecoder decoder_;
  std::vector<std::vector<Instruction>> runs_;
  std::vector<std::vector<LoopWindow>> loops_;
  std::vector<bool> targets_;  // targets of direct branches, by file offset
};

// Whether all code that direct branches reach from `entry` uses general registers only.
bool general_registers_only(std::string_view code, uint64_t entry) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  std::vector<uint64_t> work{entry};
  std::unordered_set<uint64_t> seen;
  while (!work.empty()) {
    uint64_t at = work.back();
    work.pop_back();
    while (at < code.size() && seen.insert(at).second) {
      ZydisDecodedInstruction in;
      ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
      if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code.data() + at, code.size() - at, &in, operands)))
        return false;
      for (unsigned i = 0; i < in.operand_count; i++) {
        if (operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
        const auto kind = ZydisRegisterGetClass(operands[i].reg.value);
        if (kind == ZYDIS_REGCLASS_XMM || kind == ZYDIS_REGCLASS_YMM || kind == ZYDIS_REGCLASS_ZMM ||
            kind == ZYDIS_REGCLASS_MMX || kind == ZYDIS_REGCLASS_X87)
          return false;
      }
      const uint64_t next = at + in.length;
      if (in.raw.imm[0].is_relative) work.push_back(next + static_cast<uint64_t>(in.raw.imm[0].value.s));
      if (in.meta.category == ZYDIS_CATEGORY_RET || in.meta.category == ZYDIS_CATEGORY_UNCOND_BR) break;
      at = next;
    }
  }
  return true;
}

}  // namespace

CodeAnalysis analyse_code(std::string_view content, bool want_sites) {
  CodeAnalysis result;
  Elf elf(content);
  if (!elf.header) return result;
  result.is_elf = true;
  result.build_id = elf.build_id();
  if (want_sites) result.sites = Scanner(elf).run();
  if (result.sites.size() > shim::kMaxSites) result.sites.resize(shim::kMaxSites);
  return result;
}

shim::HelloReply describe_vdso() {
  shim::HelloReply reply{};
  constexpr size_t kPage = 4096;
  const auto* base = reinterpret_cast<const char*>(getauxval(AT_SYSINFO_EHDR));
  if (!base) return reply;
  // The first page has the program headers, which tell the size of the whole.
  const std::string_view code(base, Elf(std::string_view(base, kPage)).loaded_size());
  const Elf vdso(code);
  reply.vdso_clock_gettime = vdso.dynamic_symbol("__vdso_clock_gettime").value_or(0);
  reply.vdso_gettimeofday = vdso.dynamic_symbol("__vdso_gettimeofday").value_or(0);
  reply.vdso_time = vdso.dynamic_symbol("__vdso_time").value_or(0);
  reply.vdso_getcpu = vdso.dynamic_symbol("__vdso_getcpu").value_or(0);
  reply.vdso_clock_getres = vdso.dynamic_symbol("__vdso_clock_getres").value_or(0);
  reply.vdso_getrandom = vdso.dynamic_symbol("__vdso_getrandom").value_or(0);
  bool callable = true;
  for (uint64_t entry : {reply.vdso_clock_gettime, reply.vdso_gettimeofday, reply.vdso_time})
    callable = callable && entry && general_registers_only(code, entry);
  if (callable) reply.flags |= shim::kVdsoCallable;
  return reply;
}

}  // namespace friday
