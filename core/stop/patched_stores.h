// Patches of stores that often fault on watched pages without touching anything watched. Each such store is redirected
// to code of its own (store_patch.h), and the pages that it writes get a second, writable mapping. A store that misses
// all watched bytes then costs a few nanoseconds; a store that may touch one faults as before.
//
// Both mappings of a page share memory, so the page is first replaced by shared memory that only this process has. Its
// former mapping (part of a file, or anonymous memory) is moved aside, and it comes back with the current contents when
// the page is given back: before the program changes its mapping, before a fork lets parent and child continue, and
// when nothing on the page is watched any more.
//
// Owned and used only by the node's WatchSet, on the tracing thread with the node stopped.
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

// The address range for everything that this needs in a node, far from other mappings. NodeControl::mappings() hides
// it.
constexpr uint64_t store_area = 0x190000000000, store_area_size = 0x30000000;

struct PatchedStoreStatistics {
  uint64_t sites = 0;    // sites patched now
  uint64_t patched = 0;  // how often a store was patched
  uint64_t refused = 0;  // frequently faulting stores that cannot be patched
  uint64_t pages = 0;    // pages with a second mapping
};

// Counts unnecessary faults of each store, by file and offset. Nodes that run the same program share one object: a
// store that is hot in all of them together is patched in each, and a node that meets the store later need not count
// again.
class HotStores {
 public:
  // Counts one more fault and returns the new count.
  uint32_t count(const std::string& path, uint64_t offset) { return ++by_path_[path][offset]; }

 private:
  std::unordered_map<std::string, std::unordered_map<uint64_t, uint32_t>> by_path_;
};

class PatchedStores {
 public:
  using PageBytes = std::array<std::byte, 4096>;
  using Snapshot = std::vector<std::pair<uint64_t, std::unique_ptr<PageBytes>>>;

  PatchedStores(NodeControl& node, Breakpoints& breakpoints);

  // How often a store, or a patched store on a page without a second mapping, must fault unnecessarily before it is
  // patched, or the page is mapped twice.
  void set_threshold(uint32_t misses) { threshold_ = misses; }
  // From now on, counts misses together with the other nodes that share `hot`.
  void share(std::shared_ptr<HotStores> hot) { hot_ = std::move(hot); }
  // With `on` false, nothing is patched and existing patches are removed: the program's code is then as in its file,
  // apart from breakpoints.
  Result<void> enable(bool on);

  // Whether misses of this store should be reported to missed(): false if it is patched or is known not to be
  // patchable.
  bool counts(Addr store) const;
  // Call when the store faulted without touching anything watched. `code` is the mapping that contains the instruction.
  // Returns true if that has happened often enough; then call patch().
  bool missed(const Instruction& store, const Mapping& code);
  // Returns false if this store cannot be patched; it is then never proposed again.
  bool patch(const Instruction& store, const Mapping& code);
  // Whether patch() would change nothing but code: what it needs besides is there already.
  bool has_room_for(const Instruction& store);
  // Whether the page should get a second mapping now; then call give_second().
  bool wants(Addr store, uint64_t page);
  // `was` is the page's mapping as the program sees it.
  Result<void> give_second(uint64_t page, uint32_t closed_protection, const Mapping& was);
  // Sets which bytes of a page with a second mapping are watched, as ranges [first, second) of offsets.
  Result<void> set_watched(uint64_t page, const std::vector<std::pair<uint32_t, uint32_t>>& ranges);
  Result<void> give_back(uint64_t page);
  bool has_second(uint64_t page) const { return pages_.contains(page); }
  // Path and offset of what the program has mapped at a page with a second mapping; nullptr for other pages.
  const std::pair<std::string, uint64_t>* mapped_at(uint64_t page) const;
  // An address at which the byte at `address` can be written regardless of watches: the same, or in the second mapping.
  uint64_t writable(uint64_t address) const;

  // The instruction and those that a jump in its place displaces. Empty unless the code equals that of its file and no
  // jump can enter the displaced instructions.
  std::vector<Instruction> window_of(const Instruction& first, const Mapping& mapping);

  // Where a thread continues after the store at `store`: the program's next instruction, or its copy in the patch.
  uint64_t next_of(const Instruction& store) const;

  void remove(Addr site);
  void remove_between(Addr low, Addr high);
  Result<void> remove_all();  // both sites and pages
  // Address range that contains all patched code; empty if there is none.
  std::pair<uint64_t, uint64_t> bounds() const;

  // Call before the node forks: the contents of its doubly mapped pages.
  Result<Snapshot> snapshot();
  // Call for a node that was forked from `parent`: turns the pages into memory of its own, with the contents of
  // `pages`. No store is patched afterwards.
  Result<void> copy_from(const PatchedStores& parent, const Snapshot& pages);

  const PatchedStoreStatistics& statistics() const { return statistics_; }
  bool empty() const { return sites_.empty() && pages_.empty(); }

 private:
  struct Site {
    uint64_t high = 0, patch = 0;
    uint64_t next = 0;   // address in the patch just after the store
    bool known = false;  // other nodes have already found it to be hot
  };
  struct Second {
    uint32_t slot = 0;
    std::pair<std::string, uint64_t> was;
  };

  bool install(const Instruction& store, const Mapping& mapping);
  bool take_window(const Instruction& first, const Mapping& mapping, std::vector<Instruction>& window);
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
  std::unordered_map<uint64_t, uint32_t> misses_;  // by address of the store; ~0: never patch it
  std::unordered_map<uint64_t, uint32_t> page_misses_;
  std::unordered_map<uint64_t, Second> pages_;
  std::vector<uint32_t> free_slots_;
  uint32_t next_slot_ = 0;
  bool enabled_ = true, prepared_ = false, failed_ = false;
  std::map<std::string, std::shared_ptr<const CodeMap>> code_;
  std::map<uint64_t, bool> has_table_;  // data pages near code that already hold the table's address
  PatchedStoreStatistics statistics_;
};

}  // namespace friday
