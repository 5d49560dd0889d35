// The token of processes that share memory (core/shim/token_protocol.h), in every order of steps that two or three
// processes can take.
//
// A step is one access to a word that all see. The state after it is the words, and what each process knows: the values
// that it has read, or, since it began to look anew, those that decide what it does next. A process is a function of
// the values that it was given, so it is brought to its next step by running it from its beginning with these. Each
// state is visited once; in each, one that is to be killed may be. What must hold: no two processes run at once in one
// group, and from each state all can still come to their end.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/shim/token_protocol.h"

namespace friday::shim {
namespace {

constexpr uint32_t kMostParties = 3;

// All that processes see of each other. Members and groups are numbered from 1.
struct Words {
  TokenGroup group[6];
  TokenMember member[kMostParties + 1];
  uint32_t area_guard, groups;
  uint32_t object[5];               // the group of each thing that is shared
  uint32_t arrived;                 // the program's own: how many have come to the barrier
  uint32_t runs[kMostParties + 1];  // the group in which the member's program runs
  uint32_t dead;                    // set of members
};

struct Party {
  std::vector<uint64_t> given;  // what each of its steps gave
  uint64_t knows = 0;           // hash of what that has come to
  bool done = false;
};

struct State {
  Words words = {};
  std::array<Party, kMostParties> party;
};

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

struct Impossible {};  // the step cannot be taken in this state
struct Stepped {};     // one was taken, and the next is to come
struct Violation {
  std::string what;
};

// One process on its way to its next step; also what the protocol knows as System.
class Process {
 public:
  // `apart`: accesses under a guard are steps of their own, between which a process may be killed. `choice`: what
  // choose() gives.
  Process(State& state, uint32_t self, bool apart, bool choice)
      : state_(state), party_(state.party[self - 1]), self_(self), apart_(apart), choice_(choice) {}

  uint32_t self() const { return self_; }
  uint32_t& group() { return group_; }
  Words& words() { return state_.words; }
  TokenGroup& at(uint32_t g) { return words().group[g]; }
  TokenMember& member(uint32_t m) { return words().member[m]; }
  uint32_t& area_guard() { return words().area_guard; }

  // `take` does it and gives what the process learns by it.
  template <typename Take>
  uint64_t step(Take&& take, bool with_the_one_before = false) {
    const bool stops = std::exchange(stops_, false), locked = std::exchange(locked_, locked_ && with_the_one_before);
    if (at_ < party_.given.size()) return party_.given[at_++];
    if (stepped_ && !with_the_one_before && !locked) throw Stepped{};
    const uint64_t value = take();
    if (stops) words().runs[self_] = 0;
    stepped_ = true;
    party_.given.push_back(value);
    party_.knows = mix(party_.knows, value + 1);
    at_++;
    return value;
  }

  template <typename T>
  T load(const T& word) {
    if (is_hint(word)) return choose() ? ~T{} : T{};
    return static_cast<T>(step([&] { return word; }));
  }
  template <typename T>
  void store(T& word, T value) {
    if (!is_hint(word)) step([&] { return word = bounded(value), 0; });
  }
  template <typename T>
  T get(const T& word) {
    return is_hint(word) ? T{} : static_cast<T>(step([&] { return word; }, !apart_));
  }
  template <typename T>
  void put(T& word, T value) {
    if (!is_hint(word)) step([&] { return word = bounded(value), 0; }, !apart_);
  }
  bool swap(uint32_t& word, uint32_t from, uint32_t to) {
    return step([&] { return word == from ? (word = to, true) : false; });
  }
  uint32_t exchange(uint32_t&, uint32_t) { return 0; }  // hints alone
  void add(uint32_t&, int) {}
  // To wait for a guard longer changes nothing for others, so what comes next is done at once; so it is with giving it
  // back.
  bool lock(uint32_t& guard) {
    const bool dead = step([&] {
      if (guard && !(words().dead >> guard & 1)) throw Impossible{};
      return std::exchange(guard, self_) != 0;
    });
    locked_ = true;
    return dead;
  }
  void unlock(uint32_t& guard) {
    step([&] { return guard = 0; }, !apart_);
  }
  bool has_ended(uint32_t m) {
    return step([&] { return words().dead >> m & 1; });
  }
  bool choose() {
    return step([&] { return chose_ = true, choice_; }, true);
  }
  bool chose() const { return chose_; }

