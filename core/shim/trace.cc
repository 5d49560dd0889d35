// Writes the trace. A record is built in place in the mapped trace file, and becomes part of the trace when
// FileHeader::committed moves behind it. The collector is asked for room in the file before it is needed, and pages are
// populated ahead (madvise(2), MADV_POPULATE_WRITE), so that a store does not fault.
#include <asm/poll.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/time.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/process.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {
namespace {

using namespace format;

constexpr uint64_t kStep = 1 << 20;        // pages are populated in steps of about this many bytes,
constexpr uint64_t kFirstStep = 16 << 10;  // and at first in smaller ones, because a forked child may end at once
// Up to this offset the kernel is told to populate no more than it is asked for (MADV_RANDOM).
constexpr uint64_t kReadAhead = 128 << 10;
constexpr uint64_t kAskBelow = 4u << 20;  // room is asked for when less than this is left

FileHeader* const header = (FileHeader*)kWindowAddress;
char* cursor;  // where the next record begins
// The part of the file that is mapped: the page of its header, and [mapped_low, mapped_high). It is kept small because
// the program may have a limit of its address space.
uint64_t mapped_low, mapped_high;
// File offsets: pages in [left_from, populated) are populated, and a record that ends at or before `ready` needs no
// check of any of these variables.
uint64_t populated, left_from, ready;
uint64_t asked;       // FileHeader::allocated when room was last asked for
uint64_t image_end;   // not 0: this is the copy of the process that writes an image, up to this offset
uint64_t next_clock;  // ticks at which a ClockRecord is due

uint64_t offset_of(const void* p) { return (uint64_t)p - kWindowAddress; }

void wait_for_room(uint64_t end) {
  for (;;) {
    uint32_t seen = __atomic_load_n(&header->room, __ATOMIC_ACQUIRE);
    uint64_t room = __atomic_load_n(&header->allocated, __ATOMIC_ACQUIRE);
    if (room >= end || header->closed) return;
    if (asked != room) {  // the new room is not enough for this record
      asked = room;
      collector_send(kRoom, 0, 0, nullptr);
    }
    long timeout[2] = {1, 0};
    native(sys::futex, &header->room, FUTEX_WAIT, seen, timeout, 0, 0);
    // If the collector was killed, its end of the socket is closed.
    struct {
      int fd;
      short events, revents;
    } poll_socket = {own_socket(), POLLRDHUP, 0};
    if (native(sys::poll, &poll_socket, 1, 0) == 1 && (poll_socket.revents & (POLLRDHUP | POLLHUP | POLLERR)))
      header->closed = kEndCollectorGone;
  }
}

// Makes the mapping longer, up to file offset `end`, and unmaps what is far behind the cursor. This needs no descriptor
// of the file, which the process may not be able to open.
bool map_up_to(uint64_t end) {
  constexpr uint64_t kBehind = 16u << 20;
  if (end <= mapped_high) return true;
  const uint64_t done = offset_of(cursor) & ~(kStep - 1);
  if (done > mapped_low + 2 * kBehind) {
    const uint64_t low = done - kBehind;
    const uint64_t from = mapped_low ? mapped_low : kHeaderSize;
    native(sys::munmap, kWindowAddress + from, low - from);
    limits_count(-(long)(low - from));
    mapped_low = low;
  }
  const long place = (long)(kWindowAddress + mapped_low), more = (long)(end - mapped_high);
  limits_count(more);
  if (native(sys::mremap, place, mapped_high - mapped_low, end - mapped_low, 0) != place) {
    limits_count(-more);
    return false;
  }
  mapped_high = end;
  return true;
}

// Populates pages up to `end` and somewhat further, but not beyond `limit`, and drops those far behind.
void populate(uint64_t end, uint64_t limit) {
  const uint64_t ahead = min(end > kFirstStep ? end : kFirstStep, 2 * kStep);
  const uint64_t step = ahead < kStep ? kFirstStep : kStep;
  uint64_t target = min(limit, (end + ahead) & ~(step - 1));
  if (target < page_up(end)) target = page_up(end);
  if (populated < kReadAhead && target >= kReadAhead) native(sys::madvise, kWindowAddress, mapped_high, MADV_NORMAL);
  native(sys::madvise, kWindowAddress + populated, target - populated, MADV_POPULATE_WRITE);
  populated = target;
  constexpr uint64_t kKept = 3 * kStep;
  if (left_from < mapped_low) left_from = mapped_low;
  if (populated < left_from + kKept + kStep) return;
  native(sys::madvise, kWindowAddress + left_from, populated - kKept - left_from, MADV_DONTNEED);
  left_from = populated - kKept;
}

// Makes sure that the file has room up to `end` and that its pages are populated. False: there is no room.
__attribute__((noinline)) bool get_ready(uint64_t end) {
  if (image_end && end > image_end) return false;
  uint64_t room = __atomic_load_n(&header->allocated, __ATOMIC_ACQUIRE);
  if (end + kAskBelow > room && asked != room && !image_end) {
    asked = room;
    collector_send(kRoom, 0, 0, nullptr);
  }
  if (end > room) {
    wait_for_room(end);
    room = header->allocated;
    if (end > room) return false;
  }
  if (end > mapped_high && !map_up_to(room)) return false;
  if (end > populated) populate(end, min(room, mapped_high));
  ready = min(populated, asked == room ? room : room - min(room, kAskBelow));
  if (image_end) ready = min(ready, image_end);
  return true;
}

// The same for a record of `size` bytes at `from` and an EndRecord behind it.
inline bool reserve(const char* from, size_t size) {
  const uint64_t end = offset_of(from) + size + sizeof(EndRecord);
  return end <= ready || get_ready(end);
}

// When there is no room, the recording ends. The caller still builds its record, in this buffer, and it is dropped. So
// are all records of a process on standby.
char overflow[1 << 16];
bool dropped;  // that has happened

void no_room() {
  if (image_end) native(sys::exit_group, 1);
  EndReason reason = header->closed ? (EndReason)header->closed : kEndDiskFull;
  trace_end(reason, 0, nullptr);
  dropped = true;
  cursor = nullptr;
}

}  // namespace

