// The stores of a node that faulted often on watched pages without touching anything watched: each is sent to code of
// its own (store_patch.h), and the pages they store to get a second mapping that can be written. A store that misses
// all watched bytes then costs some nanoseconds; one that may not miss faults as before.
//
// A page's second mapping shares its memory, so the page itself is replaced by shared memory of the process's own; what
// was mapped there (a part of a file, anonymous memory) is moved aside and comes back, with the current bytes, when the
// page is given back. That happens before the program changes its mapping, before a fork lets parent and child go on,
// and when nothing on the page is watched any more.
//
// Owned by the WatchSet of the node, used by it alone, on the tracing thread with the node stopped.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/error.h"
#include "core/stop/breakpoints.h"
#include "core/stop/code_map.h"
#include "core/stop/node_control.h"
#include "core/stop/store_patch.h"

namespace friday {

// Where all that a node needs for it is mapped, far from everything else; NodeControl::mappings() leaves it out.
constexpr uint64_t store_area = 0x190000000000, store_area_size = 0x30000000;

struct PatchedStoreStatistics {
  uint64_t sites = 0;    // in force
  uint64_t patched = 0;  // times a store was patched
  uint64_t refused = 0;  // hot stores that cannot be patched
  uint64_t pages = 0;    // with a second mapping
};

// How often stores faulted in vain, by file and offset. Nodes that run the same program share it: what is hot in all of
// them together is patched in each, and who comes to such a store later need not find out again.
class HotStores {
 public:
  // Once more; how often by now.
  uint32_t count(const std::string& path, uint64_t offset) { return ++by_path_[path][offset]; }

 private:
  std::unordered_map<std::string, std::unordered_map<uint64_t, uint32_t>> by_path_;
};

class PatchedStores {
 public:
  using PageBytes = std::array<std::byte, 4096>;
  using Snapshot = std::vector<std::pair<uint64_t, std::unique_ptr<PageBytes>>>;

  PatchedStores(NodeControl& node, Breakpoints& breakpoints);

  // How often a site, or a patched site on a page without a second mapping, must fault in vain before it is worth a
  // patch.
  void set_threshold(uint32_t misses) { threshold_ = misses; }
  // From now on misses are counted together with those of the others that share it.
  void share(std::shared_ptr<HotStores> hot) { hot_ = std::move(hot); }
  // Off: nothing is patched, and what was is as it was. The program's code is then as in its file, but for breakpoints.
  Result<void> enable(bool on);

  // Whether misses of this store are of interest; it is neither patched nor known not to be patchable.
  bool counts(Addr store) const;
  // The store faulted and touched nothing watched; `code` is the mapping that it stands in. True when that happened
  // often enough: then patch() follows.
  bool missed(const Instruction& store, const Mapping& code);
  // False when this one cannot be patched; it is not asked for again.
  bool patch(const Instruction& store, const Mapping& code);
  // Whether the page shall have a second mapping now; then give_second() follows.
  bool wants(Addr store, uint64_t page);
  // `was`: the page's mapping as the program knows it.
  Result<void> give_second(uint64_t page, uint32_t closed_protection, const Mapping& was);
  // Which bytes of a page with a second mapping are watched: ranges [first, second) of offsets.
  Result<void> set_watched(uint64_t page, const std::vector<std::pair<uint32_t, uint32_t>>& ranges);
  Result<void> give_back(uint64_t page);
  bool has_second(uint64_t page) const { return pages_.contains(page); }
  // Path and offset of what the program has mapped at a page with a second mapping.
  const std::pair<std::string, uint64_t>* mapped_at(uint64_t page) const;
  // Where the bytes at `address` can be written by anybody: there, or in the second mapping.
  uint64_t writable(uint64_t address) const;

  // Where a thread goes on that executed the store at `store`: the program's next instruction, or what stands for it.
  uint64_t next_of(const Instruction& store) const;

  void remove(Addr site);
  void remove_between(Addr low, Addr high);
  Result<void> remove_all();  // sites and pages
  // Bounds of the patched code, empty when there is none.
  std::pair<uint64_t, uint64_t> bounds() const;

  // The node is about to become two: what its shared pages hold.
  Result<Snapshot> snapshot();
  // This node was forked from `parent`: the pages become its own, with what they held then, and no store is patched.
  Result<void> copy_from(const PatchedStores& parent, const Snapshot& pages);

  const PatchedStoreStatistics& statistics() const { return statistics_; }
  bool empty() const { return sites_.empty() && pages_.empty(); }

 private:
  struct Site {
    uint64_t high = 0, patch = 0;
    uint64_t next = 0;   // in the patch: behind the store
    bool known = false;  // others found out that it is hot
  };
  struct Second {
    uint32_t slot = 0;
    std::pair<std::string, uint64_t> was;
  };

  bool install(const Instruction& store, const Mapping& mapping);
  bool take_window(const Instruction& store, const Mapping& mapping, std::vector<Instruction>& window);
  Result<void> prepare();
  Result<int64_t> call(long number, std::initializer_list<uint64_t> arguments);
  uint64_t entry_of(uint64_t page) const;
  uint64_t slot_address(uint32_t slot) const;
  uint64_t aside_address(uint32_t slot) const;

  NodeControl& node_;
  Breakpoints& breakpoints_;
  std::shared_ptr<HotStores> hot_ = std::make_shared<HotStores>();
  uint32_t threshold_ = 16;
  std::map<uint64_t, Site> sites_;                 // by address of the store
  std::unordered_map<uint64_t, uint32_t> misses_;  // of stores; ~0: never to be patched
  std::unordered_map<uint64_t, uint32_t> page_misses_;
  std::unordered_map<uint64_t, Second> pages_;
  std::vector<uint32_t> free_slots_;
  uint32_t next_slot_ = 0;
  bool enabled_ = true, prepared_ = false, failed_ = false;
  std::map<std::string, std::shared_ptr<const CodeMap>> code_;
  std::map<uint64_t, bool> has_table_;  // data pages near code that know the table
  PatchedStoreStatistics statistics_;
};

}  // namespace friday
