# The entries into the shim from the program's code and the way back, and the few instructions whose addresses the core must know.
# Offsets of CallFrame and ThreadArea are fixed by shim_abi.h and checked by static_assert in dispatch.cc.
#include <asm/errno.h>
#include <asm/unistd_64.h>

  .set YIELD_KIND, 2336  # in ThreadArea
  .set CALL_NUMBER, 136
  .set PENDING_HEAD, 144
  .set PENDING_TAIL, 148
  .set STEPPED, 2460
  .set IN_USE, 2500
  .set STANDS_STILL, 0x100        # kStandsStill of standby.h
  .set INTERRUPTED, 0x80000000    # kInterrupted
  .set NOT_MADE, -512             # kNotMade of runtime.h
  .set WANTED, 0x100000000094     # the address of FileHeader::wanted
  .text
  .globl friday_syscall, friday_syscall_instruction, friday_interruptible, friday_interruptible_start
  .globl friday_interruptible_call, friday_interruptible_abort, friday_enter, friday_enter_trap, friday_leave
  .globl friday_enter_yield, friday_enter_loop, friday_enter_pause
  .hidden friday_enter_yield, friday_enter_loop, friday_enter_pause, friday_yield, friday_pause_asks
  .globl friday_apart, friday_clone, friday_trap_instruction, friday_trap_site, friday_copy_out
  .globl friday_snapshot, friday_xsave, friday_xrstor, friday_signal_return, friday_probe, friday_exit_thread
  .hidden friday_syscall, friday_syscall_instruction, friday_interruptible, friday_interruptible_start
  .hidden friday_interruptible_call, friday_interruptible_abort, friday_enter, friday_enter_trap, friday_leave
  .hidden friday_apart, friday_clone, friday_trap_instruction, friday_trap_site, friday_copy_out
  .hidden friday_snapshot, friday_xsave, friday_xrstor, friday_signal_return, friday_probe, friday_exit_thread
  .globl friday_load, friday_resume
  .globl friday_straight_start, friday_straight_call, friday_straight_abort
  .hidden friday_straight_start, friday_straight_call, friday_straight_abort, friday_straight, friday_straight_calls
  .hidden friday_resume, friday_resume_thread
  .hidden friday_load, friday_relocate, friday_start_loaded
  .hidden friday_start, friday_replay_start, friday_at_start, friday_dispatch, friday_thread_main, friday_image_registers_taken

# long friday_syscall(number, a, b, c, d, e, f)
friday_syscall:
  .cfi_startproc
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
friday_syscall_instruction:
  syscall
  ret
  .cfi_endproc

# long friday_interruptible(area, number, arguments): makes the call unless the thread has a pending signal. If a signal arrives
# between the test and the call, its handler moves rip to the abort label (signal_handlers.cc), so that no call blocks while a signal
# is pending.
friday_interruptible:
  .cfi_startproc
  mov %rsi, %rax
  mov %rdx, %r11
friday_interruptible_start:
  mov 144(%rdi), %ecx
  cmp 148(%rdi), %ecx
  jne friday_interruptible_abort
  mov 0(%r11), %rdi
  mov 8(%r11), %rsi
  mov 16(%r11), %rdx
  mov 24(%r11), %r10
  mov 32(%r11), %r8
  mov 40(%r11), %r9
friday_interruptible_call:
  syscall
  ret
friday_interruptible_abort:
  mov $NOT_MADE, %rax
  ret
  .cfi_endproc

# Pushes the rest of a CallFrame, puts its address into rdi and rbx, and aligns the stack as the calling convention asks.
  .macro finish_frame
  push %r15
  push %r14
  push %r13
  push %r12
  push %rbp
  push %rbx
  push %r9
  push %r8
  push %r10
  push %rdx
  push %rsi
  push %rdi
  push %rax
  cld
  mov %rsp, %rdi
  mov %rsp, %rbx
  and $-16, %rsp
  .endm

# For a call that was caught by Syscall User Dispatch: the handler of SIGSYS has stored the return address in the area.
friday_enter_trap:
  mov %gs:24, %rcx
# From the stub of a patched site: rax has the call's number and rcx the return address; all other registers are the program's. Nothing
# is stored on the program's stack, so its red zone is intact.
friday_enter:
  .cfi_startproc
  .cfi_undefined %rip
  cmpl $0, friday_straight(%rip)
  jne friday_go_straight
friday_enter_shim:
  mov %rsp, %gs:8
  mov %gs:0, %rsp
  push $0                 # previous
  push $0                 # full
  push $0                 # site
  push %gs:8              # rsp
  push $0x246             # eflags
  push %rcx               # rip
  push $0x246             # r11, as the kernel leaves it
  push %rcx               # rcx
  finish_frame
  call friday_dispatch
  mov %rbx, %rdi
  jmp friday_leave

# On standby (standby.h): a call that need not pass the shim is made here, with the program's registers and on its stack. After a system
# call each return costs as much as a branch that was predicted wrongly, so there is none. rcx has the return address.
friday_go_straight:
  cmp $512, %rax
  jae friday_enter_shim
  lea friday_straight_calls(%rip), %r11
  cmpb $0, (%r11,%rax)
  je friday_enter_shim
  movabs $WANTED, %r11
  cmpl $0, (%r11)
  jne friday_enter_shim
  mov %rcx, %gs:24
  mov %eax, %gs:CALL_NUMBER
