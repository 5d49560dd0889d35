// A replicated store of four nodes. One leads: it appends what clients put to its log, sends it to the others, and
// tells the client that it is stored when a majority has it. A thread of its own sends heartbeats. When they stay away,
// the others elect a new leader, who has a higher term; a node refuses what it gets from a leader of an older term.
//
// Every SPAN beats the leader writes a checkpoint, and answers nobody meanwhile. That takes longer than the others wait
// for a heartbeat, so each checkpoint costs a leader its term, and it does not know that until the first heartbeat
// behind it, its own or that of the next leader.
//
// The planted fault: a reply says how many entries the follower has, and the leader takes each reply for an
// acknowledgement, also one that refuses. A leader that was replaced during its checkpoint tells a client that its
// entry is stored, although nobody else has it, if the client's request comes in the few milliseconds between the end
// of the checkpoint and the next heartbeat. The entry is overwritten later; a node that sees this happen to an entry
// that it had told a client of writes it to its truth file.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "wire.h"

namespace replicas {

constexpr int kBeat = 25;          // milliseconds between two heartbeats
constexpr int kSpan = 32;          // heartbeats between two checkpoints
constexpr int kCheckpoint = 300;   // milliseconds
constexpr int kPatience = 120;     // milliseconds without a heartbeat after which node 1 wants to lead, and the others
constexpr int kMorePatience = 60;  // so much later each

enum class Role { follower, candidate, leader };

struct Options {
  uint32_t id = 0;
  std::vector<int> ports;
  std::string directory = ".";  // of the truth file and the node's log
  bool careful = false;         // without the planted fault
  bool calm = false;            // no checkpoints, and so no failover
};

struct Entry {
  uint64_t term, value;
};

class Store {
 public:
  explicit Store(Options options);

  Message answer(const Message& request);
  bool answers_nobody() const { return writes_; }

  // Threads, which run until the program ends.
  void send_heartbeats();
  void watch_the_leader();
  void replicate_to(uint32_t peer);

  // Writes the log to DIRECTORY/log-ID, a line for each committed entry.
  void write_log();

  Options options_;
  std::atomic<bool> writes_ = false;  // a checkpoint
  std::mutex mutex_;
  std::condition_variable changed_;
  Role role_ = Role::follower;
  uint64_t term_ = 1;
  uint32_t leader_ = 0;
  uint64_t committed_ = 0;  // entries
  std::vector<Entry> log_;
  std::vector<uint64_t> holders_;  // for each entry who has it, as the leader knows: a bit for each node
  uint64_t members_;               // all of them
  int64_t heard_;                  // from the leader, in milliseconds

 private:
  Message put(const Message& request, std::unique_lock<std::mutex>& lock);
  Message append(const Message& request);
  Message vote(const Message& request);
  Message reply(bool ok) const;
  void obey(const Message& request);
  void acknowledged_by(uint32_t peer, const Message& request, const Message& reply);
  void commit();
  void cut_off(uint64_t index, const Message& request);
  void check_point();
  void stand_for_election(std::unique_lock<std::mutex>& lock);
  void beat_once(std::vector<Peer>& peers);
  uint64_t last_term() const { return log_.empty() ? 0 : log_.back().term; }
  Message next_append(uint64_t index) const;
  uint32_t nodes() const { return static_cast<uint32_t>(options_.ports.size()); }
};

}  // namespace replicas
