// What core/record/analysis finds in real libraries, checked against objdump, and that damaged files do no harm.
#include <elf.h>
#include <gmock/gmock.h>
#include <sys/auxv.h>
#include <time.h>

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "core/base/files.h"
#include "core/record/analysis.h"
#include "core/record/flow.h"
#include "core/record/loops.h"

namespace friday {
namespace {

using shim::Site;

// Path of a library mapped into this process.
std::string mapped_library(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/" + name) != std::string::npos) return line.substr(line.find('/'));
  return {};
}

// objdump's view of a file: instructions by address, and all targets of direct branches.
struct Listing {
  std::map<uint64_t, std::string> instructions;
  std::set<uint64_t> targets;
};

Listing disassemble(const std::string& path) {
  Listing listing;
  FILE* pipe = popen(("objdump -d --no-show-raw-insn -w '" + path + "'").c_str(), "r");
  std::array<char, 4096> line;
  while (pipe && fgets(line.data(), line.size(), pipe)) {
    char* colon = strchr(line.data(), ':');
    if (line[0] != ' ' || !colon || colon[1] != '\t') continue;
    char* end;
    uint64_t address = strtoull(line.data(), &end, 16);
    if (end != colon) continue;
    std::string text(colon + 2);
    while (!text.empty() && isspace(text.back())) text.pop_back();
    std::istringstream words(text);
    std::string mnemonic, operand;
    words >> mnemonic >> operand;
    if (mnemonic[0] == 'j' || mnemonic == "call") {
      uint64_t target = strtoull(operand.c_str(), &end, 16);
      if (*end == 0 || *end == ' ') listing.targets.insert(target);
    }
    listing.instructions[address] = text;
  }
  if (pipe) pclose(pipe);
  return listing;
}

// Virtual address of a file offset, by the program headers.
uint64_t address_of(const std::string& content, uint64_t offset) {
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(content.data());
  auto* segments = reinterpret_cast<const Elf64_Phdr*>(content.data() + header->e_phoff);
  for (int i = 0; i < header->e_phnum; i++)
    if (segments[i].p_type == PT_LOAD && offset >= segments[i].p_offset &&
        offset < segments[i].p_offset + segments[i].p_filesz)
      return offset - segments[i].p_offset + segments[i].p_vaddr;
  return ~0ull;
}

size_t count(const std::vector<Site>& sites, std::initializer_list<unsigned> kinds) {
  size_t n = 0;
  for (const auto& site : sites)
    for (unsigned kind : kinds) n += site.kind == kind;
  return n;
}

// Every site starts and ends between instructions, stands where its kind says, and nobody jumps into its middle.
void check_sites(const std::string& content, const std::vector<Site>& sites, const Listing& listing) {
  uint64_t last_end = 0;
  for (const auto& site : sites) {
    const uint64_t start = address_of(content, site.offset), end = start + site.length;
    SCOPED_TRACE(fmt::format("site at {:#x}, kind {}, {} bytes", start, static_cast<int>(site.kind),
                             static_cast<int>(site.length)));
    EXPECT_GE(start, last_end) << "two sites overlap";
    last_end = end;
    ASSERT_TRUE(listing.instructions.contains(start)) << "in the middle of an instruction";
    EXPECT_TRUE(listing.instructions.contains(end)) << "ends in the middle of an instruction";
    const auto at = [&](uint64_t address) {
      return listing.instructions.contains(address) ? listing.instructions.at(address) : "";
    };
    switch (site.kind) {
      case shim::kSiteBefore: EXPECT_EQ(at(end), "syscall"); break;
      case shim::kSiteAfter: EXPECT_EQ(at(start), "syscall"); break;
      case shim::kSiteRdtsc: EXPECT_EQ(at(start), "rdtsc"); break;
      case shim::kSiteRdtscp: EXPECT_EQ(at(start), "rdtscp"); break;
      case shim::kSiteRdrand: EXPECT_THAT(at(start), testing::StartsWith("rdrand")); break;
      case shim::kSiteRdseed: EXPECT_THAT(at(start), testing::StartsWith("rdseed")); break;
      case shim::kSiteCpuid: EXPECT_EQ(at(start), "cpuid"); break;
      default: break;
    }
    if (site.kind == shim::kSiteBefore || site.kind == shim::kSiteAfter || site.kind == shim::kSiteLoop) {
      EXPECT_GE(site.length, 5u) << "no room for a jump";
      auto target = listing.targets.upper_bound(start);
      EXPECT_FALSE(target != listing.targets.end() && *target < end)
          << fmt::format("something jumps to {:#x}", *target);
    }
  }
}

std::string contents(const std::string& path) {
  auto read = read_file(path);
  EXPECT_TRUE(read) << path;
  return read.value_or("");
}

TEST(Analysis, FindsTheCallsOfLibc) {
  const std::string path = mapped_library("libc.so.6");
  const std::string content = contents(path);
  CodeAnalysis analysis = analyse_code(content, true);
  EXPECT_TRUE(analysis.is_elf);
  EXPECT_GE(count(analysis.sites, {shim::kSiteBefore, shim::kSiteAfter}), 400u);
  Listing listing = disassemble(path);
  ASSERT_GT(listing.instructions.size(), 100000u) << "objdump did not run";
  check_sites(content, analysis.sites, listing);
  size_t calls = 0;
  for (const auto& [address, text] : listing.instructions) calls += text == "syscall";
  EXPECT_GE(count(analysis.sites, {shim::kSiteBefore, shim::kSiteAfter}) * 100, calls * 90)
      << "of " << calls << " syscall instructions";
}

TEST(Analysis, FindsTheCallsOfTheLoader) {
  const std::string path = mapped_library("ld-linux-x86-64.so.2");
  const std::string content = contents(path);
  CodeAnalysis analysis = analyse_code(content, true);
  EXPECT_GE(count(analysis.sites, {shim::kSiteBefore, shim::kSiteAfter}), 20u);
  EXPECT_GE(count(analysis.sites, {shim::kSiteRdtsc}), 1u);
  check_sites(content, analysis.sites, disassemble(path));
}

// Of a function with one loop.
LoopSites sites_of(std::initializer_list<uint8_t> code, bool jumps_unknown = false) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  const std::string bytes(code.begin(), code.end());
  std::vector<FlowInstruction> function;
  for (size_t at = 0; at < bytes.size();) {
    ZydisDecodedInstruction decoded;
    EXPECT_TRUE(
        ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, bytes.data() + at, bytes.size() - at, &decoded)));
    function.push_back(flow_instruction(0x1000 + at, decoded));
    at += decoded.length;
  }
  const auto loops = natural_loops(function, kLongestLoop);
  if (loops.empty()) return {};
  EXPECT_EQ(loops.size(), 1u);
  std::vector<LoopCode> parts;
  for (const LoopPart& part : loops[0].parts) {
    const uint64_t low = function[part.first].address;
    const uint64_t high = function[part.last - 1].address + function[part.last - 1].length;
    parts.push_back({low, std::string_view(bytes).substr(low - 0x1000, high - low), part.each_iteration});
  }
  return loop_sites(decoder, parts, jumps_unknown);
}

