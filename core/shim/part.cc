// The recording of a running process goes on in a new trace, a part. It begins with a start image of the process as it
// is then, so the traces before it may be thrown away. The collector asks for one (FileHeader::wanted), and the thread
// that has the token begins it at the entry of a call.
//
// All other threads are in calls at that moment, with their release events written, or wait for their first turn. Their
// registers at the call are in their CallFrames. What only the kernel knows of them, the vector registers and the base
// of %fs, they tell themselves: each is interrupted by a poke. In the new trace the releases of their calls are written
// once more, and at replay each thread enters the shim again with its call (friday_resume).
#include <asm/prctl.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/personality.h>
#include <linux/signal.h>
#include <linux/time.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/signal_frame.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint32_t kMostThreads = 1024;         // of a process that is alive, for which a part is begun
constexpr long kLongestWait = 50'000'000;       // ns for which the threads may take to answer
constexpr long kPokeAgain = 1'000'000;          // ns after which a thread that does not stand still is poked again
constexpr long kLookAgain = 1'000'000;          // ns from one look at what prevents a part to the next
constexpr long kTryAgain = 1'000'000'000;       // ns from an attempt, which interrupts all threads, to the next
constexpr uint64_t kLookForOthers = 5'000'000;  // ns after which a sleeping process looks whether all are called
constexpr long kAskAgain = 1'000'000'000;       // ns after which room for an image that has not come is asked for again
constexpr uint64_t kLookForRoom = 30'000'000;   // ns after which a process that makes no calls looks for this room
constexpr uint64_t kTellAfter = 10'000'000'000;  // ns of attempts after which the user is told what prevents a part

enum : uint32_t { kUntold, kTelling, kTold };
// What a thread has told of itself.
struct Told {
  uint32_t number;
  uint32_t done;  // kUntold, ...
  uint64_t fs_base;
  alignas(64) uint8_t state[kMostState];
};
struct Table {
  uint32_t count;
  uint32_t answers;  // futex
  Told of[kMostThreads];
  CutReply cut;  // while a part begins together with those of other processes: what they share
};
// In memory that no image contains. It stays mapped, because a thread may answer when nobody waits for that any more.
Table* const table = (Table*)kWorkspaceAddress;
bool has_table;

uint32_t first_thread;  // the one that has begun the part
uint64_t tried, began_trying;
long pause;  // ns from `tried` until the next attempt
bool told_user;
bool asked_for_all;  // the collector knows that the process may share memory

bool is_of_extended_state(const uint8_t* fpstate) {
  return ((const SoftwareBytes*)(fpstate + kSoftwareAt))->magic == kMagic;
}

// Whether the thread waits in a call that can be entered once more: everything that it does to other processes or to
// the program's memory is still to come.
bool waits_in_call(const ThreadArea* area) {
  const CallInfo& info = call_info(area->call_number);
  return area->call_logged && area->frame && area->frame->rax == area->call_number &&
         (info.rule == kEmulated || (info.rule == kSpecial && special_is_plain(area->frame))) &&
         !(info.flags & (kOut | kOutgoing | kCopies));
}

bool waits_for_first_turn(const ThreadArea* area) { return area->frame && !area->sequence && !area->call_logged; }

constexpr char kNotAll[] = "the processes that share memory with it did not all stand still at one time";
constexpr char kBorrowed[] = "a child made by vfork runs in its memory";

// Why no part of the process can begin at the moment, whatever its threads do; null: one can.
const char* obstacle_of_process(const CallFrame* frame, const ThreadArea* area) {
  constexpr long kWhich = 0xffffffff;
  if (area->borrowed) return kBorrowed;
  if (frame->previous) return "a signal handler has interrupted a call in it and makes a call of its own";
  if (aio_under_way()) return "it has asynchronous input or output under way";
  if (ever_held) return "Friday has had to hold a signal back for it";
  if (native(sys::personality, kWhich) & READ_IMPLIES_EXEC) return "it runs with READ_IMPLIES_EXEC (personality(2))";
  uint32_t alive = 0;
  for (uint32_t n = 0; n < control.area_count; n++) {
    if (!area_at(n)->alive) continue;
    if (++alive > kMostThreads) return "it has too many threads";
    if (area_at(n)->borrowed) return kBorrowed;
  }
  return nullptr;
}

