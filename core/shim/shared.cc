// Shared memory: files mapped with MAP_SHARED, anonymous shared memory that children inherit, and System V segments.
// While recording, the kernel makes the mapping, its present contents go into the trace, and the process becomes a
// member of the object's token group (token_group.cc). At replay each shared object is a memfd of the core's, of the
// same length, which all nodes map. So each node sees the stores of the others, an access behind the end of the object
// faults, and the user's files are not touched. Changes of a mapped file by system calls are made in the memfd.
#include <linux/falloc.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/shm.h>
#include <linux/signal.h>
#include <linux/wait.h>

#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint64_t kPiece = 1 << 20;  // the most bytes of contents in one record

bool in_memory_only(int fd) {
  uint64_t about[15] = {};  // struct statfs
  if (failed(native(sys::fstatfs, fd, about))) return false;
  return about[0] == TMPFS_MAGIC || about[0] == HUGETLBFS_MAGIC;
}

uint64_t size_of(uint64_t fd) {
  FileStat st = {};
  native(sys::fstat, fd, &st);
  return (uint64_t)st.size;
}

// Writes records of contents, which read(place, offset, bytes) fills in. What it leaves out is zero.
template <typename Read>
void write_pages(uint64_t object, uint64_t offset, uint64_t length, Read&& read) {
  while (length) {
    const uint64_t bytes = min(length, kPiece);
    SharedPagesRecord* record = (SharedPagesRecord*)record_begin(kSharedPages, sizeof(SharedPagesRecord) + bytes);
    if (!trace_alive()) return;
    record->object = object;
    record->offset = offset;
    record->bytes = bytes;
    read((char*)(record + 1), offset, bytes);
    record_commit(record);
    offset += bytes;
    length -= bytes;
  }
}

// Does the work in a process of its own that has this one's memory, as a vfork child has it, and copies of its
// descriptors. A process that closes a file loses all locks that it holds on it (fcntl(2)), and here those are the
// program's. False: no process can be made.
template <typename Work>
bool do_apart(Work work) {
  alignas(16) char stack[16 << 10];  // not this one's: calls there would overwrite where those here return to
  uint64_t mask = 0;
  const uint64_t everything = kAllButDispatch;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, &mask, 8);
  const long pid = friday_apart(
      stack + sizeof stack, [](void* it) { (*(Work*)it)(); }, &work);
  while (pid > 0 && native(sys::wait4, pid, 0, __WALL, 0) == -EINTR) {}
  native(sys::rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
  return !failed(pid);
}

// Writes the contents of a file within [from, to), without its holes. False: the file cannot be read. In a process of
// its own.
bool write_file_here(uint64_t object, int fd, uint64_t from, uint64_t to) {
  // A file description of its own, because searching for data moves the file offset.
  const long own = native(sys::open, DescriptorLink(fd).text, O_RDONLY | O_CLOEXEC, 0);
  if (failed(own)) {
    const long flags = native(sys::fcntl, fd, F_GETFL, 0);
    if (failed(flags) || (flags & 3) == O_WRONLY) return false;
  }
  while (from < to) {
    long data = failed(own) ? (long)from : native(sys::lseek, own, from, SEEK_DATA);
    if (failed(data) || (uint64_t)data >= to) break;
    long hole = failed(own) ? (long)to : native(sys::lseek, own, data, SEEK_HOLE);
    const uint64_t begin = (uint64_t)data, end = failed(hole) ? to : min((uint64_t)hole, to);
    write_pages(object, begin, end - begin, [&](char* place, uint64_t offset, uint64_t bytes) {
      for (uint64_t got = 0; got < bytes;) {
        const long more = native(sys::pread64, failed(own) ? fd : own, place + got, bytes - got, offset + got);
        if (more <= 0) break;
        got += (uint64_t)more;
      }
    });
    from = end;
  }
  return true;  // `own` is closed with the process
}

bool write_file(uint64_t object, int fd, uint64_t from, uint64_t to) {
  bool written = false;
  return do_apart([&] { written = write_file_here(object, fd, from, to); }) && written;
}

