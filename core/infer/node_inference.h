// What is known of one node's missing bytes while its replay goes on from event to event.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/base/address_ranges.h"
#include "core/infer/inference.h"
#include "core/replay/session.h"
#include "core/trace/index.h"

namespace friday::infer {

class NodeInference {
 public:
  // `missing`: those of the node, in the order of its events. `node` must have a process.
  static Result<NodeInference> begin(ReplaySession& session, ReplayNode& node, std::vector<MissingBytes> missing,
                                     const InferenceOptions& options);

  // The event before which the node has to be stopped next; none if nothing is left to be found out.
  std::optional<uint64_t> next_stop() const { return next_stop_; }
  // The node stands before that event, and it is its turn. Completes the event, and finds out what the code that
  // follows it says about the missing bytes. Fails if no bytes lead where the recording says, or if that is too hard.
  Result<void> go_on();
  // The node has ended. Puts the bytes to their places among those that the nodes share.
  Result<InferredNode> finish();

 private:
  NodeInference(ReplaySession& session, ReplayNode& node, std::vector<MissingBytes> missing, TraceIndex index,
                SolverLink solver, const InferenceOptions& options)
      : session_(session),
        node_(node),
        missing_(std::move(missing)),
        index_(std::move(index)),
        solver_(std::move(solver)),
        options_(options) {}

  Result<EventView> event(uint64_t number) const { return index_.event(node_.reader(), number); }
  std::optional<uint64_t> next_of_thread(uint32_t thread, uint64_t event) const;
  Result<bool> complete(EventView event);  // false if the node has ended with it
  Result<bool> step(EventView event);
  Result<bool> enter_handler(uint64_t signal);
  Result<uint64_t> end_of_frame(uint64_t frame);
  Error stopped_otherwise(uint64_t event, const Stop& stop) const;
  Result<void> note_memory(EventView event);
  Result<void> note_mapping(EventView event);
  Result<void> note_missing(EventView event);
  Result<void> tell_code();
  Result<void> run_to(EventView next, uint64_t events_done);
  Result<void> apply(const std::vector<Value>& patches, ThreadId thread);
  Result<void> note_shadow(uint64_t events_done);
  Error problem(uint64_t event, const std::string& text) const;

  ReplaySession& session_;
  ReplayNode& node_;
  std::vector<MissingBytes> missing_;
  TraceIndex index_;
  SolverLink solver_;
  InferenceOptions options_;
  std::optional<uint64_t> next_stop_;
  size_t known_of_ = 0;                     // how many of missing_ have been received
  uint64_t symbols_ = 0;                    // in these
  AddressRanges shadow_;                    // memory that depends on missing bytes now
  std::map<uint32_t, uint32_t> registers_;  // by thread: Done::registers_shadowed of its last run
  std::set<uint64_t> told_;                 // beginnings of the code windows that the solver knows
  bool summaries_told_ = false;
  InferredNode found_;
};

}  // namespace friday::infer
