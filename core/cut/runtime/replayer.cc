// Replays inside functions from a log. The records are consumed in their order, each by the thread that it belongs to:
// whoever has the turn runs, all others wait. A thread runs on its recorded stack while it is inside, and on a stack of
// its own while the replayer stands in for the outside: it applies the stores, makes the entries, and gives the result
// of the call that was left. Nothing depends on time, on process numbers or on the order in which threads are started.
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "core/cut/runtime/log_reader.h"
#include "core/cut/runtime/replay_memory.h"
#include "core/cut/runtime/runtime.h"

// Called at each crossing, for breakpoints and for the time of a group. `sequence` counts the crossings from 1; `time`
// is CLOCK_MONOTONIC in nanoseconds when it was recorded.
extern "C" __attribute__((noinline, visibility("hidden"))) void friday_cut_crossing(uint64_t sequence, uint64_t time) {
  asm volatile("" : : "r"(sequence), "r"(time) : "memory");
}

namespace friday::cut {
namespace {

constexpr uint64_t kOwnStackBytes = 256 << 10;

struct Replayed {
  uint32_t number = 0;
  bool started = false;
  uint64_t highest = 0;          // address of its recorded stack
  uint64_t own_stack = 0;        // where the replayer goes on
  const char* result = nullptr;  // of the call that came back last
};

LogReader log_reader;
Replayed replayed_threads[kMostThreads + 1];
uint32_t turn = 1;  // the number of the thread that runs
uint64_t sequence = 0;
uint32_t quiet_calls = 0;  // of the record that was read last, which the program has not made yet
uint32_t quiet_hash = 0, quiet_wanted = 0;
__thread Replayed* me __attribute__((tls_model("initial-exec")));

[[noreturn]] void diverge(const char* function, const char* file, uint32_t line, const char* did, const char* what,
                          const char* found) {
  const LogPlace at = log_reader.place();
  give_up(
      3,
      "friday: the replay diverged at crossing %llu (block %llu of the log, byte %llu) in %s (%s:%u):\n  the program "
      "%s %s\n  the log has %s",
      static_cast<unsigned long long>(sequence), static_cast<unsigned long long>(at.block),
      static_cast<unsigned long long>(at.byte), function, file, line, did, what, found);
}

const char* name_of(uint8_t first) {
  if ((first & 7) != 0) return "a value that was read outside";
  switch (static_cast<RecordKind>(first >> 3)) {
    case RecordKind::thread:
    case RecordKind::new_thread: return "another thread's turn";
    case RecordKind::entry: return "a call of a function that is inside";
    case RecordKind::entry_end: return "the return of a function to the outside";
    case RecordKind::quiet:
    case RecordKind::returned:
    case RecordKind::call: return "a call of another function that is outside, or one elsewhere";
    case RecordKind::call_end: return "the return of a function that is outside";
    case RecordKind::made: return "memory that was allocated";
    case RecordKind::end: return "the end of the program";
    case RecordKind::stopped: return "the end of the recording";
    default: return "a store by the outside";
  }
}

[[noreturn]] void diverge_at(const Site& site, const char* did, const char* found) {
  diverge(site.function, site.file, site.line, did, site.what, found);
}

// The log has nothing more. A process that was killed or crashed inside has no record of its end: then the inside goes
// on by itself to where it crashed.
[[noreturn]] void end_of_log(const Site* wanted) {
  if (log_reader.state() == LogState::open) _exit(0);
  if (wanted) diverge_at(*wanted, "comes to", "nothing more");
  _exit(0);
}

// No record is due before all calls of the last one are made.
void has_record(const Site& site, const char* did) {
  if (quiet_calls > 0) diverge_at(site, did, "another call of a function that is outside");
  if (!log_reader.more()) end_of_log(&site);
}

void make_quiet_call(const Site& site, uint32_t arguments) {
  if (quiet_calls == 0) {
    log_reader.take_byte();
    quiet_calls = log_reader.take_value<uint32_t>();
    quiet_wanted = log_reader.take_value<uint32_t>();
    quiet_hash = 0;
    if (quiet_calls == 0) log_reader.damaged("a record of no calls");
  }
  if (site.bytes != 0) diverge_at(site, "calls", "a call of a function without a result");
  quiet_hash = hash_of_quiet(quiet_hash, number_of(&site), arguments);
  if (--quiet_calls == 0 && quiet_hash != quiet_wanted)
    diverge_at(site, "in the last calls of functions without a result, up to that of", "other functions or arguments");
}

void check_call(const Site& site, const Site* recorded) {
  if (recorded == &site) return;
  char text[512];
  snprintf(text, sizeof text, "a call of %s in %s (%s:%u)", recorded->what, recorded->function, recorded->file,
           recorded->line);
  diverge_at(site, "calls", text);
}

void cross(uint64_t time) { friday_cut_crossing(++sequence, time); }

void* run_thread(void* argument);

void give_turn(uint32_t to) {
  if (to == 0 || to > kMostThreads) log_reader.damaged("a thread that cannot be");
  Replayed& next = replayed_threads[to];
  if (&next == me) return;
  __atomic_store_n(&turn, to, __ATOMIC_RELEASE);
  if (!next.started) {
    next.started = true;
    next.number = to;
    pthread_attr_t about;
    pthread_t thread;
    pthread_attr_init(&about);
    pthread_attr_setstacksize(&about, kOwnStackBytes);
    if (const int error = pthread_create(&thread, &about, run_thread, &next))
      give_up(2, "friday: cannot start a thread for the replay: %s", strerror(error));
  } else {
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 0x7fffffff);
  }
  for (uint32_t now; (now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) != me->number;)
    syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, nullptr);
}

