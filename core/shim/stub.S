# The program a replayed process begins as: runs the calls that the core writes into its table, again and again, until the
# core sets its registers to the start image's. It depends on nothing and lies at shim_abi.h kStubAddress.
# A table entry: number (-1 ends), six arguments, result.
  .text
  .globl _start
_start:
  int3
next:
  lea table(%rip), %rbx
1:
  mov (%rbx), %rax
  cmp $-1, %rax
  je 2f
  mov 8(%rbx), %rdi
  mov 16(%rbx), %rsi
  mov 24(%rbx), %rdx
  mov 32(%rbx), %r10
  mov 40(%rbx), %r8
  mov 48(%rbx), %r9
  syscall
  mov %rax, 56(%rbx)
  add $64, %rbx
  jmp 1b
2:
  int3
  jmp next
  .data
  .balign 4096
  .globl table
table:
  .skip 1 << 20
  .section .note.GNU-stack, "", @progbits
