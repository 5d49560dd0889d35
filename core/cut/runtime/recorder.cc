// What the recorded program calls (core/cut/bitcode/recording.h): in recording these functions write the log, at replay
// they ask the replayer. Inside runs one thread at a time: `lock` is held while a thread is inside, and while a store
// into the inside is made and logged, so the log has all of it in the order in which it happened.
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/cut/runtime/log_writer.h"
#include "core/cut/runtime/runtime.h"

extern "C" {
extern const char __start_friday_stubs[] __attribute__((weak, visibility("hidden")));
extern const char __stop_friday_stubs[] __attribute__((weak, visibility("hidden")));
// What pthread_atfork() calls, which itself is not in the shared C library.
int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* library);
}

namespace friday::cut {
namespace {

constexpr uint64_t kStackGap = 1024;  // bytes between the runtime's frame and the function's that is entered

struct Lock {
  uint32_t state = 0;  // 0: free, 1: held, 2: held, and somebody waits
  void take() {
    uint32_t expected = 0;
    if (__atomic_compare_exchange_n(&state, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    const int before = errno;
    while (__atomic_exchange_n(&state, 2, __ATOMIC_ACQUIRE) != 0)
      syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, 2, nullptr);
    errno = before;
  }
  bool try_take() {
    uint32_t expected = 0;
    return __atomic_compare_exchange_n(&state, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
  }
  void give() {
    if (__atomic_exchange_n(&state, 0, __ATOMIC_RELEASE) != 2) return;
    const int before = errno;
    syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1);
    errno = before;
  }
};

Lock lock;
LogWriter log_writer;
uint32_t threads = 0;          // that have a number
uint32_t thread_of_log = ~0u;  // whose the next record is

// Of the own thread.
struct Self {
  uint32_t number;                          // from 1; 0: it was never inside
  uint32_t depth;                           // entries that have not ended
  bool inside;                              // it holds the lock, and its own code is inside
  LogWriter::Mark before_call, after_call;  // around the record of the call that was left last
  uint32_t call_hash;
  uint64_t lowest, highest;
};
__thread Self self __attribute__((tls_model("initial-exec")));

void find_stack() {
  pthread_attr_t about;
  void* lowest = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &about) == 0) {
    pthread_attr_getstack(&about, &lowest, &bytes);
    pthread_attr_destroy(&about);
  }
  self.lowest = reinterpret_cast<uint64_t>(lowest);
  self.highest = self.lowest + bytes;
}

// The next records are this thread's.
void speak() {
  if (thread_of_log == self.number && self.number != 0) return;
  const bool is_new = self.number == 0;
  if (is_new) {
    self.number = ++threads;
    if (self.highest == 0) find_stack();
  }
  if (char* at = log_writer.begin(32)) {
    at = LogWriter::put_varint(LogWriter::put(at, kind_byte(is_new ? RecordKind::new_thread : RecordKind::thread)),
                               self.number);
    if (is_new) at = LogWriter::put(LogWriter::put(at, self.lowest), self.highest);
    log_writer.commit(at);
    if (is_new) log_writer.note_thread();
  }
  thread_of_log = self.number;
}

void log_entry(const Entry& entry, const void* arguments, uint64_t stack) {
  speak();
  if (stack - self.lowest >= self.highest - self.lowest)
    log_writer.stop("%s (%s:%u) is entered on a stack that is not its thread's", entry.function, entry.file,
                    entry.line);
  char* at = log_writer.begin(64 + entry.argument_bytes);
  if (!at) return;
  at = LogWriter::put_varint(LogWriter::put(at, kind_byte(RecordKind::entry)), number_of(&entry));
  at = LogWriter::put_varint(log_writer.put_time(at), self.highest - stack);
  memcpy(at, arguments, entry.argument_bytes);
  log_writer.commit(at + entry.argument_bytes);
}

void log_entry_end(const Entry& entry, const void* result) {
  char* at = log_writer.begin(64);
  if (!at) return;
  at = LogWriter::put(at, kind_byte(RecordKind::entry_end));
  at = LogWriter::put(at, static_cast<uint32_t>(hash_bytes(result, entry.result_bytes)));
  at = log_writer.put_time(at);
  if (log_writer.checked()) at = LogWriter::put(at, hash_of_variables());
  log_writer.commit(at);
}

// Zeros, as memory often is that is written first, are logged by their number only.
bool is_filled(const char* bytes, uint64_t count) { return count > 1 && memcmp(bytes, bytes + 1, count - 1) == 0; }

void log_fill(uint64_t address, uint64_t count, uint8_t value) {
  if (char* at = log_writer.begin(32)) {
    at = LogWriter::put(LogWriter::put(at, kind_byte(RecordKind::fill)), address);
    at = LogWriter::put(LogWriter::put_varint(at, count), value);
    log_writer.commit(at);
  }
}

void log_store(const void* address, uint64_t count) {
  const char* bytes = static_cast<const char*>(address);
  if (count > 16 && is_filled(bytes, count))
    return log_fill(reinterpret_cast<uint64_t>(address), count, static_cast<uint8_t>(*bytes));
  while (count > 0) {
    const uint32_t part = count < kMostRecordBytes ? static_cast<uint32_t>(count) : kMostRecordBytes;
    char* at = log_writer.begin(part + 32);
    if (!at) return;
    at = LogWriter::put(LogWriter::put(at, kind_byte(RecordKind::store)), reinterpret_cast<uint64_t>(bytes));
    at = LogWriter::put_varint(at, part);
    memcpy(at, bytes, part);
    log_writer.commit(at + part);
    bytes += part;
    count -= part;
  }
}

void log_memory(RecordKind kind, const void* address, uint64_t count) {
  if (char* at = log_writer.begin(32)) {
    at = LogWriter::put(LogWriter::put(at, kind_byte(kind)), reinterpret_cast<uint64_t>(address));
    log_writer.commit(LogWriter::put_varint(at, count));
  }
}

void log_moved(uint64_t from, const void* to, uint64_t kept, uint64_t count) {
  if (char* at = log_writer.begin(64)) {
    at = LogWriter::put(LogWriter::put(at, kind_byte(RecordKind::reallocated)), from);
    at = LogWriter::put(at, reinterpret_cast<uint64_t>(to));
    log_writer.commit(LogWriter::put_varint(LogWriter::put_varint(at, kept), count));
  }
}

// No program has memory there: an access is a crash, in recording as at replay.
bool is_never_mapped(const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address);
  return at < 65536 || at >> 47 != 0;
}