uint32_t clock_kind;
long (*vdso_clock_gettime)(long, void*);
long (*vdso_gettimeofday)(void*, void*);
long (*vdso_time)(void*);

bool trace_alive() { return !dropped; }

static void kernel_time(long clock, int64_t* ns) {
  long time[2];
  native(sys::clock_gettime, clock, time);
  *ns = time[0] * 1000000000 + time[1];
}

uint64_t kernel_ticks() {
  if (control.mode == kModeReplay) return 0;  // nothing there needs the time, and the filter refuses the call
  long time[2];
  if (vdso_clock_gettime) vdso_clock_gettime(CLOCK_MONOTONIC, time);
  else native(sys::clock_gettime, CLOCK_MONOTONIC, time);
  return (uint64_t)(time[0] * 1000000000 + time[1]);
}

bool elapsed(uint64_t since, long ns) {
  return ticks_now() - since >= header->ticks_per_second / 1000 * (uint64_t)ns / 1000000;
}

// Where a record of `size` bytes is built. `scheduled`: a schedule keeps such a record, too.
static char* place_for(size_t size, bool scheduled) {
  if (__builtin_expect(on_standby, 0) && !(keeps_schedule && scheduled)) return overflow;
  if (!dropped && reserve(cursor, size)) return cursor;
  if (!dropped) no_room();
  return overflow;
}

void* record_begin(RecordType type, size_t size) {
  size = align8(size);
  char* place = place_for(size, type == kChannelRecord || type == kClockRecord);
  memset(place, 0, size < sizeof overflow ? size : sizeof overflow);
  RecordHeader* record = (RecordHeader*)place;
  record->size = (uint32_t)size;
  record->type = type;
  return place;
}

void record_commit(void* record_start) {
  RecordHeader* record = (RecordHeader*)record_start;
  if ((char*)record == overflow) return;
  record->checksum = record_checksum(record, record->size, offset_of(record));
  cursor = (char*)record + record->size;
  if (!image_end) __atomic_store_n(&header->committed, offset_of(cursor), __ATOMIC_RELEASE);
}

