#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/stop_support.h"

namespace friday {
namespace {

// One reported change, as the engine and the oracle both see it.
struct Change {
  uint64_t pc = 0;
  uint32_t range = 0;
  std::vector<std::byte> old_bytes, new_bytes;
  bool operator==(const Change&) const = default;
};

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

void PrintTo(const Change& change, std::ostream* out) {
  *out << fmt::format("pc {:#x} range {} {} -> {}", change.pc, change.range, hex(change.old_bytes),
                      hex(change.new_bytes));
}

struct Outcome {
  std::vector<Change> changes;
  PatchedStoreStatistics patched;
  std::vector<uint64_t> results;
  std::vector<std::byte> arena;
  WatchStatistics statistics;
  std::string output;
  std::vector<std::pair<uint64_t, size_t>> path;  // where a stepped program came by, and in which call of run_form
  std::map<uint64_t, size_t> visits;              // of breakpoints, by address
};

constexpr StopPointId watch_id{7};

std::vector<std::pair<uint64_t, uint64_t>> watched_ranges(Debuggee& program) {
  uint64_t page = program.symbol("arena") + 4096, next = page + 4096;
  return {{page + 0x100, 8},   {page + 0x104, 16}, {next - 2, 4},
          {page + 0x200, 256}, {next + 0x810, 64}, {next + 0xff8, 16}};
}

void collect_state(Debuggee& program, Outcome& outcome) {
  outcome.results.resize(program.get<uint64_t>(program.symbol("result_count")) * 8);
  outcome.arena.resize(6 * 4096);
  EXPECT_TRUE(program.node.read(Addr{program.symbol("results")}, std::as_writable_bytes(std::span(outcome.results))));
  EXPECT_TRUE(program.node.read(Addr{program.symbol("arena")}, outcome.arena));
}

// Steps through everything and looks at the ranges after each instruction. A rep instruction, which traps after each
// iteration, counts as one.
Outcome single_stepped() {
  Debuggee program({STOP_STORES});
  Outcome outcome;
  auto ranges = watched_ranges(program);
  program.run_to(program.symbol("start_marker"));
  uint64_t end = program.symbol("end_marker"), low = ranges.front().first,
           high = ranges.back().first + ranges.back().second;
  std::vector<std::byte> before(high - low), at_entry, now(high - low);
  EXPECT_TRUE(program.node.read(Addr{low}, before));
  at_entry = before;
  uint64_t pc = program.registers().rip;
  while (pc != end && program.breakpoints.step_one(program.thread)) {
    uint64_t next = program.registers().rip;
    if (next == pc) continue;  // the same rep instruction again
    EXPECT_TRUE(program.node.read(Addr{low}, now));
    if (now != before) {
      for (uint32_t i = 0; i < ranges.size(); ++i) {
        auto part = [&](const std::vector<std::byte>& of) {
          auto from = of.begin() + static_cast<ptrdiff_t>(ranges[i].first - low);
          return std::vector<std::byte>(from, from + static_cast<ptrdiff_t>(ranges[i].second));
        };
        if (part(before) != part(now)) outcome.changes.push_back({pc, i, part(before), part(now)});
      }
      before = now;
    }
    pc = next;
  }
  collect_state(program, outcome);
  outcome.output = program.finish();
  return outcome;
}

const Outcome& oracle() {
  static const Outcome outcome = single_stepped();
  return outcome;
}

void record(const FaultOutcome& fault, Outcome& outcome) {
  for (const WatchHit& hit : fault.hits)
    outcome.changes.push_back({fault.pc.value, hit.index, hit.old_bytes, hit.new_bytes});
}

// The same under the engine. `break_on_stores`: a breakpoint on every instruction that the oracle saw change something.
// `patch_after`: how many vain faults make a store be patched.
Outcome watched(bool break_on_stores, size_t* breakpoint_hits = nullptr, uint32_t patch_after = 1u << 30) {
  Debuggee program({STOP_STORES});
  program.watches.stores().set_threshold(patch_after);
  Outcome outcome;
  auto ranges = watched_ranges(program);
  program.run_to(program.symbol("start_marker"));
  for (uint32_t i = 0; i < ranges.size(); ++i)
    EXPECT_TRUE(program.watches.arm({watch_id, i, Addr{ranges[i].first}, ranges[i].second}));
  if (break_on_stores || patch_after < 1000) program.breakpoints.add_pad_area(program.map_pads(program.symbol("main")));
  if (break_on_stores) {
    for (const Change& change : oracle().changes)
      EXPECT_TRUE(program.breakpoints.insert(Addr{change.pc}, {BreakpointOwner::Kind::stop_point, 1}));
  }
  program.on_watch = [&](const FaultOutcome& fault) { record(fault, outcome); };
  uint64_t end = program.symbol("end_marker");
  EXPECT_TRUE(program.breakpoints.insert(Addr{end}, {BreakpointOwner::Kind::internal, 1}));
  while (program.go() && program.registers().rip != end)
    if (breakpoint_hits) ++*breakpoint_hits;
  EXPECT_EQ(program.registers().rip, end) << "stopped by signal " << program.last.signal;
  collect_state(program, outcome);
  outcome.statistics = program.watches.statistics();
  outcome.patched = program.watches.stores().statistics();
  program.watches.disarm(watch_id);
  EXPECT_TRUE(program.watches.flush());
  EXPECT_TRUE(program.watches.stores().empty()) << "nothing is left when nothing is watched";
  outcome.output = program.finish();
  return outcome;
}

void expect_same(const Outcome& got) {
  const Outcome& expected = oracle();
  EXPECT_EQ(got.output, expected.output);
  for (size_t i = 0; i < std::min(got.changes.size(), expected.changes.size()); ++i)
    ASSERT_EQ(got.changes[i], expected.changes[i]) << "change " << i;
  EXPECT_EQ(got.changes.size(), expected.changes.size());
  for (size_t i = 0; i < std::min(got.results.size(), expected.results.size()); ++i)
    ASSERT_EQ(got.results[i], expected.results[i]) << "run " << i / 8 << " register " << i % 8;
  EXPECT_EQ(got.arena, expected.arena);
}

TEST(Watch, EveryStoreFormIsSeenAsSingleSteppingSeesIt) {
  ASSERT_GT(oracle().changes.size(), 500u);
  Outcome got = watched(false);
  expect_same(got);
  EXPECT_GT(got.statistics.emulated, 5 * got.statistics.stepped) << "most forms are emulated";
}

TEST(Watch, ABreakpointOnTheVeryStoreChangesNothing) {
  size_t hits = 0;
  Outcome got = watched(true, &hits);
  expect_same(got);
  EXPECT_GT(hits, 500u);
}

TEST(Watch, PatchedStoresAreSeenAsSingleSteppingSeesThem) {
  Outcome plain = watched(false), got = watched(false, nullptr, 1);
  expect_same(got);
  EXPECT_GT(got.patched.patched, 45u);
  EXPECT_GE(got.patched.pages, 2u);
  EXPECT_LT(got.statistics.faults, plain.statistics.faults) << "patched stores that miss do not fault";
}

TEST(Watch, PatchedStoresAndBreakpointsOnThemLiveTogether) {
  size_t hits = 0;
  expect_same(watched(true, &hits, 1));
  EXPECT_GT(hits, 500u);
}

// Programs of random stores under random watches and breakpoints: each runs three times from the same start,
// single-stepped, watched, and watched with stores patched at once. FRIDAY_RANDOM_PROGRAMS says how many a case has
// (250 in a full run of the tests).
struct RandomProgram {
  struct Step {
    uint32_t form, offset;
  };
  std::vector<Step> steps;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // offsets in the arena, sizes
  std::set<uint64_t> breakpoints;                     // on a store, behind it, and somewhere
  size_t break_from = 0;  // the step before which they are set: what was patched by then is patched
};

uint64_t below(std::mt19937_64& random, uint64_t limit) {
  return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random);
}

RandomProgram random_program(std::mt19937_64& random, uint64_t forms) {
  RandomProgram program;
  const uint64_t few = 1 + below(random, 8), loops = 1 + below(random, 6);
  for (uint64_t i = 0; i < 1 + below(random, 5); ++i)
    program.ranges.emplace_back(4096 + below(random, 3 * 4096), 1 + below(random, below(random, 4) ? 16 : 600));
  std::vector<RandomProgram::Step> body;
  for (uint64_t i = 0; i < few; ++i) {
    const uint64_t at = below(random, 3)
                            ? program.ranges[below(random, program.ranges.size())].first + below(random, 40) - 20
                            : 4096 + below(random, 3 * 4096);
    body.push_back({static_cast<uint32_t>(below(random, forms)), static_cast<uint32_t>(at)});
  }
  for (uint64_t i = 0; i < loops; ++i)
    for (RandomProgram::Step step : body) {
      if (below(random, 4) == 0) step.offset = static_cast<uint32_t>(4096 + below(random, 3 * 4096));
      program.steps.push_back(step);
    }
  return program;
}

// Chosen from what the stepped program did; fills in the visits that it would have seen.
void add_breakpoints(std::mt19937_64& random, RandomProgram& program, Outcome& stepped) {
  program.break_from = below(random, program.steps.size());
  const auto& path = stepped.path;
  auto add = [&](size_t at) {
    if (at < path.size()) program.breakpoints.insert(path[at].first);
  };
  if (!stepped.changes.empty()) {
    const uint64_t store = stepped.changes[below(random, stepped.changes.size())].pc;
    const auto found = std::ranges::find(path, store, &std::pair<uint64_t, size_t>::first) - path.begin();
    add(static_cast<size_t>(found));
    add(static_cast<size_t>(found) + 1);
  }
  if (!path.empty()) add(below(random, path.size()));
  for (const auto& [pc, call] : path)
    if (call > program.break_from && program.breakpoints.contains(pc)) ++stepped.visits[pc];
}

struct Runner {
  Debuggee program{{STOP_STORES, "script"}};
  uint64_t arena = program.symbol("arena"), start = program.symbol("start_marker"), end = program.symbol("end_marker"),
           run_form = program.symbol("run_form");