friday_straight_start:
  mov %gs:PENDING_HEAD, %r11d
  cmp %gs:PENDING_TAIL, %r11d
  jne friday_straight_abort
friday_straight_call:
  syscall
  mov %gs:PENDING_HEAD, %r11d
  cmp %gs:PENDING_TAIL, %r11d
  jne 2f
  cmp $-EINTR, %rax       # by one of the shim's own signals; the call is made again, by the shim
  je friday_straight_abort
  cmpl $0, %gs:STEPPED
  jne 1f
  mov %gs:24, %rcx
  jmp *%rcx
# A signal is to be delivered behind the call, or a step of the program's own trap flag must be made up for.
1:
  movq $STANDS_STILL, %gs:YIELD_KIND
  jmp friday_enter_yield
2:
  cmp $-EINTR, %rax
  jne 1b
  orl $INTERRUPTED, %gs:CALL_NUMBER
  mov %gs:CALL_NUMBER, %eax
  btr $31, %eax
  jmp 3f
friday_straight_abort:
  mov %gs:CALL_NUMBER, %eax
3:
  mov %gs:24, %rcx
  jmp friday_enter_shim

# From the stub of a loop site that begins with a `pause`, which asks each time whether to yield; %gs:24 is where the
# program goes on. As a rule it does so at once.
friday_enter_pause:
  mov %rsp, %gs:8
  mov %gs:0, %rsp
  push %rax
  push %rcx
  push %rdx
  push %rsi
  push %rdi
  push %r8
  push %r9
  push %r10
  push %r11
  push %rbx
  mov %rsp, %rbx
  and $-16, %rsp
  call friday_pause_asks
  mov %rbx, %rsp
  test %al, %al
  pop %rbx
  pop %r11
  pop %r10
  pop %r9
  pop %r8
  pop %rdi
  pop %rsi
  pop %rdx
  pop %rcx
  pop %rax
  mov %gs:8, %rsp
  jnz friday_enter_loop
  cmp %esp, %esp          # the flags, which are dead, as other loop sites leave them
  jmp *%gs:24

# From the stub of a loop site (loop.cc). 6 is kYieldLoop.
friday_enter_loop:
  movq $6, %gs:YIELD_KIND
# For a thread that yields where it makes no call. %gs:24 has the address where it goes on; all registers are the program's.
friday_enter_yield:
  mov %rsp, %gs:8
  mov %gs:0, %rsp
  push $0                 # previous
  push $1                 # full
  push $0                 # site
  push %gs:8              # rsp
  pushfq
  push %gs:24             # rip
  push %r11
  push %rcx
  finish_frame
  call friday_yield
  mov %rbx, %rdi
# friday_leave(frame): returns to the program. Without `full`, as the kernel returns from a call: rcx and r11 are lost.
friday_leave:
  mov %rdi, %rsp
  cmpq $0, 152(%rsp)
  jne 1f
  pop %rax
  pop %rdi
  pop %rsi
  pop %rdx
  pop %r10
  pop %r8
  pop %r9
  pop %rbx
  pop %rbp
  pop %r12
  pop %r13
  pop %r14
  pop %r15
  pop %rcx
  pop %r11
  mov 0(%rsp), %rcx
  mov 16(%rsp), %rsp
  jmp *%rcx
# `full`: all registers and flags, by iretq.
1:
  push $0x2b              # ss      (these five are pushed below the frame, so they overwrite nothing of it)
  pushq 136+8(%rsp)       # rsp
  pushq 128+16(%rsp)      # eflags
  push $0x33              # cs
  pushq 120+32(%rsp)      # rip
  mov 40+0(%rsp), %rax
  mov 40+8(%rsp), %rdi
  mov 40+16(%rsp), %rsi
  mov 40+24(%rsp), %rdx
  mov 40+32(%rsp), %r10
  mov 40+40(%rsp), %r8
  mov 40+48(%rsp), %r9
  mov 40+56(%rsp), %rbx
  mov 40+64(%rsp), %rbp
  mov 40+72(%rsp), %r12
  mov 40+80(%rsp), %r13
  mov 40+88(%rsp), %r14
  mov 40+96(%rsp), %r15
  mov 40+104(%rsp), %rcx
  mov 40+112(%rsp), %r11
  iretq
  .cfi_endproc

# long friday_clone(flags, stack, area, parent_tid, child_tid, tls): the new thread runs friday_thread_main(area) on `stack`.
friday_clone:
  push %r12
  mov %rdx, %r12
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov $__NR_clone, %eax
  syscall
  test %rax, %rax
  jz 1f
  pop %r12
  ret
1:
  xor %ebp, %ebp
  mov %r12, %rdi
  call friday_thread_main
  ud2

