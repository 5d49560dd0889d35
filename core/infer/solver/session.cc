#include "core/infer/solver/session.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <random>

namespace friday::infer {
namespace {

constexpr unsigned kRaxNumber = 0, kRcxNumber = 1, kRdxNumber = 2, kRbxNumber = 3, kR11Number = 11;
constexpr int kThunkAt = offsetof(GuestState, guest_CC_OP), kThunkBytes = 32;

constexpr std::chrono::milliseconds kForOneProof{1'000};
constexpr int kRepairs = 3;
// The core kills a solver that overstays its time; Z3 does not stop at once.
constexpr int kSpareShare = 10;
constexpr std::chrono::milliseconds kMostSpare{1'000};

bool any_of_shadows(const StateShadows& shadows, int offset, int bytes) {
  return std::any_of(shadows.begin() + offset, shadows.begin() + offset + bytes, [](Shadow s) { return s != 0; });
}
void drop_shadows(StateShadows* shadows, int offset, int bytes) { std::fill_n(shadows->begin() + offset, bytes, 0); }
void drop_general(StateShadows* shadows, unsigned number) { drop_shadows(shadows, offset_of_general(number), 8); }

}  // namespace

Session::Session(const Begin& limits, int memory) : limits_(limits) {
  memory_.attach(memory);
  symbolic_.largest_table = std::max<uint32_t>(limits.largest_table, 1);
  expressions_.set_model(&model_);
}

void Session::unknown(const Unknown& unknown) {
  model_.resize(std::max<size_t>(model_.size(), unknown.first + unknown.length));
  new_.push_back({unknown.address, unknown.length});
  for (uint64_t i = 0; i < unknown.length; ++i) {
    memory_.set_start_shadow(unknown.address + i, expressions_.symbol(static_cast<uint32_t>(unknown.first + i)));
  }
}

StartState Session::start_of(uint32_t thread, const Registers& registers) const {
  StartState start;
  set_registers(registers, &start.state);
  const auto kept = threads_.find(thread);
  if (kept == threads_.end()) return start;
  start.shadows = kept->second.shadows;
  if (any_of_shadows(start.shadows, kThunkAt, kThunkBytes)) {
    std::memcpy(reinterpret_cast<uint8_t*>(&start.state) + kThunkAt,
                reinterpret_cast<const uint8_t*>(&kept->second.state) + kThunkAt, kThunkBytes);
  }
  return start;
}

Session::RunResult Session::run(uint32_t thread, const Registers& registers, const std::vector<DemandedValue>& demands,
                                const std::function<bool(const PathEnd&)>& accepts) {
  const std::chrono::milliseconds time(limits_.milliseconds);
  const Deadline deadline = std::chrono::steady_clock::now() + time - std::min(time / kSpareShare, kMostSpare);
  forget();
  memory_.process_has_run();
  const size_t expressions = expressions_.size(), tables = expressions_.tables();
  const StartState start = start_of(thread, registers);
  auto pending = std::make_unique<Pending>();
  pending->thread = thread;
  Search search(runner_, symbolic_, questions_, conditions_, assumptions_, model_);
  RunResult result;
  bool found = false;
  try {
    search.accepts = accepts;
    result.end = search.find(start, demands, {limits_.instructions, limits_.paths, deadline});
    found = !result.end.failed && find_patches(start, registers, search.other_model(), &result);
  } catch (const std::bad_alloc&) {
    result.end.failed = true;
    result.end.why = Why::time;
    result.end.address = machine_.state.guest_RIP;
    result.end.text = "memory";
  }
  if (!found) {
    expressions_.set_model(&model_);
    memory_.start_path();
    expressions_.truncate(expressions, tables);
    questions_.forget();
    return result;
  }
  for (const Decision& each : symbolic_.decisions()) {
    (each.kind == Decision::Kind::assumption ? pending->assumptions : pending->conditions).push_back(each.holds);
  }
  pending->conditions.insert(pending->conditions.end(), search.demanded().begin(), search.demanded().end());
  keep_end(result.end, pending.get());
  Done& done = result.done;
  done.end = result.end.end;
  done.patches = static_cast<uint32_t>(result.patches.size());
  done.instructions = result.end.instructions;
  done.paths = search.paths();
  done.decisions = static_cast<uint32_t>(symbolic_.decisions().size());
  pending->model = std::move(search.other_model());
  done.model_changed = pending->model && *pending->model != model_;
  for (unsigned i = 0; i < 16; ++i) {
    if (any_of_shadows(pending->end.shadows, offset_of_general(i), 8)) done.registers_shadowed |= 1u << i;
    if (any_of_shadows(pending->end.shadows, offset_of_vector(i), 32)) done.registers_shadowed |= 1u << (16 + i);
  }
  done.registers = registers_of(machine_.state);
  done.registers.rip = result.end.address;
  done.touched = symbolic_.touched();
  pending_ = std::move(pending);
  expressions_.set_model(pending_->model ? &*pending_->model : &model_);
  return result;
}

// The registers at the end, without those that the system call or the instruction there overwrites.
void Session::keep_end(const PathEnd& end, Pending* pending) {
  pending->end.state = machine_.state;
  pending->end.shadows = symbolic_.shadows();
  StateShadows& shadows = pending->end.shadows;
  if (end.end == End::system_call) {
    for (const unsigned number : {kRaxNumber, kRcxNumber, kR11Number}) drop_general(&shadows, number);
    // The kernel keeps the flags, but no program uses them behind a call.
    drop_shadows(&shadows, kThunkAt, kThunkBytes);
  } else {
    drop_results_of_instruction(end, &pending->end);
  }
}

void Session::drop_results_of_instruction(const PathEnd& end, StartState* state) {
  const Translated& instruction = *blocks_.at(end.address);
  StateShadows& shadows = state->shadows;
  if (const std::string& name = instruction.name; name == "rdtsc" || name == "rdtscp" || name == "cpuid") {
    drop_general(&shadows, kRaxNumber);
    drop_general(&shadows, kRdxNumber);
    if (name != "rdtsc") drop_general(&shadows, kRcxNumber);
    if (name == "cpuid") drop_general(&shadows, kRbxNumber);
    return;
  }
  if (const int number = register_written(instruction.bytes); number >= 0)
    drop_general(&shadows, static_cast<unsigned>(number));
  if (instruction.name != "rdpid") drop_shadows(&shadows, kThunkAt, kThunkBytes);
}

// What of the start state is not what the model says. False if it cannot be changed: then the result has failed.
bool Session::find_patches(const StartState& start, const Registers& registers, const std::optional<Model>& other,
                           RunResult* result) {
  auto add = [&](Of of, uint32_t number, uint64_t address, std::span<const uint8_t> bytes) {
    const bool joins = of == Of::memory && !result->patches.empty() && result->patches.back().first.of == of &&
                       result->patches.back().first.address + result->patches.back().first.length == address;
    if (!joins) result->patches.push_back({{of, number, address, 0}, {}});
    auto& [patch, into] = result->patches.back();
    into.insert(into.end(), bytes.begin(), bytes.end());
    patch.length = into.size();
  };
  const auto value_of = [&](Shadow shadow) {
    return static_cast<uint8_t>(expressions_.value(expression_of(shadow)) >> (8 * byte_of(shadow)));
  };
  std::array<uint8_t, sizeof(GuestState)> bytes;
  std::memcpy(bytes.data(), &start.state, bytes.size());
  bool others = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Shadow shadow = start.shadows[i];
    if (shadow == 0 || value_of(shadow) == bytes[i]) continue;
    bytes[i] = value_of(shadow);
    others = others || i < static_cast<size_t>(offset_of_general(0)) || i >= static_cast<size_t>(offset_of_general(16));
  }
  if (others) {
    result->end.failed = true;
    result->end.why = Why::protocol;
    result->end.text = "a vector register or a flag, which depends on missing bytes, would have to change";
    return false;
  }
  for (unsigned i = 0; i < 16; ++i) {
    const uint8_t* now = bytes.data() + offset_of_general(i);
    if (std::memcmp(now, &registers.general[i], 8) != 0) add(Of::general_register, i, 0, {now, 8});
  }
  const auto compare = [&](uint64_t address, Shadow shadow) {
    uint8_t before = 0;
    const uint8_t now = value_of(shadow);
    if (memory_.process_byte(address, &before) && before != now) add(Of::memory, 0, address, {&now, 1});
  };
  if (other) {
    std::vector<uint32_t> changed;
    for (uint32_t i = 0; i < other->size(); ++i)
      if ((*other)[i] != (i < model_.size() ? model_[i] : 0)) changed.push_back(i);
    memory_.for_each_start_shadow(changed, compare);
  }
  for (const Range& each : new_) memory_.for_each_start_shadow(each.address, each.length, compare);
  return true;
}

void Session::adopt() {
  if (pending_ == nullptr) return;
  memory_.adopt();
  new_.clear();
  if (pending_->model) model_ = *std::move(pending_->model);
  expressions_.set_model(&model_);
  conditions_.insert(conditions_.end(), pending_->conditions.begin(), pending_->conditions.end());
  assumptions_.insert(assumptions_.end(), pending_->assumptions.begin(), pending_->assumptions.end());
  const bool any = any_of_shadows(pending_->end.shadows, 0, static_cast<int>(pending_->end.shadows.size()));
  if (any) threads_[pending_->thread] = pending_->end;
  else threads_.erase(pending_->thread);
  pending_.reset();
}

void Session::forget() {
  pending_.reset();
  memory_.start_path();
  expressions_.set_model(&model_);
}

std::vector<ShadowChange> Session::shadow() {
  std::vector<ShadowChange> changes;
  for (const Memory::Change& each : memory_.take_changes())
    changes.push_back({each.address, each.length, each.shadowed, 0});
  return changes;
}

Session::Look Session::look(uint64_t address, uint64_t length) {
  Look look{.bytes = std::vector<uint8_t>(length)};
  look.exists = memory_.read(address, look.bytes);
  if (look.exists) look.depends = memory_.shadowed(address, length);
  else look.bytes.clear();
  return look;
}

std::vector<Symbol> Session::values(const Values& asked) {
  forget();
  std::vector<Sure> sure(std::max<size_t>(model_.size(), asked.first + asked.count), Sure::free);
  model_.resize(sure.size());
  for (const std::vector<Expr>* conditions : {&conditions_, &assumptions_}) {
    for (const Expr each : *conditions) {
      for (const uint32_t symbol : questions_.symbols_of(each)) sure[symbol] = Sure::inferred;
    }
  }
  find_proved(&sure, std::chrono::steady_clock::now() + std::chrono::milliseconds(asked.milliseconds));
  std::vector<Symbol> symbols(asked.count);
  for (uint64_t i = 0; i < asked.count; ++i) {
    symbols[i].value = model_[asked.first + i];
    symbols[i].sure = sure[asked.first + i];
  }
  return symbols;
}

// Asks of symbols that are connected for another model, until there is none in which one of those differs of which it
// is not known yet that it may. Assumptions of the solver prove nothing. Before, arbitrary values are tried and only
// repaired where conditions do not hold, which shows at once of most symbols that are not proved that they are not.
void Session::find_proved(std::vector<Sure>* sure, Deadline deadline) {
  std::mt19937 random;
  const auto soon = [&] { return std::min(deadline, std::chrono::steady_clock::now() + kForOneProof); };
  const std::vector<bool> all(conditions_.size(), true);
  for (const Questions::Island& island : questions_.islands_around(conditions_, all)) {
    std::vector<uint32_t> open = island.symbols;
    const auto compare = [&](const Model& other) {
      std::erase_if(open, [&](uint32_t symbol) { return other[symbol] != model_[symbol]; });
    };
    for (int i = 0; i < kRepairs && open.size() > 1; ++i) {
      Model other = model_;
      for (const uint32_t symbol : open) other[symbol] = static_cast<uint8_t>(random());
      if (questions_.solve(island.conditions, &other, soon()) == Answer::yes) compare(other);
    }
    while (!open.empty()) {
      Expr differs = expressions_.constant(0, 1);
      for (const uint32_t symbol : open) {
        const Expr same = expressions_.equal(expressions_.symbol(symbol), expressions_.constant(model_[symbol], 8));
        differs = expressions_.either(differs, expressions_.negated(same));
      }
      std::vector<Expr> conditions = island.conditions;
      conditions.push_back(differs);
      Model other = model_;
      const Answer answer = questions_.solve(conditions, &other, soon());
      if (answer == Answer::no) {
        for (const uint32_t symbol : open) (*sure)[symbol] = Sure::proved;
      }
      if (answer != Answer::yes) break;
      compare(other);
    }
  }
}

}  // namespace friday::infer
