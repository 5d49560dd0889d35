// The profile of a program: how often each basic block ran, and how many bytes each call or access of variable length
// moved. The instrumented program writes one file per module and process into a directory; several runs are added up.
//
// A file of counts, NAME.counts, little-endian:
//   bytes 0-7     "FRIDCUTC"
//   8-11          version, 1
//   12-15         length of the module's name in bytes, at most 4,096
//   16-47         fingerprint of the module's facts, 32 hex digits (Facts::fingerprint)
//   48-55         number of blocks, as in Facts::blocks
//   56-63         number of lengths, Facts::lengths
//   64-           the name (Facts::module), padded with zeros to a multiple of 8 bytes
//   then          the counters of the blocks, and those of the lengths, 8 bytes each
// Nothing has to be written at the end, so a program can map the file (MAP_SHARED) and count in place: a process that
// is killed, or that never reaches exit(), has its counts. A counter that overflows must stay at its largest value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cut/facts.h"

namespace friday::cut {

struct ModuleCounts {
  std::string module;             // its name
  std::vector<uint64_t> blocks;   // times that each block was entered
  std::vector<uint64_t> lengths;  // bytes
};

class Counts {
 public:
  // All files *.counts of a directory, added up. Fails with not_found if there are none, and with bad_input if one is
  // damaged, or two of one fingerprint have different numbers of counters.
  static Result<Counts> read(const std::string& directory);

  // Adds one more run. Sums that overflow stay at the largest value.
  Result<void> add(const std::string& fingerprint, ModuleCounts counts);
  const std::map<std::string, ModuleCounts>& modules() const { return modules_; }  // by fingerprint

 private:
  std::map<std::string, ModuleCounts> modules_;
};

Result<void> write_counts(const std::string& path, const std::string& fingerprint, const ModuleCounts& counts);
// The fingerprint of the module and its counts.
Result<std::pair<std::string, ModuleCounts>> read_counts(const std::string& path);

// The counts of a whole program, by its own blocks and lengths (Facts of link()). A module without counts never ran.
struct ProgramCounts {
  std::vector<uint64_t> blocks, lengths;
};
// Fails with bad_input, naming the module, if the counts are of a module that the program does not have: the profile is
// of another build, or of another program.
Result<ProgramCounts> counts_of(const Facts& program, const Counts& counts);

}  // namespace friday::cut