std::vector<LoopWindow> windows_of(std::initializer_list<uint8_t> code, bool jumps_unknown = false) {
  return sites_of(code, jumps_unknown).windows;
}

// A site costs each process that starts; these two have hundreds of loops that look like waiting, and none that waits
// without a pause or a call.
TEST(Analysis, SaysHowFarItIs) {
  const std::string content = contents(mapped_library("libstdc++.so.6"));
  uint64_t last = 0, times = 0;
  const auto tell = [&](const std::string& what, uint64_t done, uint64_t total) {
    EXPECT_EQ(what, "looking");
    EXPECT_LE(last, done);
    EXPECT_LE(done, total);
    last = done;
    times++;
  };
  Progress progress(tell, std::chrono::milliseconds(0));
  progress.begin("looking", content.size());
  analyse_code(content, true, &progress);
  EXPECT_GT(times, 1000u);
  EXPECT_GT(last, content.size() / 10);
}

TEST(Loops, OfTheCLibraryAreThoseWithAPause) {
  for (const char* name : {"libc.so.6", "ld-linux-x86-64.so.2"}) {
    const std::string content = contents(mapped_library(name));
    for (const shim::Site& site : analyse_code(content, true).sites)
      if (site.kind == shim::kSiteLoop) {
        EXPECT_EQ(content.substr(site.offset, 2), "\xf3\x90") << name;
      }
  }
  const CodeAnalysis analysis = analyse_code(contents(mapped_library("libstdc++.so.6")), true);
  EXPECT_GT(count(analysis.sites, {shim::kSiteLoop}), 0u);
}