  Runner() { program.breakpoints.add_pad_area(program.map_pads(program.symbol("main"), 1 << 22)); }

  void load(const RandomProgram& what) {
    program.run_to(start);
    for (size_t i = 0; i < what.steps.size(); ++i) program.put(program.symbol("script") + 8 * i, what.steps[i]);
    program.put<uint64_t>(program.symbol("script_steps"), what.steps.size());
  }
  void collect(Outcome& outcome, size_t steps) {
    outcome.results.resize(steps * 8);
    outcome.arena.resize(6 * 4096);
    EXPECT_TRUE(program.node.read(Addr{program.symbol("results")}, std::as_writable_bytes(std::span(outcome.results))));
    EXPECT_TRUE(program.node.read(Addr{arena}, outcome.arena));
  }
  Outcome stepped(const RandomProgram& what) {
    load(what);
    Outcome outcome;
    std::vector<std::byte> before(3 * 4096 + 1024), now(before.size());
    EXPECT_TRUE(program.node.read(Addr{arena + 4096}, before));
    uint64_t pc = program.registers().rip;
    size_t calls = 0;
    while (pc != end && program.breakpoints.step_one(program.thread)) {
      const uint64_t next = program.registers().rip;
      if (next == pc) continue;
      calls += pc == run_form;
      if (calls != 0 && pc != run_form) outcome.path.emplace_back(pc, calls);
      EXPECT_TRUE(program.node.read(Addr{arena + 4096}, now));
      if (now != before)
        for (uint32_t i = 0; i < what.ranges.size(); ++i) {
          auto part = [&](const std::vector<std::byte>& of) {
            auto from = of.begin() + static_cast<ptrdiff_t>(what.ranges[i].first - 4096);
            return std::vector<std::byte>(from, from + static_cast<ptrdiff_t>(what.ranges[i].second));
          };
          if (part(before) != part(now)) outcome.changes.push_back({pc, i, part(before), part(now)});
        }
      before = now;
      pc = next;
    }
    collect(outcome, what.steps.size());
    return outcome;
  }
  Outcome watched(const RandomProgram& what, uint32_t patch_after) {
    load(what);
    Outcome outcome;
    program.watches.stores().set_threshold(patch_after);
    for (uint32_t i = 0; i < what.ranges.size(); ++i)
      EXPECT_TRUE(program.watches.arm({watch_id, i, Addr{arena + what.ranges[i].first}, what.ranges[i].second}));
    program.on_watch = [&](const FaultOutcome& fault) { record(fault, outcome); };
    constexpr BreakpointOwner internal{BreakpointOwner::Kind::internal, 1}, user{BreakpointOwner::Kind::stop_point, 1};
    for (uint64_t place : {run_form, end}) EXPECT_TRUE(program.breakpoints.insert(Addr{place}, internal));
    size_t calls = 0;
    bool set = false;
    while (program.go() && program.registers().rip != end) {
      const uint64_t pc = program.registers().rip;
      if (pc != run_form) {
        ++outcome.visits[pc];
      } else if (++calls > what.break_from && !set) {
        set = true;
        for (uint64_t place : what.breakpoints) EXPECT_TRUE(program.breakpoints.insert(Addr{place}, user));
      }
    }
    EXPECT_EQ(program.registers().rip, end) << "signal " << program.last.signal;
    for (uint64_t place : {run_form, end}) EXPECT_TRUE(program.breakpoints.remove(Addr{place}, internal));
    for (uint64_t place : set ? what.breakpoints : std::set<uint64_t>{})
      EXPECT_TRUE(program.breakpoints.remove(Addr{place}, user));
    program.watches.disarm(watch_id);
    EXPECT_TRUE(program.watches.flush());
    collect(outcome, what.steps.size());
    return outcome;
  }
};

struct WatchRandom : testing::TestWithParam<unsigned> {};  // cases, so that none takes too long

TEST_P(WatchRandom, ProgramsAreSeenAsSingleSteppingSeesThem) {
  const char* wanted = getenv("FRIDAY_RANDOM_PROGRAMS");
  const unsigned long count = wanted && *wanted ? strtoul(wanted, nullptr, 10) : 30;
  auto runner = std::make_unique<Runner>();
  const auto forms = runner->program.get<uint64_t>(runner->program.symbol("script_forms"));
  size_t changes = 0, visits = 0;
  uint64_t patched = 0;
  for (unsigned long seed = GetParam() * count + 1; seed <= (GetParam() + 1) * count; ++seed) {
    if (seed % 200 == 0) {  // pads are never given back
      patched += runner->program.watches.stores().statistics().patched;
      runner = std::make_unique<Runner>();
    }
    std::mt19937_64 random(seed);
    RandomProgram what = random_program(random, forms);
    Outcome expected = runner->stepped(what);
    add_breakpoints(random, what, expected);
    for (uint32_t patch_after : {1u << 30, 1u}) {
      const Outcome got = runner->watched(what, patch_after);
      ASSERT_EQ(got.changes, expected.changes) << "seed " << seed << " patch after " << patch_after;
      ASSERT_EQ(got.results, expected.results) << "seed " << seed << " patch after " << patch_after;
      ASSERT_EQ(got.arena, expected.arena) << "seed " << seed << " patch after " << patch_after;
      ASSERT_EQ(got.visits, expected.visits) << "seed " << seed << " patch after " << patch_after;
    }
    changes += expected.changes.size();
    for (const auto& [pc, times] : expected.visits) visits += times;
  }
  patched += runner->program.watches.stores().statistics().patched;
  EXPECT_GT(changes, count);
  EXPECT_GT(visits, count);
  EXPECT_GT(patched, count / 4);
}

INSTANTIATE_TEST_SUITE_P(Case, WatchRandom, testing::Range(0u, 4u));

struct WatchTest : testing::Test {
  Debuggee program{{STOP_STORES}};
  uint64_t arena = program.symbol("arena"), page = arena + 4096;
  uint64_t base_rsp = 0;
  void SetUp() override {
    program.run_to(program.symbol("start_marker"));
    base_rsp = program.registers().rsp;
  }
  // Runs one form at an address: rdi there, rip at the form, the return address at end_marker.
  std::vector<FaultOutcome> run_form(const std::string& form, uint64_t at,
                                     const std::function<void(user_regs_struct&)>& change = {}) {
    std::vector<FaultOutcome> faults;
    program.on_watch = [&](const FaultOutcome& fault) { faults.push_back(fault); };
    uint64_t end = program.symbol("end_marker");
    EXPECT_TRUE(program.breakpoints.insert(Addr{end}, {BreakpointOwner::Kind::internal, 1}));
    auto values = program.registers();
    values.rsp = base_rsp - 512;
    program.put(values.rsp, end);
    values.rip = program.symbol("form_" + form);
    values.rdi = at;
    values.rsi = program.symbol("source");
    if (change) change(values);
    EXPECT_TRUE(program.node.set_registers(program.thread, values));
    went = program.go_from_here();
    EXPECT_TRUE(program.breakpoints.remove(Addr{end}, {BreakpointOwner::Kind::internal, 1}));
    return faults;
  }
  bool went = false;
  void arm(uint64_t low, uint64_t size, uint32_t index = 0, bool any_write = false) {
    ASSERT_TRUE(program.watches.arm({watch_id, index, Addr{low}, size, any_write}));
  }
};

TEST_F(WatchTest, AStoreBesideTheRangeIsAFalsePositive) {
  arm(page + 0x100, 8);
  auto faults = run_form("mov64", page + 0x108);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].how, FaultOutcome::How::emulated);
  EXPECT_TRUE(faults[0].hits.empty());
  faults = run_form("mov64", page + 0x107);
  ASSERT_EQ(faults.size(), 1u);
  ASSERT_EQ(faults[0].hits.size(), 1u);
  EXPECT_EQ(faults[0].hits[0].old_bytes.size(), 8u);
}