# long friday_apart(stack, work, argument): a process with the memory of this one and copies of its descriptors runs work(argument)
# on `stack` and ends, while this one waits. Returns its id, or -errno.
friday_apart:
  push %r12
  push %r13
  mov %rsi, %r12
  mov %rdx, %r13
  mov %rdi, %rsi
  mov $0x4100, %edi                # CLONE_VM | CLONE_VFORK; it reports its end to nobody by a signal
  xor %edx, %edx
  xor %r10d, %r10d
  xor %r8d, %r8d
  mov $__NR_clone, %eax
  syscall
  test %rax, %rax
  jz 1f
  pop %r13
  pop %r12
  ret
1:
  xor %ebp, %ebp
  mov %r13, %rdi
  call *%r12
  xor %edi, %edi
  mov $__NR_exit, %eax
  syscall
  ud2

# The constructor. It stores the registers that it was called with in friday_at_start (whose frame is at offset 64), because a replayed
# node that waits in the shim is shown behind this call.
friday_construct:
  lea 64+friday_at_start(%rip), %rax
  mov %rbx, 56(%rax)
  mov %rbp, 64(%rax)
  mov %r12, 72(%rax)
  mov %r13, 80(%rax)
  mov %r14, 88(%rax)
  mov %r15, 96(%rax)
  mov (%rsp), %rcx
  mov %rcx, 120(%rax)
  movq $0x246, 128(%rax)
  lea 8(%rsp), %rcx
  mov %rcx, 136(%rax)
  sub $8, %rsp
  call friday_start
  add $8, %rsp
  test %al, %al
  jnz 1f
# The registers that a function may change get the values that friday_leave() gives them at replay.
  xor %eax, %eax
  xor %edx, %edx
  xor %esi, %esi
  xor %edi, %edi
  xor %r8d, %r8d
  xor %r9d, %r9d
  xor %r10d, %r10d
  xor %r11d, %r11d
  mov (%rsp), %rcx
  ret
1:
  mov %gs:0, %rsp
  call friday_replay_start
  ud2

# Where a thread of a start image that was taken of a running process begins (part.cc): it enters the shim once more with the call that it
# was in. %gs points to its area, whose frame is at %gs:32; all other registers have no meaning.
friday_resume:
  .cfi_startproc
  .cfi_undefined %rip
  mov %gs:32, %rbx
  mov %rbx, %rsp
  and $-16, %rsp
  xor %ebp, %ebp
  call friday_resume_thread
  mov %rbx, %rdi
  call friday_dispatch
  mov %rbx, %rdi
  jmp friday_leave
  .cfi_endproc

  .section .init_array, "aw"
  .quad friday_construct
  .text

# The entry point of the shim when it is executed itself (loader.cc). All registers are 0 and the program's begins with them.
friday_load:
  mov %rsp, %r12
  call friday_relocate
  mov %r12, %rdi
  call friday_start_loaded
  test %al, %al
  jnz 1b
  lea 64+friday_at_start(%rip), %rdi
  jmp friday_leave

# void friday_exit_thread(low, size, code): uses no stack, since [low, low + size) may contain it. From its store on, another thread may
# get the area.
friday_exit_thread:
  mov %rdx, %r8
  mov $__NR_munmap, %eax
  syscall
  movl $0, %gs:IN_USE
  mov %r8, %rdi
  mov $__NR_exit, %eax
  syscall
  ud2

friday_trap_instruction:
  xor %eax, %eax
friday_trap_site:
  int3
  ret

# void friday_copy_out(to, from, size): has the only instruction of the shim that writes recorded outputs to the program's memory.
friday_copy_out:
  mov %rdx, %rcx
  rep movsb
  ret

# int friday_probe(Probe*): as setjmp(3). Returns 0, and returns again with 1 when code after it has faulted (signal_handlers.cc).
friday_probe:
  mov %rbx, 0(%rdi)
  mov %rbp, 8(%rdi)
  mov %r12, 16(%rdi)
  mov %r13, 24(%rdi)
  mov %r14, 32(%rdi)
  mov %r15, 40(%rdi)
  lea 8(%rsp), %rax
  mov %rax, 48(%rdi)
  mov (%rsp), %rax
  mov %rax, 56(%rdi)
  xor %eax, %eax
  ret

# The sa_restorer of the shim's own handlers. Its call is exempt from Syscall User Dispatch because it is in the shim's code.
friday_signal_return:
  mov $__NR_rt_sigreturn, %rax
  syscall

# int friday_snapshot(image): as setjmp(3). Takes the start image and returns 0; a process that resumes from the image returns 1.
friday_snapshot:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, 24(%rdi)
  lea 1f(%rip), %rax
  mov %rax, 16(%rdi)
  xor %eax, %eax
  sub $8, %rsp
  call friday_image_registers_taken
  add $8, %rsp
  xor %eax, %eax
  jmp 2f
1:
  mov $1, %eax
2:
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret

friday_xsave:
  mov %rsi, %rax
  mov %rsi, %rdx
  shr $32, %rdx
  xsave64 (%rdi)
  ret
friday_xrstor:
  mov %rsi, %rax
  mov %rsi, %rdx
  shr $32, %rdx
  xrstor64 (%rdi)
  ret

  .section .note.GNU-stack, "", @progbits
