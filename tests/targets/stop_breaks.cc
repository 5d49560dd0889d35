// Debuggee of the breakpoint tests: one label, break_NAME, on each kind of instruction that a breakpoint may displace.
// Runs all of them `rounds` times and folds what they compute into `checksum`; ends in "checksum ...".
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
uint64_t checksum = 1, memory_cell = 5, result_cell, vector_cell[4] = {1, 2, 3, 4}, stored_cell[8];
void (*function_cell)();
[[gnu::noinline]] void start_marker() { asm volatile(""); }
[[gnu::noinline]] void end_marker() { asm volatile(""); }
void run_all(uint64_t seed);
}

asm(R"(
.text
.globl run_all, leaf, leaf_mem, leaf_reg
.macro AT name
.globl break_\name
break_\name:
.endm
.macro FOLD
  pushfq
  pop %rdx
  and $0x8d5, %edx
  add %rdx, %rax
  rol $7, %rax
  xor checksum(%rip), %rax
  mov %rax, checksum(%rip)
.endm

leaf:
AT endbr64
  endbr64
AT lea_plain
  lea 3(%rax,%rax,2), %rax
AT ret
  ret
leaf_mem:
  imul $17, %rax, %rax
AT ret_imm
  ret $8
leaf_reg:
  xor $0x1234, %rax
  ret

run_all:
AT push
  push %rbx
AT push_frame
  push %rbp
AT mov_frame
  mov %rsp, %rbp
AT sub_rsp
  sub $64, %rsp
  mov %rdi, %rbx
  mov %rdi, %rax
AT mov_load_relative
  mov memory_cell(%rip), %rcx
  add %rcx, %rax
AT add_store_relative
  addq $3, memory_cell(%rip)
  FOLD
AT cmp_imm_relative
  cmpl $0x12345, memory_cell(%rip)
  FOLD
AT lea_relative
  lea memory_cell(%rip), %rcx
  add (%rcx), %rax
AT call_direct
  call leaf
  FOLD
  push $0
AT call_memory_relative
  call *function_cell(%rip)
  FOLD
  lea leaf_reg(%rip), %rcx
AT call_register
  call *%rcx
  push %rcx
AT call_on_stack
  call *(%rsp)
AT pop
  pop %rcx
  FOLD
AT test
  test $1, %bl
AT jz
  jz 1f
  add $100, %rax
AT jmp_short
  jmp 2f
1: add $200, %rax
2: cmp %rbx, %rax
AT jl
  jl 3f
  inc %rax
3: cmp $7, %rbx
AT jbe
  jbe far_away
AT jmp_near
  jmp back
back:
  FOLD
  lea 4f(%rip), %rcx
AT jmp_register
  jmp *%rcx
  ud2
4: mov $5, %ecx
5: add %rcx, %rax
AT loop
  loop 5b
  mov %rbx, %rcx
  and $3, %ecx
AT jrcxz
  jrcxz 6f
  add $7, %rax
6: FOLD
AT movdqu_relative
  movdqu vector_cell(%rip), %xmm1
AT movaps_register
  movaps %xmm1, %xmm2
AT movq_vector
  movq %xmm2, %rcx
  add %rcx, %rax
AT cmov
  cmovne %rbx, %rcx
  add %rcx, %rax
  push %rax
  mov $39, %eax
AT mov_imm
  mov $110, %eax
AT syscall
  syscall
  test %rax, %rax
  setg %cl
  pop %rax
  add %cl, %al
  mov $24, %ecx
  lea stored_cell(%rip), %rdi
AT rep_stos
  rep stosb
  add stored_cell+16(%rip), %rax
AT nop
  nopw 0(%rax,%rax,1)
AT xchg_memory
  xchg %rax, result_cell(%rip)
AT lock_add
  lock addq $9, result_cell(%rip)
  mov result_cell(%rip), %rax
  FOLD
  xor %eax, %eax
AT leave
  leave
AT pop_last
  pop %rbx
  ret
far_away:
  sub $55, %rax
AT jmp_back
  jmp back
  .section .note.GNU-stack,"",@progbits
  .text
)");

extern "C" void leaf_mem();

int main(int argc, char** argv) {
  uint64_t rounds = argc > 1 ? strtoull(argv[1], nullptr, 0) : 20;
  function_cell = leaf_mem;
  start_marker();
  for (uint64_t round = 0; round < rounds; ++round) run_all(round);
  end_marker();
  printf("checksum %lx\n", checksum);
}
