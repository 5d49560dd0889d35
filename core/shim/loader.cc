// Starts a statically linked program, into which nothing can be preloaded. The kernel executes the shim itself in the
// program's place, with the program's arguments and environment, and kProgramVariable says which program it is. The
// loader maps that program as the kernel would have done, tells it by the auxiliary vector (getauxval(3)) what the
// kernel would have told it, and takes the variable out of its environment. Then start.cc begins the recording, and the
// program runs from its first instruction.
//
// The program notices a difference in /proc/self: exe names the shim (own_program.cc answers for it), maps has the shim
// beside the program, and auxv has what the kernel told the shim.
#include <linux/auxvec.h>
#include <linux/elf.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>

#include "core/shim/loader.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"

namespace friday::shim {

// NOLINTNEXTLINE(bugprone-reserved-identifier): the linker's own name
extern "C" __attribute__((visibility("hidden"))) const Elf64_Dyn _DYNAMIC[];

namespace {

// The address at which this code would be if the shim's first byte were at 0.
extern "C" __attribute__((visibility("hidden"))) const char friday_base[] __asm__("__ehdr_start");

constexpr uint64_t page_down(uint64_t address) { return address & ~4095ull; }
constexpr unsigned kMostHeaders = 64, kRelative = 8 /* R_X86_64_RELATIVE */;

struct Headers {
  Elf64_Ehdr file;
  Elf64_Phdr segments[kMostHeaders];
};

bool read_headers(int fd, Headers& headers) {
  Elf64_Ehdr& h = headers.file;
  if (native(sys::pread64, fd, &h, sizeof h, 0) != sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
      h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_X86_64 || (h.e_type != ET_EXEC && h.e_type != ET_DYN) ||
      h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phnum > kMostHeaders)
    return false;
  const long size = (long)(h.e_phnum * sizeof(Elf64_Phdr));
  return native(sys::pread64, fd, headers.segments, size, h.e_phoff) == size;
}

uint32_t protection_of(const Elf64_Phdr& segment) {
  return (segment.p_flags & PF_R ? PROT_READ : 0u) | (segment.p_flags & PF_W ? PROT_WRITE : 0u) |
         (segment.p_flags & PF_X ? PROT_EXEC : 0u);
}

// Finds room for a position-independent program, where the kernel would put it too, and stores in `bias` by how much
// its addresses are higher than in the file. The room is free again afterwards.
bool find_room(const Headers& headers, uint64_t* bias) {
  uint64_t low = ~0ull, high = 0, alignment = 4096;
  for (unsigned i = 0; i < headers.file.e_phnum; i++) {
    const Elf64_Phdr& s = headers.segments[i];
    if (s.p_type != PT_LOAD) continue;
    low = min(low, page_down(s.p_vaddr));
    if (s.p_vaddr + s.p_memsz > high) high = s.p_vaddr + s.p_memsz;
    if (s.p_align > alignment && (s.p_align & (s.p_align - 1)) == 0 && s.p_align < 1 << 30) alignment = s.p_align;
  }
  if (low >= high) return false;
  *bias = 0;
  if (headers.file.e_type == ET_EXEC) return true;
  const uint64_t size = page_up(high) - low + alignment;
  const long room = native(sys::mmap, 0, size, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(room)) return false;
  native(sys::munmap, room, size);
  *bias = (((uint64_t)room + alignment - 1) & ~(alignment - 1)) - low;
  return true;
}

bool map_segment(int fd, const Elf64_Phdr& s, uint64_t bias) {
  const uint64_t low = page_down(bias + s.p_vaddr), file_end = bias + s.p_vaddr + s.p_filesz,
                 end = page_up(bias + s.p_vaddr + s.p_memsz), mapped = s.p_filesz ? page_up(file_end) : low;
  const uint32_t protection = protection_of(s);
  if (s.p_filesz && native(sys::mmap, low, mapped - low, protection, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd,
                           page_down(s.p_offset)) != (long)low)
    return false;
  if (s.p_memsz > s.p_filesz && s.p_filesz && protection & PROT_WRITE) memset((void*)file_end, 0, mapped - file_end);
  return end <= mapped || native(sys::mmap, mapped, end - mapped, protection,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == (long)mapped;
}

// Some programs have code on their stack (trampolines of nested functions) and say so.
void allow_code_on_stack() {
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if (equal(line.path, "[stack]"))
      native(sys::mprotect, line.low, line.high - line.low, PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN);
}

// Maps the program. `told` becomes what the auxiliary vector must say.
struct Told {
  uint64_t headers, count, entry;
};
bool map_program(int fd, Told* told) {
  static Headers headers;
  uint64_t bias;
  if (!read_headers(fd, headers) || !find_room(headers, &bias)) return false;
  const Elf64_Ehdr& h = headers.file;
  *told = {0, h.e_phnum, bias + h.e_entry};
  for (unsigned i = 0; i < h.e_phnum; i++) {
    const Elf64_Phdr& s = headers.segments[i];
    if (s.p_type == PT_GNU_STACK && s.p_flags & PF_X) allow_code_on_stack();
    if (s.p_type != PT_LOAD) continue;
    if (!map_segment(fd, s, bias)) return false;
    if (h.e_phoff >= s.p_offset && h.e_phoff < s.p_offset + s.p_filesz)
      told->headers = bias + s.p_vaddr + (h.e_phoff - s.p_offset);
  }
  return true;
}

void tell_auxiliary(uint64_t* vector, const Told& told, const char* path) {
  for (uint64_t* a = vector; *a; a += 2) {
    if (a[0] == AT_PHDR) a[1] = told.headers;
    if (a[0] == AT_PHNUM) a[1] = told.count;
    if (a[0] == AT_ENTRY) a[1] = told.entry;
    if (a[0] == AT_EXECFN) a[1] = (uint64_t)path;
  }
}

// Takes an entry out of the environment: what is above it on the stack, up to the end of the auxiliary vector, moves
// down. Returns the auxiliary vector.
uint64_t* take_out(char** entry) {
  uint64_t *words = (uint64_t*)entry, *end = words;
  while (*end) end++;
  uint64_t* vector = end;
  for (end++; *end; end += 2) {}
  end += 2;
  memmove(words, words + 1, (size_t)(end - words - 1) * 8);
  end[-1] = 0;
  return vector;  // one word below where it was behind the end of the environment
}

// Sets the name of the thread, which is that of the executed file, to that of the program.
void name_thread(const char* path) {
  const char* name = path;
  for (const char* p = path; *p; p++)
    if (*p == '/') name = p + 1;
  native(sys::prctl, PR_SET_NAME, name);
}

int number_of(const char*& text) {
  int value = 0;
  for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + (*text - '0');
  return value;
}

}  // namespace

char loaded_program[4096];

// The kernel has not relocated the shim, and no loader has. This function needs no relocation. The only ones that are
// not relative are of weak symbols of a C library; there is none, so these symbols are null.
extern "C" void friday_relocate() {
  const uint64_t base = (uint64_t)friday_base;
  uint64_t table = 0, size = 0;
  for (const Elf64_Dyn* d = _DYNAMIC; d->d_tag; d++) {
    if (d->d_tag == DT_RELA) table = d->d_un.d_ptr;
    if (d->d_tag == DT_RELASZ) size = d->d_un.d_val;
  }
  const Elf64_Rela* r = (const Elf64_Rela*)(base + table);
  for (uint64_t i = 0; i < size / sizeof *r; i++)
    if (ELF64_R_TYPE(r[i].r_info) == kRelative) *(uint64_t*)(base + r[i].r_offset) = base + (uint64_t)r[i].r_addend;
}

void start_without_shim(uint64_t* stack) {
  char** arguments = (char**)(stack + 1);
  native(sys::execve, loaded_program, arguments, arguments + *stack + 1);
  native(sys::exit_group, 127);
  __builtin_unreachable();
}

bool load_program(uint64_t* stack, CallFrame* start) {
  const size_t length = length_of(kProgramVariable);
  char** entry = (char**)(stack + 1 + *stack + 1);
  while (*entry && !(memcmp(*entry, kProgramVariable, length) == 0 && (*entry)[length] == '=')) entry++;
  if (!*entry) return false;
  const char* path = *entry + length + 1;
  const int fd = number_of(path);
  path++;  // behind the colon
  uint64_t* vector = take_out(entry);
  path_of_descriptor(fd, loaded_program, sizeof loaded_program);
  name_thread(path);
  Told told;
  const bool mapped = map_program(fd, &told);
  native(sys::close, fd);
  if (!mapped) return false;
  tell_auxiliary(vector, told, path);
  start->rip = told.entry;
  start->rsp = (uint64_t)stack;
  start->eflags = start->r11 = 0x246;
  return true;
}

}  // namespace friday::shim