TEST_F(WatchTest, AWriteOfTheSameValueIsReportedOnlyWhenAskedFor) {
  arm(page + 0x100, 8);
  EXPECT_TRUE(run_form("mov64_same", page + 0x100).at(0).hits.empty());
  arm(page + 0x100, 8, 0, true);
  EXPECT_EQ(run_form("mov64_same", page + 0x100).at(0).hits.size(), 1u);
  EXPECT_EQ(run_form("fxsave_aligned", page).at(0).hits.size(), 1u) << "a form that is stepped";
}

// How often a store must miss in each of some nodes that run it in turn until it is patched there.
std::vector<int> misses_until_patched(const std::shared_ptr<HotStores>& shared) {
  std::vector<int> found;
  std::vector<std::unique_ptr<Debuggee>> alive;
  for (int node = 0; node < 3; ++node) {
    Debuggee& program = *alive.emplace_back(std::make_unique<Debuggee>(std::vector<std::string>{STOP_STORES}));
    program.run_to(program.symbol("start_marker"));
    program.breakpoints.add_pad_area(program.map_pads(program.symbol("main")));
    program.watches.stores().set_threshold(5);
    if (shared) program.watches.stores().share(shared);
    const uint64_t end = program.symbol("end_marker"), watched = program.symbol("arena") + 4096 + 0x100;
    EXPECT_TRUE(program.watches.arm({watch_id, 0, Addr{watched}, 8}));
    EXPECT_TRUE(program.breakpoints.insert(Addr{end}, {BreakpointOwner::Kind::internal, 1}));
    bool patched = false;
    int misses = 0;
    program.on_watch = [&](const FaultOutcome& fault) { patched = fault.patched, ++misses; };
    // The second node misses twice only, the others until it is patched.
    for (const int limit = node == 1 ? 2 : 20; !patched && misses < limit;) {
      auto values = program.registers();
      values.rsp -= 512;
      program.put(values.rsp, end);
      values.rip = program.symbol("form_mov64_imm"), values.rdi = watched + 8;
      EXPECT_TRUE(program.node.set_registers(program.thread, values));
      EXPECT_TRUE(program.go_from_here());
    }
    found.push_back(patched ? misses : -misses);
  }
  return found;
}

