#include "core/stop/watch_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "core/stop/watch.h"

namespace friday {

namespace {

// sizeof(struct pthread) in glibc 2.36; the structure starts at fs_base.
constexpr uint64_t thread_block_size = 2304;

}  // namespace

Result<void> WatchSet::load_layout() {
  if (layout_known_) return {};
  FRIDAY_TRY(mappings, node_.mappings());
  layout_ = std::move(mappings);
  std::ranges::sort(layout_, {}, &Mapping::low);
  thread_blocks_.clear();
  for (const ThreadInfo& thread : node_.threads())
    if (auto registers = node_.registers(thread.id); registers && registers->fs_base != 0)
      thread_blocks_.emplace_back(registers->fs_base, thread.id);
  layout_known_ = true;
  return {};
}

const Mapping* WatchSet::mapping_at(uint64_t address) const {
  auto it = std::ranges::upper_bound(layout_, address, {}, &Mapping::low);
  if (it == layout_.begin()) return nullptr;
  --it;
  return address < it->high ? &*it : nullptr;
}

PageUse WatchSet::page_use(Addr address) {
  if (!load_layout()) return PageUse::unmapped;
  uint64_t page = page_of(address.value);
  const Mapping* mapping = mapping_at(address.value);
  if (!mapping) return PageUse::unmapped;
  // Thread-local variables lie just below fs_base, and the thread control block above it.
  for (auto [base, thread] : thread_blocks_)
    if (page >= page_of(base - 1) && page < base + thread_block_size) return PageUse::thread_block;
  return mapping->stack ? PageUse::stack : PageUse::ordinary;
}

Result<void> WatchSet::take_debug_registers(uint32_t slot, const WatchRange& range, PageUse use) {
  const bool reads = range.access != WatchAccess::write;
  if (!node_.has_debug_registers())
    return fail(ErrorCode::unsupported,
                "cannot watch reads of {} bytes at {}: debug registers do so, and those of this machine do not report "
                "what they watch (friday doctor). Replay on another machine, or watch writes",
                range.size, range.low);
  if (debug_.take(slot, range.low.value, range.size, reads)) {
    debug_changed_ = true;
    return {};
  }
  const size_t wanted = DebugRegisters::pieces(range.low.value, range.size).size();
  const std::string numbers =
      fmt::format("{} of them {} needed and {} free", wanted > 4 ? "more than four" : std::to_string(wanted),
                  wanted == 1 ? "is" : "are", std::ranges::count(debug_.owners(), 0u));
  if (reads)
    return fail(ErrorCode::unsupported,
                "cannot watch reads of {} bytes at {}: the processor's four debug registers do so, 8 bytes each; {}",
                range.size, range.low, numbers);
  const char* what =
      use == PageUse::stack ? "the stack of a thread" : "the thread-local variables and control block of a thread";
  return fail(ErrorCode::unsupported,
              "cannot watch {} bytes at {}: they lie on {}, where the processor's four debug registers watch, 8 bytes "
              "each; {}. "
              "`watch -page` protects the page instead, where every call and local variable then costs 10 us or more",
              range.size, range.low, what, numbers);
}

uint64_t WatchSet::low_of(uint32_t slot) const { return ranges_.at(slot).range.low.value; }

void WatchSet::link(uint32_t slot) {
  const Armed& armed = ranges_.at(slot);
  for (uint64_t page = page_of(armed.range.low.value); page < armed.high(); page += page_size) {
    auto [it, fresh] = pages_.try_emplace(page);
    Page& here = it->second;
    if (fresh)
      if (const Mapping* mapping = mapping_at(page)) here.program = mapping->protection;
    auto place =
        std::ranges::upper_bound(here.slots, armed.range.low.value, {}, [&](uint32_t each) { return low_of(each); });
    here.slots.insert(place, slot);
    here.widest = std::max(here.widest, armed.range.size);
    dirty_.insert(page);
  }
}

void WatchSet::unlink(uint32_t slot) {
  const Armed& armed = ranges_.at(slot);
  if (armed.by_processor) {
    debug_.give_back(slot);
    debug_changed_ = true;
    return;
  }
  for (uint64_t page = page_of(armed.range.low.value); page < armed.high(); page += page_size) {
    auto it = pages_.find(page);
    if (it == pages_.end()) continue;
    std::erase(it->second.slots, slot);
    dirty_.insert(page);
  }
}

Result<void> WatchSet::protect(uint64_t low, uint64_t high, uint32_t protection) {
  std::array<uint64_t, 3> arguments{low, high - low, protection};
  FRIDAY_TRY(result, node_.inject(SYS_mprotect, arguments));
  ++statistics_.protect_calls;
  if (result < 0)
    return fail(ErrorCode::io, "cannot protect the pages {:#x}-{:#x} for a watch: {}", low, high,
                strerror(static_cast<int>(-result)));
  return {};
}

Result<void> WatchSet::flush() {
  ran_since_ = true;
  if (debug_changed_) {
    FRIDAY_TRY_VOID(node_.set_debug_slots(debug_.slots()));
    debug_changed_ = false;
  }
  if (dirty_.empty()) return {};
  if (ranges_.empty()) FRIDAY_TRY_VOID(stores_.remove_all());
  std::vector<uint64_t> changed;
  for (uint64_t page : dirty_) {
    auto it = pages_.find(page);
    if (it == pages_.end()) continue;
    Page& here = it->second;
    bool want = !here.slots.empty() && !here.lent && here.program && (*here.program & PROT_WRITE);
    if (stores_.has_second(page)) FRIDAY_TRY_VOID(want ? update_second(page) : stores_.give_back(page));
    if (want != here.closed) changed.push_back(page);
    else if (here.slots.empty()) pages_.erase(it);
  }
  dirty_.clear();
  std::ranges::sort(changed);
  for (size_t i = 0; i < changed.size();) {
    auto protection_of = [&](uint64_t page) {
      const Page& here = pages_.at(page);
      return here.closed ? *here.program : *here.program & ~static_cast<uint32_t>(PROT_WRITE);
    };
    uint32_t protection = protection_of(changed[i]);
    size_t end = i + 1;
    while (end < changed.size() && changed[end] == changed[end - 1] + page_size &&
           protection_of(changed[end]) == protection)
      ++end;
    if (auto done = protect(changed[i], changed[end - 1] + page_size, protection); !done) {
      dirty_.insert(changed.begin() + static_cast<ptrdiff_t>(i), changed.end());
      return done;
    }
    for (; i < end; ++i) {
      auto it = pages_.find(changed[i]);
      it->second.closed = !it->second.closed;
      if (it->second.slots.empty()) pages_.erase(it);
    }
  }
  return {};
}

bool WatchSet::protects(Addr address) const {
  auto it = pages_.find(page_of(address.value));
  return it != pages_.end() && it->second.closed;
}

std::optional<uint32_t> WatchSet::program_protection(Addr address) const {
  auto it = pages_.find(page_of(address.value));
  return it == pages_.end() || it->second.lent ? std::nullopt : it->second.program;
}

bool WatchSet::program_may_write(uint64_t page) {
  if (auto it = pages_.find(page); it != pages_.end()) return it->second.program && (*it->second.program & PROT_WRITE);
  const Mapping* mapping = load_layout() ? mapping_at(page) : nullptr;
  return mapping && (mapping->protection & PROT_WRITE);
}

// The protected pages that the instruction may write to, including the faulting one.
std::vector<uint64_t> WatchSet::pages_written(const Instruction* instruction, uint64_t page,
                                              const user_regs_struct& registers) const {
  std::vector<uint64_t> pages{page};
  auto add = [&](uint64_t each) {
    auto it = pages_.find(each);
    if (it != pages_.end() && it->second.closed && std::ranges::find(pages, each) == pages.end()) pages.push_back(each);
  };
  for (unsigned i = 0; instruction && i < instruction->decoded.operand_count; ++i) {
    const ZydisDecodedOperand& operand = instruction->operand(i);
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    if (operand.mem.type == ZYDIS_MEMOP_TYPE_VSIB) {  // a scatter may write anywhere
      for (const auto& [each, state] : pages_) add(each);
      continue;
    }
    // Include a page on either side: xsave has no fixed size, enter and push write downwards, and bts may address far
    // bits.
    uint64_t low = effective_address(*instruction, operand, registers), high = low + operand.size / 8 + page_size;
    for (uint64_t each = page_of(low - page_size); each < high; each += page_size) add(each);
  }
  for (int64_t side : {-1, 1}) add(page + static_cast<uint64_t>(side) * page_size);
  std::ranges::sort(pages);
  return pages;
}

Result<std::vector<uint64_t>> WatchSet::step_open(ThreadId thread, const Instruction* instruction, uint64_t page,
                                                  const user_regs_struct& registers) {
  std::vector<uint64_t> pages = pages_written(instruction, page, registers);
  for (uint64_t each : pages) FRIDAY_TRY_VOID(protect(each, each + page_size, *pages_.at(each).program));
  auto stepped = breakpoints_.step_one(thread);
  for (uint64_t each : pages)
    FRIDAY_TRY_VOID(protect(each, each + page_size, *pages_.at(each).program & ~static_cast<uint32_t>(PROT_WRITE)));
  if (!stepped) return std::unexpected(stepped.error());
  if (breakpoints_.in_pad(Addr{registers.rip})) FRIDAY_TRY_VOID(breakpoints_.leave_pad(thread));
  return pages;
}

Result<std::vector<WatchHit>> WatchSet::on_mapping_changed(Addr low, Addr high, std::optional<uint32_t> protection) {
  layout_known_ = false;
  std::vector<uint64_t> touched;
  for (auto& [page, here] : pages_) {
    if (page < low.value || page >= high.value) continue;
    here.program = protection;
    here.closed = here.lent = false;
    dirty_.insert(page);
    touched.push_back(page);
  }
  std::vector<WatchHit> hits;
  for (uint64_t page : touched)
    for (uint32_t slot : overlapping(page, page + page_size)) FRIDAY_TRY_VOID(revisit(slot, hits));
  statistics_.hits += hits.size();
  return hits;
}

// Passes the watched bytes of a page to the patched stores.
Result<void> WatchSet::update_second(uint64_t page) {
  std::vector<std::pair<uint32_t, uint32_t>> watched;
  for (uint32_t slot : pages_.at(page).slots) {
    const Armed& armed = ranges_.at(slot);
    const uint64_t low = std::max(page, armed.range.low.value), high = std::min(page + page_size, armed.high());
    watched.emplace_back(low - page, high - page);
  }
  return stores_.set_watched(page, watched);
}

Result<void> WatchSet::open_for_mapping_call(Addr low, Addr high) {
  stores_.remove_between(low, high);
  for (auto& [page, here] : pages_) {
    if (page < low.value || page >= high.value) continue;
    here.lent = true;
    FRIDAY_TRY_VOID(stores_.give_back(page));
    if (!std::exchange(here.closed, false)) continue;
    FRIDAY_TRY_VOID(protect(page, page + page_size, *here.program));
  }
  return {};
}

Result<std::vector<WatchHit>> WatchSet::mapping_call_done(Addr low, Addr high) {
  layout_known_ = false;
  std::vector<std::pair<uint64_t, std::optional<uint32_t>>> now;
  for (const auto& [page, here] : pages_)
    if (page >= low.value && page < high.value) now.emplace_back(page, std::nullopt);
  std::vector<WatchHit> hits;
  if (now.empty()) return hits;
  FRIDAY_TRY_VOID(load_layout());
  for (auto& [page, protection] : now)
    if (const Mapping* mapping = mapping_at(page)) protection = mapping->protection;
  for (auto [page, protection] : now) {
    FRIDAY_TRY(some, on_mapping_changed(Addr{page}, Addr{page + page_size}, protection));
    std::ranges::move(some, std::back_inserter(hits));
  }
  return hits;
}

std::pair<Addr, Addr> WatchSet::bounds() const {
  uint64_t low = ~uint64_t{0}, high = 0;
  for (const auto& [page, here] : pages_)
    if (!here.slots.empty()) low = std::min(low, page), high = std::max(high, page + page_size);
  if (auto [code_low, code_high] = stores_.bounds(); code_high)
    low = std::min(low, code_low), high = std::max(high, code_high);
  if (auto [code_low, code_high] = breakpoints_.bounds(); code_high)
    low = std::min(low, code_low), high = std::max(high, code_high);
  return high ? std::pair{Addr{low}, Addr{high}} : std::pair{Addr{0}, Addr{0}};
}

// Call when the memory under a range was replaced: compares all of the range, or finds that it is unmapped.
Result<void> WatchSet::revisit(uint32_t slot, std::vector<WatchHit>& hits) {
  Armed& armed = ranges_.at(slot);
  std::vector<std::byte> now(armed.range.size);
  bool mapped = true;
  for (uint64_t page = page_of(armed.range.low.value); page < armed.high(); page += page_size)
    mapped = mapped && pages_.at(page).program;
  if (!mapped || !node_.read(armed.range.low, now)) now.clear();
  if (now == armed.bytes) return {};
  hits.push_back({armed.range.id, armed.range.index, armed.range.low, armed.bytes, now});
  armed.bytes = std::move(now);
  return {};
}

}  // namespace friday
