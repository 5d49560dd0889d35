// Ranges, faults and comparisons of a WatchSet. The pages and their protections are in watch_pages.cc.
#include "core/stop/watch.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.h"
#include "core/stop/emulator.h"
#include "core/stop/vector_store.h"
#include "core/stop/watch_pages.h"

namespace friday {

namespace {

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

uint64_t key_of(StopPointId id, uint32_t index) { return uint64_t{id.value} << 32 | index; }

// The memory that an instruction will write through its operands.
Ranges ranges_written(const Instruction& instruction, const user_regs_struct& registers, StoreAccess& access) {
  Ranges ranges;
  for (unsigned i = 0; i < instruction.decoded.operand_count; ++i) {
    const ZydisDecodedOperand& operand = instruction.operand(i);
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    if (auto masked = masked_store_ranges(instruction, operand, registers, access.extended_state())) {
      ranges.insert(ranges.end(), masked->begin(), masked->end());
    } else if (operand.mem.type != ZYDIS_MEMOP_TYPE_VSIB) {
      const uint64_t low = effective_address(instruction, operand, registers);
      ranges.emplace_back(low, low + operand.size / 8);
    }
  }
  return ranges;
}

}  // namespace

// The emulator's access to memory: writes pass through pages that Friday protects, but not through pages that the
// program may not write.
struct WatchSet::Access final : StoreAccess {
  Access(WatchSet& set, ThreadId thread) : set_(set), thread_(thread) {}

  bool read(uint64_t address, std::span<std::byte> out) override {
    if (set_.watches_reads()) was_read.emplace_back(address, address + out.size());
    return set_.node_.read(Addr{address}, out).has_value();
  }

  bool write(uint64_t address, std::span<const std::byte> data) override {
    uint64_t high = address + data.size();
    for (uint64_t page = page_of(address); page < high; page += page_size)
      if (!set_.program_may_write(page)) return false;
    for (uint64_t at = address; at < high;) {
      const uint64_t end = std::min(high, page_of(at) + page_size);
      if (!set_.node_.write_raw(Addr{set_.stores_.writable(at)}, data.subspan(at - address, end - at))) return false;
      at = end;
    }
    if (!written.empty() && written.back().second == address) {
      written.back().second = high;
    } else {
      written.emplace_back(address, high);
    }
    return true;
  }

  std::span<const std::byte> extended_state() override {
    if (auto state = set_.node_.extended_state(thread_); state) state_ = std::move(*state);
    return state_;
  }

  Ranges written, was_read;  // [low, high), in order; reads are collected only while some are watched

