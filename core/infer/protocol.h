// How the core and the solver speak: friday-infer is a program of its own (it is linked with VEX, which is under the
// GPL), started when bytes are wanted that no recording has. The core asks and the solver answers, over a
// SEQPACKET-like use of a Unix stream socket: each message is a Header and `size` bytes behind it. Numbers are those of
// x86-64 (little endian).
//
// The solver runs the program's instructions symbolically, from the state in which the core has stopped a replayed
// process up to the program's next system call, without changing that process: it reads its memory through a descriptor
// of /proc/PID/mem that comes with Begin, and keeps to itself what the instructions write. Bytes that the recording
// lacks are symbols; whatever is computed from symbols is an expression over them. A model gives each symbol a value, 0
// at first. What the recording says of the system call is demanded of the run's end; if the model does not lead there,
// the solver looks for one that does (Altekar and Stoica, UCB/EECS-2010-74, section 3).
#pragma once

#include <cstdint>

namespace friday::infer {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kLargestMessage = 64u << 20;  // in bytes; a longer one is an error of the protocol

enum class Kind : uint32_t {
  // From the core. Each is answered by one message, in order; those marked (-) by none.
  begin = 1,  // Begin, with a descriptor of the process's memory beside it -> ready or failed
  original,   // (-) Range, and `length` bytes: what the program's code is where Friday has changed it
  summary,    // (-) Summary: a library function that is known by what it does instead of by its instructions
  unknown,    // (-) Unknown: these bytes of memory are symbols from now on
  known,      // (-) Range: the kernel has written there; whatever symbols were there are gone
  run,        // Run, then `demands` times Demand, each with its bytes behind it -> done or failed
  adopt,      // (-) the run's end is where the program goes on: its expressions hold from now on
  forget,     // (-) the run is as if it had not been
  shadow,     // -> shadowed: which memory holds expressions now and did not at the last such message, and the reverse
  values,     // Values -> symbols: what the model says of symbols, and how sure that is
  look,       // Range -> looked. Only as an answer to `arrived`: memory as it is at that end
  judgement,  // (-) Judgement: the answer to `arrived`
  // From the solver.
  ready = 64,  // Ready
  done,        // Done, then `patches` times Patch, each with its bytes behind it
  failed,      // Failed, and text for people behind it
  shadowed,    // an array of ShadowChange; what holds no expressions any more comes first
  symbols,     // an array of Symbol
  arrived,     // Arrived: all that was demanded holds at this end. The core judges whether it is the right one
  looked,      // Looked, with as many bytes behind it as there are
};

struct Header {
  Kind kind;
  uint32_t size;  // of what follows, in bytes
};

struct Begin {
  uint32_t version;       // kProtocolVersion
  uint32_t milliseconds;  // for one question to the solver
  uint64_t instructions;  // for one run, of each path that is tried
  uint64_t memory;        // of the solver, in bytes
  uint32_t paths;         // that one run may try
  uint32_t
      largest_table;  // in bytes: a read through an address that depends on symbols looks at so much memory at most
};

struct Range {
  uint64_t address, length;
};

struct ShadowChange {
  uint64_t address, length;
  uint32_t depends, reserved;
};

// Library functions, which compilers and libraries write with instructions that no translator knows (AVX-512), and
// which are better formulas as a whole. The numbers are part of the protocol.
enum class Function : uint32_t {
  memcpy = 1,
  memmove,
  mempcpy,
  memset,
  memcmp,
  bcmp,
  memchr,
  rawmemchr,
  memrchr,
  memmem,
  strlen,
  strnlen,
  strcmp,
  strncmp,
  strcasecmp,
  strncasecmp,
  strchr,
  strchrnul,
  strrchr,
  strcpy,
  strncpy,
  stpcpy,
  strcat,
  strspn,
  strcspn,
  strpbrk,
  strstr,
};

struct Summary {
  uint64_t address;  // of the function's first instruction
  Function function;
  uint32_t reserved;
};

struct Unknown {
  uint64_t address, length;
  uint64_t first;  // number of the first byte's symbol; the others follow it. Symbols are numbered by the core
};

// Of one thread, as the program has them.
struct Registers {
  uint64_t general[16];  // in the machine's order: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15
  uint64_t rip, flags, fs_base, gs_base;
  uint8_t vector[16][32];  // ymm0 to ymm15
  uint32_t mxcsr, reserved;
};

struct Run {
  uint32_t thread;  // whose registers may hold expressions of its run before; a new number has none
  uint32_t demands;
  uint32_t asks;  // 1: ends at which all demands hold are judged by the core (arrived)
  uint32_t reserved;
  Registers registers;
};

enum class Of : uint32_t { general_register, memory };

// What the recording says about the state at the system call.
struct Demand {
  Of of;
  uint32_t number;   // of the register, as in Registers::general; 0 for memory
  uint64_t address;  // of the memory; 0 for a register
  uint64_t length;   // in bytes: 8 for a register
};

// How a run ended: before this instruction.
enum class End : uint32_t {
  system_call,  // a syscall instruction
  instruction,  // one whose result the recording has: rdtsc, rdtscp, rdrand, rdseed, cpuid, rdpid
};

struct Arrived {
  End end;
  uint32_t reserved;
};

struct Looked {
  uint32_t exists;   // 1: all of the memory does
  uint32_t depends;  // 1: some of it holds expressions
};

struct Judgement {
  uint32_t right;  // 0: look for another path
  uint32_t reserved;
};

struct Done {
  End end;
  uint32_t patches;
  uint64_t instructions;        // of the path that was taken
  uint32_t paths;               // that were tried
  uint32_t decisions;           // branches, addresses and lengths on that path that depend on symbols
  uint32_t model_changed;       // 1: symbols have other values than before
  uint32_t registers_shadowed;  // a bit for each register that holds an expression at the end
  Registers registers;          // at the end, under the model
  uint64_t
      unchecked;     // bytes that were demanded and depend on symbols in a way that could not be solved; 0 if all hold
  uint64_t touched;  // instructions on that path that had to do with expressions
};

// What to write into the process's memory, as it is at the beginning of the run, before it runs on by itself: memory
// that is an expression, whose value the new model changes. The thread's registers at the beginning are patched by the
// registers in Patch::of. The bytes follow.
struct Patch {
  Of of;
  uint32_t number;
  uint64_t address, length;
};

enum class Why : uint32_t {
  impossible,  // no values lead where the recording says: the recording and the program do not go together
  too_long,    // the limit of instructions
  too_many_paths,
  time,         // the limit of time or memory
  instruction,  // one that is not known
  address,      // memory that the process does not have was read or written
  protocol,     // what was asked is not possible
};

struct Failed {
  Why why;
  uint32_t reserved;
  uint64_t address;  // of the instruction
};

struct Values {
  uint64_t first, count;  // symbols
  uint32_t milliseconds;  // for finding out how sure they are, all together
  uint32_t reserved;
};

enum class Sure : uint32_t {
  free,      // nothing depends on it: any value would do
  inferred,  // this value leads where the recording says, and others do, too, or may
  proved,    // only this value leads where the recording says by the same path
};

struct Symbol {
  uint8_t value;
  uint8_t reserved[3];
  Sure sure;
};

struct Ready {
  uint32_t version;
  uint32_t reserved;
};

}  // namespace friday::infer
