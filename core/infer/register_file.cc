#include "core/infer/register_file.h"

#include <cstring>
#include <iterator>

#include "core/stop/registers.h"

namespace friday::infer {

namespace {

// Where the XSAVE area has what: of the legacy area the control word and xmm0 to xmm15, of the header the bits of the
// components that are not in their initial state, and the upper halves of ymm0 to ymm15.
constexpr size_t kMxcsrAt = 24, kXmmAt = 160, kComponentsAt = 512, kUpperAt = 576, kUpperEnd = 832;
constexpr uint64_t kSseComponent = 2, kAvxComponent = 4;

}  // namespace

Registers register_file(const user_regs_struct& general, std::span<const std::byte> extended) {
  Registers out{};
  for (unsigned i = 0; i < std::size(out.general); i++) out.general[i] = friday::general_register(general, i);
  out.rip = general.rip, out.flags = general.eflags;
  out.fs_base = general.fs_base, out.gs_base = general.gs_base;
  if (extended.size() < kUpperAt) return out;
  uint64_t components = 0;
  memcpy(&components, &extended[kComponentsAt], sizeof components);
  memcpy(&out.mxcsr, &extended[kMxcsrAt], sizeof out.mxcsr);
  for (size_t i = 0; i < std::size(out.vector); i++) {
    if (components & kSseComponent) memcpy(out.vector[i], &extended[kXmmAt + i * 16], 16);
    if (components & kAvxComponent && extended.size() >= kUpperEnd)
      memcpy(out.vector[i] + 16, &extended[kUpperAt + i * 16], 16);
  }
  return out;
}

}  // namespace friday::infer
