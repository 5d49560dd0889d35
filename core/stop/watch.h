// The watched ranges of one node, implemented by page protection; their number and size are not limited. A page that
// contains a watched byte loses PROT_WRITE. A store to it faults; the tracer executes the store (core/stop/emulator.h;
// a form that the emulator does not know is single-stepped with the page writable) and compares the ranges that it
// touched with their last known bytes.
//
// Use only on the tracing thread with the node stopped (node_control.h). The session calls
//   arm() and disarm() at any time, then flush() before the node resumes (one mprotect for each run of adjacent pages);
//   on_fault() for a SIGSEGV at an address that protects() recognises; any other fault is the program's own;
//   note_write() after the node was written from outside (by the user, gdb or the replay);
//   open_for_mapping_call() before a mapping call of the program, mapping_call_done() and flush() after it.
//
// A store that repeatedly faults without touching anything watched is patched (patched_stores.h): the patch tests
// whether the store may touch a watched byte, and faults only then. A watch never changes what the program computes: a
// store to a page that the program itself made read-only still faults, and a store that extends into such a page is
// left to the processor.
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
  uint32_t index = 0;  // number of the range in its stop point: the link of a chain, or the expression of a list
  Addr low{};
  uint64_t size = 0;
  bool any_write = false;  // also report writes of the same value
  // Reads are detected only by debug registers, for at most 32 bytes in all. These cannot tell a read from a store of
  // the same value, which is therefore reported as a read; a store that changes the value is reported as a change only.
  // Reads by the shim on behalf of system calls are not reported.
  WatchAccess access = WatchAccess::write;
};

// Id of ranges that the replay watches for itself, in addition to those of stop points (core/replay/shared_watches.h).
inline constexpr StopPointId kMirrorId{~0u};
// Id of the range whose changes are counted on the way to a mark (core/debug/backward_marks.cc).
inline constexpr StopPointId kMarkId{~0u - 1};

struct WatchHit {
  StopPointId id{};
  uint32_t index = 0;
  Addr low{};                        // start of the range
  std::vector<std::byte> old_bytes;  // contents of the whole range
  std::vector<std::byte> new_bytes;  // empty if the program unmapped the range
  // How often the bytes have changed since the node's last event, with this change. 0: not known, as the range was
  // armed after that event, or they have not changed.
  uint64_t nth = 0;
};

// What the page of an address contains, which determines whether protecting it is sensible.
enum class PageUse : uint8_t {
  ordinary,
  stack,         // some thread's stack
  thread_block,  // some thread's TLS block or thread control block
  unmapped,
};

struct FaultOutcome {
  enum class How : uint8_t {
    not_ours,  // no watch protects this page, or the program itself may not write it: deliver the signal
    emulated,  // the store was emulated, and the registers of the thread are set
    stepped,   // the instruction was single-stepped with its pages writable
    // a rep instruction was executed up to a page that the program may not write; resume it and it will fault there
    partial,
  };
  How how = How::not_ours;
  Addr pc{};                   // address of the storing instruction in the program
  std::vector<WatchHit> hits;  // if empty and `how` is not not_ours, the fault was a false positive
  bool patched = false;        // code was patched, so bounds() may have changed
};

struct WatchStatistics {
  uint64_t faults = 0, emulated = 0, stepped = 0, hits = 0, protect_calls = 0;
};

class WatchSet {
 public:
  WatchSet(NodeControl& node, Breakpoints& breakpoints)
      : node_(node), breakpoints_(breakpoints), stores_(node, breakpoints) {}

  // Watches a range. If (id, index) is armed already, it is moved. Fails with bad_address if a byte is not mapped; with
  // `may_wait`, a watch on writes is undefined instead until the program maps the byte. Debug registers watch ranges
  // whose reads are reported and, without `allow_any_page`, ranges on pages that contain a stack or a thread block; too
  // few free registers are an error (unsupported). If the node has none, the pages are protected, and reads cannot be
  // watched.
  Result<void> arm(const WatchRange& range, bool allow_any_page = false, bool may_wait = false);
  void disarm(StopPointId id);
  void disarm(StopPointId id, uint32_t index);
  void disarm_all();
  PageUse page_use(Addr address);

  // Adjusts the page protections of the node to the ranges. Cheap if nothing has changed.
  Result<void> flush();

  // Whether `address` lies on a page that is write-protected for a watch now.
  bool protects(Addr address) const;
  // Whose code stores. A store of the program may be patched. That of a function which the debugger calls may be if
  // that changes nothing which is put back should the call fail: no mapping and no words of Friday's.
  enum class Code { program, called, shim };
  // Handles a write fault at `address`. If the thread stands in a pad of a breakpoint, it is moved out.
  Result<FaultOutcome> on_fault(ThreadId thread, Addr address, Code whose = Code::program);

