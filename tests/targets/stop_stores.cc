// Debuggee of the watch tests: each form stores once (or a little more) at the address in rdi. run_form sets registers
// and flags to known values, calls the form, and keeps what came out in `results`. All forms run at all addresses of
// `places`, between start_marker and end_marker.
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
constexpr uint64_t arena_pages = 6;
alignas(4096) unsigned char arena[arena_pages * 4096];
alignas(4096) uint64_t results[4096 * 16];
alignas(64) unsigned char source[256];
uint64_t result_count;
uint64_t places_behind = 5;  // read behind each store, by code that a patch displaces
[[gnu::noinline]] void start_marker() { asm volatile(""); }
[[gnu::noinline]] void end_marker() { asm volatile(""); }
void run_form(void (*form)(), void* place, const void* from, uint64_t* out, uint64_t flags);
}

// run_form(rdi form, rsi place, rdx source, rcx out, r8 flags)
asm(R"(
.text
.globl run_form
.type run_form, @function
run_form:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rcx, %r12
  mov %rdi, %r13
  mov %rsi, %rdi
  mov %rdx, %rsi
  movups (%rsi), %xmm1
  movups 16(%rsi), %xmm2
  mov $0x1122334455667788, %rax
  mov $0x99aabbccddeeff01, %rbx
  mov $0x5, %ecx
  mov $0x0f1e2d3c4b5a6978, %rdx
  mov $0x8877665544332211, %r9
  push %r8
  popfq
  call *%r13
  pushfq
  cld
  mov %rax, 0(%r12)
  mov %rbx, 8(%r12)
  mov %rcx, 16(%r12)
  mov %rdx, 24(%r12)
  mov %rdi, 32(%r12)
  mov %rsi, 40(%r12)
  mov %r9, 48(%r12)
  pop %rax
  and $0xcd5, %rax
  mov %rax, 56(%r12)
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
.section .note.GNU-stack,"",@progbits
.text
)");

struct Form {
  const char* name;
  void (*code)();
  unsigned align;  // of the address, when the form needs one
  int needs;       // 0 nothing, 1 AVX, 2 AVX-512
};

#define FORM(name, ...)                                                                              \
  extern "C" void form_##name();                                                                     \
  asm(".text\n.globl form_" #name "\n.type form_" #name ", @function\nform_" #name ":\n" __VA_ARGS__ \
      "\n lea 0x1234(%r15), %r15\n mov places_behind(%rip), %r15\n ret\n.size form_" #name ", . - form_" #name "\n");
#include "tests/targets/stop_store_forms.inc"
#undef FORM

// Names carry the properties: ..._aligned needs 16 bytes, avx_... and evex_... a processor that has it.
constexpr bool ends_with(const char* name, const char* end) {
  return __builtin_strlen(name) >= __builtin_strlen(end) &&
         __builtin_strcmp(name + __builtin_strlen(name) - __builtin_strlen(end), end) == 0;
}
constexpr unsigned form_align(const char* name) { return ends_with(name, "_aligned") ? 16 : 1; }
constexpr int form_needs(const char* name) {
  return __builtin_strncmp(name, "evex_", 5) == 0 ? 2 : __builtin_strncmp(name, "avx_", 4) == 0 ? 1 : 0;
}

static const Form forms[] = {
#define FORM(name, ...) {#name, form_##name, form_align(#name), form_needs(#name)},
#include "tests/targets/stop_store_forms.inc"
};

static bool supported(int needs) {
  if (needs == 1) return __builtin_cpu_supports("avx2");
  if (needs == 2) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
  return true;
}

// What a test wrote into `script` while the program stood at start_marker: forms and the offsets in the arena they
// store at.
extern "C" {
struct Step {
  uint32_t form, offset;
};
Step script[256];
uint64_t script_steps, script_forms = sizeof forms / sizeof forms[0];
}

static int scripted() {
  do {
    for (unsigned i = 0; i < sizeof arena; ++i) arena[i] = static_cast<unsigned char>(i * 7 + 3);
    memset(results, 0, sizeof results);
    start_marker();
    for (uint64_t n = 0; n < script_steps; ++n) {
      const Form& form = forms[script[n].form % script_forms];
      if (!supported(form.needs) || strstr(form.name, "xsave")) continue;  // those show what ran before
      auto at = reinterpret_cast<uint64_t>(arena + script[n].offset) & ~uint64_t{form.align - 1};
      run_form(form.code, reinterpret_cast<void*>(at), source, results + 8 * n,
               0x202 | (n % 3 == 0 ? 1 : 0) | (n % 5 == 0 ? 0x40 : 0));
    }
    end_marker();
  } while (script_steps);
  return 0;
}

int main(int argc, char**) {
  if (argc > 1) {
    for (unsigned i = 0; i < sizeof source; ++i) source[i] = static_cast<unsigned char>(i * 13 + 1);
    return scripted();
  }
  for (unsigned i = 0; i < sizeof arena; ++i) arena[i] = static_cast<unsigned char>(i * 7 + 3);
  for (unsigned i = 0; i < sizeof source; ++i) source[i] = static_cast<unsigned char>(i * 13 + 1);
  unsigned char* page = arena + 4096;
  unsigned char* next = page + 4096;
  unsigned char* places[] = {page + 0x100, page + 0xfd, page + 0x10c, page + 0x180, page + 0x2f8,
                             next - 4,     next - 1,    next + 0x810, next + 0xffc};
  memset(results, 0, sizeof results);  // no page of it is mapped late
  start_marker();
  for (unsigned char* place : places)
    for (const Form& form : forms) {
      if (!supported(form.needs)) continue;
      auto at = reinterpret_cast<uint64_t>(place) & ~uint64_t{form.align - 1};
      uint64_t flags = 0x202 | (result_count % 3 == 0 ? 1 : 0) | (result_count % 5 == 0 ? 0x40 : 0);
      run_form(form.code, reinterpret_cast<void*>(at), source, results + 8 * result_count++, flags);
    }
  end_marker();
  printf("%lu forms done\n", result_count);
}
