// `friday force --live REC --listen` and `--join`: an order onto programs of several machines. The command that listens
// has the judge whom the recorders of all machines ask (core/record/judge_server.h).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "console/force_plan.h"
#include "core/record/judge_server.h"
#include "core/record/shaper.h"

namespace friday {

// Where the recorder of a live order finds its judge. In the order's file: "join".
struct JoinedJudge {
  JudgePlace place;
  std::string key;
  std::set<std::string> roles{};  // of the recorder's programs
};
// HOST:PORT/KEY, as the command that listens says it.
Result<JoinedJudge> read_joined_judge(const std::string& text);
nlohmann::json as_json(const JoinedJudge& judge);
// That of an order's file; none: the recorder is the judge itself.
Result<std::optional<JoinedJudge>> joined_judge_of(const nlohmann::json& order);

// Puts a judge elsewhere in the place of the recorder's own.
void ask_elsewhere(const std::shared_ptr<const ForcePlan>& plan, const JoinedJudge& judge, ShaperOptions& options);

// A judge whom recorders may ask as long as this exists; then all of them let everything go.
class LiveJudge {
 public:
  // `order`: what is given to those who join. `shaper`: how the order is forced.
  static Result<std::unique_ptr<LiveJudge>> listen(const std::string& place, const ForcePlan& plan, std::string order,
                                                   const ShaperOptions& shaper, bool quiet);
  ~LiveJudge();
  LiveJudge(const LiveJudge&) = delete;
  JoinedJudge for_this_machine() const;
  std::string join_text() const;  // for others: HOST:PORT/KEY
  std::optional<JudgeServer::Outcome> outcome() const { return server_->outcome(); }

 private:
  explicit LiveJudge(std::unique_ptr<JudgeServer> server)
      : server_(std::move(server)), thread_([this] { server_->run(); }) {}
  std::unique_ptr<JudgeServer> server_;
  std::jthread thread_;
};

}  // namespace friday