 private:
  WatchSet& set_;
  ThreadId thread_;
  std::vector<std::byte> state_;
};

Result<void> WatchSet::arm(const WatchRange& range, bool allow_any_page, bool may_wait) {
  uint64_t low = range.low.value, high = low + range.size;
  if (range.size == 0 || high < low)
    return fail(ErrorCode::usage, "cannot watch {} bytes at {}", range.size, range.low);
  bool followed = true;
  for (uint64_t page = page_of(low); page < high; page += page_size) followed = followed && pages_.contains(page);
  if (ran_since_ && !followed) {
    layout_known_ = false;
    FRIDAY_TRY_VOID(load_layout());
    ran_since_ = false;
  }
  FRIDAY_TRY_VOID(load_layout());
  may_wait = may_wait && range.access == WatchAccess::write;
  PageUse use = PageUse::ordinary;
  bool mapped = true;
  for (uint64_t page = page_of(low); page < high; page += page_size) {
    if (!mapping_at(page)) {
      mapped = false;
      if (!may_wait)
        return fail(ErrorCode::bad_address, "cannot watch {} bytes at {}: nothing is mapped at {:#x}", range.size,
                    range.low, std::max(page, low));
    } else if (use == PageUse::ordinary && !allow_any_page) {
      use = page_use(Addr{page});
    }
  }
  if (use != PageUse::ordinary && range.access == WatchAccess::write && !node_.has_debug_registers()) {
    use = PageUse::ordinary;  // each store to that page costs a fault then, but none is missed
    lacks_registers_ = true;
  }
  Armed armed{range, std::vector<std::byte>(range.size)};
  armed.since = node_.events_done();
  if (auto read = node_.read(range.low, armed.bytes); !read) {
    if (mapped)
      return fail(ErrorCode::bad_address, "cannot watch {} bytes at {}: {}", range.size, range.low,
                  read.error().message);
    armed.bytes.clear();
  }
  disarm(range.id, range.index);
  uint32_t slot = next_slot_++;
  if (use != PageUse::ordinary || range.access != WatchAccess::write) {
    FRIDAY_TRY_VOID(take_debug_registers(slot, range, use));
    armed.by_processor = true;
  }
  version_ += range.id != kMirrorId;
  const bool by_processor = armed.by_processor;
  ranges_.emplace(slot, std::move(armed));
  slot_of_[key_of(range.id, range.index)] = slot;
  if (!by_processor) link(slot);
  return {};
}

void WatchSet::disarm(StopPointId id) {
  std::vector<uint32_t> indexes;
  for (const auto& [slot, armed] : ranges_)
    if (armed.range.id == id) indexes.push_back(armed.range.index);
  for (uint32_t index : indexes) disarm(id, index);
}

void WatchSet::disarm(StopPointId id, uint32_t index) {
  auto it = slot_of_.find(key_of(id, index));
  if (it == slot_of_.end()) return;
  version_ += id != kMirrorId;
  unlink(it->second);
  ranges_.erase(it->second);
  slot_of_.erase(it);
  if (ranges_.empty()) layout_known_ = false;
}

void WatchSet::disarm_all() {
  version_++;
  for (const auto& [key, slot] : std::exchange(slot_of_, {})) {
    unlink(slot);
    ranges_.erase(slot);
  }
  layout_known_ = false;
}

const std::vector<std::byte>* WatchSet::bytes_of(StopPointId id, uint32_t index) const {
  auto it = slot_of_.find(key_of(id, index));
  return it == slot_of_.end() ? nullptr : &ranges_.at(it->second).bytes;
}

Result<FaultOutcome> WatchSet::on_fault(ThreadId thread, Addr address, Code whose) {
  FaultOutcome outcome;
  uint64_t page = page_of(address.value);
  if (!protects(address)) return outcome;
  ran_since_ = true;
  stored_.clear();
  ++statistics_.faults;
  FRIDAY_TRY(registers, node_.registers(thread));
  const uint64_t stopped_at = registers.rip;
  auto pc = breakpoints_.program_address(Addr{stopped_at});
  outcome.pc = pc.value_or(Addr{stopped_at});
  FRIDAY_TRY(instruction, decode_at(outcome.pc));
  Access access(*this, thread);
  Emulated emulated = Emulated::no;
  if (instruction && pc) {
    registers.rip = pc->value;
    emulated = emulate_store(*instruction, registers, access);
  }
  if (emulated == Emulated::no) {
    registers.rip = stopped_at;
    const auto written = instruction ? ranges_written(*instruction, registers, access) : Ranges{};
    FRIDAY_TRY(opened, step_open(thread, instruction, page, registers));
    for (auto [low, high] : written) FRIDAY_TRY_VOID(compare(low, high, true, outcome.hits));
    for (uint64_t each : opened) FRIDAY_TRY_VOID(compare(each, each + page_size, false, outcome.hits));
    if (!debug_.empty()) FRIDAY_TRY_VOID(look_at_slots(node_.take_debug_hits(thread), outcome.hits));
    outcome.how = FaultOutcome::How::stepped;
    ++statistics_.stepped;
  } else {
    for (auto [low, high] : access.written) FRIDAY_TRY_VOID(compare(low, high, true, outcome.hits));
    for (auto [low, high] : access.was_read) note_read(low, high, outcome.hits);
    if (whose != Code::shim && outcome.hits.empty() && emulated == Emulated::done)
      after_miss(*instruction, address, whose, outcome);
    // The thread may now stand on instructions that a store patch displaced. At a hit, show the program as it is
    // without patches.
    if (registers.rip == instruction->next() && stores_.next_of(*instruction) != registers.rip) {
      if (outcome.hits.empty()) registers.rip = stores_.next_of(*instruction);
      else stores_.remove(outcome.pc);
    }
    breakpoints_.make_room_for(Addr{registers.rip});
    FRIDAY_TRY_VOID(node_.set_registers(thread, registers));
    outcome.how = emulated == Emulated::done ? FaultOutcome::How::emulated : FaultOutcome::How::partial;
    ++statistics_.emulated;
  }
  if (whose == Code::shim) drop_reads(outcome.hits);
  // If one instruction changes several ranges, report them in the order in which they were armed.
  std::ranges::sort(outcome.hits, {}, [&](const WatchHit& hit) { return slot_of_.at(key_of(hit.id, hit.index)); });
  statistics_.hits += outcome.hits.size();
  return outcome;
}

// Makes a hot store cheaper by patching it, and a hot page of patched stores by mapping it twice. Failures are ignored.
void WatchSet::after_miss(const Instruction& store, Addr address, Code whose, FaultOutcome& outcome) {
  const uint64_t page = page_of(address.value);
  const bool called = whose == Code::called;
  if (stores_.counts(outcome.pc) && (!called || stores_.has_room_for(store))) {
    if (!load_layout()) return;
    const Mapping* code = mapping_at(store.address);
    if (!code) {  // a file was mapped since the layout was read
      layout_known_ = false;
      code = load_layout() ? mapping_at(store.address) : nullptr;
    }
    outcome.patched = code && stores_.missed(store, *code) && stores_.patch(store, *code);
  }
  if (called || !stores_.wants(outcome.pc, page) || page_use(Addr{page}) != PageUse::ordinary) return;
  const Mapping& mapping = *mapping_at(page);
  if (mapping.shared) return;
  if (stores_.give_second(page, *pages_.at(page).program & ~static_cast<uint32_t>(PROT_WRITE), mapping))
    (void)update_second(page);
}

// Returns the decoded instruction from a cache, since the same stores fault repeatedly and decoding takes about as long
// as reading. The bytes are read each time because code may change.
Result<const Instruction*> WatchSet::decode_at(Addr pc) {
  std::array<std::byte, 16> bytes;
  size_t size = bytes.size();
  if (!node_.read(pc, bytes)) {
    size = page_size - pc.value % page_size;
    if (size >= bytes.size()) return fail(ErrorCode::bad_address, "cannot read the code at {}", pc);
    FRIDAY_TRY_VOID(node_.read(pc, std::span(bytes).first(size)));
  }
  std::span<const std::byte> code = std::span(bytes).first(size);
  auto it = decoded_.find(pc.value);
  if (it != decoded_.end() && it->second.code().size() <= size &&
      std::ranges::equal(it->second.code(), code.first(it->second.code().size())))
    return &it->second;
  auto instruction = decode_instruction(pc, code);
  if (!instruction) return nullptr;
  constexpr size_t cache_limit = 16384;
  if (decoded_.size() >= cache_limit) decoded_.clear();
  return &(decoded_[pc.value] = *instruction);
}

Result<std::optional<FaultOutcome>> WatchSet::on_debug_trap(ThreadId thread, bool in_program) {
  const uint32_t seen = node_.take_debug_hits(thread);
  if (!seen) return std::optional<FaultOutcome>{};
  ran_since_ = true;
  stored_.clear();
  FaultOutcome outcome;
  outcome.how = FaultOutcome::How::stepped;
  if (debug_.empty()) return outcome;  // what it watched is watched no longer
  FRIDAY_TRY(registers, node_.registers(thread));
  outcome.pc = breakpoints_.program_address(Addr{registers.rip}).value_or(Addr{registers.rip});
  // A rep instruction is treated as one store, although the processor stops after each iteration.
  FRIDAY_TRY(instruction, decode_at(outcome.pc));
  Access access(*this, thread);
  if (instruction && instruction->decoded.meta.category == ZYDIS_CATEGORY_STRINGOP && registers.rcx != 0 &&
      registers.rip == outcome.pc.value && emulate_store(*instruction, registers, access) != Emulated::no)
    FRIDAY_TRY_VOID(node_.set_registers(thread, registers));
  FRIDAY_TRY_VOID(look_at_slots(seen, outcome.hits));
  for (auto [low, high] : access.written) FRIDAY_TRY_VOID(compare(low, high, true, outcome.hits));
  if (!in_program) drop_reads(outcome.hits);
  statistics_.hits += outcome.hits.size();
  return std::optional(std::move(outcome));
}

Result<std::vector<WatchHit>> WatchSet::note_write(Addr low, uint64_t size) {
  std::vector<WatchHit> hits;
  stored_.clear();
  FRIDAY_TRY_VOID(compare(low.value, low.value + size, true, hits));
  return hits;
}

// Slots of the ranges that overlap [low, high), without repetition.
std::vector<uint32_t> WatchSet::overlapping(uint64_t low, uint64_t high) const {
  std::vector<uint32_t> slots;
  for (uint32_t owner : debug_.owners())
    if (owner && low_of(owner) < high && ranges_.at(owner).high() > low) slots.push_back(owner);
  for (uint64_t page = page_of(low); page < high; page += page_size) {
    auto it = pages_.find(page);
    if (it == pages_.end()) continue;
    const Page& here = it->second;
    uint64_t from = low > here.widest ? low - here.widest : 0;
    auto first = std::ranges::lower_bound(here.slots, from, {}, [&](uint32_t slot) { return low_of(slot); });
    for (; first != here.slots.end() && low_of(*first) < high; ++first)
      if (ranges_.at(*first).high() > low) slots.push_back(*first);
  }
  std::ranges::sort(slots);
  auto again = std::ranges::unique(slots);
  slots.erase(again.begin(), again.end());
  return slots;
}

// Returns how often the range has changed since the node's last event; 0 if that is not known.
uint64_t WatchSet::count_change(Armed& armed) {
  if (!counts_changes_) return 0;
  const uint64_t now = node_.events_done();
  if (armed.event != now) armed.event = now, armed.changes = 0;
  armed.changes++;
  return armed.since < now ? armed.changes : 0;
}

Result<void> WatchSet::compare(uint64_t low, uint64_t high, bool written, std::vector<WatchHit>& hits) {
  for (uint32_t slot : overlapping(low, high)) {
    Armed& armed = ranges_.at(slot);
    if (armed.bytes.empty()) continue;  // the range is unmapped
    uint64_t from = std::max(low, armed.range.low.value), to = std::min(high, armed.high());
    scratch_.resize(to - from);
    FRIDAY_TRY_VOID(node_.read(Addr{from}, scratch_));
    auto known = std::span(armed.bytes).subspan(from - armed.range.low.value, to - from);
    bool changed = !std::ranges::equal(scratch_, known);
    if (!changed && !(written && (armed.range.any_write || armed.range.access != WatchAccess::write))) continue;
    if (armed.range.access == WatchAccess::read) {
      if (changed) stored_.push_back(slot);
      std::ranges::copy(scratch_, known.begin());
      if (changed || std::ranges::find(stored_, slot) != stored_.end()) continue;
    }
    // A rep store may have reported this range for an earlier piece: keep the first old value.
    auto same = std::ranges::find_if(
        hits, [&](const WatchHit& hit) { return hit.id == armed.range.id && hit.index == armed.range.index; });
    if (same == hits.end()) {
      hits.push_back({armed.range.id, armed.range.index, armed.range.low, armed.bytes, {}, 0});
      same = std::prev(hits.end());
    }
    if (changed && !same->nth) same->nth = count_change(armed);
    std::ranges::copy(scratch_, known.begin());
    same->new_bytes = armed.bytes;
  }
  return {};
}

// Reports the hits of debug registers for one instruction; `seen` has one bit for each register.
Result<void> WatchSet::look_at_slots(uint32_t seen, std::vector<WatchHit>& hits) {
  for (unsigned i = 0; i < debug_.slots().size(); ++i) {
    const DebugSlot& slot = debug_.slots()[i];
    if (!(seen >> i & 1) || !slot.size) continue;
    FRIDAY_TRY_VOID(compare(slot.address, slot.address + slot.size, !slot.reads, hits));
    if (slot.reads) note_read(slot.address, slot.address + slot.size, hits);
  }
  return {};
}

// Reads by the shim are no accesses of the program, so hits without a change are dropped.
void WatchSet::drop_reads(std::vector<WatchHit>& hits) const {
  std::erase_if(hits, [&](const WatchHit& hit) {
    return hit.old_bytes == hit.new_bytes &&
           ranges_.at(slot_of_.at(key_of(hit.id, hit.index))).range.access != WatchAccess::write;
  });
}

// Reports ranges whose reads are watched, except those that the same instruction has changed.
void WatchSet::note_read(uint64_t low, uint64_t high, std::vector<WatchHit>& hits) {
  for (uint32_t slot : overlapping(low, high)) {
    const Armed& armed = ranges_.at(slot);
    if (armed.range.access == WatchAccess::write || armed.bytes.empty() ||
        std::ranges::find(stored_, slot) != stored_.end())
      continue;
    const bool told = std::ranges::any_of(
        hits, [&](const WatchHit& hit) { return hit.id == armed.range.id && hit.index == armed.range.index; });
    if (!told) hits.push_back({armed.range.id, armed.range.index, armed.range.low, armed.bytes, armed.bytes});
  }
}

Result<void> WatchSet::copy_from(const WatchSet& parent, const PatchedStores::Snapshot& pages) {
  ranges_ = parent.ranges_;
  slot_of_ = parent.slot_of_;
  debug_ = parent.debug_;
  debug_changed_ = true;
  pages_ = parent.pages_;
  dirty_ = parent.dirty_;
  next_slot_ = parent.next_slot_;
  layout_known_ = false;
  return stores_.copy_from(parent.stores_, pages);
}

}  // namespace friday
