// The part of libvex (Valgrind 3.19) that the solver uses. libvex is a C library with global state: it keeps one
// translation at a time, in memory that the next translation reuses, and ends by calling a function when it finds a bug
// of its own. All of this stays in vex.cc.
//
// lift() translates machine instructions into VEX's intermediate representation (IR): flat statements over temporaries,
// each assigned once. native_operation() goes the other way: it lets VEX's back end compile a single IR operation
// (there are some 1,200) for this processor, so that operations which the interpreter does not know itself, all
// floating-point and most vector operations, mean what Valgrind says they mean.
#pragma once

#include <cstdint>
#include <string>

extern "C" {
#include <valgrind/libvex.h>
#include <valgrind/libvex_guest_amd64.h>
}

namespace friday::infer {

// The state of the translated program's registers, as VEX lays it out.
using GuestState = VexGuestAMD64State;

// Takes all memory that has to be executable. Not needed if the program is never confined.
void prepare_vex();

// Translates exactly `instructions` instructions (fewer if one of them ends a block) that stand at `address`; `code`
// holds their bytes, followed by at least 16 others. Null if VEX fails. The result is valid until the next call of
// lift() or native_operation().
const IRSB* lift(uint64_t address, const uint8_t* code, int instructions);

// The most temporaries' words that an operand has: a 256-bit vector.
inline constexpr int kMostWords = 4;

// What an IR operation takes and gives, in bits. 1-bit values occupy a whole word, as all narrow values do.
struct Signature {
  uint16_t result = 0;
  uint16_t operands[4] = {};
  int count = 0;
};
const Signature& signature_of(IROp operation);
int bits_of(IRType type);
// The name that VEX gives to an operation, for messages.
std::string name_of(IROp operation);

// Operands and result of a compiled operation lie at these places of a block of memory that looks like a GuestState.
struct Workbench {
  alignas(16) uint8_t state[sizeof(GuestState)];
  uint64_t* operand(int number) { return reinterpret_cast<uint64_t*>(state + 224 + 32 * number); }
  const uint64_t* result() const { return reinterpret_cast<const uint64_t*>(state + 224 + 32 * 4); }
};
class NativeOperation {
 public:
  explicit NativeOperation(const void* code) : code_(code) {}
  // Takes operand(0..) of the bench and leaves result() there.
  void run(Workbench& bench) const;

 private:
  const void* code_;
};
// Null if VEX cannot compile it. The result lives as long as the program.
const NativeOperation* native_operation(IROp operation);

}  // namespace friday::infer