TEST(HotStores, AreCountedTogetherWhereTheyAreShared) {
  EXPECT_EQ(misses_until_patched(nullptr), (std::vector{5, -2, 5}));
  EXPECT_EQ(misses_until_patched(std::make_shared<HotStores>()), (std::vector{5, 1, 1}))
      << "what is hot in one is patched at its first miss";
  HotStores hot;
  EXPECT_EQ(hot.count("a", 16), 1u);
  EXPECT_EQ(hot.count("a", 16), 2u);
  EXPECT_EQ(hot.count("a", 17), 1u) << "another store";
  EXPECT_EQ(hot.count("b", 16), 1u) << "of another program";
}

// What a store under a mask, or a scatter, leaves alone is no write, and what it writes again is one.
TEST_F(WatchTest, OnlyWhatAMaskLetsThroughIsWritten) {
  struct Case {
    std::string form;
    bool can_run;
    std::vector<std::pair<uint64_t, uint64_t>> written;  // from rdi: [first, second)
  };
  std::vector<std::pair<uint64_t, uint64_t>> by_bytes;  // xmm2 is source[16...]: byte i is 13 * i + 1
  for (uint64_t i = 0; i < 16; ++i)
    if ((13 * (16 + i) + 1) & 0x80) by_bytes.emplace_back(i, i + 1);
  const bool avx2 = __builtin_cpu_supports("avx2"), avx512 = __builtin_cpu_supports("avx512vl");
  const std::vector<Case> cases{{"maskmovdqu", true, by_bytes},
                                {"avx_maskmov", avx2, {{0, 8}}},
                                {"evex_masked", avx512, {{0, 4}, {8, 12}}},
                                {"evex_scatter", avx512, {{0, 8}, {12, 16}, {28, 32}}}};
  ASSERT_GT(by_bytes.size(), 4u);
  for (const Case& each : cases) {
    if (!each.can_run) continue;
    const uint64_t at = page + 0x400;
    // The vectors of run_form(), which is not run: the form finds them in memory.
    auto load = [&](user_regs_struct&) {
      auto state = program.node.extended_state(program.thread);
      ASSERT_TRUE(state);
      for (unsigned i = 0; i < 2; ++i)
        for (unsigned j = 0; j < 16; ++j)
          (*state)[160 + 16 * (1 + i) + j] = static_cast<std::byte>(13 * (16 * i + j) + 1);
      (*state)[512] |= std::byte{2};
      ASSERT_TRUE(program.node.set_extended_state(program.thread, *state));
    };
    run_form(each.form, at, load);  // unwatched: from now on it writes what is there already
    for (uint32_t i = 0; i < 40; ++i) arm(at + i, 1, i, true);
    const auto faults = run_form(each.form, at, load);
    ASSERT_EQ(faults.size(), 1u) << each.form;
    std::vector<uint64_t> got, expected;
    for (const WatchHit& hit : faults[0].hits) got.push_back(hit.low.value - at);
    for (auto [low, high] : each.written)
      for (uint64_t i = low; i < high; ++i) expected.push_back(i);
    EXPECT_EQ(got, expected) << each.form;
    program.watches.disarm(watch_id);
    ASSERT_TRUE(program.watches.flush());
  }
}

