#include "core/infer/solver/memory.h"

#include <algorithm>

#include <unistd.h>

namespace friday::infer {

void Memory::process_has_run() {
  process_.clear();
  start_path();
  ++code_changes_;
}

void Memory::set_original(uint64_t address, std::span<const uint8_t> bytes) {
  for (const uint8_t byte : bytes) original_[address++] = byte;
  process_has_run();
}

void Memory::put_original(uint64_t page, Bytes& bytes) const {
  const uint64_t first = page * kPageSize;
  for (auto next = original_.lower_bound(first); next != original_.end() && next->first < first + kPageSize; ++next) {
    bytes[next->first - first] = next->second;
  }
}

Memory::Bytes* Memory::process_page(uint64_t page) {
  const auto [found, is_new] = process_.try_emplace(page);
  if (is_new) {
    auto bytes = std::make_unique<Bytes>();
    if (pread(descriptor_, bytes->data(), kPageSize, static_cast<off_t>(page * kPageSize)) ==
        static_cast<ssize_t>(kPageSize)) {
      put_original(page, *bytes);
      found->second.bytes = std::move(bytes);
    }
  }
  return found->second.bytes.get();
}

bool Memory::process_byte(uint64_t address, uint8_t* byte) {
  const Bytes* bytes = process_page(address / kPageSize);
  if (bytes == nullptr) return false;
  *byte = (*bytes)[address % kPageSize];
  return true;
}

void Memory::show_model(const ShadowPage& shadows, Bytes& bytes) {
  for (uint64_t i = 0; i < kPageSize; ++i) {
    if (shadows[i] == 0) continue;
    bytes[i] = static_cast<uint8_t>(expressions_.value(expression_of(shadows[i])) >> (8 * byte_of(shadows[i])));
  }
}

Memory::Page& Memory::page_of_path(uint64_t page, const Bytes& from) {
  Page& created = path_[page];
  created.bytes = std::make_unique<Bytes>(from);
  if (const auto start = start_.find(page); start != start_.end()) {
    created.shadows = start->second;
    show_model(*created.shadows, *created.bytes);
  }
  created.code = code_pages_.contains(page);
  return created;
}

uint8_t* Memory::page_at(uint64_t page) {
  if (const Recent& recent = readable_[page % kRecent]; recent.page == page) return recent.bytes;
  Page* own = nullptr;
  if (const auto found = path_.find(page); found != path_.end()) own = &found->second;
  Bytes* from = own != nullptr ? own->bytes.get() : process_page(page);
  if (from == nullptr) return nullptr;
  if (own == nullptr && start_.contains(page)) {
    own = &page_of_path(page, *from);
    from = own->bytes.get();
  }
  if (own == nullptr || own->shadows == nullptr) readable_[page % kRecent] = {page, from->data()};
  return from->data();
}

uint8_t* Memory::page_for_writing(uint64_t page) {
  if (const Recent& recent = writable_[page % kRecent]; recent.page == page) return recent.bytes;
  auto found = path_.find(page);
  if (found == path_.end()) {
    const Bytes* from = process_page(page);
    if (from == nullptr) return nullptr;
    page_of_path(page, *from);
    forget_recent(page);
    found = path_.find(page);
  }
  Page& own = found->second;
  if (own.code) ++code_changes_;
  if (own.shadows == nullptr && !own.code) writable_[page % kRecent] = {page, own.bytes->data()};
  return own.bytes->data();
}

void Memory::forget_recent(uint64_t page) {
  if (readable_[page % kRecent].page == page) readable_[page % kRecent] = {};
  if (writable_[page % kRecent].page == page) writable_[page % kRecent] = {};
}

void Memory::forget_all_recent() {
  readable_.fill({});
  writable_.fill({});
}

void Memory::start_path() {
  const bool wrote_code = std::any_of(path_.begin(), path_.end(), [](const auto& page) { return page.second.code; });
  path_.clear();
  if (wrote_code) ++code_changes_;
  forget_all_recent();
}

void Memory::adopt() {
  for (auto& [page, own] : path_) {
    const bool any = own.shadows != nullptr &&
                     std::any_of(own.shadows->begin(), own.shadows->end(), [](Shadow s) { return s != 0; });
    if (!any) {
      if (start_.erase(page)) note_change(page);
    } else if (own.own_shadows != nullptr) {
      start_[page] = own.own_shadows;
      note_change(page);
    }
  }
  process_has_run();
}

bool Memory::read(uint64_t address, std::span<uint8_t> bytes) { return read_some(address, bytes) == bytes.size(); }

size_t Memory::read_some(uint64_t address, std::span<uint8_t> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const uint64_t here = address + done, within = here % kPageSize;
    const uint8_t* page = page_at(here / kPageSize);
    if (page == nullptr) break;
    const size_t part = std::min<size_t>(bytes.size() - done, kPageSize - within);
    std::memcpy(bytes.data() + done, page + within, part);
    done += part;
  }
  return done;
}

bool Memory::write(uint64_t address, std::span<const uint8_t> bytes) {
  if (bytes.empty()) return true;
  for (uint64_t page = address / kPageSize; page <= (address + bytes.size() - 1) / kPageSize; ++page) {
    if (page_at(page) == nullptr) return false;  // an access that faults writes nothing
  }
  for (size_t done = 0; done < bytes.size();) {
    const uint64_t here = address + done, within = here % kPageSize;
    uint8_t* page = page_for_writing(here / kPageSize);
    const size_t part = std::min<size_t>(bytes.size() - done, kPageSize - within);
    std::memcpy(page + within, bytes.data() + done, part);
    if (writable_[here / kPageSize % kRecent].page != here / kPageSize) {
      for (size_t i = 0; i < part; ++i) set_shadow(here + i, 0);
    }
    done += part;
  }
  return true;
}

