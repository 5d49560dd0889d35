// Calls that change the program's address space. They are made while recording and again at replay: there at the
// recorded address, and with file contents from the recording.
#include <asm/socket.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/mman.h>
#include <linux/resource.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/schedule.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint64_t kAnyAccess = PROT_READ | PROT_WRITE | PROT_EXEC;
constexpr uint64_t kDroppable = 8;  // MAP_DROPPABLE, kernel 6.11

// Records the contents of a new private file mapping, and patches its sites. `reply` is null if the collector has
// ended.
PatchedModule note_contents(EventWriter& writer, const ModuleView& module, const uint64_t* a, ModuleReply* reply,
                            uint64_t file_size) {
  PatchedModule sites;
  MapContentPart content = {};
  content.offset = a[5];
  content.length = a[1];
  bool copied = false;
  if (reply) memcpy(content.file, reply->file, 16);
  for (uint8_t byte : content.file) copied |= byte != 0;
  writer.part(kMapContent, &content, sizeof content);
  if (!copied && (a[2] & PROT_READ)) {
    uint64_t there = file_size > a[5] ? min(file_size - a[5], a[1]) : 0;
    writer.memory((void*)module.low, there);
  }
  if (reply && reply->site_count) {
    sites = patch_module(module, reply->sites, reply->site_count);
    writer.part(kSites, reply->sites, sites.done * sizeof(Site), sites.stubs);
  }
  return sites;
}

// Describes a mapping whose contents the kernel or a device may change at any time, for the end of the recording.
const char* describe_foreign(const FileStat& st, const char* path) {
  static char text[64];
  if (is_socket(st)) return "of a socket, whose ring the kernel writes at any time";
  constexpr char kAbout[] = "of the device ";
  memcpy(text, kAbout, sizeof kAbout);
  memcpy(text + sizeof kAbout - 1, path, min(length_of(path) + 1, sizeof text - sizeof kAbout));
  return text;
}

// Whether the mapping is of a TCP socket, for TCP_ZEROCOPY_RECEIVE. It is refused as by kernels before 4.18, because
// the kernel would put pages there that no call describes.
bool maps_tcp(const uint64_t* a, const FileStat& st) {
  uint32_t protocol = 0, size = sizeof protocol;
  return is_socket(st) && !failed(native(sys::getsockopt, a[4], SOL_SOCKET, SO_PROTOCOL, &protocol, &size)) &&
         protocol == IPPROTO_TCP;
}

// mmap(2) in an address space in which Friday's addresses are taken, at replay or already now: a hint that leads there
// is not followed.
long map_beside_own(const uint64_t* a) {
  const bool taken = !(a[3] & MAP_FIXED) && is_fridays(a[0], a[1]);
  if (taken && a[3] & MAP_FIXED_NOREPLACE) return -EEXIST;
  return native(sys::mmap, taken ? 0 : a[0], a[1], a[2], a[3], a[4], a[5]);
}

long record_mmap(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  uint64_t entry = ticks_now();
  const bool file = !(a[3] & MAP_ANONYMOUS);
  FileStat st = {};
  if (file) native(sys::fstat, a[4], &st);
  // Memory that the kernel may clear at any time (MAP_DROPPABLE) does not replay. It is refused as by kernels before
  // 6.11.
  long result = (a[3] & MAP_TYPE) == kDroppable ? -EINVAL : maps_tcp(a, st) ? -ENODEV : map_beside_own(a);
  ModuleReply* reply = nullptr;
  char path[kPathBytes] = "";
  const bool regular = file && !failed(result) && is_regular(st), shared = !failed(result) && shared_wanted(a, st);
  SharedMapPart part = {};
  if (regular && !shared) reply = copy_of_file((int)a[4], st, a[2] & PROT_EXEC, path);
  else if (file && !failed(result)) path_of_descriptor((int)a[4], path, sizeof path);
  if (file && !failed(result) && !regular && !is_zero_device(st) && !keeps_schedule) {
    trace_end(kEndUnhandled, sys::mmap, describe_foreign(st, path));
    return result;
  }
  bool joined = false;
  if (shared)
    joined = regular ? shared_record_map(st.device, st.inode, (int)a[4], a[5], (uint64_t)result, page_up(a[1]),
                                         a[2] & PROT_READ, &part)
                     : shared_record_inherited((uint64_t)result, page_up(a[1]), is_zero_device(st) ? a[5] : 0, &part);
  if (control.mode != kModeRecord || (shared && on_standby)) return result;
  EventWriter writer(kCall, area, sys::mmap, a, 6);
  writer.event->header.flags |= kFlagNative;
  const ModuleView module = {(uint64_t)result, (uint64_t)result + page_up(a[1]), a[5], a[2] & kAnyAccess, path};
  PatchedModule sites;
  if (joined) writer.part(kSharedMap, &part, sizeof part);
  else if (regular) sites = note_contents(writer, module, a, reply, (uint64_t)st.size);
  if (path[0]) writer.part(kPath, path, length_of(path));
  writer.commit(result, 0, entry, ticks_now());
  if (reply && a[2] & PROT_EXEC && control.mode == kModeRecord) module_note(*reply, module, st.device, st.inode, sites);
  return result;
}

