// Payload that a trace leaves out (LeftOut in packed.h), as a replay of the group has made it again: the file
// cache/restored-N for node N. It may be deleted at any time, and is then made again. What a block lacks is checked by
// its hash when it is read, so a damaged or foreign file is noticed and never believed.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/trace/packed.h"

namespace friday {

// The file of the node whose trace this is.
Beneath restored_payload(const Beneath& trace, NodeId node);

// Tells apart what different traces leave out.
uint64_t fingerprint_of(const PackedList& list);

class RestoredPayload {
 public:
  // None if there is no such file, or if it does not hold just what `list` leaves out. `list` must outlive the object.
  static std::optional<RestoredPayload> open(const Beneath& file, const PackedList& list);

  // Puts what the block lacks into `bytes`, the block. Returns a description of the error, if there is one.
  std::optional<std::string> fill(const PackedBlock& block, std::span<std::byte> bytes) const;

 private:
  UniqueFd fd_;
  std::string path_;
  const PackedList* list_ = nullptr;
  std::vector<uint64_t> places_;  // of each range in the file
};

// Writes the file: the bytes of all ranges, one range behind the other, are read from `source` from offset `at` on.
// Fails with bad_input, and writes nothing, if the bytes of a block do not have its hash; the message names the first
// one.
Result<void> write_restored(const Beneath& file, const PackedList& list, int source, uint64_t at);

}  // namespace friday