Shadow Memory::shadow_at(uint64_t address) {
  if (page_at(address / kPageSize) == nullptr) return 0;
  const auto found = path_.find(address / kPageSize);
  return found == path_.end() || found->second.shadows == nullptr ? 0 : (*found->second.shadows)[address % kPageSize];
}

bool Memory::shadowed(uint64_t address, uint64_t length) {
  for (uint64_t i = 0; i < length; ++i) {
    const uint64_t here = address + i;
    if (readable_[here / kPageSize % kRecent].page == here / kPageSize) {
      i += kPageSize - here % kPageSize - 1;
    } else if (shadow_at(here) != 0) {
      return true;
    }
  }
  return false;
}

void Memory::set_shadow(uint64_t address, Shadow shadow) {
  const uint64_t page = address / kPageSize;
  const auto found = path_.find(page);
  if (found == path_.end()) return;
  Page& own = found->second;
  if (own.shadows == nullptr && shadow == 0) return;
  if (own.own_shadows == nullptr) {
    own.own_shadows =
        own.shadows != nullptr ? std::make_shared<ShadowPage>(*own.shadows) : std::make_shared<ShadowPage>();
    own.shadows = own.own_shadows;
    forget_recent(page);
  }
  (*own.own_shadows)[address % kPageSize] = shadow;
}

void Memory::mark_code(uint64_t address, uint64_t length) {
  for (uint64_t page = address / kPageSize; page <= (address + length - 1) / kPageSize; ++page) {
    if (!code_pages_.emplace(page, true).second) continue;
    if (const auto own = path_.find(page); own != path_.end()) own->second.code = true;
    forget_recent(page);
  }
}

void Memory::set_start_shadow(uint64_t address, Expr expression) {
  std::shared_ptr<ShadowPage>& page = start_[address / kPageSize];
  if (page == nullptr) page = std::make_shared<ShadowPage>();
  note_change(address / kPageSize);
  (*page)[address % kPageSize] = shadow_of(expression, 0);
}

void Memory::drop_start_shadows(uint64_t address, uint64_t length) {
  for (uint64_t here = address; here < address + length;) {
    const auto found = start_.find(here / kPageSize);
    const uint64_t end = std::min(address + length, (here / kPageSize + 1) * kPageSize);
    if (found != start_.end()) {
      note_change(found->first);
      std::fill(found->second->begin() + static_cast<long>(here % kPageSize),
                found->second->begin() + static_cast<long>(here % kPageSize + end - here), 0);
      if (std::all_of(found->second->begin(), found->second->end(), [](Shadow s) { return s == 0; }))
        start_.erase(found);
    }
    here = end;
  }
}

void Memory::for_each_start_shadow(uint64_t address, uint64_t length, const Visit& visit) const {
  for (uint64_t here = address; here < address + length; ++here) {
    const auto page = start_.find(here / kPageSize);
    if (page != start_.end())
      if (const Shadow shadow = (*page->second)[here % kPageSize]; shadow != 0) visit(here, shadow);
  }
}

std::pair<uint32_t, uint32_t> Memory::symbols_in(uint64_t page) {
  const auto [known, is_new] = symbols_.try_emplace(page, UINT32_MAX, 0);
  if (!is_new) return known->second;
  auto& [first, last] = known->second;
  for (const Shadow shadow : *start_.at(page)) {
    if (shadow == 0) continue;
    const Node& node = expressions_.node(expression_of(shadow));
    // Of what is computed, the symbols are not worth being looked for.
    first = std::min(first, node.op == Op::symbol ? static_cast<uint32_t>(node.number) : 0);
    last = std::max(last, node.op == Op::symbol ? static_cast<uint32_t>(node.number) : UINT32_MAX);
  }
  return known->second;
}

void Memory::for_each_start_shadow(const std::vector<uint32_t>& symbols, const Visit& visit) {
  std::vector<uint64_t> pages;
  for (const auto& [page, shadows] : start_) {
    const auto [first, last] = symbols_in(page);
    const auto next = std::lower_bound(symbols.begin(), symbols.end(), first);
    if (next != symbols.end() && *next <= last) pages.push_back(page);
  }
  std::sort(pages.begin(), pages.end());
  for (const uint64_t page : pages) {
    const ShadowPage& shadows = *start_.at(page);
    for (uint64_t i = 0; i < kPageSize; ++i) {
      if (shadows[i] != 0) visit(page * kPageSize + i, shadows[i]);
    }
  }
}

std::vector<Memory::Change> Memory::take_changes() {
  std::vector<Change> lost, got;
  const auto add = [](std::vector<Change>& to, uint64_t address, bool shadowed) {
    if (!to.empty() && to.back().address + to.back().length == address) ++to.back().length;
    else to.push_back({address, 1, shadowed});
  };
  for (const uint64_t page : changed_) {
    std::bitset<kPageSize> now;
    if (const auto shadows = start_.find(page); shadows != start_.end())
      for (uint64_t i = 0; i < kPageSize; ++i) now[i] = (*shadows->second)[i] != 0;
    std::bitset<kPageSize>& before = told_[page];
    for (uint64_t i = 0; i < kPageSize; ++i)
      if (now[i] != before[i]) add(now[i] ? got : lost, page * kPageSize + i, now[i]);
    if (now.any()) before = now;
    else told_.erase(page);
  }
  changed_.clear();
  lost.insert(lost.end(), got.begin(), got.end());
  return lost;
}

}  // namespace friday::infer
