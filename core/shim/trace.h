// What goes into the trace: its events and their parts, the clock, the channels that calls move bytes through, Linux
// AIO, and the optional state hash.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- trace.cc: the log, written or read
struct EventWriter {
  format::EventRecord* event;
  // Starts an event of the calling order; arguments are copied from the frame.
  EventWriter(format::RecordType type, ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count);
  void part(format::PartKind kind, const void* data, size_t size, uint64_t address = 0);
  // Reserves a part of `size` bytes to be filled by the caller.
  void* part_space(format::PartKind kind, size_t size, uint64_t address = 0);
  void memory(const void* address, size_t size) {
    if (address && size) part(format::kMemory, address, size, (uint64_t)address);
  }
  void commit(long result, uint64_t hash, uint64_t entry, uint64_t exit);
  void commit_clock(const uint64_t* words, uint64_t now);  // kFlagClock

 private:
  void finish(uint64_t now);
};
void record_native(ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count, long result,
                   uint64_t entry, uint64_t hash = 0);     // without parts
void* record_begin(format::RecordType type, size_t size);  // not an event
void record_commit(void* record);
bool trace_attach(int fd);  // maps the window and starts writing
void trace_detach();        // the window is free again
bool trace_alive();         // false once there was no room
void trace_end(format::EndReason reason, int detail, const char* text);
void end_at_call(const CallFrame* frame);  // one that is not handled: trace_end, with what it was asked to do
uint64_t kernel_ticks();                   // when the time-stamp counter is not the clock
inline constexpr long kTurnNs = 1000000;   // a holder that others wait for hands over at its next call after this long
bool elapsed(uint64_t since, long ns);     // `since` in ticks
inline bool turn_lasted(uint64_t since) { return elapsed(since, kTurnNs); }
void clock_calibrate();
extern uint32_t clock_kind;
inline uint64_t ticks_now() {
  if (clock_kind != format::kClockTsc) return kernel_ticks();
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}
inline format::FileHeader* trace_header() { return (format::FileHeader*)format::kWindowAddress; }

// ---- channels.cc
struct Transfer;
void channel_opened(EventWriter& writer, int fd);  // emits a ChannelRecord soon, notes it on the event
void channel_forget(int fd);
void channel_duplicate(int from, int to);
void channel_changed(int fd);  // bound or connected
void channel_prepare(int fd);  // writes its ChannelRecord if it is new or has changed
struct Moved {
  format::Direction direction;
  uint64_t length;
  uint64_t hash = 0;
  uint16_t flags = 0;        // TransferFlag
  bool seen = true;          // false: the bytes never were in the program's memory, so that only their number is known
  uint32_t peer_length = 0;  // 0: the call does not name the other side
  const void* peer = nullptr;
  uint32_t message = 0;
};
void channel_transfer(EventWriter& writer, int fd, const Moved& moved);
bool channel_is_datagram(int fd);
bool channel_sends_header(int fd);  // an IPv4 header stands in front of what is sent through it
uint64_t channel_number(int fd);    // 0: none
uint64_t channel_hash(int fd);      // seed of the next outgoing transfer

// ---- aio.cc
bool aio_under_way();
// Around io_submit(2): what it asks for, of which requests the kernel took `taken`, and the channels of those.
void aio_note_submitted(const uint64_t* arguments);
void aio_forget_refused(const uint64_t* arguments, long taken);
void aio_prepare_channels(const uint64_t* arguments, long taken);
void aio_write_keys(EventWriter& writer, uint64_t list, uint64_t count, long result);
void aio_write_events(EventWriter& writer, const void* events,
                      long count);  // of io_getevents(2), and what the requests have moved

// ---- state.cc: the optional state hash
extern uint32_t state_every;
void state_prepare();                                       // in the start, once the program's files are mapped
void state_note(const CallFrame* frame, ThreadArea* area);  // recording: the thread is about to make a call
void state_synced(const CallFrame* frame,
                  ThreadArea* area);  // the call is msync(2); whether or not there are hashes otherwise
// With the event that ends the process: hashes of all its writable memory, a part each.
void state_final(EventWriter& writer, const CallFrame* frame, const ThreadArea* area);
// StateDifference, with the hashes that differ.
unsigned state_differs(const format::StatePart* state, const CallFrame* frame, uint64_t* want, uint64_t* got);

}  // namespace friday::shim
