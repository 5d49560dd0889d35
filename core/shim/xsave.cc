// xsave and xsavec, emulated. They write which components of the vector state are in use, and leave out those that are not; the
// processor's answer depends on what it last did for whom, so that two runs with the same registers leave different bytes
// behind (glibc's _dl_runtime_resolve does so on the stack at each first call of a function). Here every component asked for
// is in use, with its initial value if it has none: the same bytes in every run, and xrstor takes the same values from them.
// Intel SDM volume 1, chapter 13.
#include "core/shim/runtime.h"

namespace friday::shim {

namespace {

constexpr uint64_t kLegacyBytes = 512, kHeaderEnd = 576;

// The memory operand of `code`, an instruction 0f xx /digit with optional rex.
uint64_t operand_of(const uint8_t* code, CallFrame* f) {
  uint8_t rex = 0;
  if ((*code & 0xf0) == 0x40) rex = *code++;
  code += 2;
  const uint8_t mod = *code >> 6, rm = *code & 7;
  code++;
  uint64_t address = 0;
  if (rm == 4) {
    const uint8_t sib = *code++, index = (uint8_t)((sib >> 3 & 7) | (rex & 2) << 2), base = (uint8_t)((sib & 7) | (rex & 1) << 3);
    if (index != 4) address = *register_of(f, index) << (sib >> 6);
    if (mod == 0 && (sib & 7) == 5) return address + (uint64_t)(int64_t) * (const int32_t*)code;
    address += *register_of(f, base);
  } else {
    address = *register_of(f, (unsigned)(rm | (rex & 1) << 3));
  }
  if (mod == 1) address += (uint64_t)(int64_t) * (const int8_t*)code;
  if (mod == 2) address += (uint64_t)(int64_t) * (const int32_t*)code;
  return address;
}

struct Component {
  uint32_t size, offset;
  bool aligned;
};
Component component(unsigned number) {
  uint32_t size, offset, flags, rest;
  asm volatile("cpuid" : "=a"(size), "=b"(offset), "=c"(flags), "=d"(rest) : "a"(0xd), "c"(number));
  return {size, offset, (flags & 2) != 0};
}

void copy_or_clear(uint8_t* to, const uint8_t* from, uint64_t size, bool present) {
  if (present) memcpy(to, from, size);
  else memset(to, 0, size);
}

}  // namespace

void store_state(uint8_t* to, const uint8_t* state, uint64_t wanted, bool compact) {
  const uint64_t present = *(const uint64_t*)(state + kLegacyBytes);
  if (wanted & 1) {  // x87: everything below the SSE registers but MXCSR
    copy_or_clear(to, state, 24, present & 1);
    copy_or_clear(to + 32, state + 32, 128, present & 1);
    if (!(present & 1)) *(uint16_t*)to = 0x37f;
  }
  if (wanted & 6) memcpy(to + 24, state + 24, 8);  // MXCSR and its mask
  if (wanted & 2) copy_or_clear(to + 160, state + 160, 256, present & 2);
  uint64_t* header = (uint64_t*)(to + kLegacyBytes);
  header[0] = compact ? wanted : header[0] | wanted;
  if (compact) header[1] = wanted | 1ull << 63;
  uint64_t packed = kHeaderEnd;
  for (unsigned i = 2; i < 63; i++) {
    if (!(wanted >> i & 1)) continue;
    const Component c = component(i);
    if (c.aligned) packed = (packed + 63) & ~63ull;
    copy_or_clear(to + (compact ? packed : c.offset), state + c.offset, c.size, present >> i & 1);
    packed += c.size;
  }
}

void emulate_xsave(const uint8_t* code, bool compact, CallFrame* frame, const uint8_t* state) {
  store_state((uint8_t*)operand_of(code, frame), state, ((frame->rdx << 32) | (uint32_t)frame->rax) & image_registers.xcr0, compact);
}

}  // namespace friday::shim
