// The syscall instruction in shapes no library uses: registers and red zone must survive, jumps may lead straight to it.
#include <sys/syscall.h>

#include "check.h"

// Fills every register the kernel keeps, makes a call, and counts those that changed.
__attribute__((noinline)) static long registers_changed(void) {
  long changed;
  __asm__ volatile(
      "push %%rbx; push %%rbp; push %%r12; push %%r13; push %%r14; push %%r15\n"
      "mov $0x1111, %%rbx; mov $0x2222, %%rbp; mov $0x3333, %%r12; mov $0x4444, %%r13; mov $0x5555, %%r14; mov $0x6666, %%r15\n"
      "mov $0x7777, %%rdi; mov $0x8888, %%rsi; mov $0x9999, %%rdx; mov $0xaaaa, %%r10; mov $0xbbbb, %%r8; mov $0xcccc, %%r9\n"
      "pcmpeqd %%xmm7, %%xmm7\n"
      "mov $110, %%eax; syscall\n"  // getppid
      "xor %%eax, %%eax\n"
      "cmp $0x1111, %%rbx; setne %%al; cmp $0x2222, %%rbp; jne 1f; cmp $0x3333, %%r12; jne 1f; cmp $0x4444, %%r13; jne 1f\n"
      "cmp $0x5555, %%r14; jne 1f; cmp $0x6666, %%r15; jne 1f; cmp $0x7777, %%rdi; jne 1f; cmp $0x8888, %%rsi; jne 1f\n"
      "cmp $0x9999, %%rdx; jne 1f; cmp $0xaaaa, %%r10; jne 1f; cmp $0xbbbb, %%r8; jne 1f; cmp $0xcccc, %%r9; jne 1f\n"
      "pmovmskb %%xmm7, %%ecx; cmp $0xffff, %%ecx; je 2f\n"
      "1: mov $1, %%eax\n"
      "2: pop %%r15; pop %%r14; pop %%r13; pop %%r12; pop %%rbp; pop %%rbx\n"
      : "=a"(changed)
      :
      : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm7", "memory", "cc");
  return changed;
}

// A leaf that keeps values below the stack pointer across a call (the System V red zone).
long red_zone_changed(void);
__asm__(
    ".text\n.type red_zone_changed, @function\nred_zone_changed:\n"
    "movq $0x12345678, -8(%rsp); movq $0x23456789, -64(%rsp); movq $0x3456789a, -128(%rsp)\n"
    "mov $39, %eax; syscall\n"
    "xor %eax, %eax\n"
    "cmpq $0x12345678, -8(%rsp); jne 1f; cmpq $0x23456789, -64(%rsp); jne 1f; cmpq $0x3456789a, -128(%rsp); je 2f\n"
    "1: mov $1, %eax\n2: ret\n.size red_zone_changed, .-red_zone_changed\n");

// Jumps right to the syscall instruction, past the mov before it.
long jump_to_call(long number);
__asm__(
    ".text\n.type jump_to_call, @function\njump_to_call:\n"
    "mov %rdi, %rax; jmp 1f\n"
    "mov $999, %eax\n1: syscall\nret\n.size jump_to_call, .-jump_to_call\n");

// No instruction around it could be moved elsewhere.
long lonely_call(long number);
__asm__(
    ".text\n.type lonely_call, @function\nlonely_call:\n"
    "mov %rdi, %rax\n1: syscall; jmp 2f\nnop; nop; nop\n2: ret\n.size lonely_call, .-lonely_call\n");

// Flags that the kernel keeps, and rcx and r11 as it leaves them.
long return_values(void);
__asm__(
    ".text\n.type return_values, @function\nreturn_values:\n"
    "mov $39, %eax; syscall\n1: lea 1b(%rip), %rdx; xor %eax, %eax; cmp %rdx, %rcx; setne %al; ret\n"
    ".size return_values, .-return_values\n");

int main(void) {
  for (int i = 0; i < 1000; i++) {
    CHECK(registers_changed() == 0 && red_zone_changed() == 0);
    CHECK(jump_to_call(SYS_getpid) == getpid() && lonely_call(SYS_getppid) == getppid() && return_values() == 0);
  }
  return success();
}