// Writes the contents of a mapping, without pages that were never touched.
void write_memory(uint64_t object, uint64_t offset, uint64_t address, uint64_t length) {
  uint8_t resident[256];
  for (uint64_t at = 0; at < length; at += sizeof resident * 4096) {
    const uint64_t pages = min<uint64_t>(length - at, sizeof resident * 4096) / 4096;
    if (failed(native(sys::mincore, address + at, pages * 4096, resident))) memset(resident, 1, sizeof resident);
    for (uint64_t n = 0, run; n < pages; n += run) {
      for (run = 1; n + run < pages && (resident[n + run] & 1) == (resident[n] & 1); run++) {}
      if (!(resident[n] & 1)) continue;
      const uint64_t from = at + n * 4096;
      write_pages(object, offset + from, run * 4096, [&](char* place, uint64_t where, uint64_t bytes) {
        memcpy(place, (void*)(address + where - offset), bytes);
      });
    }
  }
}

// Writes the contents of a mapping as far as they can be read: pages behind the end of a file cannot. Returns how many
// bytes that are.
uint64_t write_readable(uint64_t object, uint64_t offset, uint64_t address, uint64_t length) {
  uint64_t there = 0;
  write_pages(object, offset, length, [&](char* place, uint64_t at, uint64_t bytes) {
    const uint64_t to[2] = {(uint64_t)place, bytes}, from[2] = {address + (at - offset), bytes};
    const long got = native(sys::process_vm_readv, native(sys::getpid), to, 1, from, 1, 0);
    if (got > 0) there = at - offset + (uint64_t)got;
  });
  return there;
}

int open_object(uint64_t object) {
  if (control.object != object) {
    control.object = object;
    trap(kTrapObject, 0);
  }
  const long fd = native(sys::open, control.shared, O_RDWR | O_CLOEXEC, 0);
  if (failed(fd)) replay_fail("the file of shared memory cannot be opened", fd);
  return (int)fd;
}

void must(bool done, const char* what) {
  if (!done) replay_fail(what, (long)control.object);
}

void fill(int fd, uint64_t offset, const char* data, uint64_t bytes) {
  must(native(sys::pwrite64, fd, data, bytes, offset) == (long)bytes, "shared memory cannot be filled");
}

// Stores the contents of an object up to offset `end` that are recorded before the event.
void fill_pages(int fd, uint64_t object, uint64_t end = ~0ull) {
  uint64_t next = 0;
  while (const SharedPagesRecord* pages = replay_shared_pages(&next))
    if (pages->object == object && pages->offset < end)
      fill(fd, pages->offset, (const char*)(pages + 1), min(pages->bytes, end - pages->offset));
}

void set_size(int fd, uint64_t bytes) {
  must(!failed(native(sys::ftruncate, fd, bytes)), "the size of shared memory cannot be set");
}

// Calls see(address, length) for each mapping that is left of the System V segment attached at `address`. The program
// may have unmapped parts of it.
template <typename See>
void each_piece(uint64_t address, See&& see) {
  MapLine line;
  uint64_t inode = 0;
  bool any = false;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));) {
    if (!line.shared || memcmp(line.path, "/SYSV", 5) != 0 || line.low - address != line.offset ||
        (any && line.inode != inode))
      continue;
    any = true;
    inode = line.inode;
    see(line.low, line.high - line.low);
  }
}

uint64_t segment_length(uint64_t address) {
  uint64_t found = 0;
  each_piece(address, [&](uint64_t low, uint64_t length) { found = low == address ? length : found; });
  return found;
}

void end_without_room() {
  if (control.mode == kModeRecord) trace_end(kEndRefused, 0, "too many files and segments are mapped as shared memory");
}

}  // namespace

