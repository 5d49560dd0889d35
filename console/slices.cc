#include "console/slices.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/base/fd.h"
#include "core/base/poll_set.h"
#include "core/replay/cuts.h"
#include "core/replay/saved_checkpoint.h"
#include "core/replay/verdict.h"

namespace friday {
namespace {

using nlohmann::json;

struct Slice {
  uint64_t from = 0, to = 0;  // events; `to` is that of the whole recording for the last one
  pid_t process = 0;
  UniqueFd told;  // what its process writes
  std::string text;
  std::optional<json> result;
};

// What a node has come to.
struct Reached {
  NodeId id;
  uint64_t events = 0;
  std::optional<uint64_t> hash;  // of the memory of a live one
  bool operator==(const Reached&) const = default;
};

Result<std::vector<Reached>> hashes(ReplaySession& session) {
  std::vector<Reached> all;
  for (NodeId id : session.nodes()) {
    Reached& node = all.emplace_back(id, session.find(id)->events_done(), std::nullopt);
    if (session.find(id)->state() != NodeState::live) continue;
    FRIDAY_TRY(hash, session.state_hash(id));
    node.hash = hash;
  }
  return all;
}

// What `friday verify` says of a node that was replayed as far as it was recorded, or of which the recorder has noted
// something.
void tell_of_nodes(const ReplayVerdict& verdict, json& told) {
  for (const NodeVerdict& node : verdict.nodes) {
    json entry{{"id", node.id.value}, {"name", node.name}};
    if (node.cut_off) entry["cut_off"] = *node.cut_off;
    if (!node.notice.empty()) entry["notice"] = node.notice;
    if (entry.size() > 2) told["nodes"].push_back(std::move(entry));
  }
}

// Replays one slice. Returns why it is not verified; empty if it is. `told`: notices, and what there is to say of
// nodes.
Result<std::string> replay(ReplaySession& session, const Slice& slice, json& told) {
  FRIDAY_TRY(start, session.checkpoint());
  if (slice.from) {
    FRIDAY_TRY(loaded, SavedCheckpoint::load(session, slice.from, *start));
    FRIDAY_TRY_VOID(session.restore(*loaded));
  }
  const bool is_last = slice.to >= session.schedule().event_count();
  if (is_last) {
    FRIDAY_TRY_VOID(replay_to_end(session));
    const ReplayVerdict verdict = judge_replay(session, false);
    if (!verdict.failure.empty()) return fail(ErrorCode::component_died, "{}", verdict.failure);
    tell_of_nodes(verdict, told);
    return verdict.problems;
  }
  if (auto ran = run_to_cut(session, slice.to); !ran) {
    if (ran.error().code == ErrorCode::diverged) return ran.error().message;
    return std::unexpected(ran.error());
  }
  FRIDAY_TRY(reached, hashes(session));
  FRIDAY_TRY(loaded, SavedCheckpoint::load(session, slice.to, *start));
  FRIDAY_TRY_VOID(session.restore(*loaded));
  FRIDAY_TRY(held, hashes(session));
  if (reached == held) return "";
  const auto differs = std::ranges::mismatch(reached, held);
  const Reached &is = *differs.in1, &was = *differs.in2;
  const char* what = is.events != was.events ? "the number of its events"
                     : is.hash.has_value() != was.hash.has_value()
                         ? is.hash ? "its end, which is still to come here," : "its end, which has come here,"
                         : "its memory";
  return fmt::format(
      "the state after event {} is not what the checkpoint there holds: of node {}, after its event {}, {} differs; "
      "make it again (friday checkpoint "
      "--drop), and if that does not help, the recording does not repeat\n",
      slice.to, is.id, is.events, what);
}

// In the process of a slice: replays it and tells the result.
[[noreturn]] void carry_out(const std::string& recording, const ReplayOptions& options, const Slice& slice, int to) {
  json told = json::object();
  const auto problems = [&]() -> Result<std::string> {
    FRIDAY_TRY(session, ReplaySession::open(recording, options));
    auto said = replay(*session, slice, told);
    if (const auto notices = session->take_notices(); !notices.empty()) told["notices"] = notices;
    return said;
  }();
  json result = problems ? json{{"problems", *problems}}
                         : json{{"error", describe(problems.error())},
                                {"died", problems.error().code == ErrorCode::component_died}};
  result.update(told);
  const std::string text = result.dump(-1, ' ', false, json::error_handler_t::replace);
  (void)write_all(to, std::as_bytes(std::span(text)));
  _exit(0);
}

Result<void> begin(const std::string& recording, const ReplayOptions& options, Slice& slice) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  slice.told.reset(ends[0]);
  UniqueFd far(ends[1]);
  slice.process = fork();
  if (slice.process < 0) return fail_errno(errno, "cannot start a process for a slice");
  if (slice.process == 0) carry_out(recording, options, slice, far.get());
  return {};
}

// Reads what the process has told. False at its end.
bool hear(Slice& slice) {
  char buffer[1 << 14];
  const ssize_t got = read(slice.told.get(), buffer, sizeof buffer);
  if (got > 0) slice.text.append(buffer, static_cast<size_t>(got));
  if (got > 0 || (got < 0 && errno == EINTR)) return true;
  int status = 0;
  while (waitpid(slice.process, &status, 0) < 0 && errno == EINTR) {}
  const json told = json::parse(slice.text, nullptr, false);
  slice.result = told.is_object() ? told
                                  : json{{"error", fmt::format("the process of this slice {}", ending_text(status))},
                                         {"died", true}};
  slice.told.reset();
  return false;
}

Result<void> run(std::vector<Slice>& slices, const std::string& recording, const ReplayOptions& options) {
  cpu_set_t processors;
  const size_t most = sched_getaffinity(0, sizeof processors, &processors) == 0 ? CPU_COUNT(&processors) : 1;
  size_t next = 0, done = 0;
  while (done < slices.size()) {
    for (; next < slices.size() && next - done < most; next++) FRIDAY_TRY_VOID(begin(recording, options, slices[next]));
    PollSet told;
    for (Slice& slice : slices)
      if (slice.told) told.add(slice.told.get(), [&] { done += !hear(slice); });
    FRIDAY_TRY_VOID(told.wait(-1));
    told.act();
  }
  return {};
}

}  // namespace

