// The vdso (vdso(7)), whose functions read clocks without a system call. A copy takes its place whose functions make
// system calls.
#include <linux/elf.h>
#include <linux/mman.h>

#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/trace.h"

namespace friday::shim {

uint64_t vdso_was_at;

namespace {

int32_t number_at(uint64_t address) {
  int32_t value;
  memcpy(&value, (const void*)address, sizeof value);
  return value;
}

// The table of unwind entries (.eh_frame_hdr, Linux Standard Base) of the image at `low`; 0: it has none of the form in
// which linkers write it.
uint64_t unwind_table(uint64_t low) {
  const Elf64_Ehdr* header = (const Elf64_Ehdr*)low;
  const Elf64_Phdr* segments = (const Elf64_Phdr*)(low + header->e_phoff);
  const uint8_t form[] = {1, 0x1b, 0x03, 0x3b};
  for (unsigned i = 0; i < header->e_phnum; i++)
    if (segments[i].p_type == PT_GNU_EH_FRAME && memcmp((const void*)(low + segments[i].p_vaddr), form, 4) == 0)
      return low + segments[i].p_vaddr;
  return 0;
}

// The unwind entry of a function describes the frame of the code that was there. That of a function which uses no stack
// is what all entries begin with, so the instructions that change it are replaced by DW_CFA_nop, which is 0.
void note_no_frame(uint64_t low, uint64_t function) {
  const uint64_t table = unwind_table(low);
  for (int32_t i = 0; table && i < number_at(table + 8); i++) {
    const uint64_t pair = table + 12 + 8 * (uint64_t)i;
    if (table + (uint64_t)(int64_t)number_at(pair) != low + function) continue;
    const uint64_t entry = table + (uint64_t)(int64_t)number_at(pair + 4);
    const uint64_t begin = entry + 8, end = entry + 4 + (uint32_t)number_at(entry);
    const uint8_t augmentation = *(const uint8_t*)(begin + 8);  // bytes of further data, which this one has not
    if (begin + (uint64_t)(int64_t)number_at(begin) == low + function && augmentation == 0)
      memset((void*)(begin + 9), 0, end - (begin + 9));
  }
}

}  // namespace

void vdso_redirect(uint64_t low, uint64_t high, const HelloReply& offsets) {
  // The kernel's pages, data and code, are moved elsewhere with the distances between them. A copy of the code whose
  // functions make system calls takes its place. So the program's pointers into the vdso stay valid, and a replay needs
  // no vdso.
  MapLine line;
  uint64_t data_low = low;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if (line.path[0] == '[' && line.path[1] == 'v' && line.path[2] == 'v' && line.low < data_low) data_low = line.low;
  bool moved = true;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));) {
    if (line.low < data_low || line.high > high) continue;
    uint64_t to = kVdsoAddress + (line.low - data_low);
    moved = moved && native(sys::mremap, line.low, line.high - line.low, line.high - line.low,
                            MREMAP_MAYMOVE | MREMAP_FIXED, to) == (long)to;
  }
  uint64_t real = kVdsoAddress + (low - data_low);
  if (moved) {
    vdso_was_at = data_low;
    // The former addresses of the data stay reserved, because it goes back there if the shim leaves the process.
    limits_count((long)(low - data_low));
    if (low > data_low)
      native(sys::mmap, data_low, low - data_low, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
             -1, 0);
    if (native(sys::mmap, low, high - low, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
               -1, 0) != (long)low)
      return;
    memcpy((void*)low, (void*)real, high - low);
    const bool callable = offsets.flags & kVdsoCallable;
    if (callable) vdso_clock_gettime = (long (*)(long, void*))(real + offsets.vdso_clock_gettime);
    if (callable) vdso_gettimeofday = (long (*)(void*, void*))(real + offsets.vdso_gettimeofday);
    if (callable) vdso_time = (long (*)(void*))(real + offsets.vdso_time);
  } else if (failed(native(sys::mprotect, low, high - low, PROT_READ | PROT_WRITE | PROT_EXEC))) {
    return;  // the vdso can only be protected as a whole, else the kernel returns EINVAL; the catch-all gets its calls
  }
  const struct {
    uint64_t offset;
    uint16_t call;
  } functions[] = {{offsets.vdso_clock_gettime, sys::clock_gettime},
                   {offsets.vdso_gettimeofday, sys::gettimeofday},
                   {offsets.vdso_time, sys::time},
                   {offsets.vdso_clock_getres, sys::clock_getres},
                   {offsets.vdso_getcpu, sys::getcpu}};
  Site sites[6];
  uint32_t count = 0;
  for (const auto& f : functions) {
    if (!f.offset) continue;
    uint8_t code[8] = {0xb8, (uint8_t)f.call, (uint8_t)(f.call >> 8), 0, 0, 0x0f, 0x05, 0xc3};
    memcpy((void*)(low + f.offset), code, sizeof code);
    note_no_frame(low, f.offset);
    sites[count++] = Site{f.offset, kSiteBefore, 5, 0};
  }
  if (offsets.vdso_getrandom) {
    // vgetrandom(buffer, size, flags, state, size of state): when asked for the layout of the state (size ~0), this one
    // returns ENOSYS, so that the C library makes the system call (vdso(7)).
    const uint8_t code[22] = {0x49,
                              0x83,
                              0xf8,
                              0xff,
                              0x74,
                              0x08,  // cmp $-1, %r8; je 1f
                              0xb8,
                              sys::getrandom & 255,
                              sys::getrandom >> 8,
                              0,
                              0,
                              0x0f,
                              0x05,
                              0xc3,  // mov $getrandom, %eax; syscall; ret
                              0x48,
                              0xc7,
                              0xc0,
                              0xda,
                              0xff,
                              0xff,
                              0xff,
                              0xc3};  // 1: mov $-ENOSYS, %rax; ret
    memcpy((void*)(low + offsets.vdso_getrandom), code, sizeof code);
    note_no_frame(low, offsets.vdso_getrandom);
    sites[count++] = Site{offsets.vdso_getrandom + 6, kSiteBefore, 5, 0};
  }
  patch_module({low, high, 0, PROT_READ | PROT_EXEC, "[vdso]"}, sites, count);
  native(sys::mprotect, low, high - low, PROT_READ | PROT_EXEC);
}

}  // namespace friday::shim