void apply_store(RecordKind kind) {
  const auto address = log_reader.take_value<uint64_t>();
  const uint64_t count = log_reader.take_varint();
  void* const to = reinterpret_cast<void*>(address);
  const bool there = is_present(address, count);
  if (kind == RecordKind::store) {
    const char* const bytes = log_reader.take(count);
    if (there) memcpy(to, bytes, count);
  } else if (kind == RecordKind::fill) {
    const uint8_t value = log_reader.take_value<uint8_t>();
    if (there) memset(to, value, count);
  }
}

void apply_moved() {
  const auto from = log_reader.take_value<uint64_t>(), to = log_reader.take_value<uint64_t>();
  const uint64_t kept = log_reader.take_varint();
  log_reader.take_varint();
  if (kept && from != to && is_present(from, kept) && is_present(to, kept))
    memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), kept);
}

void end_entry(const Entry& entry, const char* result) {
  if (quiet_calls > 0)
    diverge(entry.function, entry.file, entry.line, "returns from", entry.function,
            "another call of a function outside");
  if (!log_reader.more()) end_of_log(nullptr);
  const uint8_t first = log_reader.peek();
  const auto differs = [&](const char* did, const char* found) {
    diverge(entry.function, entry.file, entry.line, did, entry.function, found);
  };
  if (first != kind_byte(RecordKind::entry_end)) differs("returns from", name_of(first));
  log_reader.take_byte();
  if (log_reader.take_value<uint32_t>() != static_cast<uint32_t>(hash_bytes(result, entry.result_bytes)))
    differs("returns another value from", "that of the recording");
  const uint64_t time = log_reader.take_time();
  if (log_reader.checked() && log_reader.take_value<uint64_t>() != hash_of_variables())
    differs("left other values in variables that are inside, at the return from", "the recording's hash of them");
  cross(time);
}

void make_entry() {
  const Entry* const entry = entry_of(log_reader.take_varint());
  if (!entry) log_reader.damaged("a function that is not in the program");
  const uint64_t time = log_reader.take_time();
  const uint64_t stack = me->highest - log_reader.take_varint();
  if (stack % 16 != 0 || !is_present(stack - 4096, 4096)) log_reader.damaged("a stack pointer outside of its stack");
  if (entry->argument_bytes > kMostResult || entry->result_bytes > kMostResult)
    log_reader.damaged("arguments that are too long");
  alignas(16) char arguments[kMostResult], result[kMostResult];
  memcpy(arguments, log_reader.take(entry->argument_bytes), entry->argument_bytes);
  memset(result, 0, entry->result_bytes);
  cross(time);
  const uint64_t before = me->own_stack;
  friday_cut_outside_is_not_replayed(entry->invoke, arguments, result, stack, &me->own_stack);
  me->own_stack = before;
  end_entry(*entry, result);
}

void begin_thread(bool is_new) {
  const uint64_t number = log_reader.take_varint();
  if (number == 0 || number > kMostThreads) log_reader.damaged("a thread that cannot be");
  if (is_new) {
    log_reader.take_value<uint64_t>();
    replayed_threads[number].highest = log_reader.take_value<uint64_t>();
  }
  give_turn(static_cast<uint32_t>(number));
}

[[noreturn]] void end_stopped() {
  const uint64_t length = log_reader.take_varint();
  const char* const text = log_reader.take(length);
  give_up(2, "friday: the recording was given up here, so the replay ends: %.*s", static_cast<int>(length), text);
}

// Stands in for the outside until the call at `site` comes back; null: for ever.
void serve(const Site* site) {
  for (;;) {
    if (!log_reader.more()) end_of_log(nullptr);
    const uint8_t first = log_reader.peek();
    const auto kind = (first & 7) != 0 ? RecordKind{} : static_cast<RecordKind>(first >> 3);
    if (kind == RecordKind::call_end && site) {
      log_reader.take_byte();
      if (site_of(log_reader.take_varint()) != site)
        diverge_at(*site, "waits for the return of", "the return of another function");
      const uint64_t time = log_reader.take_time();
      me->result = log_reader.take(site->bytes);
      return cross(time);
    }
    switch (kind) {
      case RecordKind::thread:
      case RecordKind::new_thread: log_reader.take_byte(), begin_thread(kind == RecordKind::new_thread); break;
      case RecordKind::entry: log_reader.take_byte(), make_entry(); break;
      case RecordKind::store:
      case RecordKind::fill:
      case RecordKind::allocated: log_reader.take_byte(), apply_store(kind); break;
      case RecordKind::reallocated: log_reader.take_byte(), apply_moved(); break;
      case RecordKind::end: _exit(0);
      case RecordKind::stopped: log_reader.take_byte(), end_stopped();
      default:
        if (site) diverge_at(*site, "waits for the return of", name_of(first));
        diverge("the outside", "no file", 0, "waits for", "the next call of a function that is inside", name_of(first));
    }
  }
}