// The core protects pages that a debugger watches. It removes the protection before a call that changes mappings there,
// and protects the new mappings after it.
void tell_watches(TrapReason when, uint64_t low, uint64_t size) {
  if (low + size <= control.watched_low || low >= control.watched_high) return;
  control.mapping_low = low & ~4095ull;
  control.mapping_high = page_up(low + size);
  trap(when, 0);
}

struct WatchedCall {
  uint64_t low, size;
  WatchedCall(uint64_t from, uint64_t bytes) : low(from), size(bytes) { tell_watches(kTrapMappingBegins, low, size); }
  ~WatchedCall() { tell_watches(kTrapMappingDone, low, size); }
};

void hex(const uint8_t* bytes, unsigned count, char* out) {
  for (unsigned i = 0; i < count; i++) {
    *out++ = "0123456789abcdef"[bytes[i] >> 4];
    *out++ = "0123456789abcdef"[bytes[i] & 15];
  }
  *out = 0;
}

int open_copy(const uint8_t* file) {
  char path[sizeof control.files + 40];
  size_t n = length_of(control.files);
  memcpy(path, control.files, n);
  path[n++] = '/';
  hex(file, 16, path + n);
  return (int)native(sys::open, path, O_RDONLY | O_CLOEXEC, 0);
}

long replay_mmap(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  EventRecord* event = replay_expect(frame, area, kCall, sys::mmap);
  long result = event->result;
  const SharedMapPart* shared = shared_part(event);
  if (shared && !failed(result)) {
    WatchedCall watched((uint64_t)result, a[1]);
    const long got = shared_replay_map(shared, a[1], a[2], a[3] & MAP_FIXED);
    replay_same(event, (uint64_t)result, (uint64_t)got, frame, area);
  } else if (!failed(result)) {
    WatchedCall watched((uint64_t)result, a[1]);
    PartHeader part;
    const MapContentPart* content = (const MapContentPart*)replay_part(event, kMapContent, 0, &part);
    bool copied = false;
    if (content)
      for (uint8_t byte : content->file) copied |= byte != 0;
    uint64_t flags = (a[3] & (MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_GROWSDOWN | MAP_PRIVATE | MAP_SHARED)) |
                     ((a[3] & MAP_FIXED) ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    long got;
    if (copied) {
      int fd = open_copy(content->file);
      if (fd < 0) replay_fail("a file copy is missing from the recording", fd);
      got = native(sys::mmap, result, a[1], a[2], (flags & ~MAP_SHARED) | MAP_PRIVATE, fd, a[5]);
      native(sys::close, fd);
    } else if (!(a[3] & MAP_ANONYMOUS)) {
      got = native(sys::mmap, result, a[1], a[2] | PROT_WRITE, (flags & ~MAP_SHARED) | MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0);
    } else {
      got = native(sys::mmap, result, a[1], a[2], flags, -1, 0);
    }
    replay_same(event, (uint64_t)result, (uint64_t)got, frame, area);
    replay_apply(event);
    if (!copied && !(a[3] & MAP_ANONYMOUS)) native(sys::mprotect, result, page_up(a[1]), a[2]);
    if (const Site* sites = (const Site*)replay_part(event, kSites, 0, &part)) {
      ModuleView module = {(uint64_t)result, (uint64_t)result + page_up(a[1]), a[5], a[2] & kAnyAccess, ""};
      repatch_module(module, sites, part.size / sizeof(Site), part.address);
    }
  }
  replay_consume(event);
  return result;
}

}  // namespace