TEST_F(WatchTest, ManyPagesAreClosedWithOneCallAndOpenedAgain) {
  arm(arena, 6 * 4096);
  ASSERT_TRUE(program.watches.flush());
  EXPECT_EQ(program.watches.statistics().protect_calls, 1u);
  ASSERT_TRUE(program.watches.flush());
  EXPECT_EQ(program.watches.statistics().protect_calls, 1u);
  EXPECT_TRUE(program.watches.protects(Addr{arena + 5 * 4096}));
  program.watches.disarm(watch_id);
  ASSERT_TRUE(program.watches.flush());
  EXPECT_EQ(program.watches.statistics().protect_calls, 2u);
  EXPECT_TRUE(run_form("mov64", page).empty());
}

TEST_F(WatchTest, TenThousandRangesOnFewPages) {
  for (uint32_t i = 0; i < 10000; ++i) arm(arena + 2 * i, 2, i);
  auto faults = run_form("mov64", page + 0x101);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].hits.size(), 5u);
}

TEST_F(WatchTest, StacksAndThreadBlocksHaveTheDebugRegistersAndNoMore) {
  auto values = program.registers();
  const uint64_t stack = values.rsp & ~uint64_t{63};
  auto large = program.watches.arm({watch_id, 0, Addr{stack}, 40});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::unsupported);
  EXPECT_NE(large.error().message.find("stack"), std::string::npos) << large.error().message;
  EXPECT_NE(large.error().message.find("watch -page"), std::string::npos) << large.error().message;
  EXPECT_TRUE(program.watches.arm({watch_id, 1, Addr{stack}, 8}));
  EXPECT_TRUE(program.watches.arm({watch_id, 2, Addr{stack + 9}, 3})) << "one and two bytes";
  auto thread_block = program.watches.arm({watch_id, 3, Addr{values.fs_base + 0x28}, 16});
  ASSERT_FALSE(thread_block);
  EXPECT_NE(thread_block.error().message.find("thread-local"), std::string::npos) << thread_block.error().message;
  EXPECT_NE(thread_block.error().message.find("2 of them are needed and 1 free"), std::string::npos)
      << thread_block.error().message;
  program.watches.disarm(watch_id, 2);
  EXPECT_TRUE(program.watches.arm({watch_id, 3, Addr{values.fs_base + 0x28}, 16}));
  program.watches.disarm(watch_id);
  auto unmapped = program.watches.arm({watch_id, 0, Addr{0x10}, 8});
  ASSERT_FALSE(unmapped);
  EXPECT_EQ(unmapped.error().code, ErrorCode::bad_address);
  EXPECT_EQ(program.watches.page_use(Addr{arena}), PageUse::ordinary);
}