void clock_calibrate() {
  ClockRecord* record = (ClockRecord*)record_begin(kClockRecord, sizeof(ClockRecord));
  // Each clock is read between two readings of the time-stamp counter. Of a few attempts, the one in which these are
  // closest is kept.
  uint64_t best = ~0ull;
  for (int i = 0; i < 4; i++) {
    int64_t mono, real;
    uint64_t before = ticks_now();
    kernel_time(CLOCK_MONOTONIC, &mono);
    uint64_t after = ticks_now();
    kernel_time(CLOCK_REALTIME, &real);
    if (after - before >= best) continue;
    best = after - before;
    record->ticks = clock_kind == kClockTsc ? before + best / 2 : (uint64_t)mono;
    record->monotonic_ns = mono;
    record->realtime_ns = real;
  }
  record->event = header->events;
  next_clock = record->ticks + header->ticks_per_second;
  record_commit(record);
  part_reap();
}

// The trace of `size` bytes is mapped, and its records follow what the collector has written.
static void begin_trace(uint64_t size) {
  mapped_low = 0;
  mapped_high = size;
  clock_kind = header->clock_kind;
  cursor = (char*)kWindowAddress + header->committed;
  native(sys::madvise, kWindowAddress, mapped_high, MADV_RANDOM);
  populated = ready = asked = 0;
  left_from = kHeaderSize;
  dropped = false;
}