bool shared_wanted(const uint64_t* a, const FileStat& st) {
  const uint64_t type = a[3] & MAP_TYPE;
  if (type != MAP_SHARED && type != MAP_SHARED_VALIDATE) return false;
  if (a[3] & MAP_ANONYMOUS || is_zero_device(st)) return true;
  if (!is_regular(st)) return false;
  shared_on_standby |= on_standby != 0;  // somebody may have it mapped writable
  // A file on a disk that is only read, and that no recorded process shares yet, is treated as a private mapping.
  const bool writable = (native(sys::fcntl, a[4], F_GETFL, 0) & 3) == O_RDWR;
  return writable || (a[2] & PROT_WRITE) || in_memory_only((int)a[4]) || group_object(st.device, st.inode);
}

bool shared_on_standby;

const ObjectBefore* shared_before(const MapLine& map, const CutReply& cut) {
  const bool is_segment = memcmp(map.path, "/SYSV", 5) == 0;
  for (uint32_t n = 0; map.shared && n < cut.count; n++) {
    const ObjectBefore& each = cut.objects[n];
    if (each.inode == map.inode && each.device == map.device && !each.is_segment == !is_segment) return &each;
  }
  return nullptr;
}

bool shared_record_map(uint64_t device, uint64_t inode, int fd, uint64_t offset, uint64_t address, uint64_t length,
                       bool readable, SharedMapPart* part) {
  if (on_standby) {
    shared_on_standby = true;
    return false;
  }
  robust_mapped();
  bool fresh = true;
  const uint32_t object = group_share(device, inode, &fresh);
  if (!object) {
    end_without_room();
    return false;
  }
  *part = {object, offset, length, address, offset + length, fresh ? kObjectIsNew : 0u, 0};
  if (fd >= 0) {
    part->size = size_of((uint64_t)fd);
    const uint64_t end = min(part->size, offset + length);
    const bool written = offset >= end || write_file(object, fd, offset, end);
    if (!written && readable) write_memory(object, offset, address, page_up(end - offset));
    else if (!written) trace_end(kEndRefused, 0, "a file that is mapped as shared memory cannot be read");
  } else if (readable) {
    write_memory(object, offset, address, length);
  }
  return control.mode == kModeRecord;
}

bool shared_record_inherited(uint64_t address, uint64_t length, uint64_t offset, SharedMapPart* part) {
  if (on_standby) {
    shared_on_standby = true;
    return false;
  }
  robust_mapped();
  if (!group_share_inherited()) {
    end_without_room();
    return false;
  }
  // The file that the kernel creates for /dev/zero is as long as the mapping, whatever the offset is; accesses behind
  // its end fault.
  *part = {0, offset, length, address, length, kObjectIsNew | kInherited, 0};
  return control.mode == kModeRecord;
}

const SharedMapPart* shared_part(const EventRecord* event) {
  return (const SharedMapPart*)replay_part(event, kSharedMap, 0, nullptr);
}

long shared_replay_map(const SharedMapPart* part, uint64_t length, uint64_t protection, bool fixed) {
  const int fd = part->flags & kInherited ? (int)native(sys::memfd_create, "friday-shared", MFD_CLOEXEC)
                                          : open_object(part->object);
  if (fd < 0) replay_fail("a file in memory cannot be created", fd);
  // What others have made of an object since the process mapped it stays.
  const bool as_recorded = part->flags & kObjectIsNew || !(part->flags & kMappedBefore);
  if (part->flags & kObjectIsNew) set_size(fd, 0);
  if (as_recorded) set_size(fd, part->size);
  fill_pages(fd, part->object, as_recorded ? ~0ull : size_of((uint64_t)fd));
  const long got = native(sys::mmap, part->address, length, protection,
                          MAP_SHARED | (fixed ? MAP_FIXED : MAP_FIXED_NOREPLACE), fd, part->offset);
  native(sys::close, fd);
  trap(kTrapShared, 1);
  return got;
}

bool shared_record_growth(uint64_t address, uint64_t length, SharedMapPart* part) {
  if (on_standby) return false;
  MapLine line;
  const char* p = read_maps();
  while ((p = parse_map_line(p, &line)) && line.high <= address) {}
  const uint32_t object = p && line.shared && line.inode ? group_object(line.device, line.inode) : 0;
  if (!object) return false;
  const uint64_t offset = line.offset + (address - line.low);
  const uint64_t there = write_readable(object, offset, address, length);
  *part = {object, offset, length, address, there ? offset + there : 0, 0, 0};
  return control.mode == kModeRecord;
}