  // Handles a stop of `thread` that a debug register may have caused: reports what the store changed, or what the
  // program's own code (`in_program`) read. Returns none if no debug register caused the stop.
  Result<std::optional<FaultOutcome>> on_debug_trap(ThreadId thread, bool in_program = true);

  // Call after Friday itself wrote [low, low + size), through NodeControl or in the replay. Returns the changes as
  // hits, which the caller reports or drops, and takes the new bytes as known.
  Result<std::vector<WatchHit>> note_write(Addr low, uint64_t size);

  // Call after the program mapped, unmapped, discarded or re-protected [low, high). `protection` is the new protection,
  // none if it is unmapped. Returns values that changed as hits. Unmapped ranges stay armed and take effect again when
  // the program maps their memory again.
  Result<std::vector<WatchHit>> on_mapping_changed(Addr low, Addr high, std::optional<uint32_t> protection);

  // Call before the program changes mappings in [low, high). Until mapping_call_done() all pages there have the
  // program's own protection, so that the call behaves as it would without watches (mremap(2) fails on a range with
  // mixed protections).
  Result<void> open_for_mapping_call(Addr low, Addr high);
  // Call after that: finds out what is mapped there now and proceeds like on_mapping_changed().
  Result<std::vector<WatchHit>> mapping_call_done(Addr low, Addr high);
  // Address range that contains all watched pages, patched code and breakpoints; empty if there are none.
  std::pair<Addr, Addr> bounds() const;

  // Whether changes count (WatchHit::nth). Those that a function makes which the debugger calls do not.
  void count_changes(bool on) { counts_changes_ = on; }

  // The protection that the program gave to the page of `address`, if a watch has changed it; for
  // NodeControl::mappings().
  std::optional<uint32_t> program_protection(Addr address) const;

  size_t size() const { return ranges_.size(); }
  // Whether a page of a stack, or of a thread's own data, is protected because there are no debug registers.
  bool lacks_registers() const { return lacks_registers_; }
  // Changes whenever a range of a stop point is armed or disarmed.
  uint64_t version() const { return version_; }
  // Calls see(range) for the ranges of stop points.
  template <typename See>
  void each_range(See&& see) const {
    for (const auto& [slot, armed] : ranges_)
      if (armed.range.id != kMirrorId) see(armed.range);
  }
  const WatchStatistics& statistics() const { return statistics_; }
  // The last known bytes of an armed range; nullptr if it is not armed.
  const std::vector<std::byte>* bytes_of(StopPointId id, uint32_t index) const;

  PatchedStores& stores() { return stores_; }
  const PatchedStores& stores() const { return stores_; }

  // Copies the state of `parent`, of which this node's memory and protections are a copy. `pages` is the parent's
  // stores().snapshot() from the time of the copy.
  Result<void> copy_from(const WatchSet& parent, const PatchedStores::Snapshot& pages);

 private:
  struct Armed {
    WatchRange range;
    std::vector<std::byte> bytes;  // empty while the range is unmapped
    bool by_processor = false;     // watched by a debug register instead of page protection
    uint64_t since = 0;            // the number of events that the node had completed when it was armed
    uint64_t event = 0;            // and at the last change
    uint64_t changes = 0;          // since that event
    uint64_t high() const { return range.low.value + range.size; }
  };
  struct Page {
    std::optional<uint32_t> program;  // the protection that the program gave it; none while unmapped
    bool closed = false;              // PROT_WRITE is removed now
    bool lent = false;                // a mapping call of the program is in progress
    std::vector<uint32_t> slots;      // ranges on this page, ordered by their start
    uint64_t widest = 0;              // size of the widest range on this page
  };
  struct Access;  // how the emulator accesses the node

  // watch.cc
  Result<const Instruction*> decode_at(Addr pc);
  std::vector<uint32_t> overlapping(uint64_t low, uint64_t high) const;
  void after_miss(const Instruction& store, Addr address, Code whose, FaultOutcome& outcome);
  uint64_t count_change(Armed& armed);
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
  // The program may have run since arm() has read layout_. It reports only mapping calls that affect watched pages, so
  // layout_ may be stale elsewhere. Reading layout_ for a fault that is passed over does not clear this flag.
  bool ran_since_ = true;
  std::vector<Mapping> layout_;
  std::vector<std::pair<uint64_t, ThreadId>> thread_blocks_;  // by fs_base
  std::unordered_map<uint64_t, Instruction> decoded_;         // storing instructions seen so far, by address
  std::vector<std::byte> scratch_;
  std::vector<uint32_t> stored_;  // ranges watched for reads that the current instruction has changed
  DebugRegisters debug_;
  bool debug_changed_ = false;
  bool lacks_registers_ = false;
  bool counts_changes_ = true;
  WatchStatistics statistics_;
  PatchedStores stores_;
};

}  // namespace friday
