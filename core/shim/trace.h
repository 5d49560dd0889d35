// What goes into the trace: events and their parts, the clock, the channels through which calls move bytes, Linux AIO,
// and the optional state hash. The trace belongs to the process; the thread that has the token writes to it.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- trace.cc: writing the trace
// Writes one event: constructor, parts, commit. The event is built in place at the end of the trace, so no other record
// may be begun before the commit.
struct EventWriter {
  format::EventRecord* event;
  // Begins the next event of `area`'s thread and copies `count` arguments into it.
  EventWriter(format::RecordType type, ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count);
  void part(format::PartKind kind, const void* data, size_t size, uint64_t address = 0);
  // Reserves a part of `size` bytes, which the caller must fill in. May be null, once there is no room for it.
  void* part_space(format::PartKind kind, size_t size, uint64_t address = 0);
  // Adds memory of the program that a call has written.
  void memory(const void* address, size_t size) {
    if (address && size) part(format::kMemory, address, size, (uint64_t)address);
  }
  void commit(long result, uint64_t hash, uint64_t entry, uint64_t exit);
  // Commits the reading of a clock, whose two words go into the event itself (format::kFlagClock).
  void commit_clock(const uint64_t* words, uint64_t now);

 private:
  void finish(uint64_t now);
};
// Writes an event without parts, for a call that was made.
void record_native(ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count, long result,
                   uint64_t entry, uint64_t hash = 0);
// A record that is not an event: begin, fill in, commit.
void* record_begin(format::RecordType type, size_t size);
void record_commit(void* record);
bool trace_attach(int fd);  // maps the trace and begins to write it; false: its addresses are taken
void trace_detach();        // unmaps it
// Ends this trace and goes on in the file `fd`, `image_bytes` behind its beginning; `detail` is that of the EndRecord.
// False: it cannot be mapped.
bool trace_continue(int fd, uint64_t image_bytes, int detail);
// In a copy of the process that writes the image: its records go into the room before FileHeader::image_end. At the end
// of it, trace_image_done() fills what is left.
void trace_write_image();
bool trace_image_done();
void trace_leave_image_out();  // there is no such copy: the image comes behind that room
bool trace_alive();            // false once a record had no room
// Ends the recording with an EndRecord; the program goes on unrecorded. `text` is part of a message to the user.
void trace_end(format::EndReason reason, int detail, const char* text);
// The same at a call that Friday does not handle, with the codes among its arguments.
void end_at_call(const CallFrame* frame);
uint64_t kernel_ticks();  // CLOCK_MONOTONIC, for hosts whose time-stamp counter is not the kernel's clock
// After a turn of this many nanoseconds, a holder of the token hands it to a waiter at its next call.
inline constexpr long kTurnNs = 1000000;
bool elapsed(uint64_t since, long ns);  // whether `ns` nanoseconds have passed since tick `since`
inline bool turn_lasted(uint64_t since) { return elapsed(since, kTurnNs); }
void clock_calibrate();  // writes a ClockRecord
extern uint32_t clock_kind;
inline uint64_t ticks_now() {
  if (clock_kind != format::kClockTsc) return kernel_ticks();
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}
inline format::FileHeader* trace_header() { return (format::FileHeader*)format::kWindowAddress; }

// ---- channels.cc: which channel a descriptor belongs to
inline constexpr int kMaxDescriptors = 65536;      // descriptors from this number on are not tracked
void channel_opened(EventWriter& writer, int fd);  // adds a DescriptorsPart to the event
void channel_forget(int fd);                       // the descriptor is closed, or a new one with its number is open
void channel_duplicate(int from, int to);
void channel_changed(int fd);  // the socket was bound or connected, so its channel must be described again
void channel_prepare(int fd);  // writes a ChannelRecord if the channel is new or has changed
// Bytes that a call has moved.
struct Moved {
  format::Direction direction;
  uint64_t length;
  uint64_t full_length = 0;    // of a datagram that was cut to `length`, if it is known
  uint64_t hash = 0;           // of the bytes (format::TransferPart)
  uint16_t flags = 0;          // format::TransferFlag
  bool seen = true;            // false: the bytes were never in the program's memory, so only their number is known
  uint32_t peer_length = 0;    // of the peer's address; 0: the call has none
  const void* peer = nullptr;  // a sockaddr
  uint16_t message = 0;        // which message of a call with several
};
// Calls visit(fd, with) for each descriptor of the program.
void each_descriptor(void (*visit)(int fd, int with), int with);
void channels_again();  // a new trace begins: all channels must be described there
void channels_anew();   // the first one begins: nothing is known of the channels yet
void channel_transfer(EventWriter& writer, int fd, const Moved& moved);
bool channel_is_datagram(int fd);
bool channel_sends_header(int fd);  // whether what is sent through it begins with an IPv4 header (IP_HDRINCL, raw(7))
uint64_t channel_number(int fd);    // 0: none
// Whether the descriptor is that of a socket, a pipe or a FIFO. Without the token.
bool channel_carries(int fd);
// getsockopt(2) at level SOL_SOCKET; `otherwise` if the descriptor is no socket.
uint32_t socket_option(int fd, int name, uint32_t otherwise = 0);
uint64_t channel_hash(int fd);  // the seed for the hash of the next outgoing transfer

// ---- aio.cc: Linux AIO (io_submit(2))
bool aio_under_way();  // whether requests are known that have not completed
// Before io_submit(2): remembers its requests. After it, when the kernel has taken `taken` of them: forgets the others,
// and writes the ChannelRecords of those that it has taken.
void aio_note_submitted(const uint64_t* arguments);
void aio_forget_refused(const uint64_t* arguments, long taken);
void aio_prepare_channels(const uint64_t* arguments, long taken);
// Add to the event: the keys that io_submit(2) stores into the control blocks; the results of io_getevents(2), with
// what the completed requests have read and moved.
void aio_write_keys(EventWriter& writer, uint64_t list, uint64_t count, long result);
void aio_write_events(EventWriter& writer, const void* events, long count);

// ---- state.cc: the optional state hash (format::StatePart)
extern uint32_t state_every;  // HelloReply::state_every
void state_prepare();         // at the start, once the program's files are mapped
// While recording, before the thread makes a call: hashes its state if a hash is due.
void state_note(const CallFrame* frame, ThreadArea* area);
// The same before an msync(2), for the memory that it names, whatever `state_every` is.
void state_synced(const CallFrame* frame, ThreadArea* area);
// Adds hashes of all writable memory to the event that ends the process, one part for each piece.
void state_final(EventWriter& writer, const CallFrame* frame, const ThreadArea* area);
// At replay: which of the hashes differs, as a StateDifference, with its recorded and its present value.
unsigned state_differs(const format::StatePart* state, const CallFrame* frame, uint64_t* want, uint64_t* got);

}  // namespace friday::shim