std::optional<LoopWindow> pause_of(std::initializer_list<uint8_t> code) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  const std::string bytes(code.begin(), code.end());
  return pause_window(decoder, bytes, 0x1000);
}

TEST(Loops, APauseTakesWhatFollowsItAlong) {
  auto found = pause_of({0xf3, 0x90, 0x83, 0xed, 1, 0x75, 0xe0});  // pause; sub $1, %ebp; jne
  ASSERT_TRUE(found);
  EXPECT_EQ(found->start, 0x1000u);
  EXPECT_EQ(found->length, 5u);
  EXPECT_EQ(found->displacement, 0u);
  found = pause_of({0xf3, 0x90, 0x8b, 0x05, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 0xf2});  // mov 0x100(%rip), %eax; test; je
  ASSERT_TRUE(found);
  EXPECT_EQ(found->length, 8u);
  EXPECT_EQ(found->displacement, 4u);
}

TEST(Loops, APauseStaysWhereWhatFollowsItCannotMove) {
  EXPECT_FALSE(pause_of({0xf3, 0x90, 0xeb, 0xf7})) << "a jump";
  EXPECT_FALSE(pause_of({0xf3, 0x90, 0xc3})) << "a return";
  EXPECT_FALSE(pause_of({0xf3, 0x90})) << "nothing is known to follow";
  EXPECT_FALSE(pause_of({0xf3, 0x90, 0x89, 0x04, 0x24, 0x85, 0xc0, 0x74, 0xf2})) << "a store";
  EXPECT_FALSE(pause_of({0xf3, 0x90, 0x8b, 0x04, 0x24, 0x74, 0xf2})) << "the flags are used behind it";
  EXPECT_FALSE(pause_of({0xf3, 0x90, 0x0f, 0x31, 0x90, 0x85, 0xc0})) << "rdtsc, a site of its own";
}

TEST(Loops, AreSitesWhereTheyCountWhileTheyWait) {
  // add $1, %rcx; mov 0x100(%rip), %eax; test %eax, %eax; je
  auto found = windows_of({0x48, 0x83, 0xc1, 1, 0x8b, 0x05, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 0xf2});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].start, 0x1004u);
  EXPECT_EQ(found[0].length, 6);
  EXPECT_EQ(found[0].displacement, 2);
  // sub $1, %eax; je out; mov 0(%rbp), %rdx; test %rdx, %rdx; je: as Redis has it
  const std::initializer_list<uint8_t> redis = {0x83, 0xe8, 1,    0x74, 0x20, 0x48, 0x8b,
                                                0x55, 0,    0x48, 0x85, 0xd2, 0x74, 0xf2};
  found = windows_of(redis);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].start, 0x1005u);
  EXPECT_EQ(found[0].length, 7);
  EXPECT_TRUE(windows_of(redis, true).empty()) << "two instructions, and jumps to who knows where";
}

TEST(Loops, AreNoSitesWhereTheyDoNotWait) {
  EXPECT_TRUE(windows_of({0x48, 0x83, 0xc0, 1, 0x80, 0x38, 0, 0x75, 0xf7}).empty())
      << "add $1, %rax; cmpb $0, (%rax); jne: each time elsewhere";
  EXPECT_TRUE(windows_of({0x48, 0x8b, 0x80, 0, 1, 0, 0, 0x48, 0x85, 0xc0, 0x75, 0xf4}).empty())
      << "mov 0x100(%rax), %rax; test; jne: along a list";
  EXPECT_TRUE(windows_of({0x83, 0x05, 0, 1, 0, 0, 1, 0x83, 0x3d, 0xf9, 0, 0, 0, 9, 0x75, 0xf0}).empty())
      << "addl $1, x; cmpl $9, x; jne: its own count";
}

void expect_call(const LoopSites& found, uint64_t address) {
  ASSERT_FALSE(found.windows.empty());
  EXPECT_EQ(found.windows[0].start, address);
  EXPECT_EQ(found.windows[0].length, 5);
}

