// Payload that a trace leaves out (LeftOut in packed.h), as a replay of the group has made it again: the file
// cache/restored-N for node N. It may be deleted at any time, and is then made again. Each range is checked by its hash
// when it is read, so a damaged or foreign file is noticed and never believed.
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

class RestoredPayload {
 public:
  // None if there is no such file, or if it does not hold just these ranges. `ranges` must outlive the object.
  static std::optional<RestoredPayload> open(const Beneath& file, std::span<const LeftOut> ranges);

  // Puts what [from, to) of the trace leaves out into `bytes`, which hold that part of the trace; every range must lie
  // in it completely or not at all. Returns a description of the error, if there is one.
  std::optional<std::string> fill(uint64_t from, std::span<std::byte> bytes) const;

 private:
  UniqueFd fd_;
  std::string path_;
  std::span<const LeftOut> ranges_;
  std::vector<uint64_t> places_;  // of each range in the file
};

// Writes the file: the ranges' bytes, one range behind the other, are read from `source` from offset `at` on. Fails
// with bad_input, and writes nothing, if bytes do not have the hash of their range; the message names the first one.
Result<void> write_restored(const Beneath& file, std::span<const LeftOut> ranges, int source, uint64_t at);

}  // namespace friday