  // A waiter looks by itself now and then, so that nothing depends on being woken: whenever there is something to be
  // seen.
  void sleep(uint32_t&, unsigned, uint32_t) {
    step([&] {
      const TokenGroup& g = at(group_);
      const uint32_t who = g.state & GroupToken<Process&>::kWho;
      if (!g.forward && who != self_ && g.state >> 30 == 1 && !(words().dead >> who & 1)) throw Impossible{};
      return 0;
    });
  }
  void wake(uint32_t&) {}
  void let_holder_run(const TokenGroup&, const TokenMember&) {}
  void poke(uint32_t, unsigned) {}
  unsigned more_looks(unsigned) { return 1; }
  uint64_t now() { return 0; }
  uint32_t processor() { return 0; }
  bool lasted(uint64_t) { return !choose(); }
  bool hands_over() { return true; }
  void note_join(uint32_t, uint64_t) {}

  template <typename... Values>
  void looks_anew(Values... values) {
    knows_only(values...);
  }

  void stop_running() { stops_ = true; }
  uint64_t line() const { return line_; }

  // The program comes to its next line.
  void comes_to(uint64_t line) {
    line_ = line;
    knows_only();
  }

 private:
  // Words on which only depends how soon something happens: anything may stand in them.
  bool is_hint(const uint64_t& word) const {
    for (const TokenGroup& g : state_.words.group)
      if (&word == &g.since) return true;
    return false;
  }
  bool is_hint(const uint32_t& word) const {
    for (const TokenGroup& g : state_.words.group)
      if (&word == &g.patient || &word == &g.processor) return true;
    for (const TokenMember& m : state_.words.member)
      if (&word == &m.patient || &word == &m.go) return true;
    return false;
  }

  static uint32_t bounded(uint32_t value) { return value; }
  static uint64_t bounded(uint64_t turn) { return turn & 3; }  // it is compared with the next ones only

  template <typename... Values>
  void knows_only(Values... values) {
    if (!stepped_ || at_ < party_.given.size()) return;
    party_.knows = mix(mix(1, group_), line_);
    ((party_.knows = mix(party_.knows, static_cast<uint64_t>(values))), ...);
  }

  State& state_;
  Party& party_;
  const uint32_t self_;
  const bool apart_, choice_;
  size_t at_ = 0;
  bool stepped_ = false, chose_ = false, stops_ = false, locked_ = false;
  uint32_t group_ = 0;
  uint64_t line_ = 0;
};

// What a program does that shares memory, as token_group.cc carries it out.
class Program {
 public:
  explicit Program(Process& process) : token_(process), process_(process) {}

  void share(uint32_t object) {
    next_line();
    stop_running();
    uint32_t& of = process_.words().object[object];
    process_.lock(process_.area_guard());
    const uint32_t there = process_.get(of);
    const bool alone = !process_.group();
    if (alone && there) process_.group() = there;
    if (!there && alone) {
      const uint32_t number = process_.get(process_.words().groups) + 1;
      process_.put(process_.words().groups, number);
      token_.begin(number);
    }
    if (!there) process_.put(of, process_.group());
    process_.unlock(process_.area_guard());
    if (!alone ? token_.join(there ? there : process_.group()) : there != 0) token_.acquire();
    run();
  }

  void call() {
    next_line();
    stop_running();
    token_.lend(false);
    if (!token_.take_back()) token_.acquire();
    run();
  }

  // A loop without a call, which gives way if that is wanted, and only then.
  void meet(uint32_t others) {
    next_line();
    process_.step([&] { return process_.words().arrived++, 0; });
    for (;;) {
      next_line(true);
      const uint64_t wanted = process_.step([&]() -> uint64_t {
        if (process_.words().arrived >= others) return 0;
        if (!process_.words().group[process_.group()].waiting) throw Impossible{};
        return 1;
      });
      if (!wanted) return;
      stop_running();
      token_.lend(false);
      if (!token_.take_back()) token_.acquire();
      run();
    }
  }

  void end() {
    next_line();
    stop_running();
    token_.lend(false);
  }

 private:
  void next_line(bool again = false) {
    process_.comes_to(line_ += again && looped_ == line_ ? 0 : 1);
    if (again) looped_ = line_;
  }

  void run() {
    process_.step(
        [&] {
          Words& words = process_.words();
          auto root = [&](uint32_t g) {
            while (words.group[g].forward) g = words.group[g].forward;
            return g;
          };
          for (uint32_t other = 1; other <= kMostParties; other++)
            if (words.runs[other] && root(words.runs[other]) == root(process_.group()))
              throw Violation{"two run at once in one group"};
          return words.runs[process_.self()] = process_.group(), 0;
        },
        true);
  }
  // Together with the step after it.
  void stop_running() { process_.stop_running(); }

  GroupToken<Process&> token_;
  Process& process_;
  uint64_t line_ = 0, looped_ = ~0ull;
};

using Script = std::function<void(Program&)>;

class Explorer {
 public:
  // Those of `killable`, a set of members, may be killed, one of them. So many `lines` each has done before the others
  // begin.
  Explorer(std::vector<Script> scripts, uint32_t killable, uint64_t lines)
      : scripts_(std::move(scripts)), killable_(killable), lines_(lines) {}