TEST_F(WatchTest, AStackPageThatIsAskedForIsWatchedAndTheProgramRunsOn) {
  ASSERT_TRUE(program.watches.arm({watch_id, 0, Addr{base_rsp - 8}, 8}, true));
  uint64_t end = program.symbol("end_marker");
  ASSERT_TRUE(program.breakpoints.insert(Addr{end}, {BreakpointOwner::Kind::internal, 1}));
  ASSERT_TRUE(program.go());
  EXPECT_EQ(program.registers().rip, end);
  EXPECT_GE(program.watches.statistics().hits, 837u) << "a call of run_form each";
  Outcome outcome;
  collect_state(program, outcome);
  EXPECT_EQ(outcome.results, oracle().results);
  EXPECT_EQ(outcome.arena, oracle().arena);
}

TEST_F(WatchTest, AStoreIntoAPageThatTheProgramMayNotWriteStillFaults) {
  arm(page + 0xff0, 16);
  uint64_t arguments[] = {page + 4096, 4096, PROT_READ};
  ASSERT_EQ(program.node.inject(SYS_mprotect, arguments), 0);
  ASSERT_TRUE(program.watches.on_mapping_changed(Addr{page + 4096}, Addr{page + 8192}, PROT_READ));
  auto before = program.get<uint64_t>(page + 4092);
  auto faults = run_form("mov64", page + 4092);
  EXPECT_FALSE(went);
  EXPECT_EQ(program.last.signal, SIGSEGV);
  EXPECT_EQ(program.get<uint64_t>(page + 4092), before) << "nothing of it was stored";
  for (const auto& fault : faults) EXPECT_TRUE(fault.hits.empty());
  EXPECT_EQ(program.registers().rip, program.symbol("form_mov64"));
}

