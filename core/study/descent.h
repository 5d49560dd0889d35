// Which connections descend from the messages of one program, as of a diagnosis script beside which other clients go on
// using a system: those on which it speaks itself; those on which a process sends because of what it got on one of
// these; and so on. A thread is taken to send because of what it has received last, whoever it was from; one that
// receives nothing itself, because of what its process has received last, as workers do to which others hand requests.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/trace/facts.h"
#include "core/trace/logical_time.h"

namespace friday {

class Descent {
 public:
  // `roots`: the program and its children (node ids).
  Descent(const Schedule& schedule, const FactSet& facts, const std::set<uint32_t>& roots);

  // Whether a message that was sent or received on the channel descends. All messages of a stream do if one does; of
  // datagrams each one is decided for itself.
  bool has(uint32_t channel, const Transfer& transfer) const;

 private:
  std::vector<bool> channels_;
  std::set<std::tuple<uint32_t, uint64_t, uint32_t>> messages_;  // channel, event, part: of datagrams
};

}  // namespace friday