DescriptorLink::DescriptorLink(int fd) {
  char digits[12];
  int n = 14, k = 0;
  unsigned value = (unsigned)fd;
  do digits[k++] = (char)('0' + value % 10);
  while (value /= 10);
  while (k) text[n++] = digits[--k];
  text[n] = 0;
}

void path_of_descriptor(int fd, char* out, size_t size) {
  long length = native(sys::readlink, DescriptorLink(fd).text, out, size - 1);
  out[length > 0 ? length : 0] = 0;
}

long do_mmap(CallFrame* frame, ThreadArea* area) {
  return control.mode == kModeReplay ? replay_mmap(frame, area) : record_mmap(frame, area);
}

long do_brk(CallFrame* frame, ThreadArea* area) {
  uint64_t entry = ticks_now();
  if (control.mode != kModeReplay) {
    long result = native(sys::brk, frame->rdi);
    record_native(area, sys::brk, arguments_of(frame), 1, result, entry);
    control.program_brk = (uint64_t)result;
    return result;
  }
  EventRecord* event = replay_expect(frame, area, kCall, sys::brk);
  uint64_t wanted = (uint64_t)event->result, old_end = page_up(control.program_brk), new_end = page_up(wanted);
  WatchedCall watched(min(old_end, new_end), new_end > old_end ? new_end - old_end : old_end - new_end);
  if (new_end > old_end) {
    long got = native(sys::mmap, old_end, new_end - old_end, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    replay_same(event, old_end, (uint64_t)got, frame, area);
  } else if (new_end < old_end) {
    native(sys::munmap, new_end, old_end - new_end);
  }
  control.program_brk = wanted;
  replay_consume(event);
  return (long)wanted;
}

// Moves the mappings in [from, from + size) to `to` one by one, and makes the last longer by `more` bytes. mremap(2)
// takes one mapping at a time, and adjacent file mappings that were one while recording are several at replay, since
// each is made from an open file of its own.
static long move_by_pieces(uint64_t from, uint64_t size, uint64_t to, uint64_t more, uint64_t flags) {
  constexpr uint64_t kMayMoveFixed = 3, kDontUnmap = 4;
  MapLine line;
  uint64_t at = from;
  for (const char* p = read_maps(); at < from + size && (p = parse_map_line(p, &line));) {
    if (line.high <= at) continue;
    if (line.low > at) return -EFAULT;  // a hole, for which the kernel returns this
    const uint64_t piece = min(line.high, from + size) - at, grown = piece + (at + piece == from + size ? more : 0),
                   place = to + (at - from);
    if (place != at || grown != piece) {
      const long got = place == at ? native(sys::mremap, at, piece, grown, 0)
                                   : native(sys::mremap, at, piece, grown, kMayMoveFixed | (flags & kDontUnmap), place);
      if (got != (long)place) return got;
    }
    at += piece;
  }
  return at == from + size ? (long)to : -EFAULT;
}

long do_mremap(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  uint64_t entry = ticks_now();
  if (control.mode != kModeReplay) {
    const long result = native(sys::mremap, a[0], a[1], a[2], a[3], a[4]);
    const uint64_t before = page_up(a[1]), after = page_up(a[2]);
    SharedMapPart part;
    const bool grown = !failed(result) && before && after > before &&
                       shared_record_growth((uint64_t)result + before, after - before, &part);
    if (control.mode != kModeRecord) return result;
    EventWriter writer(kCall, area, sys::mremap, a, 5);
    writer.event->header.flags |= kFlagNative;
    if (grown) writer.part(kSharedMap, &part, sizeof part);
    writer.commit(result, 0, entry, ticks_now());
    return result;
  }
  EventRecord* event = replay_expect(frame, area, kCall, sys::mremap);
  long result = event->result;
  if (!failed(result)) {
    WatchedCall from(a[0], a[1]), to((uint64_t)result, a[2]);
    long got = (uint64_t)result == a[0]
                   ? native(sys::mremap, a[0], a[1], a[2], 0)
                   : native(sys::mremap, a[0], a[1], a[2], MREMAP_MAYMOVE | MREMAP_FIXED | (a[3] & 4), result);
    const uint64_t size = page_up(a[1]), wanted = page_up(a[2]);
    if (got == -EFAULT && wanted >= size) got = move_by_pieces(a[0], size, (uint64_t)result, wanted - size, a[3]);
    replay_same(event, (uint64_t)result, (uint64_t)got, frame, area);
    if (const SharedMapPart* part = shared_part(event)) shared_replay_growth(part);
  }
  replay_consume(event);
  return result;
}

namespace {

// How many bytes from `start` on an mprotect(2) that failed has changed. The kernel changes mapping after mapping and
// stops at the first that does not allow the access. What is changed can be changed once more, so this searches for the
// largest size with which the call succeeds.
uint64_t protected_part(uint64_t start, uint64_t size, uint64_t access) {
  constexpr uint64_t kPage = 4096;
  uint64_t done = 0, refused = page_up(size);
  while (refused - done > kPage) {
    const uint64_t middle = done + (refused - done) / kPage / 2 * kPage;
    (failed(native(sys::mprotect, start, middle, access)) ? refused : done) = middle;
  }
  return done;
}

}  // namespace

// The reason why an mprotect(2) fails may not exist at replay: how a file was opened, how it is mounted, a limit. So a
// replay does not make a call that failed, but only the changes that the call had made before it failed.
long do_mprotect(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode != kModeReplay) {
    const uint64_t entry = ticks_now();
    const long result = native(sys::mprotect, a[0], a[1], a[2]);
    EventWriter writer(kCall, area, sys::mprotect, a, 3);
    writer.event->header.flags |= kFlagNative;
    if (failed(result) && result != -EINVAL /* returned before anything is changed */) {
      MapContentPart changed = {};
      changed.offset = a[0];
      changed.length = protected_part(a[0], a[1], a[2]);
      if (changed.length) writer.part(kMapContent, &changed, sizeof changed);
    }
    writer.commit(result, 0, entry, ticks_now());
    return result;
  }
  EventRecord* event = replay_expect(frame, area, kCall, sys::mprotect);
  const long result = event->result;
  PartHeader part;
  const MapContentPart* changed = (const MapContentPart*)replay_part(event, kMapContent, 0, &part);
  const uint64_t arguments[6] = {a[0], changed ? changed->length : a[1], a[2], 0, 0, 0};
  if (changed || !failed(result))
    replay_same(event, 0, (uint64_t)native_mapping(sys::mprotect, arguments), frame, area);
  replay_consume(event);
  return result;
}

