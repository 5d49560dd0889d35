// The tables that the pass puts into the program (runtime.h): sites, entries, variables that are inside.
#include "core/cut/runtime/runtime.h"

extern "C" {
extern const friday::cut::Site __start_friday_sites[] __attribute__((weak, visibility("hidden")));
extern const friday::cut::Site __stop_friday_sites[] __attribute__((weak, visibility("hidden")));
extern const friday::cut::Entry __start_friday_entries[] __attribute__((weak, visibility("hidden")));
extern const friday::cut::Entry __stop_friday_entries[] __attribute__((weak, visibility("hidden")));
extern const char __start_friday_inside[] __attribute__((weak, visibility("hidden")));
extern const char __stop_friday_inside[] __attribute__((weak, visibility("hidden")));
extern const char friday_cut_fingerprint[32] __attribute__((visibility("hidden")));
// Linked last, so the variables of the outside have pages of their own.
char friday_cut_last_outside[4096]
    __attribute__((section("friday_outside"), aligned(4096), used, visibility("hidden")));
uint8_t friday_cut_mode __attribute__((visibility("hidden"))) = 0;
}

namespace friday::cut {

uint32_t number_of(const Site* site) { return static_cast<uint32_t>(site - __start_friday_sites); }
uint32_t number_of(const Entry* entry) { return static_cast<uint32_t>(entry - __start_friday_entries); }

const Site* site_of(uint64_t number) {
  const auto count = static_cast<uint64_t>(__stop_friday_sites - __start_friday_sites);
  return number < count ? __start_friday_sites + number : nullptr;
}
const Entry* entry_of(uint64_t number) {
  const auto count = static_cast<uint64_t>(__stop_friday_entries - __start_friday_entries);
  return number < count ? __start_friday_entries + number : nullptr;
}

uint64_t hash_of_variables() {
  return hash_bytes(__start_friday_inside, static_cast<uint64_t>(__stop_friday_inside - __start_friday_inside));
}

const char* program_fingerprint() { return friday_cut_fingerprint; }

}  // namespace friday::cut
