// Seccomp filters of the targets, written as lists of instructions: WORD(field), IF(call, action) and
// OTHERWISE(action).
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>

#define WORD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(call, action) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, action)
#define OTHERWISE(action) BPF_STMT(BPF_RET | BPF_K, action)
#define PROGRAM_OF(code) \
  { sizeof(code) / sizeof *(code), code }

// Allows all calls, but a recording cannot go on behind it, since it may trap one.
static inline struct sock_fprog filter_with_a_trap(void) {
  static struct sock_filter code[] = {WORD(nr), IF(swapoff, SECCOMP_RET_TRAP), OTHERWISE(SECCOMP_RET_ALLOW)};
  return (struct sock_fprog)PROGRAM_OF(code);
}
