// The watched ranges of one node, by page protection: any number, any width. A page that holds a watched byte loses
// PROT_WRITE; a store to it faults, the tracer carries the store out (core/stop/emulator.h; a form it does not know is
// stepped with the page open), and the ranges that the store touched are compared with their last known bytes.
//
// On the tracing thread only, with the node stopped (node_control.h). The session does
//   arm/disarm as it likes, then flush() before the node resumes (one mprotect for each run of adjacent pages);
//   SIGSEGV of a thread at `address`: protects(address) ? on_fault(thread, address) : it is the program's own;
//   writes of its own into the node (user, gdb, replay from outside): note_write(low, size) afterwards;
//   mapping calls of the program: open_for_mapping_call(...) before and mapping_call_done(...) after the call, then
//   flush().
// A store that faults in vain again and again is patched (patched_stores.h): it then tests by itself whether it touches
// anything watched, and faults only if it may. A watch never changes what the program computes: a store to a page that
// the program itself made read-only still faults, and one that straddles into such a page is left to the processor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/breakpoints.h"
#include "core/stop/node_control.h"
#include "core/stop/patched_stores.h"
#include "core/stop/stop_points.h"

namespace friday {

struct WatchRange {
  StopPointId id{};
  uint32_t index = 0;  // number of the range in its stop point: the link of a chain, the expression of a list
  Addr low{};
  uint64_t size = 0;
  bool any_write = false;  // report writes of the same value too
  // Reads are seen by debug registers only, at most 32 bytes. They do not tell a read from a store of the same value,
  // which is reported as a read; one that changes the value is no read. What the shim reads for a system call is not
  // reported.
  WatchAccess access = WatchAccess::write;
};

// Of ranges that the replay has beside those of stop points (core/replay/shared_watches.h).
inline constexpr StopPointId kMirrorId{~0u};

struct WatchHit {
  StopPointId id{};
  uint32_t index = 0;
  Addr low{};                        // of the range
  std::vector<std::byte> old_bytes;  // of the whole range
  std::vector<std::byte> new_bytes;  // empty when the program unmapped the range
};

// What the page of an address holds, as far as protecting it is concerned.
enum class PageUse : uint8_t {
  ordinary,
  stack,         // of some thread
  thread_block,  // the TLS block or TCB of some thread
  unmapped,
};

struct FaultOutcome {
  enum class How : uint8_t {
    not_ours,  // no watch protects this page, or the program itself may not write it: deliver the signal
    emulated,  // the store was carried out; registers of the thread are set
    stepped,   // the instruction was single-stepped with its pages open
    partial,   // a rep instruction was carried out up to a page the program may not write: resume, it will fault there
  };
  How how = How::not_ours;
  Addr pc{};                   // of the storing instruction, in the program
  std::vector<WatchHit> hits;  // empty with how != not_ours: a false positive
  bool patched = false;        // code was patched: bounds() may be other ones
};

struct WatchStatistics {
  uint64_t faults = 0, emulated = 0, stepped = 0, hits = 0, protect_calls = 0;
};

class WatchSet {
 public:
  WatchSet(NodeControl& node, Breakpoints& breakpoints)
      : node_(node), breakpoints_(breakpoints), stores_(node, breakpoints) {}

  // Fails with bad_address when a byte is not mapped, unless `may_wait`: then it is undefined until the program maps
  // it. A range on a page that holds a stack or a thread block is given to the debug registers, as is one whose reads
  // are watched, and refused (unsupported) when they do not suffice, unless `allow_any_page`: then its pages are
  // protected like all others. (id, index) that is armed already is moved.
  Result<void> arm(const WatchRange& range, bool allow_any_page = false, bool may_wait = false);
  void disarm(StopPointId id);
  void disarm(StopPointId id, uint32_t index);
  void disarm_all();
  PageUse page_use(Addr address);

  // Brings the protections of the node in line with the ranges. Costs nothing when nothing changed.
  Result<void> flush();

  // Whether `address` lies on a page that a watch protects now.
  bool protects(Addr address) const;
  // A write fault at `address`. A thread that stands in a pad of a breakpoint is understood and brought out of it.
  // `patch`: the code that stores is the program's and may be patched.
  Result<FaultOutcome> on_fault(ThreadId thread, Addr address, bool patch = true);

  // `thread` stopped because of a debug register, or may have: what the store changed, or what was read by the
  // program's own code
  // (`in_program`). None when it did not.
  Result<std::optional<FaultOutcome>> on_debug_trap(ThreadId thread, bool in_program = true);

  // [low, low + size) was written by Friday itself (through NodeControl, or by the replay): the changes are returned as
  // hits, for the caller to report or to drop, and the new bytes are the known ones from here on.
  Result<std::vector<WatchHit>> note_write(Addr low, uint64_t size);

  // The program mapped, unmapped, discarded or re-protected [low, high): `protection` is what it has now, none when it
  // is unmapped. Values that changed by it are returned as hits. Ranges that were unmapped stay, and are in force again
  // when the program maps them again.
  Result<std::vector<WatchHit>> on_mapping_changed(Addr low, Addr high, std::optional<uint32_t> protection);