void shared_replay_growth(const SharedMapPart* part) {
  const int fd = open_object(part->object);
  if (size_of((uint64_t)fd) < part->size) set_size(fd, part->size);
  fill_pages(fd, part->object, part->size);
  native(sys::close, fd);
  trap(kTrapShared, 1);
}

// ---- Mappings that a process had before its present trace began

namespace {

// What write_before() has found of the object.
struct Before {
  uint64_t size;
  bool known;  // false: what the mapping shows cannot be read
};

// Writes what the mapping shows, unless another of the processes that begin together has done so. Of those some may run
// already, in turns, so the file may have another size than it had when all stood still.
Before write_before(uint32_t object, const MapLine& map, const ObjectBefore& before) {
  Before found = {before.size, true};
  const uint64_t begin = map.offset, mapped_end = map.offset + (map.high - map.low);
  bool written = false;
  const auto from_file = [&] {
    const int fd = (int)native(sys::open, map.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    FileStat st = {};
    if (fd < 0 || failed(native(sys::fstat, fd, &st)) || !is_regular(st) || st.inode != map.inode ||
        st.device != before.file_device)
      return;
    found.size = (uint64_t)st.size;
    const uint64_t end = min(found.size, mapped_end);
    written = begin >= end || !group_lacks(object, begin, end) || write_file_here(object, fd, begin, end);
  };
  if (!before.is_segment && !before.is_nameless) do_apart(from_file);
  const uint64_t end = min(found.size, mapped_end);
  if (written || begin >= end || !group_lacks(object, begin, end)) return found;
  if (map.protection & PROT_READ && before.in_memory) write_memory(object, begin, map.low, page_up(end - begin));
  else if (map.protection & PROT_READ) write_readable(object, begin, map.low, end - begin);
  else found.known = false;
  return found;
}

// The first mapping from `low` on that shows one of the objects.
const ObjectBefore* next_before(uint64_t low, const CutReply& cut, MapLine* map) {
  for (const char* p = read_maps(); (p = parse_map_line(p, map));)
    if (map->low >= low)
      if (const ObjectBefore* found = shared_before(*map, cut)) return found;
  return nullptr;
}

}  // namespace

void shared_record_before(ThreadArea* area, const CutReply& cut) {
  const auto device_of = [](const ObjectBefore& o) { return o.is_segment ? kSegmentDevice : o.file_device; };
  for (uint32_t n = 0; n < cut.count; n++)
    if (!group_begins(device_of(cut.objects[n]), cut.objects[n].inode, cut.cut)) return end_without_room();
  MapLine map;
  bool any = false, hidden = false;
  for (uint64_t next = 0; control.mode == kModeRecord; next = map.high) {
    const ObjectBefore* before = next_before(next, cut, &map);
    if (!before) break;
    if (!any) robust_mapped();
    any = true;
    const uint64_t entry = ticks_now(), length = map.high - map.low;
    bool fresh;
    const uint32_t object = group_share(device_of(*before), before->inode, &fresh);
    if (!object) return end_without_room();
    const Before found = write_before(object, map, *before);
    hidden |= !found.known;
    trace_header()->features |= kFeatureMappedBefore;
    const uint64_t flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    const uint64_t a[6] = {map.low, length, map.protection, flags, ~0ull, map.offset};
    const uint32_t part_flags = kMappedBefore | (fresh ? kObjectIsNew : 0u);
    const SharedMapPart part = {object, map.offset, length, map.low, found.size, part_flags, 0};
    EventWriter writer(kCall, area, sys::mmap, a, 6);
    writer.event->header.flags |= kFlagNative;
    writer.part(kSharedMap, &part, sizeof part);
    if (map.path[0]) writer.part(kPath, map.path, length_of(map.path));
    writer.commit((long)map.low, 0, entry, ticks_now());
    if (found.known && control.mode == kModeRecord) group_has_written(object, map.offset, map.offset + length);
  }
  if (control.mode != kModeRecord) return;
  if (hidden)
    collector_notice("a part of the memory that it shares cannot be read by it, and is empty in the recording ",
                     "unless another process has written it");
  for (uint32_t n = 0; n < control.area_count; n++)
    if (area_at(n)->alive) robust_publish(area_at(n));
}

void shared_replay_before(CallFrame* frame, ThreadArea* area) {
  for (;;) {
    EventRecord* event = replay_peek();
    const bool maps = event && event->header.type == kCall && event->call == sys::mmap;
    const SharedMapPart* part = maps ? shared_part(event) : nullptr;
    if (!part || !(part->flags & kMappedBefore) || event->argument_count != 6) return;
    control.turn = area->number;
    area->go = 1;
    replay_begin(area);
    const uint64_t* a = (const uint64_t*)(event + 1);
    const long got = shared_replay_map(part, part->length, a[2], false);
    replay_same(event, (uint64_t)event->result, (uint64_t)got, frame, area);
    replay_consume(event);
  }
}

// ---- System V segments

long do_shmat(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::shmat);
    const long result = event->result;
    if (const SharedMapPart* part = shared_part(event)) {
      const uint64_t protection =
          (a[2] & SHM_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE) | (a[2] & SHM_EXEC ? PROT_EXEC : 0);
      const long got = shared_replay_map(part, part->length, protection, a[2] & SHM_REMAP);
      replay_same(event, (uint64_t)result, (uint64_t)got, frame, area);
    }
    replay_consume(event);
    return result;
  }
  const uint64_t entry = ticks_now();
  const long result = is_fridays(a[1], 1) ? -EINVAL : native(sys::shmat, a[0], a[1], a[2]);
  SharedMapPart part = {};
  const bool known = !failed(result) && shared_record_map(kSegmentDevice, a[0], -1, 0, (uint64_t)result,
                                                          segment_length((uint64_t)result), true, &part);
  if (control.mode != kModeRecord) return result;
  EventWriter writer(kCall, area, sys::shmat, a, 3);
  writer.event->header.flags |= kFlagNative;
  if (known) writer.part(kSharedMap, &part, sizeof part);
  writer.commit(result, 0, entry, ticks_now());
  return result;
}

