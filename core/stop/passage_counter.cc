#include "core/stop/passage_counter.h"

#include <algorithm>
#include <array>
#include <utility>

namespace friday {

Result<bool> PassageCounter::start(Addr place, const Wanted& wanted) {
  FRIDAY_TRY_VOID(stop());
  place_.reset();
  const PatchedBytes& patches = breakpoints_.patches();
  // Where a breakpoint stands each passage stops the node anyway.
  if (breakpoints_.contains(place) || patches.window_at(place) || patches.executed_at(place) != place) return false;
  FRIDAY_TRY(made, make_code(place));
  if (!made) return false;
  const Code& code = codes_.at(place.value);
  if (is_inside(place, code.window.back().next())) return false;
  PassageWords words{.saved = {}, .count = 0, .wanted = wanted.nth, .match = {}};
  if (wanted.registers) std::ranges::copy(general_registers(*wanted.registers), words.match);
  FRIDAY_TRY_VOID(node_.write_raw(code.words, std::as_bytes(std::span(&words, 1))));
  place_ = place;
  active_ = redirect();
  if (!active_) place_.reset();
  return active_;
}

Result<void> PassageCounter::pause() {
  if (!active_ || paused_) return {};
  const Addr at = codes_.at(place_->value).words;
  PassageWords words{};
  FRIDAY_TRY_VOID(node_.read_raw(at, std::as_writable_bytes(std::span(&words, 1))));
  paused_ = words;
  words.wanted = 0;
  std::ranges::fill(words.match, 0);
  return node_.write_raw(at, std::as_bytes(std::span(&words, 1)));
}

Result<void> PassageCounter::go_on() {
  const auto words = std::exchange(paused_, std::nullopt);
  if (!active_ || !words) return {};
  return node_.write_raw(codes_.at(place_->value).words, std::as_bytes(std::span(&*words, 1)));
}

Result<void> PassageCounter::stop() {
  is_at_hit_ = false;
  FRIDAY_TRY_VOID(go_on());
  if (!std::exchange(active_, false)) return {};
  const Code& code = codes_.at(place_->value);
  breakpoints_.take_back(*place_, PatchKind::passage);
  // A thread that is in the code must not stop any more.
  constexpr uint64_t kNone[1 + 16] = {};
  return node_.write_raw(code.words.plus(offsetof(PassageWords, wanted)), std::as_bytes(std::span(kNone)));
}

Result<void> PassageCounter::forget() {
  FRIDAY_TRY_VOID(stop());
  codes_.clear();
  place_.reset();
  return {};
}

Result<uint64_t> PassageCounter::count() {
  if (!place_) return fail(ErrorCode::usage, "no passages are counted");
  uint64_t count = 0;
  const Addr at = codes_.at(place_->value).words.plus(offsetof(PassageWords, count));
  FRIDAY_TRY_VOID(node_.read_raw(at, std::as_writable_bytes(std::span(&count, 1))));
  return count;
}

// The code whose int3 the thread has executed.
const PassageCounter::Code* PassageCounter::trapped(const user_regs_struct& registers) const {
  const auto found =
      std::ranges::find_if(codes_, [&](const auto& each) { return each.second.trap.value + 1 == registers.rip; });
  return found == codes_.end() ? nullptr : &found->second;
}

std::optional<bool> PassageCounter::hit(user_regs_struct& registers) {
  const Code* code = trapped(registers);
  if (!code) return std::nullopt;
  registers.rip = code->window.front().address;
  is_at_hit_ = active_ && registers.rip == place_->value;
  if (is_at_hit_) breakpoints_.take_back(*place_, PatchKind::passage);
  return is_at_hit_;
}

bool PassageCounter::undo_hit(user_regs_struct& registers) const {
  if (!trapped(registers)) return false;
  registers.rip--;
  return true;
}

Result<void> PassageCounter::pass(ThreadId thread) {
  if (!active_) return {};
  is_at_hit_ = false;
  if (!redirect())
    return fail(ErrorCode::unsupported, "the passages of {} cannot be counted any more: other code is there now",
                *place_);
  FRIDAY_TRY(registers, node_.registers(thread));
  registers.rip = codes_.at(place_->value).copy.value;
  return node_.set_registers(thread, registers);
}

bool PassageCounter::is_lost() const { return active_ && !is_at_hit_ && !breakpoints_.patches().window_at(*place_); }

bool PassageCounter::contains(Addr pc) const {
  return std::ranges::any_of(codes_, [&](const auto& each) {
    const Code& code = each.second;
    return pc.value >= code.base.value && pc.value <= code.base.value + code.size;  // it ends with the int3
  });
}

Result<void> PassageCounter::copy_from(const PassageCounter& parent) {
  codes_ = parent.codes_;
  place_ = parent.place_;
  active_ = parent.active_;
  return stop();
}

// Whether a thread stands between the instructions that are displaced. It would go on in the middle of the jump.
bool PassageCounter::is_inside(Addr place, uint64_t high) {
  return std::ranges::any_of(node_.threads(), [&](const ThreadInfo& thread) {
    const auto registers = node_.registers(thread.id);
    return !registers || (registers->rip > place.value && registers->rip < high);
  });
}

bool PassageCounter::redirect() {
  const Code& code = codes_.at(place_->value);
  return breakpoints_.redirect(code.window, code.base, PatchKind::passage);
}

// The instruction and those that a jump there displaces. False if there is no room for one.
Result<bool> PassageCounter::find_window(Addr place, std::vector<Instruction>& window) {
  std::array<std::byte, max_instruction_length> bytes;
  size_t size = bytes.size();
  while (size > 0 && !node_.read(place, std::span(bytes).first(size))) size--;  // it may end at the end of its page
  const auto first = decode_instruction(place, std::span(bytes).first(size));
  if (!first) return false;
  FRIDAY_TRY(mappings, node_.mappings());
  const auto mapping = std::ranges::find_if(
      mappings, [&](const Mapping& each) { return each.low <= place.value && place.value < each.high; });
  if (mapping == mappings.end()) return false;
  if (!is_displaceable(*first) && !ends_window(*first)) return false;
  window = stores_.window_of(*first, *mapping);
  return !window.empty();
}

Result<bool> PassageCounter::make_code(Addr place) {
  std::vector<Instruction> window;
  FRIDAY_TRY(found, find_window(place, window));
  if (!found) return false;
  if (const auto known = codes_.find(place.value); known != codes_.end()) {
    const auto same = [](const Instruction& a, const Instruction& b) { return std::ranges::equal(a.code(), b.code()); };
    return std::ranges::equal(known->second.window, window, same);
  }
  Code code;
  auto placed = breakpoints_.place_code(place, passage_patch_size, [&](Addr base, Addr data) -> std::optional<PadCode> {
    const Addr words = data.plus(kPassageWordsAt);
    auto patch = build_passage_patch(window, base, words);
    if (!patch) return std::nullopt;
    code = {.base = base,
            .copy = base.plus(static_cast<int64_t>(patch->copy)),
            .trap = base.plus(static_cast<int64_t>(patch->trap)),
            .words = words,
            .size = patch->code.code.size(),
            .window = window};
    return std::move(patch->code);
  });
  if (!placed) return std::unexpected(placed.error());
  if (!*placed) return false;
  codes_.emplace(place.value, std::move(code));
  return true;
}

}  // namespace friday