bool advice_changes_memory(uint64_t advice) {
  constexpr uint64_t kGuardInstall = 102, kGuardRemove = 103;  // MADV_GUARD_INSTALL, MADV_GUARD_REMOVE: kernel 6.13
  switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_DONTFORK:
    case MADV_DOFORK:
    case MADV_WIPEONFORK:
    case MADV_KEEPONFORK:
    case MADV_DONTNEED_LOCKED:
    case kGuardInstall:
    case kGuardRemove: return true;
    default: return false;
  }
}

// With MADV_FREE the kernel decides when the pages are freed. The program gets MADV_DONTNEED instead.
long do_madvise(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  uint64_t advice = a[2] == MADV_FREE ? MADV_DONTNEED : a[2];
  uint64_t entry = ticks_now();
  if (control.mode != kModeReplay) {
    if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK) part_copies_differ();
    long result = native(sys::madvise, a[0], a[1], advice);
    record_native(area, sys::madvise, a, 3, result, entry);
    return result;
  }
  EventRecord* event = replay_expect(frame, area, kCall, sys::madvise);
  long result = event->result;
  // Other advice has no effect that the program can see. After ENOMEM the kernel has followed the advice for all pages
  // that are mapped (madvise(2)).
  if ((result == 0 || result == -ENOMEM) && advice_changes_memory(advice)) {
    WatchedCall watched(a[0], a[1]);
    native(sys::madvise, a[0], a[1],
           advice == MADV_DONTNEED_LOCKED /* no memory is locked at replay */ ? MADV_DONTNEED : advice);
  }
  replay_consume(event);
  return result;
}

