// A judge in another process, maybe on another host (judge_server.h), which the recorders of all hosts ask over one
// connection each, so that an order of messages comes true between them. Whatever may be one of the order's messages is
// kept until the judge has answered, which to its receiver is a slow network. If the judge vanishes, everything is let
// go.
//
// Lines of JSON (judge_link.h). From a recorder, "is": "hello" with the key, the roles of its programs and its machine;
// "armed", when its programs take part; "sent" with a message's ticket, nodes, addresses, first bytes and length;
// "received", "handled" and "lost" with a ticket, or, as "far", with the number of a question; "answer" to a question;
// "give up"; "leaves". From the judge: "release" with a ticket; a question, which is "receiver", "quiet", "expect" or
// "count"; "alive", each second; "refused"; "over".
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/record/judge_link.h"
#include "core/record/message_judge.h"

namespace friday {

struct FarJudgeOptions {
  JudgePlace place;
  std::string key;
  std::vector<std::string> roles;  // of the recorder's programs
  std::function<std::vector<size_t>(std::span<const std::byte>)> messages_in;
  bool one_line = true;                                          // MessageJudge::is_one_line()
  size_t most_bytes = 0;                                         // of a message that the judge looks at
  std::chrono::nanoseconds patience = std::chrono::seconds(10);  // how long it may say nothing while something is kept
};

class FarJudge : public MessageJudge {
 public:
  // What the judge asks of a recorder.
  struct Question {
    enum class Kind {
      receiver,  // which node has the end of a connection
      quiet,     // to say when all that was sent before the message `ticket` has come at the other end's host
      expect,    // to say when that end has received and handled the next bytes, `length` of them
      count,     // how many bytes the end has sent, or received, if nothing is on its way
    };
    Kind kind;
    uint64_t number;
    Ticket ticket = 0;
    SocketPlace local{}, remote{};  // of the end that is asked for
    uint64_t length = 0;
    bool sends = false;
  };
  struct Answer {
    std::string name{};               // receiver: of the node; empty: it is not here
    bool waits = false;               // receiver: nobody has accepted it here yet, so it is to be asked again
    std::optional<uint64_t> count{};  // of the others: how many bytes the end has sent, or received; none: not known
  };

  explicit FarJudge(FarJudgeOptions options);

  std::vector<size_t> messages_in(std::span<const std::byte> bytes) const override {
    return options_.messages_in(bytes);
  }
  Verdict sent(const Sent& message) override;
  void received(Ticket ticket) override { tell("received", ticket); }
  void handled(Ticket ticket) override { tell("handled", ticket); }
  void lost(Ticket ticket) override;
  void give_up(const std::string& why) override;
  bool is_one_line() const override { return options_.one_line; }
  bool do_without() override;  // as long as the judge is there, that has the patience
  std::vector<Released> release() override;
  bool is_over() const override { return over_; }
  std::string waits_for() const override { return "an answer of " + describe(options_.place); }
  bool came_true() const override { return came_true_; }
  std::string reason() const override { return why_; }

  void arm() override;
  void leave(const std::string& why) override;  // the others may go on without
  void add_to(PollSet& set) override;
  std::vector<Question> questions();
  void answer(const Question& question, const Answer& answer);
  // Of a message that was expected here, by the number of the question.
  void tell_far(const char* what, uint64_t number);

 private:
  void tell(const char* what, Ticket ticket);
  void look();
  void take(const nlohmann::json& message);
  void end(bool came_true, const std::string& why);

  FarJudgeOptions options_;
  std::optional<JudgeLink> link_;
  std::set<Ticket> kept_;  // that are not released
  std::vector<Released> released_;
  std::vector<Question> questions_;
  bool over_ = false, came_true_ = false;
  std::string why_;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

// What the machine and the network are in which loopback addresses mean what they mean here.
std::string this_machine();

}  // namespace friday