bool trace_attach(int fd) {
  FileStat about;
  if (failed(native(sys::fstat, fd, &about))) return false;
  limits_count(about.size);
  long mapped = native(sys::mmap, kWindowAddress, about.size, 3, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  if (mapped != (long)kWindowAddress) return false;
  begin_trace((uint64_t)about.size);
  return true;
}

static uint64_t mapped_bytes() { return mapped_high - mapped_low + (mapped_low ? kHeaderSize : 0); }

void trace_detach() {
  native(sys::munmap, kWindowAddress, kWindowSize);
  limits_count(-(long)mapped_bytes());
  mapped_low = mapped_high = 0;
}

// There is room for this record, because reserve() keeps enough for it.
static void write_end(EndReason reason, int detail, const char* text) {
  if (!cursor || header->allocated < header->committed + sizeof(EndRecord)) return;
  EndRecord* record = (EndRecord*)(kWindowAddress + header->committed);
  memset(record, 0, sizeof *record);
  record->header.size = sizeof *record;
  record->header.type = kEndRecord;
  record->event = header->events;
  record->ticks = ticks_now();
  record->reason = reason;
  record->detail = detail;
  if (text) memcpy(record->text, text, min(length_of(text), sizeof record->text - 1));
  record_commit(record);
  __atomic_store_n(&header->ended, 1, __ATOMIC_RELEASE);
}

// The new trace takes the place of the old one in one call, because threads that wait for the token read its header.
bool trace_continue(int fd, uint64_t image_bytes, int detail) {
  FileStat about;
  if (!trace_alive() || failed(native(sys::fstat, fd, &about))) return false;
  const long mapped = native(sys::mmap, 0, about.size, 3, MAP_SHARED, fd, 0);
  if (failed(mapped)) return false;
  const uint64_t before = mapped_bytes(), size = (uint64_t)about.size, high = mapped_high;
  write_end(kEndContinued, detail, nullptr);
  const long moved = native(sys::mremap, mapped, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, kWindowAddress);
  if (moved != (long)kWindowAddress) {
    native(sys::munmap, mapped, size);
    return false;
  }
  if (high > size) native(sys::munmap, kWindowAddress + size, high - size);
  limits_count((long)size - (long)before);
  begin_trace(size);
  if (image_bytes) {
    header->image_end = offset_of(cursor) + image_bytes;
    cursor += image_bytes;
    populated = left_from = header->image_end & ~4095ull;
  }
  return true;
}

void trace_end(EndReason reason, int detail, const char* text) {
  if (control.mode != kModeRecord) return;
  if (reason != kEndExit && shaping()) shape_ends();
  write_end(reason, detail, text);
  if (reason != kEndExit) {
    control.mode = kModePassThrough;
    standby_ends();
    group_leave();
  }
  collector_send(kEnding, reason, detail, text);
}

void trace_write_image() {
  image_end = header->image_end;
  cursor = (char*)kWindowAddress + kHeaderSize;
  populated = ready = 0;
  left_from = kHeaderSize;
}

bool trace_image_done() {
  constexpr uint64_t kLargest = 1u << 20;
  for (uint64_t left; (left = image_end - offset_of(cursor)) > 0;) {
    RecordHeader* filler = (RecordHeader*)cursor;
    if (left < sizeof *filler) return false;
    uint64_t size = min(left, kLargest);
    if (left - size && left - size < sizeof *filler) size -= sizeof *filler;
    *filler = {(uint32_t)size, kFiller, 0, 0, 0};
    filler->checksum = record_checksum(filler, size, offset_of(cursor));
    cursor += size;
  }
  __atomic_store_n(&header->imaged, 1, __ATOMIC_RELEASE);
  return true;
}

void trace_leave_image_out() {
  char* const here = cursor;
  trace_write_image();
  trace_image_done();
  image_end = 0;
  cursor = here;
  ready = 0;
  populated = left_from = header->image_end & ~4095ull;
}

EventWriter::EventWriter(RecordType type, ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count) {
  event =
      (EventRecord*)place_for(sizeof(EventRecord) + count * 8, keeps_schedule && schedule_keeps(type, call, arguments));
  event->header = {(uint32_t)(sizeof(EventRecord) + count * 8), type, 0, 0, area->number};
  event->index = header->events;
  event->thread_seq = area->sequence;
  event->call = call;
  event->argument_count = count & 15;
  event->part_count = 0;
  for (unsigned i = 0; i < count; i++) ((uint64_t*)(event + 1))[i] = arguments[i];
  if (area->state_due && (type == kCall || type == kRelease)) {
    part(kState, &area->state, sizeof area->state);
    event->header.flags |= kFlagState;
    area->state_due = 0;
  }
}

void* EventWriter::part_space(PartKind kind, size_t size, uint64_t address) {
  char* start = (char*)event;
  if (event->part_count == kMaxParts && start != overflow) {
    event = (EventRecord*)overflow;
    memset(event, 0, sizeof *event);
    trace_end(kEndRefused, event->call, "a call that filled more than 4000 buffers");
    dropped = true;
    cursor = nullptr;
    start = overflow;
  }
  size_t whole = sizeof(PartHeader) + align8(size);
  if (start != overflow && !reserve(start, event->header.size + whole)) {
    // The record cannot be completed. The events before it stay in the trace; this one and all later ones are lost.
    memcpy(overflow, event, min<size_t>(event->header.size, sizeof overflow / 2));
    event = (EventRecord*)overflow;
    no_room();
  }
  if ((char*)event == overflow) {
    event->header.size = sizeof(EventRecord);
    if (whole > sizeof overflow / 2) return nullptr;
  }
  PartHeader* part = (PartHeader*)((char*)event + event->header.size);
  part->kind = kind;
  part->flags = 0;
  part->size = (uint32_t)size;
  part->address = address;
  if (size & 7) ((uint64_t*)(part + 1))[size / 8] = 0;
  event->header.size += (uint32_t)whole;
  event->part_count = (event->part_count + 1) & kMaxParts;
  return part + 1;
}

void EventWriter::part(PartKind kind, const void* data, size_t size, uint64_t address) {
  void* place = part_space(kind, size, address);
  if (place) memcpy(place, data, size);
}

void EventWriter::commit(long result, uint64_t hash, uint64_t entry, uint64_t exit) {
  event->result = result;
  event->input_hash = hash;
  event->entry_ticks = entry;
  event->return_ticks = exit;
  finish(exit);
}

void EventWriter::commit_clock(const uint64_t* words, uint64_t now) {
  event->header.flags |= kFlagClock;
  event->result = 0;
  event->input_hash = words[0];
  event->entry_ticks = now;
  event->return_ticks = words[1];
  finish(now);
}

void EventWriter::finish(uint64_t now) {
  if (group_member()) robust_attach(*this);
  if ((char*)event == overflow) return;
  area_of(event->header.thread)->sequence++;
  header->events++;
  record_commit(event);
  if (now > next_clock) clock_calibrate();
}

void record_native(ThreadArea* area, uint16_t call, const uint64_t* arguments, unsigned count, long result,
                   uint64_t entry, uint64_t hash) {
  EventWriter writer(kCall, area, call, arguments, count);
  writer.event->header.flags |= kFlagNative;
  writer.commit(result, hash, entry, ticks_now());
}

}  // namespace friday::shim
