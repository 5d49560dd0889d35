// Which instructions may take part in a pure spin (spin.cc). Pure functions of the code's bytes, free of the rest of
// the shim, so that a test can hold them beside a decoder (tests/unit/shim_plain_test.cc).
#pragma once

#include <stdint.h>

namespace friday::shim {

// Whether an instruction with a two-byte opcode (0f xx) is plain, as below. Includes cmpxchg, whose result shows in the
// flags and in rax.
inline bool is_plain_two_byte(uint8_t opcode) {
  if (opcode >= 0x40 && opcode <= 0x4f) return true;  // cmov
  if (opcode >= 0x80 && opcode <= 0x9f) return true;  // jcc, setcc
  switch (opcode) {
    case 0x1e:
    case 0x1f:
    case 0xaf:
    case 0xb0:
    case 0xb1:
    case 0xb6:
    case 0xb7:
    case 0xbe:
    case 0xbf: return true;  // endbr, nop, imul, cmpxchg, movzx, movsx
    default: return false;
  }
}

// Whether everything that the instruction at `code` changes shows in the general registers and flags, or is a store of
// a register or constant, which stores the same value again. Unknown instructions are not plain. Intel SDM volume 2,
// appendix A.
inline bool is_plain(const uint8_t* code) {
  for (unsigned prefixes = 0;; code++, prefixes++) {
    const uint8_t b = *code;
    const bool prefix =
        (b & 0xf0) == 0x40 || b == 0x66 || b == 0x2e || b == 0x3e || b == 0x64 || b == 0x65 || b == 0xf0 || b == 0xf3;
    if (!prefix) break;
    if (prefixes == 4) return false;
  }
  const uint8_t opcode = code[0], modrm = code[1], field = modrm >> 3 & 7;
  const bool to_register = modrm >> 6 == 3;
  if (opcode == 0x0f) return is_plain_two_byte(modrm);
  if (opcode < 0x40) {  // add, or, adc, sbb, and, sub, xor, cmp
    const unsigned form = opcode & 7;
    return form < 6 && (form >= 2 || to_register || opcode >= 0x38);
  }
  if (opcode >= 0x50 && opcode <= 0x5f) return true;  // push, pop
  if (opcode >= 0x70 && opcode <= 0x7f) return true;  // jcc
  if (opcode >= 0xb0 && opcode <= 0xbf) return true;  // mov immediate
  switch (opcode) {
    case 0x63:
    case 0x68:
    case 0x69:
    case 0x6a:
    case 0x6b:
    case 0x84:
    case 0x85:
    case 0x86:
    case 0x87:
    case 0x88:
    case 0x89:
    case 0x8a:
    case 0x8b:
    case 0x8d:
    case 0x90:
    case 0x98:
    case 0x99:
    case 0xa8:
    case 0xa9:
    case 0xc2:
    case 0xc3:
    case 0xc9:
    case 0xe8:
    case 0xe9:
    case 0xeb: return true;
    case 0x80:
    case 0x81:
    case 0x83: return to_register || field == 7;
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xfe: return to_register;
    case 0xc6:
    case 0xc7: return field == 0;  // xabort and xbegin are others
    case 0xf6:
    case 0xf7: return to_register || field < 2;
    case 0xff: return to_register || field == 2 || field == 4 || field == 6;
    default: return false;
  }
}

}  // namespace friday::shim
