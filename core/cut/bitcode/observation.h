// A file of observations, which a program writes that was built to check the analysis (observing.h). It is mapped
// (MAP_SHARED), so a process that is killed has its observations, and its children observe in the same file.
//
// The file is little-endian and has one size: the fingerprints of the modules by their numbers (32 hex digits each; in
// place of number 0 stands kObservationMagic), and then a table of pairs, with 0 where there is none. Needs no library,
// since it is part of the program that is checked.
#pragma once

#include <cstdint>

namespace friday::cut {

inline constexpr char kObservationMagic[] = "FRIDCUTO1";
inline constexpr uint32_t kMostModules = 1 << 12;
inline constexpr uint32_t kMostAccesses = 1 << 20;               // of a module
inline constexpr uint32_t kMostObserved = 1 << 19;               // objects of a module, and calls
inline constexpr uint64_t kObservationPairs = 1 << 21;           // places in the table
inline constexpr uint64_t kObservationHead = kMostModules * 32;  // bytes
inline constexpr uint64_t kObservationBytes = kObservationHead + kObservationPairs * 8;

// Memory of which a module knows: one of its objects, or what one of its calls allocated.
inline constexpr uint32_t observed_memory(uint32_t module, bool is_call, uint32_t id) {
  return module << 20 | (is_call ? kMostObserved : 0) | id;
}
inline constexpr uint64_t observed_pair(uint32_t module, uint32_t access, uint32_t memory) {
  return uint64_t{module} << 52 | uint64_t{access} << 32 | memory;
}

}  // namespace friday::cut
