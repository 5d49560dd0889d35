// The start image: everything that a replay needs to rebuild this address space. It is taken once, at the end of the
// shim's start and before the first instruction of the program that is recorded.
#include <asm/prctl.h>
#include <linux/auxvec.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/signal.h>

#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

ImageRecord image_registers;
FileNote file_notes[kMaxFileNotes];
unsigned file_note_count;

namespace {

char maps_text[512 << 10];

uint64_t parse_hex(const char*& p) {
  uint64_t value = 0;
  for (;; p++) {
    char c = *p;
    if (c >= '0' && c <= '9') value = value * 16 + (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f') value = value * 16 + (uint64_t)(c - 'a' + 10);
    else return value;
  }
}
uint64_t parse_decimal(const char*& p) {
  uint64_t value = 0;
  for (; *p >= '0' && *p <= '9'; p++) value = value * 10 + (uint64_t)(*p - '0');
  return value;
}

// Whether the mapping is left out: it is Friday's or the kernel's, and a replay creates its own.
bool leave_out(const MapLine& map) {
  if (is_of_recorder(map) || part_maps_itself(map)) return true;
  if (map.low >= kVdsoAddress && map.low < kVdsoAddress + 0x10000000) return true;
  return map.path[0] == '[' && map.path[1] == 'v' && !equal(map.path, "[vdso]");
}

MapKind kind_of(const MapLine& map, uint64_t vdso_low) {
  if (map.low == vdso_low) return kMapVdso;
  if (equal(map.path, "[stack]")) return kMapStack;
  if (equal(map.path, "[heap]")) return kMapHeap;
  if (map.inode) return map.shared ? kMapSharedFile : kMapFile;
  return kMapAnonymous;
}

void write_pages(uint64_t address, uint64_t pages) {
  while (pages) {
    uint64_t n = min<uint64_t>(pages, 256);
    ImagePagesRecord* record = (ImagePagesRecord*)record_begin(kImagePages, sizeof(ImagePagesRecord) + n * 4096);
    if (!trace_alive()) return;
    record->address = address;
    record->pages = n;
    memcpy(record + 1, (void*)address, n * 4096);
    record_commit(record);
    address += n * 4096;
    pages -= n;
  }
}

void write_words(const uint64_t* from, uint64_t words) {
  ImageBytesRecord* record = (ImageBytesRecord*)record_begin(kImageBytes, sizeof(ImageBytesRecord) + words * 8);
  if (!trace_alive()) return;
  record->address = (uint64_t)from;
  record->bytes = words * 8;
  memcpy(record + 1, from, words * 8);
  record_commit(record);
}

// A second mapping of a mapped file, which shows the original contents of pages that were changed. If the path names
// another file by now, or cannot be opened, there is none, and write_difference() returns false.
class Original {
 public:
  // `file_size` 0: no second mapping is wanted.
  Original(const MapLine& map, uint64_t file_size) : low_(map.low) {
    if (!file_size) return;
    const int fd = (int)native(sys::open, map.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return;
    FileStat st;
    if (native(sys::fstat, fd, &st) == 0 && st.inode == map.inode && file_size > map.offset) {
      size_ = page_up(min(map.high - map.low, file_size - map.offset));
      const long mapped = native(sys::mmap, 0, size_, PROT_READ, MAP_PRIVATE, fd, map.offset);
      at_ = failed(mapped) ? 0 : (uint64_t)mapped;
    }
    native(sys::close, fd);
  }
  ~Original() {
    if (at_) native(sys::munmap, at_, size_);
  }
  Original(const Original&) = delete;

  // Writes the words of the page at `address` that differ from the file. Patched code differs in few places, so this is
  // shorter than the page. False: there are too many differences, or there is nothing to compare with.
  bool write_difference(uint64_t address) const {
    // Two runs of differing words that are no farther apart than kApart words take less room as one.
    constexpr uint64_t kWords = 512, kApart = sizeof(ImageBytesRecord) / 8;
    if (!at_ || address - low_ >= size_) return false;
    const uint64_t *is = (const uint64_t*)address, *was = (const uint64_t*)(at_ + (address - low_));
    struct {
      uint64_t from, to;
    } runs[32];
    unsigned count = 0;
    for (uint64_t i = 0; i < kWords; i++) {
      if (is[i] == was[i]) continue;
      if (count && i - runs[count - 1].to <= kApart) runs[count - 1].to = i + 1;
      else if (count == sizeof runs / sizeof *runs) return false;
      else runs[count].from = i, runs[count++].to = i + 1;
    }
    for (unsigned i = 0; i < count; i++) write_words(is + runs[i].from, runs[i].to - runs[i].from);
    return true;
  }

 private:
  uint64_t low_, size_ = 0, at_ = 0;
};

// Writes the pages that differ from what a new mapping would show; with `all`, because the recording has no copy of the
// file, every page. `pagemap` is the descriptor of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst).
void write_contents(const MapLine& map, const ImageMapRecord& record, int pagemap, bool all) {
  if (!(map.protection & PROT_READ)) return;
  // Bits of its entries. kPresent: the page is in memory or swapped out; kOfFile: it is a page of the file itself.
  constexpr uint64_t kPresent = 3ull << 62, kOfFile = 1ull << 61;
  const bool file = record.kind == kMapFile || record.kind == kMapSharedFile;
  const Original original(map, file && !all && (pagemap < 0 || map.protection & PROT_EXEC) ? record.file_size : 0);
  uint64_t run = 0, run_start = 0;
  uint64_t entries[512];
  for (uint64_t at = map.low; at < map.high;) {
    uint64_t count = min<uint64_t>((map.high - at) / 4096, 512);
    long got = native(sys::pread64, pagemap, entries, count * 8, at / 512) / 8;
    if (got <= 0) {  // cannot be read, because the user may execute but not read the program: any page may have changed
      got = (long)count;
      for (uint64_t& entry : entries) entry = kPresent;
    }
    for (long i = 0; i < got; i++, at += 4096) {
      const bool present = entries[i] & kPresent, changed = present && !(entries[i] & kOfFile);
      const bool in_file = file && at - map.low + map.offset < record.file_size;
      bool keep;
      if (file) keep = in_file && (all || (changed && !original.write_difference(at)));
      else keep = present && !all_zero((const uint64_t*)at, 512);
      if (keep && !run) run_start = at;
      if (keep) run++;
      if (!keep && run) {
        write_pages(run_start, run);
        run = 0;
      }
    }
  }
  if (run) write_pages(run_start, run);
}

void write_map(const MapLine& map, int pagemap) {
  ImageMapRecord* record = (ImageMapRecord*)record_begin(kImageMap, sizeof(ImageMapRecord));
  record->low = map.low;
  record->high = map.high;
  record->offset = map.offset;
  record->device = map.device;
  record->inode = map.inode;
  record->protection = map.protection;
  record->kind = kind_of(map, image_registers.vdso_low);
  memcpy(record->path, map.path, sizeof map.path);
  bool copied = false;
  if (map.inode) {
    if (const FileNote* note = file_note(map)) {
      memcpy(record->file, note->file, 16);
      record->file_size = note->size;
      for (uint8_t byte : note->file) copied |= byte != 0;
    }
    if (!copied) record->file_size = ~0ull >> 1;
  }
  ImageMapRecord copy = *record;
  record_commit(record);
  write_contents(map, copy, pagemap, map.inode && !copied);
}

}  // namespace

const FileNote* file_note(const MapLine& map) {
  for (unsigned i = 0; i < file_note_count; i++)
    if (file_notes[i].device == map.device && file_notes[i].inode == map.inode) return &file_notes[i];
  return nullptr;
}

char* read_maps() {
  int fd = (int)native(sys::open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  size_t filled = 0;
  long got;
  while (filled < sizeof maps_text - 1 &&
         (got = native(sys::read, fd, maps_text + filled, sizeof maps_text - 1 - filled)) > 0)
    filled += (size_t)got;
  maps_text[filled] = 0;
  native(sys::close, fd);
  return maps_text;
}

const char* parse_map_line(const char* p, MapLine* out) {
  if (!*p) return nullptr;
  out->low = parse_hex(p);
  p++;
  out->high = parse_hex(p);
  p++;
  out->protection = (p[0] == 'r' ? PROT_READ : 0u) | (p[1] == 'w' ? PROT_WRITE : 0u) | (p[2] == 'x' ? PROT_EXEC : 0u);
  out->shared = p[3] == 's';
  p += 5;
  out->offset = parse_hex(p);
  p++;
  uint64_t major = parse_hex(p);
  p++;
  uint64_t minor = parse_hex(p);
  out->device = (minor & 0xff) | (major & 0xfff) << 8 | (minor & ~0xffull) << 12;
  p++;
  out->inode = parse_decimal(p);
  while (*p == ' ') p++;
  size_t n = 0;
  memset(out->path, 0, sizeof out->path);
  for (; *p && *p != '\n'; p++)
    if (n < sizeof out->path - 1) out->path[n++] = *p;
  return *p == '\n' ? p + 1 : p;
}

void image_renew() {
  ImageRecord& r = image_registers;
  r.brk_end = (uint64_t)native(sys::brk, 0);
  control.program_brk = r.brk_end;
  for (unsigned i = 0; i < 16; i++) native(sys::getrlimit, i, r.rlimits[i]);
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));) {
    if (equal(line.path, "[stack]")) r.stack_low = line.low, r.stack_high = line.high;
    if (equal(line.path, "[heap]")) r.brk_start = line.low;
    if (line.low == r.vdso_low) r.vdso_high = line.high;
  }
}

