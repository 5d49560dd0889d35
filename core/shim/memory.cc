// Calls that change the program's address space. They are made at record and at replay: there at the recorded address,
// and with file contents from the recording instead of the file.
#include <asm/socket.h>
#include <linux/in.h>
#include <linux/mman.h>
#include <linux/resource.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint64_t kDroppable = 8;  // MAP_DROPPABLE, kernel 6.11

// Notes what a new file mapping holds, and patches code that has just appeared.
// `reply` is null when there is no collector to ask any more.
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
  if (!copied && (a[2] & 1)) {
    uint64_t there = file_size > a[5] ? min(file_size - a[5], a[1]) : 0;
    writer.memory((void*)module.low, there);
  }
  if (reply && reply->site_count) {
    sites = patch_module(module, reply->sites, reply->site_count);
    writer.part(kSites, reply->sites, sites.done * sizeof(Site), sites.stubs);
  }
  return sites;
}

// Memory that the kernel or a device writes whenever it likes.
const char* describe_foreign(const FileStat& st, const char* path) {
  static char text[64];
  if ((st.mode & 0170000) == 0140000) return "of a socket, whose ring the kernel writes at any time";
  constexpr char kAbout[] = "of the device ";
  memcpy(text, kAbout, sizeof kAbout);
  memcpy(text + sizeof kAbout - 1, path, min(length_of(path) + 1, sizeof text - sizeof kAbout));
  return text;
}

// Pages of a TCP socket, for TCP_ZEROCOPY_RECEIVE: the program sees a kernel before 4.18, where such a socket cannot be
// mapped.
bool maps_tcp(const uint64_t* a) {
  uint32_t protocol = 0, size = sizeof protocol;
  return !(a[3] & MAP_ANONYMOUS) && !failed(native(sys::getsockopt, a[4], SOL_SOCKET, SO_PROTOCOL, &protocol, &size)) &&
         protocol == IPPROTO_TCP;
}

// mmap(2), but that what Friday uses or will use at replay is taken: a hint that leads there finds another place.
long map_beside_own(const uint64_t* a) {
  const bool taken = !(a[3] & MAP_FIXED) && is_fridays(a[0], a[1]);
  if (taken && a[3] & MAP_FIXED_NOREPLACE) return -EEXIST;
  return native(sys::mmap, taken ? 0 : a[0], a[1], a[2], a[3], a[4], a[5]);
}

long record_mmap(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  uint64_t entry = ticks_now();
  const bool file = !(a[3] & MAP_ANONYMOUS);
  // Memory that the kernel may clear at any time does not replay: the program sees a kernel before 6.11, which has
  // none.
  long result = (a[3] & MAP_TYPE) == kDroppable ? -EINVAL : maps_tcp(a) ? -ENODEV : map_beside_own(a);
  ModuleReply* reply = nullptr;
  FileStat st = {};
  char path[kPathBytes] = "";
  bool regular = false, shared = false;
  SharedMapPart part = {};
  if (file && !failed(result)) {
    native(sys::fstat, a[4], &st);
    path_of_descriptor((int)a[4], path, sizeof path);
    regular = is_regular(st);
    shared = shared_wanted(a, st);
    if (regular && !shared)
      collector_module((uint64_t)result, (uint64_t)result + page_up(a[1]), a[5], st.device, st.inode, a[2] & 4,
                       (int)a[4], path, &reply);
  }
  if (!file && !failed(result)) shared = shared_wanted(a, st);
  if (file && !failed(result) && !regular && !is_zero_device(st)) {
    trace_end(kEndUnhandled, 9, describe_foreign(st, path));
    return result;
  }
  if (shared)
    shared = regular ? shared_record_map(st.device, st.inode, (int)a[4], a[5], (uint64_t)result, page_up(a[1]),
                                         a[2] & 1, &part)
                     : shared_record_inherited((uint64_t)result, page_up(a[1]), is_zero_device(st) ? a[5] : 0, &part);
  if (control.mode != kModeRecord) return result;
  EventWriter writer(kCall, area, sys::mmap, a, 6);
  writer.event->header.flags |= kFlagNative;
  const ModuleView module = {(uint64_t)result, (uint64_t)result + page_up(a[1]), a[5], a[2] & 7, path};
  PatchedModule sites;
  if (shared) writer.part(kSharedMap, &part, sizeof part);
  else if (regular) sites = note_contents(writer, module, a, reply, (uint64_t)st.size);
  if (path[0]) writer.part(kPath, path, length_of(path));
  writer.commit(result, 0, entry, ticks_now());
  if (reply && a[2] & 4 && control.mode == kModeRecord) module_note(*reply, module, st.device, st.inode, sites);
  return result;
}

