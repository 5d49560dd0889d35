// xsave, xsavec and xsaveopt, emulated. They write which components of the vector state are in use, and leave out those
// that are not; the processor's answer depends on what it last did for whom, so that two runs with the same registers
// leave different bytes behind (glibc's _dl_runtime_resolve does so on the stack at each first call of a function).
// Here all components asked for are written, and beyond x87 and SSE those are in use whose values are not the initial
// ones, zeros: the same bytes in every run, and xrstor takes the same values from them; xsaveopt, which may leave out
// what did not change since, does as xsave. It must not be told that all are in use: a processor that takes the upper
// halves of registers for used has each change between SSE and AVX instructions cost 200 ns, until a vzeroupper comes
// along. Intel SDM volume 1, chapter 13.
#include "core/shim/memory.h"
#include "core/shim/patch.h"

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
    const uint8_t sib = *code++, index = (uint8_t)((sib >> 3 & 7) | (rex & 2) << 2),
                  base = (uint8_t)((sib & 7) | (rex & 1) << 3);
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
constexpr unsigned kComponents = 20;
constexpr uint64_t kKnown = (1ull << kComponents) - 1, kLegacyState = 3;  // x87, SSE
Component components[kComponents];  // from the third on; empty until somebody asks

// How this processor lays its components out, not the one that recorded. In a virtual machine it takes long to answer,
// so a program that needs none of it does not wait for it.
void learn() {
  for (unsigned i = 2; i < kComponents; i++) {
    if (!(image_registers.xcr0 >> i & 1)) continue;
    uint32_t size, offset, flags, rest;
    asm volatile("cpuid" : "=a"(size), "=b"(offset), "=c"(flags), "=d"(rest) : "a"(0xd), "c"(i));
    components[i] = {size, offset, (flags & 2) != 0};
  }
}

void copy_or_clear(uint8_t* to, const uint8_t* from, uint64_t size, bool present) {
  if (present) memcpy(to, from, size);
  else memset(to, 0, size);
}

}  // namespace

uint64_t state_in_use(const uint8_t* state, uint64_t wanted) {
  if (!components[2].size) learn();
  uint64_t found = wanted & kLegacyState;
  const uint64_t present = *(const uint64_t*)(state + kLegacyBytes) & wanted;
  for (unsigned i = 2; i < kComponents; i++)
    if (present >> i & 1 && !all_zero((const uint64_t*)(state + components[i].offset), components[i].size / 8))
      found |= 1ull << i;
  return found;
}

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
  const uint64_t found = state_in_use(state, wanted);
  header[0] = compact ? found : (header[0] & ~wanted) | found;
  if (compact) header[1] = wanted | 1ull << 63;
  uint64_t packed = kHeaderEnd;
  for (unsigned i = 2; i < kComponents; i++) {
    if (!(wanted >> i & 1)) continue;
    const Component& c = components[i];
    if (c.aligned) packed = (packed + 63) & ~63ull;
    copy_or_clear(to + (compact ? packed : c.offset), state + c.offset, c.size, present >> i & 1);
    packed += c.size;
  }
}

void emulate_xsave(const uint8_t* code, bool compact, CallFrame* frame, const uint8_t* state) {
  store_state((uint8_t*)operand_of(code, frame), state,
              ((frame->rdx << 32) | (uint32_t)frame->rax) & image_registers.xcr0 & kKnown, compact);
}

}  // namespace friday::shim