  // The program is about to change mappings in [low, high): all pages there have the program's own protection until
  // mapping_call_done(), so that the call does what it would do without watches (mremap(2) fails over pages of two
  // kinds).
  Result<void> open_for_mapping_call(Addr low, Addr high);
  // It has changed them: what is mapped there now is learnt, as by on_mapping_changed().
  Result<std::vector<WatchHit>> mapping_call_done(Addr low, Addr high);
  // Bounds of all watched pages, patched code and breakpoints, empty when there are none.
  std::pair<Addr, Addr> bounds() const;

  // The protection that the program gave to the page of `address`, when a watch has it; for NodeControl::mappings().
  std::optional<uint32_t> program_protection(Addr address) const;

  size_t size() const { return ranges_.size(); }
  // Another one whenever a range of a stop point was armed or disarmed.
  uint64_t version() const { return version_; }
  // Calls see(range) for the ranges of stop points.
  template <typename See>
  void each_range(See&& see) const {
    for (const auto& [slot, armed] : ranges_)
      if (armed.range.id != kMirrorId) see(armed.range);
  }
  const WatchStatistics& statistics() const { return statistics_; }
  // The known bytes of an armed range, or nullptr.
  const std::vector<std::byte>* bytes_of(StopPointId id, uint32_t index) const;

  PatchedStores& stores() { return stores_; }
  const PatchedStores& stores() const { return stores_; }

  // Takes over the state of `parent`, of which this node's memory and protections are a copy; `pages`: the parent's
  // stores().snapshot() from when the copy was made.
  Result<void> copy_from(const WatchSet& parent, const PatchedStores::Snapshot& pages);

 private:
  struct Armed {
    WatchRange range;
    std::vector<std::byte> bytes;  // last known; empty while unmapped
    bool by_processor = false;     // a debug register watches it, no page
    uint64_t high() const { return range.low.value + range.size; }
  };
  struct Page {
    std::optional<uint32_t> program;  // protection the program gave it; none while unmapped
    bool closed = false;              // PROT_WRITE is taken away now
    bool lent = false;                // a mapping call of the program is under way
    std::vector<uint32_t> slots;      // ranges on this page, by low
    uint64_t widest = 0;              // no range on this page is wider
  };
  struct Access;  // the emulator's view of the node

  // watch.cc
  Result<const Instruction*> decode_at(Addr pc);
  std::vector<uint32_t> overlapping(uint64_t low, uint64_t high) const;
  void after_miss(const Instruction& store, Addr address, FaultOutcome& outcome);
  Result<void> compare(uint64_t low, uint64_t high, bool written, std::vector<WatchHit>& hits);
  bool watches_reads() const {
    return std::ranges::any_of(debug_.slots(), [](const DebugSlot& slot) { return slot.reads; });
  }
  Result<void> look_at_slots(uint32_t seen, std::vector<WatchHit>& hits);
  void drop_reads(std::vector<WatchHit>& hits) const;
  void note_read(uint64_t low, uint64_t high, std::vector<WatchHit>& hits);
  // watch_pages.cc
  Result<void> load_layout();
  const Mapping* mapping_at(uint64_t address) const;
  Result<void> take_debug_registers(uint32_t slot, const WatchRange& range, PageUse use);
  uint64_t low_of(uint32_t slot) const;
  void link(uint32_t slot);
  void unlink(uint32_t slot);
  Result<void> protect(uint64_t low, uint64_t high, uint32_t protection);
  bool program_may_write(uint64_t page);
  std::vector<uint64_t> pages_written(const Instruction* instruction, uint64_t page,
                                      const user_regs_struct& registers) const;
  Result<std::vector<uint64_t>> step_open(ThreadId thread, const Instruction* instruction, uint64_t page,
                                          const user_regs_struct& registers);
  Result<void> update_second(uint64_t page);
  Result<void> revisit(uint32_t slot, std::vector<WatchHit>& hits);

  NodeControl& node_;
  Breakpoints& breakpoints_;
  std::unordered_map<uint32_t, Armed> ranges_;      // by slot
  std::unordered_map<uint64_t, uint32_t> slot_of_;  // (id, index) -> slot
  std::unordered_map<uint64_t, Page> pages_;
  std::unordered_set<uint64_t> dirty_;  // pages whose protection flush() must look at
  uint32_t next_slot_ = 1;
  uint64_t version_ = 0;
  bool layout_known_ = false;
  bool ran_since_ =
      false;  // the program ran since the layout was learnt, and tells only of what it does to watched pages
  std::vector<Mapping> layout_;
  std::vector<std::pair<uint64_t, ThreadId>> thread_blocks_;  // fs_base
  std::unordered_map<uint64_t, Instruction> decoded_;         // storing instructions seen, by address
  std::vector<std::byte> scratch_;
  std::vector<uint32_t> stored_;  // ranges whose reads are watched, and that the instruction looked at has changed
  DebugRegisters debug_;
  bool debug_changed_ = false;
  WatchStatistics statistics_;
  PatchedStores stores_;
};

}  // namespace friday
