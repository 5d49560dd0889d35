// The past of a replayed group: checkpoints that are made while it runs forward, so that an earlier place is reached
// from the nearest one before it and not from the start of the recording.
//
// When a checkpoint is made follows from what it costs: a run of at least twenty times the cost of the last one lies
// between two, so they take a twentieth of a run's time, besides what copying their pages on the next write costs. They
// are thinned with their distance in time: behind a place that lies N events back there is always one within a part of
// N events. All of them together stay below a limit of memory and a limit of processes.
//
// Works in `clock` order, in which every stop is a consistent cut. Belongs to the owner of the session; use on the
// session's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/alarm.h"
#include "core/replay/checkpoint.h"
#include "core/replay/session.h"

namespace friday {

class History {
 public:
  // A budget of 0 is a quarter of the memory that is available now.
  explicit History(ReplaySession& session, uint64_t budget = 0);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Whether checkpoints are made from now on; off at first. Those that exist are kept.
  void set_on(bool on);
  bool is_on() const { return on_; }
  // In bytes. Checkpoints beyond it are dropped, but for the first and the last.
  void set_budget(uint64_t bytes);
  uint64_t budget() const { return budget_; }
  // Asked before a checkpoint is made. A group that the user has altered is no place to come back to.
  std::function<bool()> may_keep;
  bool is_unaltered() const { return !may_keep || may_keep(); }

  struct Entry {
    std::shared_ptr<const GroupCheckpoint> checkpoint;
    uint64_t bytes = 0;   // estimate of the memory that only this checkpoint holds
    uint64_t number = 0;  // of its own, in the order in which they were made
  };
  // By the number of events, rising.
  const std::vector<Entry>& entries() const { return entries_; }
  uint64_t bytes() const;
  // Why no checkpoints are made any more, as a sentence; empty if they are.
  const std::string& refusal() const { return refusal_; }

  // Makes a checkpoint where the group stands, whether or not they are made in runs. Fails with unsupported, and says
  // why, in another order than `clock`, if the user has altered the group, or where none can be made.
  Result<void> keep_now();
  // The last checkpoint that was made when fewer events were done, else that of the start; null if there is neither.
  // One that the recording holds (core/replay/saved_checkpoint.h) is loaded if it is so much nearer that this pays; if
  // the group stands before `events`, tell how many events it has done.
  std::shared_ptr<const GroupCheckpoint> before(uint64_t events, uint64_t done = 0);
  // The checkpoint of the start; null if there is none.
  std::shared_ptr<const GroupCheckpoint> start() const;
  // The checkpoint with this number; null if there is none any more.
  std::shared_ptr<const GroupCheckpoint> numbered(uint64_t number) const;
  // Those that were made since the last call.
  std::vector<Entry> take_new();
  // Call if somebody has copied more for the last checkpoint, which has taken so long: its cost counts too.
  void note_copy(std::chrono::nanoseconds time);
  // Drops the checkpoints behind the place after so many events.
  void drop_behind(uint64_t events);
  // Call after the group was brought back to a checkpoint.
  void note_return();
  // Call before the session's processes are ended or rebuilt.
  void clear();
  // begin_run(): call before a run. rest(): call when no other run may follow soon; stops the timer, so that its signal
  // does not interrupt the caller.
  void begin_run();
  void rest();

 private:
  using Clock = std::chrono::steady_clock;
  void pause();
  void insert(std::unique_ptr<GroupCheckpoint> checkpoint, uint64_t bytes);
  Result<void> make();
  std::shared_ptr<const GroupCheckpoint> kept_before(uint64_t events) const;
  void load_before(uint64_t events, uint64_t done);
  void thin();
  static uint64_t events_of(const Entry& entry) { return entry.checkpoint->events(); }
  bool is_covered(uint64_t events) const;
  void pause_in(Clock::duration time);
  void try_later(const Error& why);
  uint64_t faults() const;

  ReplaySession& session_;
  uint64_t budget_;
  bool on_ = false;
  std::vector<Entry> entries_;
  uint64_t made_ = 0;  // how many checkpoints there were so far
  uint64_t told_ = 0;  // the last one that take_new() has told of
  std::string refusal_;
  int refused_ = 0;                             // places in a row where no checkpoint could be made
  std::optional<std::vector<uint64_t>> saved_;  // checkpoints that the recording holds, once that was looked up
  Alarm alarm_;
  bool resting_ = true;  // the alarm is not set
  Clock::duration between_{};
  // Where the group was last known to be the same as a checkpoint, for the estimate of what that one holds.
  const GroupCheckpoint* last_ = nullptr;
  uint64_t faults_then_ = 0, events_then_ = 0;
};

}  // namespace friday
