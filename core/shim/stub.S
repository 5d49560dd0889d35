# friday-stub, the program as which a replayed process starts (core/replay/process.cc). It makes the system calls that the core
# writes into its table and stops with int3; the core then reads the results and goes on with the next table, or sets the registers
# to those of the start image. It depends on nothing and is at shim_abi.h kStubAddress.
# An entry of the table: call number (-1: end of the table), six arguments, room for the result.
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