int verify_slices(const std::string& path, const ReplayOptions& options, uint64_t count, bool as_json) {
  const auto began = std::chrono::steady_clock::now();
  const auto work = [&]() -> Result<std::vector<Slice>> {
    FRIDAY_TRY(recording, Recording::open(path));
    if (options.sync != SyncMode::clock || !options.nodes.empty())
      return fail(ErrorCode::usage, "--slices replays all nodes in the order clock, for which checkpoints are made");
    FRIDAY_TRY(schedule, Schedule::load_or_compute(recording));
    FRIDAY_TRY(cuts, cuts_of_parts(recording, schedule.event_count(), count));
    cuts.push_back(schedule.event_count());
    std::vector<Slice> slices;
    for (uint64_t from = 0; uint64_t to : cuts) {
      Slice& slice = slices.emplace_back();
      slice.from = std::exchange(from, to);
      slice.to = to;
    }
    if (slices.size() < count)
      say(stderr,
          "friday verify: {} only, as the recording holds no more checkpoints; `friday checkpoint` makes some\n",
          counted(slices.size(), "slice"));
    FRIDAY_TRY_VOID(run(slices, path, options));
    return slices;
  };
  auto slices = work();
  if (!slices) return complain("verify", slices.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  json list = json::array();
  bool held = true, died = false, failed = false;
  std::set<std::string> notices;  // each once, whatever slices have it
  for (const Slice& slice : *slices) {
    json entry = *slice.result;
    entry["from"] = slice.from, entry["to"] = slice.to;
    const std::string error = entry.value("error", ""), problems = entry.value("problems", "");
    held = held && error.empty() && problems.empty();
    died = died || entry.value("died", false);
    failed = failed || !error.empty();
    if (!as_json && !(error.empty() && problems.empty()))
      fmt::print("events {} to {}: {}\n", slice.from, slice.to, printable_lines(error.empty() ? problems : error));
    for (const json& notice : entry.value("notices", json::array()))
      if (notices.insert(notice.get<std::string>()).second)
        say(stderr, "friday verify: {}\n", notice.get<std::string>());
    list.push_back(std::move(entry));
  }
  const uint64_t events = slices->back().to;
  if (as_json) say_json({{"held", held}, {"events", events}, {"seconds", seconds}, {"slices", std::move(list)}});
  else if (held)
    say("verified: {} in {}, {:.3f} s\n", counted(events, "event"), counted(slices->size(), "slice"), seconds);
  if (!as_json)
    for (const json& node : slices->back().result->value("nodes", json::array()))
      if (node.contains("cut_off"))
        say("node {} {}: as far as it was recorded: {}\n", node["id"].get<uint32_t>(), node["name"].get<std::string>(),
            node["cut_off"].get<std::string>());
  return died ? kDied : failed ? kBadInput : held ? 0 : kDiverged;
}

}  // namespace friday