template <typename T>
uint64_t read_value(const void* address, const Site* site, ReadCode code) {
  if (friday_cut_mode == kReplaying && !(is_never_mapped(address) && replay_is_over())) return replay_read(site, code);
  const T value = *static_cast<const volatile T*>(address);
  if (char* at = log_writer.begin(16)) {
    at = LogWriter::put(at, read_byte(code, number_of(site)));
    log_writer.commit(LogWriter::put(at, value));
  }
  return value;
}

// Holds the lock for a piece of work on the log, from wherever it is called.
class Locked {
 public:
  Locked() : owned_(!self.inside) {
    if (owned_) lock.take();
  }
  ~Locked() {
    if (owned_) lock.give();
  }
  Locked(const Locked&) = delete;

 private:
  bool owned_;
};

void before_fork() { lock.take(); }
void after_fork() { lock.give(); }
void in_child() {
  thread_of_log = ~0u;
  if (log_writer.is_open()) log_writer.open_child();
  lock.state = 0;
}

__attribute__((destructor(101))) void finish() {
  if (friday_cut_mode != kRecording) return;
  for (int tried = 0; tried < 1000; tried++) {
    if (lock.try_take()) {
      log_writer.close();
      return lock.give();
    }
    usleep(100);
  }
}

// Addresses repeat only if they are not chosen at random: the program starts again without.
void fix_addresses(char** arguments, char** environment) {
  const int now = personality(0xffffffff);
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) < 0) return;
  execve("/proc/self/exe", arguments, environment);
}