TEST(Loops, AroundACallAreCountedAtTheCall) {
  expect_call(sites_of({0xe8, 0, 1, 0, 0, 0x85, 0xc0, 0x74, 0xf7}), 0x1000);  // call f; test %eax, %eax; je
  // lea 12(%rsp), %rsi; call f; mov 12(%rsp), %eax; test %eax, %eax; je: a flag on the stack that the function sets
  expect_call(sites_of({0x48, 0x8d, 0x74, 0x24, 12, 0xe8, 0, 1, 0, 0, 0x8b, 0x44, 0x24, 12, 0x85, 0xc0, 0x74, 0xee}),
              0x1005);
  // call f; mov %eax, -4(%rbp); test %eax, %eax; jne out; cmpl $0, 0x100(%rip); je: with a result that is kept, and
  // memory of others
  expect_call(
      sites_of({0xe8, 0, 1, 0, 0, 0x89, 0x45, 0xfc, 0x85, 0xc0, 0x75, 9, 0x83, 0x3d, 0, 1, 0, 0, 0, 0x74, 0xeb}),
      0x1000);
  // movl $0, -8(%rbp); call f; mov -8(%rbp), %eax; test %eax, %eax; je
  expect_call(sites_of({0xc7, 0x45, 0xf8, 0, 0, 0, 0, 0xe8, 0, 1, 0, 0, 0x8b, 0x45, 0xf8, 0x85, 0xc0, 0x74, 0xed}),
              0x1007);
}

TEST(Loops, AroundACallInABranchAreCountedAtAllCallsOrWithoutThem) {
  // test %ebx, %ebx; je 1f; call f; 1: cmpl $0, 0x100(%rip); je
  const LoopSites found = sites_of({0x85, 0xdb, 0x74, 5, 0xe8, 0, 1, 0, 0, 0x83, 0x3d, 0, 1, 0, 0, 0, 0x74, 0xee});
  ASSERT_EQ(found.calls.size(), 1u);
  EXPECT_EQ(found.calls[0].start, 0x1004u);
  ASSERT_FALSE(found.windows.empty());
  EXPECT_EQ(found.windows[0].start, 0x1009u);
}

TEST(Loops, AroundACallThatEndInAnyCaseAreNone) {
  const auto none = [](std::initializer_list<uint8_t> code) {
    const LoopSites found = sites_of(code);
    return found.windows.empty() && found.calls.empty();
  };
  EXPECT_TRUE(none({0xe8, 0, 1, 0, 0, 0x83, 0xeb, 1, 0x75, 0xf6})) << "call f; sub $1, %ebx; jne: a counter";
  EXPECT_TRUE(none({0xe8, 0, 1, 0, 0, 0x83, 0x45, 0xf8, 1, 0x83, 0x7d, 0xf8, 9, 0x7e, 0xf1}))
      << "call f; addl $1, -8(%rbp); cmpl $9, -8(%rbp); jle: a counter in memory";
  EXPECT_TRUE(none({0x48, 0x8b, 0x78, 8, 0xe8, 0, 1, 0, 0, 0x48, 0x85, 0xc0, 0x75, 0xf2}))
      << "mov 8(%rax), %rdi; call next; test %rax, %rax; jne: goes on from what the function returned";
}

// The block behind the return jumps back into the function, but nothing repeats.
TEST(Loops, AreNotWhatTheCompilerHasMovedAway) {
  // test %edi, %edi; jne 2f; 1: call f; test %eax, %eax; ret; 2: call g; jmp 1b
  EXPECT_TRUE(
      windows_of({0x85, 0xff, 0x75, 8, 0xe8, 0, 1, 0, 0, 0x85, 0xc0, 0xc3, 0xe8, 0, 1, 0, 0, 0xeb, 0xf1}).empty());
}

TEST(Loops, KeepWhatAnIterationPutsBack) {
  // mov 8(%rbx), %r12d; movl $0, 8(%rbx); call f; mov %r12d, 8(%rbx); test %r12d, %r12d; je: as a lock that is
  // given away for the time of a call
  expect_call(sites_of({0x44, 0x8b, 0x63, 8,    0xc7, 0x43, 8, 0,    0,    0,    0,    0xe8, 0,
                        1,    0,    0,    0x44, 0x89, 0x63, 8, 0x45, 0x85, 0xe4, 0x74, 0xe7}),
              0x100b);
}

TEST(Loops, WaitForAFlagOnTheStack) {
  // mov 12(%rsp), %eax; nopl 0(%rax); test %eax, %eax; je: another thread has its address
  const auto found = windows_of({0x8b, 0x44, 0x24, 12, 0x0f, 0x1f, 0x40, 0, 0x85, 0xc0, 0x74, 0xf4});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].start, 0x1000u);
}