// A debugger's watches lie on pages: the core takes its protections off before a call that changes mappings there, and
// puts them back on what has come of it.
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
  return (int)native(sys::open, path, 0x80000, 0);
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
      got = native(sys::mmap, result, a[1], a[2] | 2, (flags & ~MAP_SHARED) | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
      got = native(sys::mmap, result, a[1], a[2], flags, -1, 0);
    }
    replay_same(event, (uint64_t)result, (uint64_t)got, frame, area);
    replay_apply(event);
    if (!copied && !(a[3] & MAP_ANONYMOUS)) native(sys::mprotect, result, page_up(a[1]), a[2]);
    if (const Site* sites = (const Site*)replay_part(event, kSites, 0, &part)) {
      ModuleView module = {(uint64_t)result, (uint64_t)result + page_up(a[1]), a[5], a[2] & 7, ""};
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
    long got =
        native(sys::mmap, old_end, new_end - old_end, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    replay_same(event, old_end, (uint64_t)got, frame, area);
  } else if (new_end < old_end) {
    native(sys::munmap, new_end, old_end - new_end);
  }
  // What stands between the end and its page's end is zero when it grows again.
  control.program_brk = wanted;
  replay_consume(event);
  return (long)wanted;
}

// At replay each mapping of a file has an open file of its own, so that neighbours which were one mapping while
// recording are several, and the kernel moves one at a time: whatever lies in [from, from + size) goes to `to`, and the
// last of it gets what is `more`.
static long move_by_pieces(uint64_t from, uint64_t size, uint64_t to, uint64_t more, uint64_t flags) {
  constexpr uint64_t kMayMoveFixed = 3, kDontUnmap = 4;
  MapLine line;
  uint64_t at = from;
  for (const char* p = read_maps(); at < from + size && (p = parse_map_line(p, &line));) {
    if (line.high <= at) continue;
    if (line.low > at) return -EFAULT;  // EFAULT, as the kernel says of a hole
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

// How much of [start, start + size) an mprotect(2) that failed has changed: the kernel goes from mapping to mapping,
// and stops at the one that does not allow the access. What it has changed can be changed again, so the largest size
// that succeeds is looked for.
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

// Why an mprotect(2) fails may lie outside what is replayed: how a file was opened, where it was mounted, a limit. One
// that failed is therefore not made again, only what it had changed before.
long do_mprotect(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode != kModeReplay) {
    const uint64_t entry = ticks_now();
    const long result = native(sys::mprotect, a[0], a[1], a[2]);
    EventWriter writer(kCall, area, sys::mprotect, a, 3);
    writer.event->header.flags |= kFlagNative;
    if (failed(result) && result != -EINVAL /*: nothing was done */) {
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

// MADV_FREE leaves it to the kernel when pages vanish: the program gets MADV_DONTNEED instead, in both modes.
long do_madvise(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  uint64_t advice = a[2] == MADV_FREE ? MADV_DONTNEED : a[2];
  uint64_t entry = ticks_now();
  if (control.mode != kModeReplay) {
    long result = native(sys::madvise, a[0], a[1], advice);
    record_native(area, sys::madvise, a, 3, result, entry);
    return result;
  }
  EventRecord* event = replay_expect(frame, area, kCall, sys::madvise);
  long result = event->result;
  // Only advice that changes contents, access or inheritance matters here; ENOMEM says that it was followed around a
  // gap.
  if ((result == 0 || result == -ENOMEM) && advice_changes_memory(advice)) {
    WatchedCall watched(a[0], a[1]);
    native(sys::madvise, a[0], a[1],
           advice == MADV_DONTNEED_LOCKED /* nothing is locked at replay */ ? MADV_DONTNEED : advice);
  }
  replay_consume(event);
  return result;
}

// At replay, of a call that succeeded: what later mappings of the program depend on is as it was.
void replay_setting(const CallFrame* frame, const ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (area->borrowed) return;            // a child's by vfork, and this is its parent
  if (frame->rax == sys::personality) {  // what is mapped to be read can be executed
    constexpr uint64_t kReadImpliesExec = 0x400000, kAsk = 0xffffffff;
    if ((uint32_t)a[0] == kAsk) return;
    const uint64_t own = (uint64_t)native(sys::personality, kAsk) & ~kReadImpliesExec;
    native(sys::personality, own | (a[0] & kReadImpliesExec));
    return;
  }
  // setrlimit, prlimit64: memory with MAP_GROWSDOWN grows as far as RLIMIT_STACK lets it.
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

// The kernel maps whole pages and gives all of them to events: 32 bytes each, behind a header of 32.
uint64_t ring_size(uint64_t address) {
  uint64_t count = 0;
  return probed([&] { count = ((const AioRing*)address)->count; }) ? page_up(sizeof(AioRing) + 32 * count) : 0;
}

}  // namespace

// io_setup(2) maps a ring that the kernel writes. Without its magic number libaio never looks into it, and asks the
// kernel.
long do_io_setup(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::io_setup);
    const long result = event->result;
    PartHeader part;
    if (const MapContentPart* content = (const MapContentPart*)replay_part(event, kMapContent, 0, &part)) {
      const uint64_t ring = content->offset;
      long got = native(sys::mmap, ring, content->length, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
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
  // A call of a debugger's may get any address; mprotect and munmap have theirs.
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