TEST_F(WatchTest, ACopyGoesUpToThePageThatTheProgramMayNotWrite) {
  arm(page + 0xff0, 16);
  uint64_t arguments[] = {page + 4096, 4096, PROT_READ};
  ASSERT_EQ(program.node.inject(SYS_mprotect, arguments), 0);
  ASSERT_TRUE(program.watches.on_mapping_changed(Addr{page + 4096}, Addr{page + 8192}, PROT_READ));
  auto faults =
      run_form("rep_stosb", page + 4090, [](user_regs_struct& values) { values.rcx = 20, values.rax = 0x55; });
  EXPECT_FALSE(went);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].how, FaultOutcome::How::partial);
  EXPECT_EQ(faults[0].hits.size(), 1u);
  EXPECT_EQ(program.registers().rcx, 14u);
  EXPECT_EQ(program.registers().rdi, page + 4096);
}

TEST_F(WatchTest, ALongCopyIsServedInOneGo) {
  arm(page + 0x10, 4096);
  program.on_watch = nullptr;
  auto faults = run_form("rep_movsq", arena + 8, [&](user_regs_struct& values) {
    values.rsi = program.symbol("results");
    values.rcx = 2500;
  });
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].how, FaultOutcome::How::emulated);
  EXPECT_EQ(faults[0].hits.size(), 1u);
  EXPECT_EQ(faults[0].hits[0].new_bytes, std::vector<std::byte>(4096));
  EXPECT_EQ(program.registers().rcx, 0u);
}