long do_shmdt(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::shmdt);
    const long result = event->result;
    for (unsigned n = 0; const SharedMapPart* part = (const SharedMapPart*)replay_part(event, kSharedMap, n, nullptr);
         n++) {
      const uint64_t range[6] = {part->address, part->length};
      native_mapping(sys::munmap, range);
    }
    replay_consume(event);
    return result;
  }
  const uint64_t entry = ticks_now();
  EventWriter writer(kCall, area, sys::shmdt, a, 1);
  writer.event->header.flags |= kFlagNative;
  each_piece(a[0], [&](uint64_t low, uint64_t length) {
    const SharedMapPart part = {0, low - a[0], length, low, 0, kUnmapped, 0};
    writer.part(kSharedMap, &part, sizeof part);
  });
  const long result = native(sys::shmdt, a[0]);
  writer.commit(result, 0, entry, ticks_now());
  return result;
}

// ---- System calls that change a file which is mapped as shared memory

namespace {

ChangedFile file_of(const FileStat& st) {
  return {is_regular(st) ? group_object(st.device, st.inode) : 0, (uint64_t)st.size};
}

ChangedFile file_behind(int fd) {
  FileStat st;
  return failed(native(sys::fstat, fd, &st)) ? ChangedFile{} : file_of(st);
}

ChangedFile file_at(int directory, uint64_t path) {
  FileStat st;
  return failed(native(sys::newfstatat, directory, path, &st, 0)) ? ChangedFile{} : file_of(st);
}

// The descriptor whose file the call changes; -1: none.
int changed_file(const CallFrame* frame) {
  switch (frame->rax) {
    case sys::write:
    case sys::pwrite64:
    case sys::writev:
    case sys::pwritev:
    case sys::pwritev2:
    case sys::ftruncate:
    case sys::fallocate:
    case sys::sendfile: return (int)frame->rdi;
    case sys::splice:
    case sys::copy_file_range: return (int)frame->rdx;
    default: return -1;
  }
}

uint64_t position_behind(uint64_t fd) { return (uint64_t)native(sys::lseek, fd, 0, SEEK_CUR); }

// The file offset at which a call has written `done` bytes. With O_APPEND that is the end of the file, whatever offset
// the call has.
uint64_t written_at(const CallFrame* frame, uint64_t done) {
  constexpr uint64_t kAppendNot = 0x20;  // RWF_NOAPPEND, kernel 6.9
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == sys::write || frame->rax == sys::writev) return position_behind(a[0]) - done;
  const uint64_t flags = frame->rax == sys::pwritev2 ? a[5] : 0;
  if (frame->rax == sys::pwritev2 && (long)a[3] == -1) return position_behind(a[0]) - done;
  const bool appends =
      flags & RWF_APPEND || (!(flags & kAppendNot) && (uint64_t)native(sys::fcntl, a[0], F_GETFL, 0) & O_APPEND);
  return appends ? size_of(a[0]) - done : a[3];
}

