// Forces an order of messages onto programs of several machines: the recorders of all of them ask one MessageJudge,
// over one connection each (far_judge.h), and say what becomes of its messages. If a recorder vanishes, or somebody
// else does what ends the order, all others let everything go.
//
// A message whose receiver belongs to another recorder is judged when it is known who that is, so it waits until the
// connection was accepted; it passes if no recorder has the receiver. To be watched, it waits until all before it has
// come at the receiver's host, and the receiver's recorder counts from there on. When it was handled, both ends are
// counted once more.
//
// Runs on a thread of its own; only stop() and outcome() may be called from another one.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/record/judge_link.h"
#include "core/record/message_judge.h"

namespace friday {

struct JudgeServerOptions {
  std::shared_ptr<MessageJudge> judge;
  std::string order;  // for whoever joins, as he asks
  // Roles without which the order cannot begin, of those that take part.
  std::function<std::vector<std::string>(const std::set<std::string>& roles)> missing;
  std::function<void(const std::string&)> say;                   // what a person would like to know
  std::chrono::nanoseconds patience = std::chrono::seconds(10);  // how long nothing may happen
};

class JudgeServer {
 public:
  // Listens at an address of this machine.
  static Result<std::unique_ptr<JudgeServer>> listen(const JudgePlace& place, JudgeServerOptions options);
  ~JudgeServer();
  const std::string& key() const { return key_; }     // which recorders must know
  const JudgePlace& place() const { return place_; }  // with the port that was free, where none was asked for
  // Until the order is over and all recorders know, or until stop().
  void run();
  void stop();
  struct Outcome {
    bool came_true;
    std::string why;  // if it has not: the reason
  };
  std::optional<Outcome> outcome() const;  // none as long as the order is not over

 private:
  using Clock = std::chrono::steady_clock;
  using Ticket = MessageJudge::Ticket;
  struct Recorder {
    Recorder(UniqueFd socket, std::string from) : link(std::move(socket)), host(std::move(from)) {}
    JudgeLink link;
    std::string host;  // its address
    std::string machine;
    std::set<std::string> roles;
    Clock::time_point since = Clock::now();
    bool joined = false, armed = false;
    bool observes = false;  // it is no recorder: it wants the order, and to know what becomes of it
    bool leaves = false;    // its programs have ended
  };
  struct Message {
    // asking: who receives it; held: by the judge; the others are watched: quieting until all before it has come;
    // expecting until the receiver's recorder counts; sent; counting again, as it was handled.
    enum class Stage { asking, held, quieting, expecting, sent, counting };
    Recorder* sender;  // null: it has left
    Ticket ticket;     // of the sender
    std::string from, to;
    std::string bytes;  // the first ones
    uint64_t length = 0;
    std::string connection{};      // empty: its two ends belong to one recorder
    Recorder* receiver = nullptr;  // null: the sender's own recorder watches it
    Stage stage = Stage::asking;
    // Bytes that its sender had sent, and its receiver had received, before it; and what both differ by at the last
    // counts, `times` in succession.
    uint64_t sent_before = 0, received_before = 0;
    int64_t difference = 0;
    unsigned times = 0;
  };
  struct Question {
    enum class Kind { who, quiet, expect, count };
    Kind kind;
    Ticket message = 0;                 // not of `who`
    std::string connection{};           // of `who`
    std::set<const Recorder*> asked{};  // who has not answered
    Recorder* receiver = nullptr;       // of `who`: who has answered with a name
    std::string name{};
    bool waits = false;
    std::map<const Recorder*, std::optional<uint64_t>> counts{};  // of `count`
  };
  // A connection, as its sender's recorder knows it.
  struct Connection {
    nlohmann::json local, remote;
    std::set<Ticket> messages{};  // in the order in which they were sent
    uint64_t question = 0;        // `who`; 0: none
    Clock::time_point asked{};
  };

  JudgeServer(JudgeServerOptions options, UniqueFd listener, UniqueFd stopped);
  void accept();
  void serve(Recorder& recorder);
  void take(Recorder& recorder, const nlohmann::json& message);
  void join(Recorder& recorder, const nlohmann::json& message);
  void sent(Recorder& recorder, const nlohmann::json& message);
  void answered(Recorder& recorder, const nlohmann::json& answer);
  void far_happened(const std::string& what, Ticket number);
  void happened(const std::string& what, Ticket number);
  void ask_who(const std::string& key);
  void know_who(const Question& question);
  void know_counts(const Question& question);
  uint64_t ask(Recorder& recorder, const char* what, Question question, nlohmann::json more);
  void count_again(Ticket number);
  void judge(Ticket number);
  void go(Ticket number, bool watched);
  void let_go(const Message& message, bool watched, bool far);
  void set_stage(Message& message, Message::Stage stage);
  void forget(Ticket number);
  void release();
  void give_up(const std::string& why);
  void leave(Recorder& recorder);
  void go_on_without(const Recorder& recorder);
  void settle(uint64_t number);
  void drop_those_that_left();
  void begin_if_all_are_there();
  void look();
  void look_at_patience();
  void tell_end();
  void tell_outcome(Recorder& recorder) const;
  bool is_behind_held(Ticket number) const;

  JudgeServerOptions options_;
  UniqueFd listener_, stopped_;
  JudgePlace place_;
  std::string key_;
  std::list<Recorder> recorders_;
  std::map<std::string, Connection> connections_;
  std::set<std::string> ask_again_;                              // connections that nobody has accepted yet
  std::map<Ticket, Message> messages_;                           // that are kept, under way or watched
  std::map<std::pair<const Recorder*, Ticket>, Ticket> number_;  // of a message, by its sender's ticket
  std::map<uint64_t, Question> questions_;
  uint64_t next_ = 1;
  size_t held_ = 0;  // messages
  bool begun_ = false, over_ = false;
  mutable std::mutex mutex_;  // of the outcome
  std::optional<Outcome> outcome_;
  std::string waits_for_;  // what was said to be missing
  Clock::time_point progress_ = Clock::now(), said_alive_{}, accepts_again_{};
};

// Who would like to join with another recorder: gets the order, and then what becomes of it.
class JudgeObserver {
 public:
  // Waits for at most ten seconds.
  static Result<std::unique_ptr<JudgeObserver>> ask(const JudgePlace& place, const std::string& key);
  const std::string& order() const { return order_; }
  std::optional<JudgeServer::Outcome> outcome();

 private:
  JudgeObserver(JudgeLink link, JudgePlace place) : link_(std::move(link)), place_(std::move(place)) {}
  JudgeLink link_;
  JudgePlace place_;
  std::string order_;
};

}  // namespace friday