TEST_F(WatchTest, MappingCallsOfTheProgramKeepTheWatchInForce) {
  uint64_t arguments[] = {0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0};
  auto base = program.node.inject(SYS_mmap, arguments);
  ASSERT_TRUE(base && *base > 0);
  auto at = static_cast<uint64_t>(*base);
  program.put<uint64_t>(at + 64, 5);
  arm(at + 64, 8);
  ASSERT_TRUE(program.watches.flush());
  // The program protects it and allows it again: as the program wants it, then closed again.
  uint64_t read_only[] = {at, 4096, PROT_READ}, writable[] = {at, 4096, PROT_READ | PROT_WRITE};
  ASSERT_EQ(program.node.inject(SYS_mprotect, read_only), 0);
  auto hits = program.watches.on_mapping_changed(Addr{at}, Addr{at + 4096}, PROT_READ);
  ASSERT_TRUE(hits);
  EXPECT_TRUE(hits->empty());
  ASSERT_TRUE(program.watches.flush());
  EXPECT_FALSE(program.watches.protects(Addr{at + 64}));
  ASSERT_EQ(program.node.inject(SYS_mprotect, writable), 0);
  ASSERT_TRUE(program.watches.on_mapping_changed(Addr{at}, Addr{at + 4096}, PROT_READ | PROT_WRITE));
  EXPECT_EQ(run_form("mov64", at + 64).at(0).hits.size(), 1u);
  // Discarded memory is zero without any store.
  uint64_t discard[] = {at, 4096, MADV_DONTNEED};
  ASSERT_EQ(program.node.inject(SYS_madvise, discard), 0);
  hits = program.watches.on_mapping_changed(Addr{at}, Addr{at + 4096}, PROT_READ | PROT_WRITE);
  ASSERT_TRUE(hits);
  ASSERT_EQ(hits->size(), 1u);
  EXPECT_EQ(hits->at(0).new_bytes, std::vector<std::byte>(8));
  // Unmapped, and mapped again.
  uint64_t unmap[] = {at, 4096};
  ASSERT_EQ(program.node.inject(SYS_munmap, unmap), 0);
  hits = program.watches.on_mapping_changed(Addr{at}, Addr{at + 4096}, std::nullopt);
  ASSERT_TRUE(hits);
  ASSERT_EQ(hits->size(), 1u);
  EXPECT_TRUE(hits->at(0).new_bytes.empty());
  ASSERT_TRUE(program.watches.flush());
  uint64_t again[] = {at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~uint64_t{0}, 0};
  ASSERT_TRUE(program.node.inject(SYS_mmap, again));
  hits = program.watches.on_mapping_changed(Addr{at}, Addr{at + 4096}, PROT_READ | PROT_WRITE);
  ASSERT_TRUE(hits);
  EXPECT_EQ(hits->size(), 1u);
  EXPECT_EQ(run_form("mov64", at + 64).at(0).hits.size(), 1u);
}

TEST_F(WatchTest, MemoryThatWasMappedAfterAnotherRangeWasArmedIsWatched) {
  arm(page, 8);
  ASSERT_TRUE(program.watches.flush());
  // A call of the program that touches no watched page tells the watches nothing.
  uint64_t arguments[] = {0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, ~uint64_t{0}, 0};
  auto base = program.node.inject(SYS_mmap, arguments);
  ASSERT_TRUE(base && *base > 0);
  const auto at = static_cast<uint64_t>(*base);
  arm(at + 64, 8, 1);
  ASSERT_TRUE(program.watches.flush());
  uint64_t writable[] = {at + 4096, 4096, PROT_READ | PROT_WRITE};
  ASSERT_EQ(program.node.inject(SYS_mprotect, writable), 0);
  arm(at + 4096 + 64, 8, 2);
  EXPECT_EQ(run_form("mov64", at + 4096 + 64).at(0).hits.size(), 1u);
}

TEST_F(WatchTest, FridaysOwnWritesAreNoted) {
  arm(page + 0x100, 8);
  ASSERT_TRUE(program.watches.flush());
  ASSERT_TRUE(program.node.write_raw(Addr{page + 0x104}, std::as_bytes(std::span("abcd", 4))));
  auto hits = program.watches.note_write(Addr{page + 0x104}, 4);
  ASSERT_TRUE(hits);
  EXPECT_EQ(hits->size(), 1u);
  EXPECT_TRUE(run_form("mov64", page + 0x108).at(0).hits.empty());
}

}  // namespace
}  // namespace friday