// getenv() has nothing yet: the C library is set up after this.
const char* value_of(char** environment, const char* name) {
  const size_t length = strlen(name);
  for (; *environment; environment++)
    if (strncmp(*environment, name, length) == 0) return *environment + length;
  return nullptr;
}

void start(int, char** arguments, char** environment) {
  const char* const log = value_of(environment, "FRIDAY_CUT_LOG=");
  const char* const replayed = value_of(environment, "FRIDAY_CUT_REPLAY=");
  if (replayed && *replayed) {
    fix_addresses(arguments, environment);
    friday_cut_mode = kReplaying;
    replay(replayed);
  }
  if (!log || !*log) return;
  fix_addresses(arguments, environment);
  const int before = errno;
  const char* const check = value_of(environment, "FRIDAY_CUT_CHECK=");
  if (log_writer.open(log, check && *check == '1')) {
    find_stack();
    __register_atfork(before_fork, after_fork, in_child, nullptr);
    speak();  // the main thread's stack is known before anything is stored there
    friday_cut_mode = kRecording;
  }
  errno = before;
}

__attribute__((section(".preinit_array"), used)) void (*const start_early)(int, char**, char**) = start;

}  // namespace
}  // namespace friday::cut

using namespace friday::cut;

extern "C" {

uint32_t friday_cut_is_inside() { return friday_cut_mode == kReplaying || self.inside; }

void friday_cut_enter(const Entry* entry, const void* arguments, void* result) {
  lock.take();
  const uint64_t frame = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  const uint64_t stack = (frame - kStackGap) & ~uint64_t{63};
  log_entry(*entry, arguments, stack);
  self.inside = true;
  self.depth++;
  uint64_t own;
  friday_cut_outside_is_not_replayed(entry->invoke, arguments, result, stack, &own);
  self.depth--;
  speak();
  log_entry_end(*entry, result);
  self.inside = false;
  lock.give();
}

uint64_t friday_cut_read1(const void* at, const Site* site) { return read_value<uint8_t>(at, site, ReadCode::one); }
uint64_t friday_cut_read2(const void* at, const Site* site) { return read_value<uint16_t>(at, site, ReadCode::two); }
uint64_t friday_cut_read4(const void* at, const Site* site) { return read_value<uint32_t>(at, site, ReadCode::four); }
uint64_t friday_cut_read8(const void* at, const Site* site) { return read_value<uint64_t>(at, site, ReadCode::eight); }

void friday_cut_read_bytes(void* to, const void* from, uint64_t count, const Site* site) {
  if (friday_cut_mode == kReplaying && !(is_never_mapped(from) && replay_is_over()))
    return replay_read_bytes(site, to, count);
  memmove(to, from, count);
  const char* bytes = static_cast<const char*>(to);
  do {
    const uint32_t part = count < kMostRecordBytes ? static_cast<uint32_t>(count) : kMostRecordBytes;
    char* at = log_writer.begin(part + 16);
    if (!at) return;
    at = LogWriter::put_varint(LogWriter::put(at, read_byte(ReadCode::many, number_of(site))), part);
    memcpy(at, bytes, part);
    log_writer.commit(at + part);
    bytes += part;
    count -= part;
  } while (count > 0);
}

// Whether memory that inside writes is there: at replay the outside's is not.
uint32_t friday_cut_may_write(const void* at, uint64_t count) {
  return friday_cut_mode != kReplaying || is_present(reinterpret_cast<uint64_t>(at), count) || is_never_mapped(at);
}

// memmove by code that is inside. `flags`: 1: it may read outside, 2: it may write outside.
void friday_cut_copy(char* to, const char* from, uint64_t count, uint32_t flags, const Site* site) {
  if ((flags & 1) == 0) {
    if (friday_cut_may_write(to, count)) memmove(to, from, count);
    return;
  }
  if (friday_cut_may_write(to, count)) return friday_cut_read_bytes(to, from, count, site);
  replay_read_bytes(site, nullptr, count);
}

void friday_cut_fill(void* to, int value, uint64_t count) {
  if (friday_cut_may_write(to, count)) memset(to, value, count);
}

// Atomic operations of inside on memory that may be outside: gives the memory on which to do it. At replay that has the
// value that was found in recording.
void* friday_cut_exchange(void* at, uint32_t count, const Site* site) {
  static __thread uint64_t elsewhere[2] __attribute__((tls_model("initial-exec")));
  if (friday_cut_mode != kReplaying) return at;
  void* const place = is_present(reinterpret_cast<uint64_t>(at), count) ? at : elsewhere;
  replay_read_bytes(site, place, count);
  return place;
}
// What it found there.
void friday_cut_exchanged(void* found, uint32_t count, const Site* site) {
  if (friday_cut_mode == kRecording) friday_cut_read_bytes(found, found, count, site);
}

// ---- stores by code that is outside

void friday_cut_write_begin() {
  if (self.inside)
    log_writer.stop("outside writes memory that is inside while the same thread is inside: a signal's handler");
  else lock.take();
}
void friday_cut_write_end(const void* at, uint64_t count) {
  if (self.inside) return;
  log_store(at, count);
  lock.give();
}
// What a function without code wrote.
void friday_cut_wrote(const void* at, uint64_t count) {
  if (!at || count == 0 || count >> 47) return;
  Locked locked;
  log_store(at, count);
}
void friday_cut_wrote_text(const char* at) {
  if (at) friday_cut_wrote(at, strlen(at) + 1);
}
// A text of `length` bytes and its end, in memory of `limit` bytes.
void friday_cut_printed(const char* at, uint64_t limit, int64_t length) {
  if (length < 0) return;
  const uint64_t whole = static_cast<uint64_t>(length) + 1;
  friday_cut_wrote(at, whole < limit ? whole : limit);
}
// New memory that is inside, of an allocator that runs outside. What it has is what it had before, but for zeros.
void friday_cut_allocated(const void* at, uint64_t count) {
  if (!at || count >> 47) return;
  Locked locked;
  log_memory(RecordKind::allocated, at, count);
  const char* const bytes = static_cast<const char*>(at);
  if (count > 0 && *bytes == 0 && (count == 1 || is_filled(bytes, count)))
    log_fill(reinterpret_cast<uint64_t>(at), count, 0);
}
void friday_cut_allocated_usable(void* at) {
  if (at) friday_cut_allocated(at, malloc_usable_size(at));
}
void* friday_cut_outside_realloc(void* at, uint64_t count) {
  if (friday_cut_mode != kRecording) return realloc(at, count);
  const uint64_t before = at ? malloc_usable_size(at) : 0;
  const auto from = reinterpret_cast<uint64_t>(at);
  void* const made = realloc(at, count);
  if (made) {
    Locked locked;
    log_moved(from, made, before < count ? before : count, malloc_usable_size(made));
  }
  return made;
}

// ---- calls from inside to outside

uint32_t friday_cut_leave_recorded(const Site* site, const void* arguments, uint32_t bytes) {
  if (char* at = log_writer.begin(64)) {
    self.before_call = log_writer.mark();
    self.call_hash = static_cast<uint32_t>(hash_bytes(arguments, bytes));
    at = LogWriter::put_varint(LogWriter::put(at, kind_byte(RecordKind::call)), number_of(site));
    at = log_writer.put_time(at);
    log_writer.commit(LogWriter::put(at, self.call_hash));
    self.after_call = log_writer.mark();
  }
  self.inside = false;
  lock.give();
  return 1;
}
// Most calls change nothing that is inside: then one short record is enough.
void friday_cut_back(const Site* site, const void* result, uint32_t bytes) {
  lock.take();
  self.inside = true;
  if (!log_writer.is_open()) return;
  const bool alone = log_writer.mark() == self.after_call && thread_of_log == self.number;
  if (alone && bytes == 0 && log_writer.make_quiet(self.before_call, self.after_call, number_of(site), self.call_hash))
    return;
  const bool is_short = alone && log_writer.has_room(self.before_call, 64 + bytes);
  if (is_short) log_writer.take_back(self.before_call);
  else speak();
  if (char* at = log_writer.begin(64 + bytes)) {
    at = LogWriter::put(at, kind_byte(is_short ? RecordKind::returned : RecordKind::call_end));
    at = log_writer.put_time(LogWriter::put_varint(at, number_of(site)));
    if (is_short) at = LogWriter::put(at, self.call_hash);
    memcpy(at, result, bytes);
    log_writer.commit(at + bytes);
  }
}
void friday_cut_result(const Site* site, void* result, uint32_t bytes) { replay_result(site, result, bytes); }

// ---- allocation by code that is inside

void* friday_cut_malloc(uint64_t count, const Site* site) {
  if (friday_cut_mode == kReplaying) return replay_made(site);
  void* const made = malloc(count);
  if (friday_cut_mode == kRecording) log_memory(RecordKind::made, made, made ? malloc_usable_size(made) : 0);
  return made;
}
void* friday_cut_calloc(uint64_t count, uint64_t each, const Site* site) {
  void* made;
  if (friday_cut_mode == kReplaying) {
    made = replay_made(site);
    if (made) memset(made, 0, count * each);
  } else {
    made = calloc(count, each);
    if (friday_cut_mode == kRecording) log_memory(RecordKind::made, made, made ? malloc_usable_size(made) : 0);
  }
  return made;
}
// The bytes that stay are on both sides the same, so they are moved again.
void* friday_cut_realloc(void* at, uint64_t count, const Site* site) {
  if (friday_cut_mode == kPlain) return realloc(at, count);
  if (friday_cut_mode == kReplaying) {
    uint64_t kept = 0;
    replay_read_bytes(site, &kept, sizeof kept);
    void* const made = replay_made(site);
    if (made && at) memmove(made, at, kept);
    return made;
  }
  const uint64_t before = at ? malloc_usable_size(at) : 0;
  uint64_t kept = before < count ? before : count;
  void* const made = realloc(at, count);
  friday_cut_read_bytes(&kept, &kept, sizeof kept, site);
  log_memory(RecordKind::made, made, made ? malloc_usable_size(made) : 0);
  return made;
}
void friday_cut_free(void* at) {
  if (friday_cut_mode != kReplaying) free(at);
}

// ---- what cannot be recorded ends the recording

void friday_cut_check_outside(const Site* site) {
  if (friday_cut_mode == kRecording && self.inside)
    log_writer.stop("%s (%s:%u), which is outside, calls %s while the same thread is inside: a signal's handler",
                    site->function, site->file, site->line, site->what);
}
void friday_cut_jump(const Site* site) {
  if (friday_cut_mode != kRecording) return;
  Locked locked;
  if (self.depth > (self.inside ? 1u : 0u))
    log_writer.stop("a longjmp in %s (%s:%u) may cross the cut", site->function, site->file, site->line);
}
void friday_cut_check_handler(const void* handler, const Site* site) {
  const auto* const at = static_cast<const char*>(handler);
  if (friday_cut_mode != kRecording || at < __start_friday_stubs || at >= __stop_friday_stubs) return;
  Locked locked;
  log_writer.stop("%s (%s:%u) makes a function that is inside the handler of a signal", site->function, site->file,
                  site->line);
}
}