void replay_setting(const CallFrame* frame, const ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (area->borrowed) return;            // the setting of a vfork child, and this process is its parent
  if (frame->rax == sys::personality) {  // READ_IMPLIES_EXEC makes readable mappings executable
    constexpr uint64_t kReadImpliesExec = 0x400000, kAsk = 0xffffffff;
    if ((uint32_t)a[0] == kAsk) return;
    const uint64_t own = (uint64_t)native(sys::personality, kAsk) & ~kReadImpliesExec;
    native(sys::personality, own | (a[0] & kReadImpliesExec));
    return;
  }
  // setrlimit(2), prlimit(2): RLIMIT_STACK says how far memory with MAP_GROWSDOWN grows.
  const bool own = frame->rax == sys::setrlimit || a[0] == 0 || a[0] == area->tid;
  const uint64_t which = frame->rax == sys::setrlimit ? a[0] : a[1],
                 wanted = frame->rax == sys::setrlimit ? a[1] : a[2];
  if (!own || which != RLIMIT_STACK || !wanted) return;
  uint64_t limit[2];
  native(sys::getrlimit, which, limit);
  limit[0] = min(*(const uint64_t*)wanted, limit[1]);
  native(sys::setrlimit, which, limit);
}

namespace {

struct AioRing {  // fs/aio.c
  uint32_t id, count, head, tail, magic, compatible, incompatible, header_bytes;
};

// The size of the ring in bytes: a header of 32 and 32 for each event, in whole pages (aio_setup_ring() in fs/aio.c).
uint64_t ring_size(uint64_t address) {
  uint64_t count = 0;
  return probed([&] { count = ((const AioRing*)address)->count; }) ? page_up(sizeof(AioRing) + 32 * count) : 0;
}

}  // namespace

// io_setup(2) maps a ring to which the kernel writes at any time. The shim clears its magic number, so that libaio does
// not read results from the ring but calls io_getevents(2).
long do_io_setup(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::io_setup);
    const long result = event->result;
    PartHeader part;
    if (const MapContentPart* content = (const MapContentPart*)replay_part(event, kMapContent, 0, &part)) {
      const uint64_t ring = content->offset;
      long got = native(sys::mmap, ring, content->length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      replay_same(event, ring, (uint64_t)got, frame, area);
    }
    replay_apply(event);
    replay_consume(event);
    return result;
  }
  const uint64_t entry = ticks_now(), hash = input_hash(call_info(sys::io_setup), frame);
  const long result = native(sys::io_setup, a[0], a[1]);
  EventWriter writer(kCall, area, sys::io_setup, a, 2);
  writer.event->header.flags |= kFlagNative;
  if (result == 0) {
    AioRing* ring = *(AioRing**)a[1];
    ring->magic = 0;
    MapContentPart content = {};
    content.offset = (uint64_t)ring;
    content.length = ring_size((uint64_t)ring);
    writer.part(kMapContent, &content, sizeof content);
    writer.memory((void*)a[1], 8);
    writer.memory(ring, sizeof *ring);
  }
  writer.commit(result, hash, entry, ticks_now());
  return result;
}

long do_io_destroy(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::io_destroy);
    const long result = event->result;
    PartHeader part;
    const MapContentPart* content = (const MapContentPart*)replay_part(event, kMapContent, 0, &part);
    if (content && result == 0) native(sys::munmap, a[0], content->length);
    replay_consume(event);
    return result;
  }
  const uint64_t entry = ticks_now();
  MapContentPart content = {};
  content.offset = a[0];
  content.length = ring_size(a[0]);
  const long result = native(sys::io_destroy, a[0]);
  EventWriter writer(kCall, area, sys::io_destroy, a, 1);
  writer.event->header.flags |= kFlagNative;
  if (result == 0) writer.part(kMapContent, &content, sizeof content);
  writer.commit(result, 0, entry, ticks_now());
  return result;
}

long native_mapping(long call, const uint64_t* a) {
  // An mmap or mremap of a function that a debugger calls may return any address; that one is watched separately.
  WatchedCall watched(a[0], call == sys::mremap && a[2] > a[1] ? a[2] : a[1]);
  long result = native(call, a[0], a[1], a[2], a[3], a[4], a[5]);
  if ((call == sys::mmap || call == sys::mremap) && !failed(result) && (uint64_t)result != a[0]) {
    const uint64_t size = call == sys::mmap ? a[1] : a[2];
    tell_watches(kTrapMappingBegins, (uint64_t)result, size);
    tell_watches(kTrapMappingDone, (uint64_t)result, size);
  }
  return result;
}

}  // namespace friday::shim
