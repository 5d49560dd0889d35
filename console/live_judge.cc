#include "console/live_judge.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

#include "console/say.h"
#include "core/record/far_judge.h"
#include "core/study/talk.h"

namespace friday {

using nlohmann::json;

namespace {

// An address that stands for all of a machine's.
bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

std::string name_of_this_machine() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "HOST";
}

// Whether a program of that role takes part, or one that may make it, as a server makes children.
bool has_role(const std::set<std::string>& roles, const std::string& named) {
  return named.empty() || std::ranges::any_of(roles, [&](const std::string& role) {
           return is_role(role, named) || named.starts_with(role + "/");
         });
}

}  // namespace

Result<JoinedJudge> read_joined_judge(const std::string& text) {
  const size_t slash = text.rfind('/');
  if (slash == std::string::npos)
    return fail(
        ErrorCode::usage,
        "\"{}\" is no HOST:PORT/KEY: `friday force --listen`, on another machine, says what stands behind --join",
        text);
  FRIDAY_TRY(place, read_judge_place(text.substr(0, slash)));
  return JoinedJudge{std::move(place), text.substr(slash + 1)};
}

json as_json(const JoinedJudge& judge) {
  return {{"host", judge.place.host}, {"port", judge.place.port}, {"key", judge.key}, {"roles", judge.roles}};
}

Result<std::optional<JoinedJudge>> joined_judge_of(const json& order) {
  const auto found = order.find("join");
  if (found == order.end()) return std::nullopt;
  JoinedJudge judge{{text_of(*found, "host"), text_of(*found, "port")}, text_of(*found, "key")};
  const json roles = found->is_object() ? found->value("roles", json::array()) : json();
  if (!found->is_object() || judge.place.host.empty() || judge.place.port.empty() || !roles.is_array())
    return fail(ErrorCode::bad_input, "the order is damaged");
  for (const json& role : roles)
    if (role.is_string()) judge.roles.insert(role.get<std::string>());
  return judge;
}

void ask_elsewhere(const std::shared_ptr<const ForcePlan>& plan, const JoinedJudge& judge, ShaperOptions& options) {
  FarJudgeOptions far{
      .place = judge.place,
      .key = judge.key,
      .roles = {judge.roles.begin(), judge.roles.end()},
      .messages_in =
          [plan](std::span<const std::byte> bytes) {
            return plan->framing.messages_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
          },
      .one_line = !plan->exact(),
      .most_bytes = Talk::kMostBytes};
  far.patience = std::max<std::chrono::nanoseconds>(options.patience, std::chrono::seconds(5));
  options.judge = [far = std::move(far)] { return std::make_shared<FarJudge>(far); };
}

Result<std::unique_ptr<LiveJudge>> LiveJudge::listen(const std::string& place, const ForcePlan& plan, std::string order,
                                                     const ShaperOptions& shaper, bool quiet) {
  FRIDAY_TRY(at, read_judge_place(place));
  const std::vector<MessageClass> messages = messages_of(plan);
  JudgeServerOptions options{.judge = shaper.judge(),
                             .order = std::move(order),
                             .missing =
                                 [messages](const std::set<std::string>& roles) {
                                   std::set<std::string> missing;
                                   for (const MessageClass& each : messages)
                                     for (const std::string& role : {each.from, each.to})
                                       if (!has_role(roles, role)) missing.insert(role);
                                   return std::vector<std::string>(missing.begin(), missing.end());
                                 },
                             .say =
                                 [quiet](const std::string& text) {
                                   if (quiet) return;
                                   say("{}\n", text);
                                   fflush(stdout);
                                 },
                             .patience = shaper.patience};
  FRIDAY_TRY(server, JudgeServer::listen(at, std::move(options)));
  return std::unique_ptr<LiveJudge>(new LiveJudge(std::move(server)));
}

LiveJudge::~LiveJudge() { server_->stop(); }

JoinedJudge LiveJudge::for_this_machine() const {
  JudgePlace place = server_->place();
  if (is_any(place.host)) place.host = place.host == "::" ? "::1" : "127.0.0.1";
  return {std::move(place), server_->key()};
}

std::string LiveJudge::join_text() const {
  JudgePlace place = server_->place();
  if (is_any(place.host)) place.host = name_of_this_machine();
  return fmt::format("{}/{}", describe(place), server_->key());
}

}  // namespace friday
