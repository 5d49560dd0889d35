// Changes of the stack (runtime.h), which no compiler can express. x86-64 only, as the shim is.
asm(R"(
  .text
  .globl friday_cut_outside_is_not_replayed
  .hidden friday_cut_outside_is_not_replayed
  .type friday_cut_outside_is_not_replayed, @function
friday_cut_outside_is_not_replayed:
  .cfi_startproc
  .cfi_undefined rip
  push %rbp
  push %rbx
  mov %rsp, %rbx
  mov %rsp, (%r8)
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rsp
  xor %ebp, %ebp
  call *%rax
  mov %rbx, %rsp
  pop %rbx
  pop %rbp
  ret
  .cfi_endproc
  .size friday_cut_outside_is_not_replayed, . - friday_cut_outside_is_not_replayed

  .globl friday_cut_on_own_stack
  .hidden friday_cut_on_own_stack
  .type friday_cut_on_own_stack, @function
friday_cut_on_own_stack:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register rbp
  mov %rdx, %rsp
  and $-16, %rsp
  mov %rdi, %rax
  mov %rsi, %rdi
  call *%rax
  mov %rbp, %rsp
  pop %rbp
  .cfi_def_cfa rsp, 8
  ret
  .cfi_endproc
  .size friday_cut_on_own_stack, . - friday_cut_on_own_stack
  .globl friday_cut_leave
  .hidden friday_cut_leave
  .type friday_cut_leave, @function
friday_cut_leave:
  .cfi_startproc
  cmpb $2, friday_cut_mode(%rip)
  jne friday_cut_leave_recorded
  push %rdi
  push %rsi
  push %rdx
  call friday_cut_own_stack
  pop %rdx
  pop %rsi
  pop %rdi
  mov (%rsp), %rcx
  lea 8(%rsp), %r8
  .cfi_undefined rip
  mov %rax, %rsp
  and $-16, %rsp
  push %rcx
  push %r8
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  call friday_cut_leave_replayed
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  pop %r8
  pop %rcx
  mov %r8, %rsp
  xor %eax, %eax
  jmp *%rcx
  .cfi_endproc
  .size friday_cut_leave, . - friday_cut_leave
  .section .note.GNU-stack,"",@progbits
  .text
)");