// Bytes that the kernel has copied from another file or channel. Some may have stayed a hole, so the range is cleared
// first.
void note_copied(uint32_t object, uint64_t offset, uint64_t length, SharedChanges* changes) {
  if (!length) return;
  changes->add(object, offset, length, kChangeZero);
  changes->add(object, offset, length, kChangeAllocate);
  changes->add(object, offset, length, kChangePages);
}

void note_fallocate(const uint64_t* a, uint32_t object, SharedChanges* changes) {
  constexpr uint64_t kWriteZeroes = 0x80;  // FALLOC_FL_WRITE_ZEROES, kernel 6.17
  const uint64_t mode = a[1], offset = a[2], length = a[3];
  if (mode & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE)) {  // everything behind has moved
    const uint64_t size = size_of(a[0]);
    changes->add(object, offset, size + length - offset, kChangeZero);
    changes->add(object, 0, size, kChangeSize);
    changes->add(object, offset, size - offset, kChangePages);
    return;
  }
  if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | kWriteZeroes))
    changes->add(object, offset, length, kChangeZero);
  if (!(mode & FALLOC_FL_KEEP_SIZE)) changes->add(object, offset, length, kChangeAllocate);
}

// The file has become longer, so bytes of its last page that were behind its end belong to it now. File systems on
// disks have cleared them; others show what was stored there in memory.
void note_grown(ChangedFile file, uint64_t size, SharedChanges* changes) {
  if (changes->count == 0) return;
  const SharedWritePart& first = changes->steps[0];
  const uint64_t end = min(first.change == kChangeWrite ? min(first.offset, size) : size, page_up(file.size));
  if (end <= file.size) return;
  changes->add(file.object, file.size, end - file.size, kChangeZero);
  changes->add(file.object, file.size, end - file.size, kChangePages);
}

void note_changes(const CallFrame* frame, uint32_t object, long result, SharedChanges* changes) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t done = (uint64_t)result;
  switch (frame->rax) {
    case sys::write:
    case sys::writev:
    case sys::pwrite64:
    case sys::pwritev:
    case sys::pwritev2: changes->add(object, written_at(frame, done), done, kChangeWrite); break;
    case sys::sendfile: note_copied(object, position_behind(a[0]) - done, done, changes); break;
    // If the call has a pointer to an offset, the kernel has added the number of bytes to that offset.
    case sys::splice:
    case sys::copy_file_range:
      note_copied(object, (a[3] ? *(const uint64_t*)a[3] : position_behind(a[2])) - done, done, changes);
      break;
    case sys::truncate:
    case sys::ftruncate: changes->add(object, 0, a[1], kChangeSize); break;
    case sys::fallocate: note_fallocate(a, object, changes); break;
    default: changes->add(object, 0, 0, kChangeSize);  // open(2) with O_TRUNC
  }
}

}  // namespace

