#include "core/stop/patched_stores.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/stop/watch_pages.h"

namespace friday {

namespace {

constexpr uint32_t never = std::numeric_limits<uint32_t>::max();
constexpr uint32_t most_pages = 16384, most_sites = 16384;
constexpr size_t jump_length = 5;
constexpr uint64_t table_size = store_table_entries * sizeof(StoreTableEntry);
constexpr uint64_t seconds_at = store_area + 0x10000000, aside_at = store_area + 0x20000000;
static_assert(table_size <= 0x10000000 && most_pages * page_size <= 0x10000000);

// A page number that can never be found in this entry, since it belongs to another entry.
constexpr uint64_t no_page(uint64_t entry) { return entry == 0 ? page_size : 0; }

}  // namespace

PatchedStores::PatchedStores(NodeControl& node, Breakpoints& breakpoints) : node_(node), breakpoints_(breakpoints) {
  breakpoints_.take_away = [this](Addr low) { remove(low); };
}

uint64_t PatchedStores::entry_of(uint64_t page) const { return page / page_size % store_table_entries; }
uint64_t PatchedStores::slot_address(uint32_t slot) const { return seconds_at + slot * page_size; }
uint64_t PatchedStores::aside_address(uint32_t slot) const { return aside_at + slot * page_size; }

Result<int64_t> PatchedStores::call(long number, std::initializer_list<uint64_t> arguments) {
  FRIDAY_TRY(result, node_.inject(number, std::span(arguments.begin(), arguments.size())));
  if (result < 0)
    return fail(ErrorCode::io, "cannot map a page twice for a watch: call {} gave {}", number,
                strerror(static_cast<int>(-result)));
  return result;
}

// Maps the table and the space for second mappings: an anonymous memory file that no other process has.
Result<void> PatchedStores::prepare() {
  if (prepared_) return {};
  constexpr uint64_t fixed = MAP_FIXED_NOREPLACE | MAP_NORESERVE, nothing = ~uint64_t{0};
  FRIDAY_TRY_VOID(call(SYS_mmap, {store_area, table_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | fixed, nothing, 0}));
  // The memory file's name is read from the table, which is empty: its first byte terminates the name.
  FRIDAY_TRY(fd, call(SYS_memfd_create, {store_area, MFD_CLOEXEC}));
  const auto file = static_cast<uint64_t>(fd);
  auto sized = call(SYS_ftruncate, {file, most_pages * page_size});
  auto mapped =
      sized ? call(SYS_mmap, {seconds_at, most_pages * page_size, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, file, 0})
            : sized;
  FRIDAY_TRY_VOID(call(SYS_close, {file}));
  if (!mapped) return std::unexpected(mapped.error());
  FRIDAY_TRY_VOID(
      call(SYS_mmap, {aside_at, most_pages * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, nothing, 0}));
  const uint64_t first = no_page(0);
  FRIDAY_TRY_VOID(node_.write_raw(Addr{store_area}, std::as_bytes(std::span(&first, 1))));
  prepared_ = true;
  return {};
}

// ---- Code

Result<void> PatchedStores::enable(bool on) {
  enabled_ = on;
  if (on) return {};
  return remove_all();
}

bool PatchedStores::counts(Addr store) const {
  if (!enabled_ || failed_ || sites_.contains(store.value)) return false;
  auto it = misses_.find(store.value);
  return it == misses_.end() || it->second != never;
}

bool PatchedStores::missed(const Instruction& store, const Mapping& code) {
  ++misses_[store.address];
  return hot_->count(code.path, code.offset + (store.address - code.low)) >= threshold_;
}

bool PatchedStores::has_room_for(const Instruction& store) {
  const auto data = breakpoints_.data_page_near(Addr{store.address}, store_patch_size);
  return prepared_ && data && has_table_[data->value];
}

bool PatchedStores::patch(const Instruction& store, const Mapping& code) {
  const bool known = std::exchange(misses_[store.address], never) < threshold_;
  if (!install(store, code)) {
    ++statistics_.refused;
    return false;
  }
  sites_[store.address].known = known;
  return true;
}

std::vector<Instruction> PatchedStores::window_of(const Instruction& first, const Mapping& mapping) {
  const bool of_file = !mapping.path.empty() && mapping.path[0] == '/' && (mapping.protection & PROT_EXEC) &&
                       !(mapping.protection & PROT_WRITE);
  std::vector<Instruction> window;
  if (!of_file || !take_window(first, mapping, window)) window.clear();
  return window;
}

bool PatchedStores::take_window(const Instruction& first, const Mapping& mapping, std::vector<Instruction>& window) {
  window.push_back(first);
  uint64_t high = first.next();
  while (high < first.address + jump_length) {
    std::array<std::byte, max_instruction_length> bytes;
    if (high + bytes.size() > mapping.high || !node_.read(Addr{high}, bytes)) return false;
    auto next = decode_instruction(Addr{high}, bytes);
    if (!next || (!is_displaceable(*next) && !ends_window(*next))) return false;
    window.push_back(*next);
    high = next->next();
    if (ends_window(*next) && high < first.address + jump_length) return false;
  }
  if (window.size() == 1) return true;
  auto& map = code_[mapping.path];
  if (!map) map = CodeMap::of(mapping.path);
  if (!map) return false;
  auto low = map->address_of(mapping.offset + (first.address - mapping.low));
  return low && map->is_straight(*low, *low + (high - first.address));
}

bool PatchedStores::install(const Instruction& store, const Mapping& mapping) {
  if (sites_.size() >= most_sites || !is_patchable_store(store)) return false;
  const std::vector<Instruction> window = window_of(store, mapping);
  if (window.empty()) return false;
  if (auto ready = prepare(); !ready) {
    failed_ = true;
    return false;
  }
  std::vector<std::pair<uint64_t, uint64_t>> meaning;
  Addr data_page{};
  auto placed = breakpoints_.place_code(Addr{store.address}, store_patch_size, [&](Addr place, Addr data) {
    data_page = data;
    auto code = build_store_patch(window, place, data);
    if (code) meaning = code->meaning;
    return code;
  });
  if (!placed || !*placed) return false;
  if (!has_table_[data_page.value]) {
    const uint64_t table = store_area;
    if (!node_.write_raw(data_page.plus(offsetof(StoreSave, table)), std::as_bytes(std::span(&table, 1)))) return false;
    has_table_[data_page.value] = true;
  }
  const uint64_t patch = (*placed)->value;
  if (!breakpoints_.redirect(window, Addr{patch}, PatchKind::watch_store)) return false;
  Site site{window.back().next(), patch, 0, false};
  for (auto [offset, address] : meaning)
    if (address == store.next()) site.next = patch + offset;
  sites_[store.address] = site;
  statistics_.sites = sites_.size();
  ++statistics_.patched;
  return true;
}

void PatchedStores::remove(Addr address) {
  auto it = sites_.find(address.value);
  if (it == sites_.end()) return;
  breakpoints_.take_back(address, PatchKind::watch_store);
  misses_[address.value] = 0;
  sites_.erase(it);
  statistics_.sites = sites_.size();
}

void PatchedStores::remove_between(Addr low, Addr high) {
  std::vector<uint64_t> found;
  for (auto it = sites_.begin(); it != sites_.end() && it->first < high.value; ++it)
    if (it->second.high > low.value) found.push_back(it->first);
  for (uint64_t each : found) remove(Addr{each});
}

Result<void> PatchedStores::remove_all() {
  remove_between(Addr{0}, Addr{~uint64_t{0}});
  misses_.clear();
  page_misses_.clear();
  while (!pages_.empty()) FRIDAY_TRY_VOID(give_back(pages_.begin()->first));
  return {};
}

uint64_t PatchedStores::next_of(const Instruction& store) const {
  auto it = sites_.find(store.address);
  return it != sites_.end() && store.next() < it->second.high ? it->second.next : store.next();
}

std::pair<uint64_t, uint64_t> PatchedStores::bounds() const {
  if (sites_.empty()) return {0, 0};
  return {sites_.begin()->first, sites_.rbegin()->second.high};
}

// ---- Pages

bool PatchedStores::wants(Addr store, uint64_t page) {
  auto site = sites_.find(store.value);
  if (failed_ || site == sites_.end() || pages_.contains(page) || pages_.size() >= most_pages) return false;
  uint32_t& count = page_misses_[page];
  if (count == never || (++count < threshold_ && !site->second.known)) return false;
  count = never;
  return true;
}

const std::pair<std::string, uint64_t>* PatchedStores::mapped_at(uint64_t page) const {
  auto it = pages_.find(page);
  return it == pages_.end() ? nullptr : &it->second.was;
}

Result<void> PatchedStores::give_second(uint64_t page, uint32_t closed_protection, const Mapping& was) {
  FRIDAY_TRY_VOID(prepare());
  PageBytes bytes;
  FRIDAY_TRY_VOID(node_.read_raw(Addr{page}, bytes));
  const bool again = !free_slots_.empty();
  const uint32_t slot = again ? free_slots_.back() : next_slot_;
  if (slot >= most_pages) return {};
  FRIDAY_TRY_VOID(node_.write_raw(Addr{slot_address(slot)}, bytes));
  constexpr uint64_t there = MREMAP_MAYMOVE | MREMAP_FIXED;
  FRIDAY_TRY_VOID(call(SYS_mremap, {page, page_size, page_size, there, aside_address(slot)}));
  // mremap(2) with an old size of 0 makes a second mapping of shared memory.
  auto doubled = call(SYS_mremap, {slot_address(slot), 0, page_size, there, page});
  if (doubled) doubled = call(SYS_mprotect, {page, page_size, closed_protection});
  if (!doubled) {
    FRIDAY_TRY_VOID(call(SYS_mremap, {aside_address(slot), page_size, page_size, there, page}));
    return std::unexpected(doubled.error());
  }
  if (again) free_slots_.pop_back();
  else ++next_slot_;
  pages_[page] = {slot, {was.path, was.offset + (page - was.low)}};
  statistics_.pages = pages_.size();
  return {};
}

Result<void> PatchedStores::set_watched(uint64_t page, const std::vector<std::pair<uint32_t, uint32_t>>& ranges) {
  auto it = pages_.find(page);
  if (it == pages_.end()) return {};
  const uint64_t number = entry_of(page);
  const Addr place{store_area + number * sizeof(StoreTableEntry)};
  uint64_t holder = 0;
  FRIDAY_TRY_VOID(node_.read_raw(place, std::as_writable_bytes(std::span(&holder, 1))));
  // another page uses the entry, so stores to this page fault
  if (holder != page && pages_.contains(holder)) return {};
  StoreTableEntry entry;
  entry.page = page;
  entry.writable = slot_address(it->second.slot);
  for (auto [low, high] : ranges)
    for (uint32_t byte = low; byte < high; ++byte) entry.watched[byte / 8] |= static_cast<uint8_t>(1 << byte % 8);
  return node_.write_raw(place, std::as_bytes(std::span(&entry, 1)));
}

Result<void> PatchedStores::give_back(uint64_t page) {
  auto it = pages_.find(page);
  if (it == pages_.end()) return {};
  const uint32_t slot = it->second.slot;
  const uint64_t number = entry_of(page);
  const Addr place{store_area + number * sizeof(StoreTableEntry)};
  uint64_t holder = 0;
  FRIDAY_TRY_VOID(node_.read_raw(place, std::as_writable_bytes(std::span(&holder, 1))));
  if (holder == page) {
    const uint64_t none = no_page(number);
    FRIDAY_TRY_VOID(node_.write_raw(place, std::as_bytes(std::span(&none, 1))));
  }
  PageBytes bytes;
  FRIDAY_TRY_VOID(node_.read_raw(Addr{slot_address(slot)}, bytes));
  FRIDAY_TRY_VOID(call(SYS_mremap, {aside_address(slot), page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, page}));
  pages_.erase(it);  // first, because the node writes to second mappings as long as they are registered
  FRIDAY_TRY_VOID(node_.write_raw(Addr{page}, bytes));
  page_misses_.erase(page);
  free_slots_.push_back(slot);
  statistics_.pages = pages_.size();
  return {};
}

uint64_t PatchedStores::writable(uint64_t address) const {
  auto it = pages_.find(page_of(address));
  return it == pages_.end() ? address : slot_address(it->second.slot) + address % page_size;
}

// ---- Fork

Result<PatchedStores::Snapshot> PatchedStores::snapshot() {
  Snapshot pages;
  for (const auto& [page, second] : pages_) {
    auto bytes = std::make_unique<PageBytes>();
    FRIDAY_TRY_VOID(node_.read_raw(Addr{slot_address(second.slot)}, *bytes));
    pages.emplace_back(page, std::move(bytes));
  }
  return pages;
}

Result<void> PatchedStores::copy_from(const PatchedStores& parent, const Snapshot& pages) {
  sites_ = parent.sites_;
  remove_between(Addr{0}, Addr{~uint64_t{0}});
  misses_.clear();
  if (!parent.prepared_) return {};
  for (const auto& [page, bytes] : pages) {
    const uint32_t slot = parent.pages_.at(page).slot;
    FRIDAY_TRY_VOID(call(SYS_mremap, {aside_address(slot), page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, page}));
    FRIDAY_TRY_VOID(node_.write_raw(Addr{page}, *bytes));
  }
  // The table and second mappings belong to the parent. This node gets its own when they are needed.
  FRIDAY_TRY_VOID(call(SYS_munmap, {store_area, store_area_size}));
  return {};
}

}  // namespace friday