  // What is wrong; empty: nothing.
  std::string run() {
    State first;
    for (uint32_t m = static_cast<uint32_t>(scripts_.size()) + 1; m <= kMostParties; m++)
      first.party[m - 1].done = true;
    for (uint32_t m = 1; m <= scripts_.size() && lines_; m++) begin(first, m);
    visit(std::move(first), kNone, 0);
    while (!left_.empty()) {
      auto [state, id] = std::move(left_.back());
      left_.pop_back();
      bool ended = true;
      for (uint32_t m = 1; m <= scripts_.size(); m++) {
        if (state.party[m - 1].done || state.words.dead >> m & 1) continue;
        ended = false;
        try {
          if (advance(state, id, m, false)) advance(state, id, m, true);
        } catch (const Violation& violation) {
          return violation.what + ":" + way_to(id) + " " + std::to_string(m);
        }
        if (killable_ >> m & 1 && !state.words.dead) kill(state, id, m);
      }
      if (ended) finals_.push_back(id);
    }
    return find_stuck();
  }
  size_t states() const { return from_.size(); }

  // What is wrong on some ways that are drawn at random, for programs that have too many states to visit them all.
  std::string wander(uint64_t seed, uint32_t ways) {
    constexpr uint32_t kLongest = 1 << 16;  // steps of a way; fair turns lead to the end in some hundred
    std::mt19937_64 chance(seed);
    for (uint32_t n = 0; n < ways; n++) {
      State state;
      for (uint32_t m = static_cast<uint32_t>(scripts_.size()) + 1; m <= kMostParties; m++)
        state.party[m - 1].done = true;
      for (uint32_t m = 1; m <= scripts_.size() && lines_; m++) begin(state, m);
      std::string way;
      uint32_t steps = 0;
      while (std::ranges::any_of(state.party, [](const Party& party) { return !party.done; })) {
        const auto m = static_cast<uint32_t>(1 + chance() % scripts_.size());
        if (state.party[m - 1].done) continue;
        if (++steps > kLongest) return "they do not come to an end:" + way.substr(0, 4000);
        way += " " + std::to_string(m);
        try {
          bool chose = false;
          if (auto next = step(state, m, chance() % 2, chose)) state = *std::move(next);
        } catch (const Violation& violation) {
          return violation.what + ":" + way;
        }
      }
    }
    return "";
  }

 private:
  static constexpr uint32_t kNone = ~0u, kKilled = 1u << 8;

  void begin(State& state, uint32_t m) {
    for (uint64_t line = 0; line <= lines_;) {
      State next = state;
      Process process(next, m, killable_ >> m & 1, false);
      try {
        Program program(process);
        scripts_[m - 1](program);
      } catch (Stepped) {}
      line = process.line();
      if (line <= lines_) state = std::move(next);
    }
  }

  // The state after the next step of `m`; none if it cannot take one. `chose`: with another choice it would be another.
  std::optional<State> step(const State& state, uint32_t m, bool choice, bool& chose) {
    State next = state;
    Process process(next, m, killable_ >> m & 1, choice);
    try {
      Program program(process);
      scripts_[m - 1](program);
      next.party[m - 1] = {{}, 0, true};
    } catch (Stepped) {
    } catch (Impossible) {
      return std::nullopt;
    }
    chose = process.chose();
    return next;
  }

  // True: with another choice it would have come to something else.
  bool advance(const State& state, uint32_t id, uint32_t m, bool choice) {
    bool chose = false;
    auto next = step(state, m, choice, chose);
    if (!next) return false;
    visit(*std::move(next), id, m);
    return chose;
  }

  void kill(const State& state, uint32_t id, uint32_t m) {
    State next = state;
    next.words.dead |= 1u << m;
    next.words.runs[m] = 0;
    next.party[m - 1] = {};
    visit(std::move(next), id, kKilled | m);
  }

  void visit(State&& state, uint32_t from, uint32_t how) {
    uint64_t key = XXH3_64bits(&state.words, sizeof state.words);
    for (const Party& party : state.party) key = mix(mix(key, party.knows), party.done);
    const auto [known, is_new] = ids_.try_emplace(key, static_cast<uint32_t>(from_.size()));
    if (from != kNone) edges_.emplace_back(known->second, from);
    if (!is_new) return;
    from_.emplace_back(from, how);
    left_.emplace_back(std::move(state), known->second);
  }