void SharedChanges::add(uint32_t object, uint64_t offset, uint64_t length, SharedChange change) {
  steps[count++] = {object, offset, length, change, 0};
}

ChangedFile shared_changed(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::open: return a[1] & O_TRUNC ? file_at(AT_FDCWD, a[0]) : ChangedFile{};
    case sys::creat:
    case sys::truncate: return file_at(AT_FDCWD, a[0]);
    case sys::openat: return a[2] & O_TRUNC ? file_at((int)a[0], a[1]) : ChangedFile{};
    case sys::openat2: {  // the flags are the first word of struct open_how
      uint64_t flags = 0;
      return probed([&] { flags = *(const uint64_t*)a[2]; }) && flags & O_TRUNC ? file_at((int)a[0], a[1])
                                                                                : ChangedFile{};
    }
    default: {
      const int fd = changed_file(frame);
      return fd < 0 ? ChangedFile{} : file_behind(fd);
    }
  }
}

// A process that has not mapped the file would otherwise write to it while the processes that have mapped it run, and
// no trace would show what they have read.
ChangedFile shared_to_change(const CallFrame* frame) {
  const ChangedFile file = shared_changed(frame);
  if (!file.object || group_has(file.object)) return file;
  if (!group_join(file.object)) end_without_room();
  return shared_changed(frame);  // again, because others may have changed the file before this process had its turn
}

SharedChanges shared_record_changes(const CallFrame* frame, ChangedFile file, long result) {
  SharedChanges changes;
  note_changes(frame, file.object, result, &changes);
  const bool by_path = frame->rax == sys::truncate;
  const int changed = changed_file(frame);
  note_grown(file, by_path ? frame->rsi : changed < 0 ? 0 : size_of((uint64_t)changed), &changes);
  bool any = false;
  for (unsigned n = 0; n < changes.count; n++) any |= changes.steps[n].change == kChangePages;
  const bool made = !any || do_apart([&] {
    const int fd = by_path ? (int)native(sys::open, frame->rdi, O_RDONLY | O_CLOEXEC, 0) : changed;
    for (unsigned n = 0; n < changes.count; n++) {
      const SharedWritePart& step = changes.steps[n];
      if (step.change == kChangePages)
        changes.known &= write_file_here(file.object, fd, step.offset, step.offset + step.length);
    }
  });
  changes.known &= made;
  return changes;
}

namespace {

// Writes what the program has written, which is still in its memory.
void write_again(int fd, const SharedWritePart& part, const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == sys::write || frame->rax == sys::pwrite64)
    return fill(fd, part.offset, (const char*)a[1], part.length);
  uint64_t done = 0;
  for (uint64_t i = 0; i < a[2] && done < part.length; i++) {
    const uint64_t* iov = (const uint64_t*)a[1] + 2 * i;
    const uint64_t bytes = min(iov[1], part.length - done);
    if (bytes) fill(fd, part.offset + done, (const char*)iov[0], bytes);
    done += bytes;
  }
}

}  // namespace

void shared_replay_changes(const EventRecord* event, const CallFrame* frame) {
  const SharedWritePart* part = (const SharedWritePart*)replay_part(event, kSharedWrite, 0, nullptr);
  if (!part) return;
  const int fd = open_object(part->object);
  for (unsigned n = 0; (part = (const SharedWritePart*)replay_part(event, kSharedWrite, n, nullptr)); n++) {
    switch (part->change) {
      case kChangeZero:
        must(
            !failed(native(sys::fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, part->offset, part->length)),
            "shared memory cannot be cleared");
        break;
      case kChangeAllocate:
        if (size_of((uint64_t)fd) < part->offset + part->length) set_size(fd, part->offset + part->length);
        break;
      case kChangeSize: set_size(fd, part->length); break;
      case kChangePages: fill_pages(fd, part->object); break;
      case kChangeWrite: write_again(fd, *part, frame); break;
    }
  }
  native(sys::close, fd);
  if (control.tell_shared) trap(kTrapShared, 0);
}

}  // namespace friday::shim