void serve_for_ever(void*) { serve(nullptr); }

void* run_thread(void* argument) {
  me = static_cast<Replayed*>(argument);
  serve(nullptr);
  return nullptr;
}

void end_as_recorded(const Site& site) {
  for (const char* each : {"abort", "__assert_fail", "__stack_chk_fail", "raise"}) {
    if (strcmp(site.what, each) != 0) continue;
    signal(SIGABRT, SIG_DFL);
    kill(getpid(), SIGABRT);
  }
}

}  // namespace

void replay(const char* path) {
  log_reader.open(path, program_fingerprint());
  map_recorded_memory(log_reader);
  take_outside_away();
  void* const stack = mmap(nullptr, 4 * kOwnStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) give_up(2, "friday: no memory for the replay: %s", strerror(errno));
  me = &replayed_threads[1];
  me->number = 1;
  me->started = true;
  friday_cut_on_own_stack(serve_for_ever, nullptr, reinterpret_cast<uint64_t>(stack) + 4 * kOwnStackBytes);
  _exit(0);
}

bool replay_is_over() { return quiet_calls == 0 && !log_reader.more(); }

uint64_t replay_read(const Site* site, ReadCode code) {
  has_record(*site, "reads");
  const uint8_t first = log_reader.peek();
  if (first != read_byte(code, number_of(site))) diverge_at(*site, "reads", name_of(first));
  log_reader.take_byte();
  switch (code) {
    case ReadCode::one: return log_reader.take_value<uint8_t>();
    case ReadCode::two: return log_reader.take_value<uint16_t>();
    case ReadCode::four: return log_reader.take_value<uint32_t>();
    default: return log_reader.take_value<uint64_t>();
  }
}

void replay_read_bytes(const Site* site, void* to, uint64_t count) {
  do {
    has_record(*site, "reads");
    const uint8_t first = log_reader.peek();
    if (first != read_byte(ReadCode::many, number_of(site))) diverge_at(*site, "reads", name_of(first));
    log_reader.take_byte();
    const uint64_t part = log_reader.take_varint();
    if (part != (count < kMostRecordBytes ? count : kMostRecordBytes))
      diverge_at(*site, "reads another number of bytes of", "a value that was read outside");
    const char* const bytes = log_reader.take(part);
    if (to) memcpy(to, bytes, part), to = static_cast<char*>(to) + part;
    count -= part;
  } while (count > 0);
}

void replay_result(const Site* site, void* result, uint32_t bytes) {
  if (bytes != site->bytes) diverge_at(*site, "takes another number of bytes from", "those of its result");
  memcpy(result, me->result, bytes);
}

void* replay_made(const Site* site) {
  has_record(*site, "allocates memory with");
  const uint8_t first = log_reader.peek();
  if (first != kind_byte(RecordKind::made)) diverge_at(*site, "allocates memory with", name_of(first));
  log_reader.take_byte();
  const auto address = log_reader.take_value<uint64_t>();
  log_reader.take_varint();
  return reinterpret_cast<void*>(address);
}

}  // namespace friday::cut

using namespace friday::cut;

extern "C" uint64_t friday_cut_own_stack() { return me->own_stack; }

extern "C" void friday_cut_leave_replayed(const Site* site, const void* arguments, uint32_t bytes) {
  const auto hash = static_cast<uint32_t>(hash_bytes(arguments, bytes));
  if (quiet_calls > 0) return make_quiet_call(*site, hash);
  if (!log_reader.more()) end_as_recorded(*site), end_of_log(site);
  const uint8_t first = log_reader.peek();
  if (first == kind_byte(RecordKind::quiet)) return make_quiet_call(*site, hash);
  const bool is_short = first == kind_byte(RecordKind::returned);
  if (!is_short && first != kind_byte(RecordKind::call)) diverge_at(*site, "calls", name_of(first));
  log_reader.take_byte();
  check_call(*site, site_of(log_reader.take_varint()));
  const uint64_t time = log_reader.take_time();
  if (log_reader.take_value<uint32_t>() != hash)
    diverge_at(*site, "passes other arguments to", "a call with those of the recording");
  if (is_short) me->result = log_reader.take(site->bytes);
  cross(time);
  if (is_short) return;
  if (!log_reader.more()) end_as_recorded(*site);
  serve(site);
}
