#include "core/record/analysis.h"

#include <sys/auxv.h>

#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <unordered_set>

#include "core/base/elf.h"
#include "core/record/flow.h"
#include "core/record/loops.h"

namespace friday {
namespace {

using shim::Site;

struct Instruction {
  uint64_t address;
  uint8_t length;
  bool movable;  // has the same effect at another address: no branch, no rip-relative operand
  ZydisMnemonic mnemonic;
  uint8_t detail;  // rdrand: register and width; lsl: 1 if the selector is in a register
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

// Functions of the C and C++ libraries that do not return. What stands behind a call of one is other code.
constexpr std::string_view kNoReturn =
    "abort exit _exit _Exit quick_exit pthread_exit err errx verr verrx longjmp _longjmp siglongjmp __longjmp_chk "
    "__assert __assert_fail __assert_perror_fail __chk_fail __fortify_fail __stack_chk_fail _Unwind_Resume "
    "__cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_bad_typeid __cxa_throw_bad_array_new_length "
    "__cxa_pure_virtual _ZSt9terminatev _ZSt10unexpectedv _ZSt17__throw_bad_allocv _ZSt16__throw_bad_castv "
    "_ZSt19__throw_logic_errorPKc _ZSt20__throw_length_errorPKc _ZSt20__throw_out_of_rangePKc "
    "_ZSt24__throw_out_of_range_fmtPKcz _ZSt24__throw_invalid_argumentPKc _ZSt21__throw_runtime_errorPKc "
    "_ZSt20__throw_system_errori _ZSt25__throw_bad_function_callv _ZSt28__throw_bad_array_new_lengthv ";

std::unordered_set<std::string_view> words_of(std::string_view text) {
  std::unordered_set<std::string_view> words;
  for (size_t at = 0, end; (end = text.find(' ', at)) != std::string_view::npos; at = end + 1)
    words.insert(text.substr(at, end - at));
  return words;
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

  std::vector<Site> run(Progress* progress) {
    const std::vector<uint64_t> starts = elf_.function_starts();
    for (size_t i = 0; i < starts.size(); i++) {
      const bool is_last = i + 1 == starts.size();
      decode(starts[i], is_last ? ~0ull : starts[i + 1]);
      if (progress && !is_last) progress->add(starts[i + 1] - starts[i]);
    }
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
    std::vector<FlowInstruction> flow;
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
      Instruction in{address, decoded.length, !relative && !branch, decoded.mnemonic, 0};
      if (branch && decoded.raw.imm[0].is_relative) {
        const uint64_t target = address + decoded.length + static_cast<uint64_t>(decoded.raw.imm[0].value.s);
        if (const uint64_t to = elf_.offset_of(target); to < targets_.size()) targets_[to] = true;
        loops = loops || (category != ZYDIS_CATEGORY_CALL && target >= start && target <= address);
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
      if (counts_loops_) flow.push_back(flow_instruction(address, decoded));
      if (counts_loops_ && flow.back().call && ends_here(address, decoded))
        flow.back().kind = FlowInstruction::Kind::ends;
      address += decoded.length;
    }
    if (loops && counts_loops_) find_loops(flow, offset - start, jumps_unknown);
    if (interesting) runs_.push_back(std::move(run));
  }

  // Whether it is a call of a function that does not return: directly, by way of the procedure linkage table, or
  // through the word there.
  bool ends_here(uint64_t address, const ZydisDecodedInstruction& call) const {
    const uint64_t next = address + call.length;
    constexpr uint8_t kIndirect = 0xff;
    if (call.opcode == kIndirect && call.attributes & ZYDIS_ATTRIB_IS_RELATIVE)
      return no_return_.words.contains(next + static_cast<uint64_t>(call.raw.disp.value));
    if (!call.raw.imm[0].is_relative) return false;
    const uint64_t function = next + static_cast<uint64_t>(call.raw.imm[0].value.s);
    if (no_return_.code.contains(function)) return true;
    // [endbr64] [bnd] jmp *word(%rip)
    constexpr size_t kEntry = 11;
    const char* at = elf_.at<char>(elf_.offset_of(function), kEntry);
    std::string_view code = at ? std::string_view(at, kEntry) : std::string_view();
    if (code.starts_with("\xf3\x0f\x1e\xfa")) code.remove_prefix(4);
    if (code.starts_with('\xf2')) code.remove_prefix(1);
    int32_t displacement;
    if (!code.starts_with("\xff\x25") || code.size() < 2 + sizeof displacement) return false;
    memcpy(&displacement, code.data() + 2, sizeof displacement);
    const uint64_t behind = function + kEntry - code.size() + 2 + sizeof displacement;
    return no_return_.words.contains(behind + static_cast<uint64_t>(int64_t{displacement}));
  }

  // `delta` converts an address of the function to its file offset.
  void find_loops(const std::vector<FlowInstruction>& function, uint64_t delta, bool jumps_unknown) {
    for (const NaturalLoop& loop : natural_loops(function, kLongestLoop)) {
      if (!loop.calls && loop.size > kLongestPlainLoop) continue;
      std::vector<LoopCode> code;
      for (const LoopPart& part : loop.parts) {
        const uint64_t low = function[part.first].address, high = function[part.last - 1].address;
        const uint64_t size = high + function[part.last - 1].length - low;
        code.push_back({low, elf_.content.substr(low + delta, size), part.each_iteration});
      }
      auto sites = loop_sites(decoder_, code, jumps_unknown);
      if (!sites.windows.empty() || !sites.calls.empty()) loops_.push_back(std::move(sites));
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

  static bool overlap(const Site& a, const Site& b) {
    return a.offset < b.offset + b.length + 2 && b.offset < a.offset + a.length + 2;
  }

  // Makes a site of a window, unless a branch enters it or another site is in the way. False if the window is no site.
  bool take(const LoopWindow& window, std::map<uint64_t, Site>& sites) const {
    const uint64_t offset = elf_.offset_of(window.start);
    const Site site{offset, shim::kSiteLoop, window.length, window.displacement};
    const auto next = sites.lower_bound(offset);
    if (next != sites.end() && next->first == offset && next->second.kind == shim::kSiteLoop) return true;
    const bool in_the_way = (next != sites.end() && overlap(site, next->second)) ||
                            (next != sites.begin() && overlap(site, std::prev(next)->second));
    if (in_the_way || is_entered(offset, window.length)) return false;
    sites.emplace(offset, site);
    return true;
  }

  // Adds a site to each loop at a window, or else at all its calls. If there are too many, the shortest loops have
  // them.
  void add_loops(std::vector<Site>& sites) {
    std::map<uint64_t, Site> all;  // by offset
    for (const Site& site : sites) all.emplace(site.offset, site);
    const auto loops = std::ranges::count(sites, unsigned{shim::kSiteLoop}, [](const Site& s) { return s.kind; });
    const size_t most = sites.size() + shim::kMaxLoops - static_cast<size_t>(loops);
    std::ranges::stable_sort(loops_, {}, &LoopSites::size);
    for (const LoopSites& loop : loops_) {
      bool taken = false;
      for (size_t i = 0; i < loop.windows.size() && !taken; i++) taken = take(loop.windows[i], all);
      for (size_t i = 0; i < loop.calls.size() && !taken; i++) (void)take(loop.calls[i], all);
      if (all.size() >= most) break;
    }
    sites.clear();
    for (const auto& [offset, site] : all) sites.push_back(site);
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
  const Elf::Functions no_return_ = counts_loops_ ? elf_.functions_named(words_of(kNoReturn)) : Elf::Functions();
  ZydisDecoder decoder_;
  std::vector<std::vector<Instruction>> runs_;
  std::vector<LoopSites> loops_;
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

CodeAnalysis analyse_code(std::string_view content, bool want_sites, Progress* progress) {
  CodeAnalysis result;
  Elf elf(content);
  if (!elf.header) return result;
  result.is_elf = true;
  result.build_id = elf.build_id();
  if (want_sites) result.sites = Scanner(elf).run(progress);
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
