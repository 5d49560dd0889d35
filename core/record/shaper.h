// Messages that recorded programs believe sent, and that wait until others were handled (core/shim/shaping.h). The
// shims give each message that may be one of the order to the collector, with a duplicate of its descriptor; a
// MessageJudge says whether it is sent at once or kept, and is told when it was handled. What follows on the same
// connection waits behind it.
//
// The other end of a connection is asked of the kernel (sock_diag(7)): in its own network or in the group's. Where
// programs of several machines are recorded, each by a recorder of its own, these ask one judge (far_judge.h). Use on
// one thread, the collector's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/poll_set.h"
#include "core/record/far_side.h"
#include "core/record/held_datagrams.h"
#include "core/record/message_judge.h"
#include "core/record/receipts.h"
#include "core/record/sock_peers.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct ShaperOptions {
  // Makes the judge of a run, before its programs start.
  std::function<std::shared_ptr<MessageJudge>()> judge;
  // A message that must wait has one of these somewhere; an empty one: any message may have to wait.
  std::vector<std::string> words;
  shim::HandledWhen handled_when = shim::kHandledAtWait;
  std::chrono::nanoseconds patience = std::chrono::seconds(10);  // how long nothing may happen while something is held
  bool stops = false;                 // when the order is given up, the run ends (Shaper::has_failed)
  std::vector<SocketSpace> spaces{};  // of the group's network; empty: the recorder's own
  // The programs run already, with connections of which nobody has counted the bytes. Nothing is held back before
  // arm().
  bool late = false;
};

class Shaper {
 public:
  // Writes what the shims must know into the TokenArea that `tokens` is the file of. `name_of`: the node of a process.
  static Result<std::unique_ptr<Shaper>> create(ShaperOptions options, int tokens,
                                                std::function<std::string(pid_t)> name_of,
                                                std::function<std::vector<pid_t>()> processes);
  ~Shaper();
  void arm();
  bool is_armed() const { return armed_; }

  // A request of a shim (kToSend). `fd`: the descriptor that came with it.
  void take(const std::string& from, const shim::Request& request, std::span<const std::byte> bytes, UniqueFd fd);
  void told(uint64_t inode);                                           // kHandled
  void let_go(const std::string& from, const shim::Request& request);  // kLetGo
  // What waits for room in a socket or pipe, and when to look again, in milliseconds; -1: not before something comes.
  void add_to(PollSet& set);
  int due_ms() const;
  void look();  // at all that is due
  // The order was given up while the programs ran, and ShaperOptions::stops says that the run ends then.
  bool has_failed() const { return options_.stops && has_given_up_; }
  // Sends all that is left, as far as the receivers take it, because of what has happened.
  void let_all_go(const std::string& what);
  // The same when the run has ended.
  void leave(const std::string& what);
  const MessageJudge& judge() const { return *judge_; }
  bool is_idle() const;  // nothing is left to be sent, also of what the shims have given and nobody has read yet

 private:
  using Clock = std::chrono::steady_clock;
  using Ticket = MessageJudge::Ticket;
  struct Piece {
    std::vector<std::byte> bytes;
    size_t written = 0;
    Ticket message = 0;
    bool shuts = false, first = false;  // `first`: a message begins with it
    bool is_last = true;                // of what the shim has given at a time (ShapedEnd::taken)
  };
  struct Message {
    uint64_t inode, end;  // of which connection; ShapedEnd::sent behind it
    bool held = false, watched = false;
    bool is_sent = false;  // the first piece of it, at least
    bool wanted = false;   // its receiver is known, and tells when it has received and handled it
    bool far = false;      // it is watched by another recorder
    bool is_datagram = false;
    uint64_t receiver = 0;  // of a datagram: HeldDatagram::receiver
  };
  struct Connection {
    UniqueFd fd;                   // as long as there is something to send
    uint64_t inode = 0, peer = 0;  // inodes; `peer` 0: not found yet
    std::optional<KnownConnection> known{};
    std::string to;
    std::deque<Piece> queue;
    std::deque<Ticket> watched;  // messages that were sent, in their order, whose receiver is not known yet
    bool blocked = false, broken = false;
    bool taking = false;  // more is about to be queued
    // How many bytes more the receiver has counted than the sender at the same place of the stream; none: not known
    // yet. `measured`: what it was found to be at the last looks, `times` in succession. `since`: the first look.
    std::optional<int64_t> ahead{};
    int64_t measured = 0;
    unsigned times = 0;
    std::optional<Clock::time_point> since{};
    Clock::time_point looked{};
  };

  Shaper(ShaperOptions options, std::function<std::string(pid_t)> name_of,
         std::function<std::vector<pid_t>()> processes)
      : options_(std::move(options)),
        judge_(options_.judge()),
        name_of_(std::move(name_of)),
        processes_(std::move(processes)) {}
  void find_peer(Connection& connection);
  std::string owner_of(uint64_t inode);
  bool is_gone(uint64_t inode);
  void judge(const std::string& from, const Connection& connection, uint64_t sent, Piece& piece, uint64_t length);
  void pump(Connection& connection);
  bool write_piece(Connection& connection, Piece& piece);
  void settle(Connection& connection, uint64_t bytes, bool is_last);
  void account(uint64_t inode, uint64_t bytes, bool is_last);
  void take_datagram(const std::string& from, HeldDatagram datagram);
  HeldDatagrams::Sent pass_on(const HeldDatagram& datagram, Ticket ticket);
  void find_receiver(HeldDatagram& datagram);
  void pass_on_if_possible(Ticket ticket);
  void look_at_datagrams();
  std::optional<int64_t> measure(const Connection& connection) const;
  bool knows_counts(Connection& connection);
  bool is_counting(const Connection& connection) const;
  void want(Connection& connection);
  void follow(Connection& connection);
  void take_note(uint64_t inode);
  void break_off(Connection& connection);
  void release();
  void lose(Ticket ticket);
  void abandon(const std::string& why);
  void give_up(const std::string& why);
  bool is_behind_held(const Connection& connection, Ticket ticket) const;
  FarSide::Programs programs();
  std::string without(const std::string& what) const;
  void note_progress() { progress_ = Clock::now(); }

  ShaperOptions options_;
  std::shared_ptr<MessageJudge> judge_;
  std::function<std::string(pid_t)> name_of_;
  std::function<std::vector<pid_t>()> processes_;
  shim::ShapeArea* area_ = nullptr;
  std::optional<Receipts> receipts_;
  std::optional<FarSide> far_side_;  // where the judge is elsewhere
  size_t mapped_ = 0;
  void* mapping_ = nullptr;
  std::map<uint64_t, Connection> connections_;  // by inode
  std::map<uint64_t, uint64_t> by_peer_;        // inodes of connections by those of their other ends
  std::map<Ticket, Message> messages_;          // that are held, under way or watched
  std::map<Ticket, HeldDatagram> datagrams_;    // that are not sent yet
  std::optional<HeldDatagrams> sent_datagrams_;
  std::set<uint64_t> read_all_;       // inodes of sockets that had nothing unread, since messages are held back
  std::map<uint64_t, pid_t> owners_;  // by inode
  Ticket next_ = 1;
  bool has_given_up_ = false, armed_ = false;
  size_t held_ = 0;      // messages
  uint64_t queued_ = 0;  // bytes that wait, also behind what is held
  Clock::time_point progress_ = Clock::now();
};

}  // namespace friday