// Why no part can begin at the moment because of what a thread does; null: one can.
const char* obstacle_of_threads(const ThreadArea* area) {
  for (uint32_t n = 0; n < control.area_count; n++) {
    const ThreadArea* other = area_at(n);
    if (!other->alive) continue;
    if (signals_pending(other)) return "a signal is about to be delivered";
    if (other == area) continue;
    if (on_standby && !standby_stands(other) && !waits_in_call(other)) return "a thread does not stand still";
    if (other->yield_kind) return "a thread yields";
    if (!waits_in_call(other) && !waits_for_first_turn(other))
      return "a thread is in a call that sends or has begun to work";
  }
  return nullptr;
}

// Has all other threads store in the table what only the kernel knows of them; on standby they stand still from then
// on. False: a thread has not answered in time.
bool ask_threads(const ThreadArea* area) {
  if (!has_table) {
    const long place = native(sys::mmap, table, sizeof *table, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
    if (place != (long)table) return false;
    limits_count(sizeof *table);
    has_table = true;
  }
  uint32_t count = 0;
  table->answers = 0;
  for (uint32_t n = 0; n < control.area_count; n++) {
    const ThreadArea* other = area_at(n);
    if (other->alive && other != area) table->of[count].number = other->number, table->of[count++].done = kUntold;
  }
  __atomic_store_n(&table->count, count, __ATOMIC_RELEASE);
  const uint32_t pid = (uint32_t)native(sys::getpid);
  const auto poke = [&] {
    for (uint32_t i = 0; i < count; i++)
      if (__atomic_load_n(&table->of[i].done, __ATOMIC_ACQUIRE) == kUntold)
        spin_poke(pid, area_of(table->of[i].number)->kernel_tid, 0);
  };
  if (on_standby) standby_halt();
  poke();
  const uint64_t since = ticks_now();
  for (;;) {
    const uint32_t seen = __atomic_load_n(&table->answers, __ATOMIC_ACQUIRE);
    uint32_t done = 0;
    for (uint32_t i = 0; i < count; i++) done += __atomic_load_n(&table->of[i].done, __ATOMIC_ACQUIRE) == kTold;
    if (done == count) return true;
    if (elapsed(since, kLongestWait)) return false;
    const long timeout[2] = {0, on_standby ? kPokeAgain : kLongestWait};
    const long waited = native(sys::futex, &table->answers, FUTEX_WAIT_PRIVATE, seen, timeout, 0, 0);
    if (waited == -ETIMEDOUT && on_standby) poke();
  }
}

void tell_own_state(Told* own) {
  memset(own->state, 0, sizeof own->state);
  friday_xsave(own->state, state_mask());
  native(sys::arch_prctl, ARCH_GET_FS, &own->fs_base);
}

// Notes the files that are mapped now, as is done at the start of a process. Their code is patched already.
void note_modules() {
  file_note_count = 0;
  MapLine map;
  // A file has several mappings, one behind the other; the collector is asked once about them, as the program waits.
  ModuleReply* reply = nullptr;
  uint64_t device = 0, inode = 0;  // of the file that was asked about last
  for (const char* p = read_maps(); (p = parse_map_line(p, &map));) {
    if (!map.inode || is_of_recorder(map) || part_maps_itself(map)) continue;
    if (map.device != device || map.inode != inode) {
      device = map.device, inode = map.inode;
      if (!collector_module({-1, map.path, map.inode, false, false}, &reply)) reply = nullptr;
    }
    if (!reply) continue;
    PatchedModule done;
    for (uint64_t i = 0; i < control.patch_count; i++) {
      const Patch& patch = ((const Patch*)control.patches)[i];
      done.patched += patch.kind != kSiteLoop && patch.start >= map.low && patch.start < map.high;
    }
    module_note(*reply, {map.low, map.high, map.offset, map.protection, map.path}, map.device, map.inode, done);
  }
}

void write_thread(const ThreadArea* area, const Told& told) {
  ImageThreadRecord* record =
      (ImageThreadRecord*)record_begin(kImageThread, sizeof(ImageThreadRecord) + sizeof told.state);
  if (!trace_alive()) return;
  record->number = area->number;
  record->tid = area->tid;
  record->fs_base = told.fs_base;
  record->bytes = sizeof told.state;
  memcpy(record + 1, told.state, sizeof told.state);
  record_commit(record);
}

// Writes the release of the call that the thread is in once more. Its hash is computed anew, since what the call reads
// may have changed after the call was entered.
void release_again(ThreadArea* other) {
  const CallInfo& info = call_info(other->call_number);
  EventWriter writer(kRelease, other, (uint16_t)other->call_number, arguments_of(other->frame), info.arity);
  writer.commit(0, input_hash(info, other->frame), other->call_ticks, other->call_ticks);
}

void write_threads(const ThreadArea* area, const Told& own) {
  write_thread(area, own);
  for (uint32_t i = 0; i < table->count; i++) write_thread(area_of(table->of[i].number), table->of[i]);
}

// The number behind a word in /proc/self/status (proc(5)), which is in KiB, in bytes.
uint64_t status_bytes(const char* text, const char* word) {
  const size_t length = length_of(word);
  for (const char* p = text; *p; p++) {
    if ((p != text && p[-1] != '\n') || memcmp(p, word, length) != 0) continue;
    uint64_t value = 0;
    for (p += length; *p == ' ' || *p == '\t'; p++) {}
    for (; *p >= '0' && *p <= '9'; p++) value = value * 10 + (uint64_t)(*p - '0');
    return value << 10;
  }
  return 0;
}

// An upper bound of the image's size: the pages that are the process's own, and the mapped files of which the recording
// has no copy.
uint64_t image_bound() {
  constexpr uint64_t kSlack = 4u << 20, kEachThread = 512 << 10;  // what the kernel counts is not quite exact
  static char text[4096 + 1];
  const int fd = (int)native(sys::open, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
  const long got = native(sys::read, fd, text, sizeof text - 1);
  native(sys::close, fd);
  if (got <= 0) return 0;
  text[got] = 0;
  uint64_t bytes = status_bytes(text, "RssAnon:") + status_bytes(text, "VmSwap:");
  bytes += kSlack + live_threads * kEachThread;
  MapLine map;
  for (const char* p = read_maps(); (p = parse_map_line(p, &map));) {
    // The contents of what is shared go behind the image.
    if (is_of_recorder(map) || (map.shared && map.inode && map.protection & PROT_WRITE)) continue;
    bytes += 2 * sizeof(ImageMapRecord);
    const FileNote* note = map.inode ? file_note(map) : nullptr;
    if (map.inode && !(note && !all_zero((const uint64_t*)note->file, 2))) bytes += map.high - map.low;
  }
  return page_up(bytes + bytes / 64);
}

uint64_t room_asked_for, room_asked_at;  // for the next image: bytes, and ticks; 0: for none
uint32_t look_every_ms;
int32_t look_timer = -1;  // the kernel's id

// Sets the timer: it expires after `first` nanoseconds, and then every look_every_ms.
void look_in(uint64_t first) {
  const uint64_t each[2] = {look_every_ms / 1000, look_every_ms % 1000 * 1'000'000ull};
  const uint64_t when[4] = {each[0], each[1], first / 1'000'000'000, first % 1'000'000'000};
  native(sys::timer_settime, look_timer, 0, when, 0);
}

// The collector takes tens of milliseconds to make room for a large image. The process asks for it ahead and goes on
// meanwhile. False: the room is not ready.
bool room_is_ready() {
  const uint64_t there = __atomic_load_n(&trace_header()->image_room, __ATOMIC_ACQUIRE);
  if (there < room_asked_for && !elapsed(room_asked_at, kAskAgain)) return false;
  const uint64_t needed = image_bound();
  if (room_asked_for && there >= needed) return true;
  room_asked_for = page_up(needed + needed / 8);  // the process may get more memory until the part begins
  room_asked_at = ticks_now();
  collector_image_room(room_asked_for);
  if (look_timer >= 0) look_in(kLookForRoom);
  return false;
}

bool copies_differ;  // a copy of the process lacks some of its memory
int writer;          // the process that writes an image; 0: there is none

// Copies the process, and has the copy write the image. Returns a descriptor that is readable when that is over; -1: it
// could not be copied.
int have_copy_write(const ThreadArea* area, const Told& own) {
  int pipe[2];
  if (failed(native(sys::pipe2, pipe, O_CLOEXEC))) return -1;
  uint64_t mask = 0;
  const uint64_t everything = kAllButDispatch;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, &mask, 8);
  const long pid = native(sys::clone, 0, 0, 0, 0, 0);  // it reports its end to nobody by a signal
  if (pid == 0) {
    constexpr int kLowest = 19;
    if (pipe[1] > 0) native(sys::close_range, 0, pipe[1] - 1, 0);
    native(sys::close_range, pipe[1] + 1, ~0u, 0);
    native(sys::setsid);  // what is sent to the process's group is not for this one
    native(sys::setpriority, 0, 0, kLowest);
    trace_write_image();
    image_write();
    write_threads(area, own);
    native(sys::exit_group, trace_image_done() ? 0 : 1);
  }
  native(sys::rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
  native(sys::close, pipe[1]);
  if (failed(pid)) {
    native(sys::close, pipe[0]);
    return -1;
  }
  writer = (int)pid;
  return pipe[0];
}

}  // namespace

void part_note_thread(ThreadArea* area, uint64_t extended_state) {
  // A thread that has just been created still has its creator's %gs.
  if (!has_table || (uint32_t)native(sys::gettid) != area->kernel_tid) return;
  if (on_standby && !standby_stands(area) && !area->call_logged) return;
  const uint32_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < count; i++) {
    Told& own = table->of[i];
    uint32_t untold = kUntold;  // a poke may interrupt this function and have it called again
    if (own.number != area->number ||
        !__atomic_compare_exchange_n(&own.done, &untold, kTelling, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    tell_own_state(&own);
    const uint8_t* state = (const uint8_t*)extended_state;
    if (state && is_of_extended_state(state)) store_state(own.state, state, state_mask(), false);
    __atomic_store_n(&own.done, kTold, __ATOMIC_RELEASE);
    __atomic_fetch_add(&table->answers, 1, __ATOMIC_SEQ_CST);
    native(sys::futex, &table->answers, FUTEX_WAKE_PRIVATE, 1);
    return;
  }
}

static void tell_obstacle(const char* why, long pause_ns) {
  pause = pause_ns;
  tried = ticks_now();
  if (!began_trying) began_trying = tried;
  if (told_user || !elapsed(began_trying, kTellAfter)) return;
  told_user = true;
  collector_notice(on_standby ? "its recording cannot begin: " : "its recording cannot be cut off at the front: ", why);
}

// Only a timer of the process's own wakes it up safely: a signal from the collector could reach a program that it is
// just about to execute, which has no handler and would die of it. The kernel removes timers and their signals first.
void part_look_again() {
  look_timer = -1;
  room_asked_for = 0;
  asked_for_all = false;
  if (!look_every_ms) return;
  struct {
    uint64_t value;
    int32_t signal, notify;
    int32_t rest[12];
  } event = {kLookValue, kPokeSignal, SIGEV_SIGNAL, {}};
  int32_t timer = 0;
  if (failed(native(sys::timer_create, CLOCK_MONOTONIC, &event, &timer)))
    return;  // then a part begins only when the process wakes up by itself
  look_timer = timer;
  look_in(look_every_ms * 1'000'000ull);
}

void part_look_every(uint32_t milliseconds) {
  look_every_ms = milliseconds;
  part_look_again();
}

void part_look_no_more() {
  if (look_timer >= 0) native(sys::timer_delete, look_timer);
  look_timer = -1;
}

static bool is_to_stand_by() {
  return trace_header()->wanted == kNothing || trace_header()->wanted == kNothingTogether;
}

static uint64_t begun_with;  // how many events the trace had when its current part began

// Whether the process shall begin another part. A forked child is replayed as a copy of its parent until it has an
// image of its own, so until then the parent's part cannot be dropped. Processes that share memory begin parts
// together, even if only one of them has recorded something new.
static bool has_news() {
  const FileHeader& header = *trace_header();
  return on_standby || is_to_stand_by() || group_member() || header.wanted == kPartInAnyCase ||
         header.features & kFeatureForkChild || header.events != begun_with;
}

bool part_is_due(uint32_t poked) {
  constexpr uint32_t kBoth = kPokedToLook | kMayBeginPart;
  return (poked & kBoth) == kBoth && control.mode == kModeRecord && part_wanted() && has_news();
}

void part_copies_differ() { copies_differ = true; }

void part_reap() {
  constexpr int kNoHang = 1, kClone = (int)0x80000000;  // WNOHANG, __WCLONE
  if (writer && native(sys::wait4, writer, 0, kNoHang | kClone, 0) != 0) writer = 0;
}

// Describes the process for its image. The calling thread becomes the first thread of the image: a replay begins with
// it, in friday_resume.
static void describe_image(const CallFrame* frame, const ThreadArea* area, Told* own) {
  tell_own_state(own);
  image_renew();
  image_registers.fs_base = own->fs_base;
  image_registers.gs_base = (uint64_t)area;
  image_registers.rip = (uint64_t)friday_resume;
  image_registers.rsp = (uint64_t)frame & ~15ull;
  first_thread = area->number;
}

// Gives the process another trace, with `room` bytes for an image. Returns null, or why that is not possible.
static const char* enter_trace(uint64_t room, PartFor what) {
  int fd = -1;
  if (!collector_part(room, what, &fd)) return "there is no room for another trace";
  const uint32_t pid = trace_header()->pid;
  const bool there = trace_continue(fd, room, what == PartFor::standby);
  native(sys::close, fd);
  if (!there) return "there are no addresses for another trace";
  for (uint32_t n = 0; n < control.area_count; n++) area_at(n)->sequence = 0;
  trace_header()->pid = pid;
  trace_header()->running = kComputing;
  tried = began_trying = room_asked_for = 0;
  asked_for_all = false;
  return nullptr;
}

// From here on a schedule is kept, which needs no image. Returns null, or why that is not possible.
static const char* begin_schedule() {
  if (const char* why = enter_trace(0, PartFor::schedule)) return why;
  channels_anew();
  schedule_begins();
  standby_begins();
  shape_begins();
  clock_calibrate();
  collector_parted(-1);
  return nullptr;
}

// From here on the process is on standby, unrecorded, until a part is wanted again. Returns null, or why that is not
// possible.
static const char* begin_standby() {
  shape_stands_by();
  if (const char* why = enter_trace(0, PartFor::standby)) return why;
  schedule_begins();
  if (group_member()) shared_on_standby = true;
  group_leave();
  standby_begins();
  collector_parted(-1);
  return nullptr;
}

bool part_maps_itself(const MapLine& map) { return has_table && shared_before(map, table->cut); }

bool part_pauses() { return tried && !elapsed(tried, pause); }

bool part_is_called() {
  const uint32_t wanted = trace_header()->wanted;
  return __builtin_expect(wanted >= kPartTogether, 0) && group_member() && !on_standby && !part_pauses();
}

// Whether the collector has called the processes that share memory with this one to begin their parts together. If it
// has not, asks it to.
static bool all_are_called() {
  if (trace_header()->wanted >= kPartTogether) return true;
  if (!asked_for_all) collector_send(kShares, 0, 0, nullptr);
  asked_for_all = true;
  if (look_timer >= 0) look_in(kLookForOthers);
  return false;
}

// Whether the process is already recorded, or on standby, as FileHeader::wanted asks for.
static bool is_as_wanted() {
  if (is_to_stand_by()) return on_standby && !keeps_schedule;
  return trace_header()->wanted == kOnlySchedule ? keeps_schedule || !on_standby : !has_news();
}

// What can be found out before the other threads are interrupted.
struct Prepared {
  const char* obstacle;  // null: none
  bool copies;           // a copy of the process writes the image
};
static Prepared prepare(const CallFrame* frame, const ThreadArea* area) {
  const char* why = obstacle_of_process(frame, area);
  if (!why && !on_standby && !is_to_stand_by()) why = obstacle_of_threads(area);
  if (why || is_to_stand_by()) return {why, false};
  part_reap();
  const bool copies = !writer && !copies_differ && native(sys::close_range, ~0u, ~0u, 0) == 0;
  return {copies && !room_is_ready() ? "there is no room for its image yet" : nullptr, copies};
}

// From here on the process is recorded in a new trace, which begins with its image: a part. Returns null, or why that
// is not possible.
static const char* enter_part(const CallFrame* frame, const ThreadArea* area, bool copies) {
  static Told own;
  // Computed anew: on standby the threads have run until just now, and the process may have got more memory.
  const uint64_t room = copies ? image_bound() : 0;
  if (const char* why = enter_trace(room, PartFor::recording)) return why;
  if (on_standby) channels_anew();
  else channels_again();
  schedule_begins();
  standby_ends();
  shape_begins();
  describe_image(frame, area, &own);
  clock_calibrate();
  note_modules();
  const int image_fd = room ? have_copy_write(area, own) : -1;
  collector_parted(image_fd);
  if (image_fd >= 0) native(sys::close, image_fd);
  if (image_fd < 0) {
    if (room) trace_leave_image_out();
    image_write();
    write_threads(area, own);
  }
  return nullptr;
}

static void release_others() {
  for (uint32_t i = 0; i < table->count; i++) {
    ThreadArea* other = area_of(table->of[i].number);
    if (other->call_logged) release_again(other);
  }
  begun_with = trace_header()->events;
}

void part_begin(CallFrame* frame, ThreadArea* area) {
  const bool schedule = trace_header()->wanted == kOnlySchedule;
  const bool together = !schedule && (on_standby ? shared_on_standby : group_member() != 0);
  if (is_as_wanted()) {
    trace_header()->wanted = kNoPart;
    return;
  }
  if (part_pauses()) return;
  const Prepared now = schedule ? Prepared{nullptr, false} : prepare(frame, area);
  if (now.obstacle) return tell_obstacle(now.obstacle, kLookAgain);
  if (together && !all_are_called())
    return tell_obstacle("not all processes that share memory with it could be stopped yet", kLookAgain);
  if (together && !on_standby) return;  // part_together() begins it, at a call for which the token can be lent
  if (is_to_stand_by()) {
    if (const char* why = begin_standby()) tell_obstacle(why, kTryAgain);
    return;
  }
  const char* why = nullptr;
  long pause_ns = kTryAgain;
  if (!ask_threads(area)) why = "a thread does not answer";
  else if (on_standby && (why = obstacle_of_threads(area))) pause_ns = kLookAgain;
  else if (together && !collector_halted(&table->cut)) why = kNotAll, pause_ns = kLookAgain;
  if (!why) why = schedule ? begin_schedule() : enter_part(frame, area, now.copies);
  if (!why && !schedule && control.mode == kModeRecord) {  // otherwise there was no room for the image
    if (together) shared_record_before(area, table->cut);
    release_others();
  }
  if (has_table) table->cut.count = 0;
  standby_go_on();
  if (why) tell_obstacle(why, pause_ns);
}

PartTogether part_together(CallFrame* frame, ThreadArea* area, uint64_t hash) {
  const Prepared now = prepare(frame, area);
  const char* why = now.obstacle;
  if (!why && !ask_threads(area)) why = "a thread does not answer";
  if (why) return tell_obstacle(why, kLookAgain), PartTogether::failed;
  area->call_number = (uint32_t)frame->rax;
  area->call_hash = hash;
  group_pauses(area);
  const bool off = is_to_stand_by();
  const bool all = collector_halted(&table->cut);
  const bool kept = group_kept();
  if (!kept && !area->call_logged) log_release(area);
  if (all) why = off ? begin_standby() : enter_part(frame, area, now.copies);
  else why = kNotAll;
  if (!why) area->call_logged = 0;
  if (!why && !off) {
    group_goes_on(area, kept);
    if (control.mode == kModeRecord) {  // otherwise there was no room for the image
      shared_record_before(area, table->cut);
      release_others();
    }
  }
  table->cut.count = 0;
  if (!why) return PartTogether::begun;
  if (!kept) group_enter(area, nullptr);
  tell_obstacle(why, kLookAgain);
  return kept ? PartTogether::failed : PartTogether::failed_after_release;
}

extern "C" void friday_resume_thread() {
  ThreadArea* area = me();
  CallFrame* frame = area->frame;
  thread_arm(area);
  if (area->number == first_thread) {
    for (int signal = 1; signal <= 64; signal++)
      if (kForcedSignals & bit(signal) || synchronous(signal)) install_for(signal);
    for (uint32_t n = 0; n < control.area_count; n++) {
      ThreadArea* other = area_at(n);
      if (other->alive) other->go = 0, loops_let(other, 0);
      else other->in_use = 0;  // that thread was about to end, and does not exist here
    }
    find_site(frame);
    trap(kTrapStarted, 0);
    group_is_left();
    replay_start();
    shared_replay_before(frame, area);
    replay_hand_over();
  }
  if (area->number != first_thread && waits_for_first_turn(area)) friday_thread_main(area);
  area->frame = frame->previous;
}

}  // namespace friday::shim
