#include "core/cut/runtime/replay_memory.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/cut/runtime/runtime.h"

extern "C" {
extern char __start_friday_outside[] __attribute__((weak, visibility("hidden")));
extern char __stop_friday_outside[] __attribute__((weak, visibility("hidden")));
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));
}

namespace friday::cut {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kNear = 16 * kPage;  // ranges with no more between them are mapped as one

struct Range {
  uint64_t low, high;
};
struct Ranges {
  Range* list = nullptr;
  uint64_t count = 0, room = 0;

  void add(uint64_t low, uint64_t bytes) {
    if (bytes == 0) return;
    const Range pages{low & ~(kPage - 1), (low + bytes + kPage - 1) & ~(kPage - 1)};
    if (count > 0 && list[count - 1].low <= pages.low && pages.high <= list[count - 1].high) return;
    if (count == room) grow();
    list[count++] = pages;
  }
  void merge() {
    std::sort(list, list + count, [](const Range& a, const Range& b) { return a.low < b.low; });
    uint64_t last = 0;
    for (uint64_t i = 1; i < count; i++) {
      if (list[i].low <= list[last].high + kNear) list[last].high = std::max(list[last].high, list[i].high);
      else list[++last] = list[i];
    }
    count = count ? last + 1 : 0;
  }

 private:
  void grow() {
    if (count > 0) merge();
    if (count < room / 2) return;
    const uint64_t more = room ? room * 2 : 4096;
    void* const memory =
        room == 0 ? mmap(nullptr, more * sizeof(Range), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                  : mremap(list, room * sizeof(Range), more * sizeof(Range), MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) give_up(2, "friday: no memory for the replay: %s", strerror(errno));
    list = static_cast<Range*>(memory);
    room = more;
  }
};

Ranges present;
Range image, main_stack, outside;

void find_image() {
  const auto base = reinterpret_cast<const char*>(&__ehdr_start);
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(base + __ehdr_start.e_phoff);
  image = {~uint64_t{0}, 0};
  for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
    const Elf64_Phdr& each = segments[i];
    if (each.p_type != PT_LOAD || (each.p_flags & PF_W) == 0) continue;
    image.low = std::min(image.low, each.p_vaddr);
    image.high = std::max(image.high, (each.p_vaddr + each.p_memsz + kPage - 1) & ~(kPage - 1));
  }
  outside = {reinterpret_cast<uint64_t>(__start_friday_outside), reinterpret_cast<uint64_t>(__stop_friday_outside)};
}

bool is_in(const Range& range, uint64_t address, uint64_t count) {
  return address >= range.low && address < range.high && count <= range.high - address;
}

void scan_read(LogReader& log, ReadCode code) {
  switch (code) {
    case ReadCode::one: log.take(1); return;
    case ReadCode::two: log.take(2); return;
    case ReadCode::four: log.take(4); return;
    case ReadCode::eight: log.take(8); return;
    case ReadCode::many: log.take(log.take_varint()); return;
    default: log.damaged("a record of no known kind");
  }
}

void add_memory(LogReader& log, uint64_t address, uint64_t count) {
  if (address >> 47 || count >> 40) log.damaged("an address that no program has");
  if (!is_in(image, address, count) && !is_in(main_stack, address, count)) present.add(address, count);
}

void scan_thread(LogReader& log) {
  const uint64_t number = log.take_varint();
  const auto low = log.take_value<uint64_t>(), high = log.take_value<uint64_t>();
  if (low >= high || number == 0 || number > kMostThreads) log.damaged("a thread that cannot be");
  // The kernel gives more of the main thread's stack when it is needed.
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  if (here >= low && here < high) main_stack = {low, high};
  else add_memory(log, low, high - low);
}

void scan_entry(LogReader& log) {
  const Entry* const entry = entry_of(log.take_varint());
  if (!entry) log.damaged("a function that is not in the program");
  log.take_time();
  log.take_varint();
  log.take(entry->argument_bytes);
}

void scan_call(LogReader& log, bool is_end) {
  const Site* const site = site_of(log.take_varint());
  if (!site) log.damaged("a call that is not in the program");
  log.take_time();
  log.take(is_end ? site->bytes : 4);
}

void scan_memory(LogReader& log, RecordKind kind) {
  const auto address = log.take_value<uint64_t>();
  if (kind == RecordKind::reallocated) {
    const auto made = log.take_value<uint64_t>();
    const uint64_t kept = log.take_varint();
    if (kept) add_memory(log, address, kept);
    return add_memory(log, made, log.take_varint());
  }
  const uint64_t count = log.take_varint();
  add_memory(log, address, count);
  if (kind == RecordKind::store) log.take(count);
  if (kind == RecordKind::fill) log.take(1);
}

void scan(LogReader& log) {
  const uint8_t first = log.take_byte();
  if ((first & 7) != 0) return scan_read(log, static_cast<ReadCode>(first & 7));
  const auto kind = static_cast<RecordKind>(first >> 3);
  switch (kind) {
    case RecordKind::thread: log.take_varint(); return;
    case RecordKind::new_thread: return scan_thread(log);
    case RecordKind::entry: return scan_entry(log);
    case RecordKind::entry_end:
      log.take(4);
      log.take_time();
      if (log.checked()) log.take(8);
      return;
    case RecordKind::call: return scan_call(log, false);
    case RecordKind::call_end: return scan_call(log, true);
    case RecordKind::store:
    case RecordKind::fill:
    case RecordKind::allocated:
    case RecordKind::reallocated:
    case RecordKind::made: return scan_memory(log, kind);
    case RecordKind::end: return;
    case RecordKind::quiet: log.take(8); return;
    case RecordKind::returned:
      scan_call(log, true);
      log.take(4);
      return;
    case RecordKind::stopped: log.take(log.take_varint()); return;
  }
  log.damaged("a record of no known kind");
}

}  // namespace

void map_recorded_memory(LogReader& log) {
  find_image();
  while (log.more()) scan(log);
  log.rewind();
  present.merge();
  for (uint64_t i = 0; i < present.count; i++) {
    const auto& [low, high] = present.list[i];
    if (mmap(reinterpret_cast<void*>(low), high - low, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0) != reinterpret_cast<void*>(low))
      give_up(2,
              "friday: the replay needs the memory from %#llx to %#llx, which the recorded program had, and something "
              "else is there: %s",
              static_cast<unsigned long long>(low), static_cast<unsigned long long>(high), strerror(errno));
  }
}

// Not only made unreadable: a debugger reads such pages all the same.
void take_outside_away() {
  if (outside.low < outside.high) munmap(reinterpret_cast<void*>(outside.low), outside.high - outside.low);
}

bool is_present(uint64_t address, uint64_t count) {
  if (is_in(image, address, count)) return address + count <= outside.low || address >= outside.high;
  if (is_in(main_stack, address, count)) return true;
  const Range* const end = present.list + present.count;
  const Range* found = std::upper_bound(static_cast<const Range*>(present.list), end, address,
                                        [](uint64_t at, const Range& range) { return at < range.high; });
  return found != end && is_in(*found, address, count);
}

}  // namespace friday::cut