  // Backwards from the states in which all have ended.
  std::string find_stuck() {
    std::sort(edges_.begin(), edges_.end());
    std::vector<bool> ends(from_.size());
    std::vector<uint32_t> left = finals_;
    for (uint32_t id : left) ends[id] = true;
    while (!left.empty()) {
      const uint32_t to = left.back();
      left.pop_back();
      for (auto edge = std::lower_bound(edges_.begin(), edges_.end(), std::pair(to, 0u));
           edge != edges_.end() && edge->first == to; ++edge) {
        if (ends[edge->second]) continue;
        ends[edge->second] = true;
        left.push_back(edge->second);
      }
    }
    for (uint32_t id = 0; id < from_.size(); id++)
      if (!ends[id]) return "from here on they never come to an end:" + way_to(id);
    return "";
  }

  std::string way_to(uint32_t id) const {
    std::string way;
    for (; from_[id].first != kNone; id = from_[id].first)
      way = (from_[id].second & kKilled ? " kill " : " ") + std::to_string(from_[id].second & ~kKilled) + way;
    return way;
  }

  std::vector<Script> scripts_;
  const uint32_t killable_;
  const uint64_t lines_;
  std::unordered_map<uint64_t, uint32_t> ids_;
  std::vector<std::pair<uint32_t, uint32_t>> from_;   // of each state: the one before and who took the step
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // to, from
  std::vector<std::pair<State, uint32_t>> left_;
  std::vector<uint32_t> finals_;
};

void holds(std::vector<Script> scripts, uint32_t killable = 0, uint64_t lines = 0) {
  Explorer explorer(std::move(scripts), killable, lines);
  EXPECT_EQ(explorer.run(), "");
  EXPECT_GT(explorer.states(), 50u);
  ::testing::Test::RecordProperty("states", static_cast<int>(explorer.states()));
}

void holds_on_random_ways(std::vector<Script> scripts, uint64_t lines = 0) {
  const uint64_t seed = std::random_device()();
  Explorer explorer(std::move(scripts), 0, lines);
  EXPECT_EQ(explorer.wander(seed, 10000), "") << "seed " << seed;
}

TEST(SharedToken, TakesTurns) {
  const Script script = [](Program& p) { p.share(0), p.call(), p.end(); };
  holds({script, script});
}

TEST(SharedToken, TwoMeetInALoop) {
  const Script script = [](Program& p) { p.share(0), p.meet(2), p.end(); };
  holds({script, script});
}

// Each has something of its own, which children may share later, and then something that all have.
TEST(SharedToken, TwoJoinAndMeet) {
  auto script = [](uint32_t own) { return [own](Program& p) { p.share(own), p.share(0), p.meet(2), p.end(); }; };
  holds({script(1), script(2)});
}

TEST(SharedToken, ThreeJoin) {
  auto script = [](uint32_t own) { return [own](Program& p) { p.share(own), p.share(0), p.end(); }; };
  holds({script(1), script(2), script(3)}, 0, 1);
}

// As the processes of MPICH do: they join and then wait for each other by spinning, all three.
TEST(SharedToken, ThreeJoinAndMeet) {
  const Script script = [](Program& p) { p.share(0), p.meet(3), p.call(), p.end(); };
  holds_on_random_ways({script, script, script});
}

// Two that have joined before spin, while the third, which has something of its own, joins them.
TEST(SharedToken, TwoSpinWhileAThirdJoins) {
  const Script spins = [](Program& p) { p.share(0), p.meet(3), p.end(); };
  const Script joins = [](Program& p) { p.share(1), p.share(0), p.meet(3), p.end(); };
  holds_on_random_ways({spins, spins, joins}, 1);
}

TEST(SharedToken, ThreeJoinWhatTheyHaveAndMeet) {
  auto script = [](uint32_t own) { return [own](Program& p) { p.share(own), p.share(0), p.meet(3), p.end(); }; };
  holds_on_random_ways({script(1), script(2), script(3)});
}

// Each pair has something else in common: a circle.
TEST(SharedToken, ThreeJoinInACircle) {
  auto script = [](uint32_t mine, uint32_t next) { return [=](Program& p) { p.share(mine), p.share(next), p.end(); }; };
  holds({script(0, 1), script(1, 2), script(2, 0)}, 0, 1);
}

// One of three is killed, at any step; the two others meet all the same.
TEST(SharedToken, OneIsKilled) {
  const Script meets = [](Program& p) { p.share(0), p.meet(2), p.end(); };
  const Script dies = [](Program& p) { p.share(0), p.end(); };
  holds({meets, meets, dies}, 1u << 3);
}

TEST(SharedToken, OneIsKilledWhileItJoins) {
  const Script shares = [](Program& p) { p.share(0), p.call(), p.end(); };
  const Script dies = [](Program& p) { p.share(1), p.share(0), p.end(); };
  holds({shares, dies}, 1u << 2);
}

}  // namespace
}  // namespace friday::shim