// adc, which reads the carry of the iteration before: no window in front of it.
TEST(Loops, KeepFlagsThatAreRead) {
  // mov 0x100(%rip), %eax; adc $0, %rcx; test %eax, %eax; je
  EXPECT_TRUE(windows_of({0x8b, 0x05, 0, 1, 0, 0, 0x48, 0x83, 0xd1, 0, 0x85, 0xc0, 0x74, 0xf2}).empty());
}

// The signal trampoline is how unwinders know a signal frame: its bytes stay.
TEST(Analysis, LeavesTheSignalTrampolineAlone) {
  const std::string content = contents(mapped_library("libc.so.6"));
  const std::string trampoline("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);
  const size_t at = content.find(trampoline);
  ASSERT_NE(at, std::string::npos);
  for (const auto& site : analyse_code(content, true).sites)
    EXPECT_FALSE(site.offset < at + 9 && site.offset + site.length > at)
        << "offset " << static_cast<uint64_t>(site.offset);
}

TEST(Analysis, GivesTheBuildId) {
  const std::string path = mapped_library("libc.so.6");
  CodeAnalysis analysis = analyse_code(contents(path), false);
  EXPECT_TRUE(analysis.sites.empty()) << "sites that nobody asked for";
  ASSERT_EQ(analysis.build_id.size(), 20u);
  std::string hex;
  for (uint8_t byte : analysis.build_id) hex += fmt::format("{:02x}", byte);
  FILE* pipe = popen(("readelf -n '" + path + "'").c_str(), "r");
  std::string notes;
  std::array<char, 4096> buffer;
  while (size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) notes.append(buffer.data(), n);
  pclose(pipe);
  EXPECT_THAT(notes, testing::HasSubstr("Build ID: " + hex));
}

TEST(Analysis, TakesNothingFromWhatIsNoProgram) {
  for (std::string content : {std::string(), std::string("hello"), std::string(4096, '\0'),
                              std::string("\x7f"
                                          "ELF"),
                              std::string(1 << 20, '\x0f')}) {
    CodeAnalysis analysis = analyse_code(content, true);
    EXPECT_FALSE(analysis.is_elf);
    EXPECT_TRUE(analysis.sites.empty() && analysis.build_id.empty());
  }
}

TEST(Analysis, SurvivesFilesThatAreCutOff) {
  const std::string content = contents(mapped_library("ld-linux-x86-64.so.2"));
  for (size_t size = 0; size < content.size(); size += size < 8192 ? 61 : 7919) {
    CodeAnalysis analysis = analyse_code(std::string_view(content).substr(0, size), true);
    for (const auto& site : analysis.sites) EXPECT_LE(site.offset + site.length, size);
  }
}

TEST(Analysis, SurvivesDamage) {
  const std::string whole = contents(mapped_library("ld-linux-x86-64.so.2"));
  std::mt19937 random(7);
  for (int round = 0; round < 60; round++) {
    std::string content = whole;
    for (int i = 0; i < 40; i++) content[random() % (i < 20 ? 4096 : content.size())] = static_cast<char>(random());
    memcpy(content.data(), ELFMAG, SELFMAG);
    for (const auto& site : analyse_code(content, true).sites) EXPECT_LE(site.offset + site.length, content.size());
  }
}

TEST(Vdso, OffsetsLeadToItsFunctions) {
  shim::HelloReply reply = describe_vdso();
  const auto base = getauxval(AT_SYSINFO_EHDR);
  if (!base) GTEST_SKIP() << "machine: this kernel gives no vdso";
  ASSERT_NE(reply.vdso_clock_gettime, 0u);
  auto* function = reinterpret_cast<long (*)(long, timespec*)>(base + reply.vdso_clock_gettime);
  timespec before, there, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  ASSERT_EQ(function(CLOCK_MONOTONIC, &there), 0);
  clock_gettime(CLOCK_MONOTONIC, &after);
  const auto ns = [](const timespec& t) { return t.tv_sec * 1000000000ll + t.tv_nsec; };
  EXPECT_LE(ns(before), ns(there));
  EXPECT_LE(ns(there), ns(after));
}

}  // namespace
}  // namespace friday