void image_prepare(const HelloReply& hello, const uint64_t* auxv) {
  ImageRecord& r = image_registers;
  native(sys::arch_prctl, ARCH_GET_FS, &r.fs_base);
  r.gs_base = (uint64_t)me();
  r.control = (uint64_t)&control;
  native(sys::rt_sigprocmask, SIG_BLOCK, 0, &r.signal_mask, 8);
  r.auxv_address = (uint64_t)auxv;
  r.auxv_bytes = 16;
  for (const uint64_t* a = auxv; *a; a += 2) {
    r.auxv_bytes += 16;
    if (*a == AT_SYSINFO_EHDR) r.vdso_low = a[1];
  }
  asm volatile("stmxcsr %0" : "=m"(r.mxcsr));
  uint16_t control_word;
  asm volatile("fnstcw %0" : "=m"(control_word));
  r.fpu_control = control_word;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  r.xcr0 = (uint64_t)high << 32 | low;
  memcpy(r.cpuid, hello.cpuid, sizeof r.cpuid);
  if (loaded_program[0]) memcpy(r.exe, loaded_program, min(length_of(loaded_program), sizeof r.exe - 1));
  else native(sys::readlink, "/proc/self/exe", r.exe, sizeof r.exe - 1);
  image_renew();
}

void module_note(const ModuleReply& reply, const ModuleView& module, uint64_t device, uint64_t inode,
                 const PatchedModule& sites) {
  bool known = false;
  for (unsigned i = 0; i < file_note_count; i++)
    known |= file_notes[i].device == device && file_notes[i].inode == inode;
  if (!known && file_note_count < kMaxFileNotes) {
    FileNote& note = file_notes[file_note_count++];
    note.device = device;
    note.inode = inode;
    note.size = reply.file_size;
    memcpy(note.file, reply.file, 16);
  }
  ModuleRecord* record = (ModuleRecord*)record_begin(kModuleRecord, sizeof(ModuleRecord));
  record->event = trace_header()->events;
  memcpy(record->file, reply.file, 16);
  record->low = module.low;
  record->high = module.high;
  record->device = device;
  record->inode = inode;
  record->build_id_size = reply.build_id_size;
  memcpy(record->build_id, reply.build_id, sizeof record->build_id);
  record->sites_patched = sites.patched;
  record->sites_trapped = sites.trapped;
  memcpy(record->path, module.path, min(length_of(module.path), sizeof record->path - 1));
  record_commit(record);
}

void image_write() {
  ImageRecord* record = (ImageRecord*)record_begin(kImageRecord, sizeof(ImageRecord));
  RecordHeader header = record->header;
  memcpy(record, &image_registers, sizeof image_registers);
  record->header = header;
  record_commit(record);
  int pagemap = (int)native(sys::open, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if (!leave_out(line) && trace_alive()) write_map(line, pagemap);
  native(sys::close, pagemap);
}

// Called by friday_snapshot when image_registers has rip and rsp. What is on the stack above rsp must not change until
// the function returns, since a replay resumes with the memory that is written here.
extern "C" void friday_image_registers_taken() { image_write(); }

}  // namespace friday::shim
