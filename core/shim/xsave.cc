// Carries out xsave, xsavec and xsaveopt in the processor's place. These instructions store which components of the
// extended state are in use, and do not store the others. What the processor regards as in use depends on its history,
// so two runs with the same registers leave different bytes in memory. (glibc's _dl_runtime_resolve stores them on the
// stack at the first call of each function.) Intel SDM volume 1, chapter 13.
//
// Here all requested components are stored. Of those other than x87 and SSE, the ones that are not in their initial
// state (zeros) are marked as in use. So the bytes are the same in every run, and xrstor loads the same values from
// them. xsaveopt, which may leave out components that have not changed, stores as xsave does.
//
// Marking all components as in use would be slow: when a processor regards the upper halves of the vector registers as
// used, each transition between SSE and AVX instructions costs about 200 ns until the next vzeroupper.
#include "core/shim/memory.h"
#include "core/shim/patch.h"

namespace friday::shim {

namespace {

constexpr uint64_t kLegacyBytes = 512, kHeaderEnd = 576;

// The address of the memory operand of the instruction at `code`: an optional rex prefix, two bytes of opcode, modrm.
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
Component components[kComponents];  // from index 2 on; empty until learn() is called

// Asks this processor, which at replay need not be the one of the recording, for the layout of its components. Only
// done when needed, because cpuid is slow in a virtual machine.
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
  if (wanted & 1) {  // x87: all of the legacy region below the SSE registers, except for MXCSR
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
