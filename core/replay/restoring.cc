#include "core/replay/restoring.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/base/counted.h"
#include "core/base/printable.h"
#include "core/replay/companions.h"
#include "core/replay/session.h"
#include "core/replay/verdict.h"
#include "core/trace/leaving_out.h"
#include "core/trace/left_out_events.h"
#include "core/trace/reader.h"
#include "core/trace/regenerable.h"
#include "core/trace/restored.h"

namespace friday {

namespace {

namespace fs = std::filesystem;

// What is to be made again, and where it lies among the shared bytes.
struct RestoringPlan {
  struct Node {
    TraceReader trace;
    uint64_t at;  // of the first range that it leaves out among the shared bytes; the others follow it
  };
  std::map<NodeId, Node> nodes;
  std::set<NodeId> replayed;  // those that send it, and whom their replay needs
  std::shared_ptr<RestoringTables> tables = std::make_shared<RestoringTables>();
  std::map<NodeId, uint64_t> absent;  // bytes of which the sender's node is not in the recording
  std::vector<MissingBytes> missing;  // what was let go for good
};

// Plans what one node lacks: with which of its events it gets the bytes, and who sends them.
Result<void> plan_node(RestoringPlan& plan, const Recording& recording, NodeId id) {
  const RestoringPlan::Node& node = plan.nodes.at(id);
  uint64_t place = node.at;
  return for_each_left_out(node.trace, [&](EventView event, uint64_t address, const LeftOut& range) {
    const SentFromCall& source = range.source;
    plan.tables->received[id].push_back(
        {.event = event->index, .address = address, .length = range.size, .place = place});
    if (const NodeInfo* sender = sender_of(recording, range)) {
      plan.replayed.insert(sender->id);
      plan.tables->sent[sender->id].push_back({.event = source.event,
                                               .from = source.from,
                                               .length = range.size,
                                               .place = place,
                                               .message = source.message,
                                               .reserved = 0});
    } else if (!range.is_let_go()) {
      plan.absent[id] += range.size;
    } else {
      plan.missing.push_back({id, event->index, address, range.size, place});
      plan.tables->may_be_unchecked.insert(id);
      plan.replayed.insert(id);
    }
    place += range.size;
  });
}

// `order` may be missing if the recording has none; then nobody is known to share memory.
Result<RestoringPlan> make_plan(const Recording& recording, const Schedule* order, std::set<NodeId> wanted) {
  RestoringPlan plan;
  for (bool more = true; more;) {
    more = false;
    for (NodeId id : std::exchange(wanted, {})) {
      const NodeInfo* node = recording.find(id);
      if (!node || node->problem || node->is_complete() || plan.nodes.contains(id)) continue;
      FRIDAY_TRY(reader, TraceReader::open(recording, id, TraceReader::Gaps::allow));
      const uint64_t at = plan.tables->bytes;
      for (const LeftOut& range : reader.left_out()) plan.tables->bytes += range.size;
      plan.nodes.emplace(id, RestoringPlan::Node{std::move(reader), at});
      FRIDAY_TRY_VOID(plan_node(plan, recording, id));
      more = true;
    }
    FRIDAY_TRY_VOID(add_ancestors(recording, plan.replayed));
    if (order) {
      FRIDAY_TRY_VOID(add_memory_sharers(recording, *order, plan.replayed));
    }
    wanted = plan.replayed;
  }
  for (auto& [id, pieces] : plan.tables->sent) std::ranges::stable_sort(pieces, {}, &shim::SentPiece::event);
  return plan;
}

Error not_all_senders(const Recording& recording, const RestoringPlan& plan) {
  const auto& [id, bytes] = *plan.absent.begin();
  return Error{
      ErrorCode::unsupported,
      fmt::format(
          "node {} ({}): {} bytes that it received are neither in the recording nor in what other nodes "
          "of it have sent, so it cannot be replayed, nor can nodes that need what it has sent. Put the nodes back "
          "that were taken out of the recording (`friday info --missing` names them), or choose others with --node",
          id, printable(recording.find(id)->name), bytes),
      id.value,
      {}};
}

uint64_t bytes_of(std::span<const MissingBytes> missing) {
  uint64_t bytes = 0;
  for (const MissingBytes& each : missing) bytes += each.size;
  return bytes;
}

// What is made again lies on the disk twice for a moment: while it is exchanged, and in the cache.
Result<void> check_room(const Recording& recording, uint64_t bytes) {
  std::error_code unknown;
  const auto space = fs::space(recording.path(), unknown);
  if (!unknown && space.available / 2 < bytes)
    return fail(
        ErrorCode::io,
        "to make payload again that the recording leaves out, {} are needed beside {}, and {} are free; copy the "
        "recording to where there is room",
        size_text(2 * bytes), recording.path(), size_text(space.available));
  return {};
}

bool lacks_payload(const Recording& recording, const std::set<NodeId>& nodes) {
  return std::ranges::any_of(nodes, [&](NodeId id) {
    const NodeInfo* node = recording.find(id);
    return node && !node->problem && !node->is_complete();
  });
}

// Keeps what was inferred of a node. `file`, from `at` on, has the bytes that the nodes share.
Result<void> keep_inferred(const Recording& recording, const RestoringPlan& plan, NodeId id, InferredNode found,
                           int file, uint64_t at, Restored& restored) {
  const RestoringPlan::Node& node = plan.nodes.at(id);
  const PackedList& list = node.trace.packed_list();
  InferredContents contents{.bytes = {},
                            .sureness = {},
                            .unchecked = std::move(found.unchecked),
                            .touched = std::move(found.touched),
                            .spans = std::move(found.spans)};
  uint64_t bytes = 0;
  for (const LeftOut& range : list.left_out) bytes += range.size;
  contents.bytes.resize(bytes);
  contents.sureness.assign(bytes, Sureness::received);
  FRIDAY_TRY_VOID(read_exactly(file, contents.bytes, at + node.at));
  auto next = found.sureness.begin();
  for (const MissingBytes& each : plan.missing)
    if (each.node == id)
      next = std::ranges::copy_n(next, static_cast<ptrdiff_t>(each.size),
                                 contents.sureness.begin() + static_cast<ptrdiff_t>(each.place - node.at))
                 .in;
  note_what_hashes_prove(list, contents);
  for (const MissingBytes& each : plan.missing)
    if (each.node == id)
      for (uint64_t i = 0; i < each.size; i++)
        restored.inferred[static_cast<size_t>(contents.sureness[each.place - node.at + i])]++;
  // If all of it is what was received, nothing is in doubt, and what is sent of it can be compared again.
  if (std::ranges::all_of(contents.sureness, [](Sureness each) { return each == Sureness::received; }))
    contents.unchecked.clear(), contents.touched.clear(), contents.spans.clear();
  return write_inferred(inferred_payload(recording.trace(id), id), list, contents);
}

// Held by the process that restores the recording; released when the descriptor is closed.
Result<UniqueFd> lock_restoring(const Recording& recording) {
  FRIDAY_TRY(cache, make_directory_beneath(recording.inside("cache")));
  while (::flock(cache.get(), LOCK_EX) != 0)
    if (errno != EINTR) return fail_errno(errno, fmt::format("cannot lock {}/cache", recording.path()));
  return std::move(cache);
}

}  // namespace

Result<Restored> restore_payload(const Recording& asked, const std::set<NodeId>& nodes,
                                 const RestoringOptions& options) {
  if (!lacks_payload(asked, nodes)) return Restored{};
  const auto lock = lock_restoring(asked);
  if (!lock) return std::unexpected(lock.error());
  FRIDAY_TRY(recording, Recording::open(asked.path()));  // another process may have restored it meanwhile
  const auto order = Schedule::load_or_compute(recording);
  FRIDAY_TRY(plan, make_plan(recording, order ? &*order : nullptr, nodes));
  if (!plan.absent.empty()) return std::unexpected(not_all_senders(recording, plan));
  if (!plan.missing.empty() && !options.infer)
    return fail(
        ErrorCode::unsupported,
        "{} of what nodes have received were let go for good (`friday info --missing`); `friday restore` infers "
        "what they may have been",
        size_text(bytes_of(plan.missing)));
  Restored restored{plan.nodes.size(), plan.tables->bytes};
  if (plan.nodes.empty()) return restored;
  FRIDAY_TRY_VOID(check_room(recording, restored.bytes));
  ReplayOptions replay;
  replay.library_directory = options.library_directory;
  replay.unconfined = options.unconfined;
  replay.restoring = plan.tables;
  replay.nodes.assign(plan.replayed.begin(), plan.replayed.end());
  FRIDAY_TRY(session, ReplaySession::open(recording.path(), std::move(replay)));
  std::map<NodeId, InferredNode> inferred;
  if (plan.missing.empty()) {
    FRIDAY_TRY_VOID(replay_to_end(*session));
  } else {
    FRIDAY_TRY(found, options.infer(*session, plan.missing));
    inferred = std::move(found);
  }
  const ReplayVerdict verdict = judge_replay(*session, false);
  if (!verdict.failure.empty()) return fail(ErrorCode::component_died, "{}", verdict.failure);
  if (!inferred.empty() && !verdict.held())
    return fail(ErrorCode::unsupported,
                "what was inferred of payload that nobody has does not lead where the recording says: {}",
                verdict.problems);
  const auto [file, at] = session->exchanged();
  std::optional<Error> first;
  for (const auto& [id, node] : plan.nodes) {
    const auto guessed = inferred.find(id);
    auto written =
        guessed != inferred.end()
            ? keep_inferred(recording, plan, id, std::move(guessed->second), file, at, restored)
            : write_restored(restored_payload(recording.trace(id), id), node.trace.packed_list(), file, at + node.at);
    if (!written && !first)
      first = Error{written.error().code,
                    fmt::format("node {} ({}): payload that the recording leaves out was not made again: {}{}{}", id,
                                printable(recording.find(id)->name), written.error().message,
                                verdict.held() ? "" : "; the replay differs from the recording: ", verdict.problems),
                    id.value,
                    {}};
  }
  if (first) return std::unexpected(*std::move(first));
  return restored;
}

std::string inferred_text(const Restored& restored) {
  const auto of = [&](Sureness sureness) { return restored.inferred[static_cast<size_t>(sureness)]; };
  std::vector<std::string> parts;
  const auto say = [&](Sureness sureness, const char* text) {
    if (of(sureness)) parts.push_back(fmt::format("{} {}", counted(of(sureness), "byte"), text));
  };
  say(Sureness::received, "are what was received, as their hash says");
  say(Sureness::determined, "must have been what they are now, if the code took the same path");
  say(Sureness::inferred, "may also have been something else");
  say(Sureness::free, "are unknown: nothing that was recorded depends on them");
  return parts.empty() ? "" : fmt::format("of what nobody has any more, {}", fmt::join(parts, "; "));
}

std::set<NodeId> all_readable(const Recording& recording) {
  std::set<NodeId> nodes;
  for (const NodeInfo& node : recording.nodes())
    if (!node.problem) nodes.insert(node.id);
  return nodes;
}

Result<Recording> completed(Recording recording, const std::set<NodeId>& nodes, const RestoringOptions& options) {
  if (!lacks_payload(recording, nodes)) return recording;
  FRIDAY_TRY_VOID(restore_payload(recording, nodes, options));
  return Recording::open(recording.path());
}

namespace {

// A copy of a recording in its cache directory, with links instead of copies where possible, in which traces are
// replaced. Removed with the object.
class Rehearsal {
 public:
  explicit Rehearsal(const Recording& recording) : recording_(recording), name_("cache/rehearsal") {}
  ~Rehearsal() {
    if (lock_) remove_tree(inside_root());
  }
  Rehearsal(const Rehearsal&) = delete;

  std::string path() const { return recording_.inside(name_).path(); }
  Beneath trace(NodeId id) const { return inside(packed_path(fmt::format("nodes/{}/trace", id.value))); }

  // As the recording is.
  Result<void> make() {
    if (!lock_) {
      FRIDAY_TRY(lock, lock_restoring(recording_));
      lock_ = std::move(lock);
    }
    remove_tree(inside_root());  // what is left of one that was killed
    FRIDAY_TRY_VOID(make_directory_beneath(inside_root()));
    FRIDAY_TRY_VOID(link("recording.json"));
    for (const char* folder : {"files", "payload"}) {
      const auto names = names_beneath(recording_.inside(folder));
      if (!names && names.error().code == ErrorCode::not_found) continue;
      if (!names) return std::unexpected(names.error());
      FRIDAY_TRY_VOID(make_directory_beneath(inside(folder)));
      for (const std::string& name : *names) FRIDAY_TRY_VOID(link(fmt::format("{}/{}", folder, name)));
    }
    for (const NodeInfo& node : recording_.nodes()) {
      const std::string directory = fmt::format("nodes/{}", node.id.value);
      FRIDAY_TRY_VOID(make_directory_beneath(inside(directory)));
      FRIDAY_TRY(names, names_beneath(recording_.inside(directory)));
      for (const std::string& name : names)
        if (name == "node.json" || name == "trace" || name == "trace.zst")
          FRIDAY_TRY_VOID(link(directory + "/" + name));
    }
    return {};
  }

  // Leaves the ranges out of a trace. Returns false, and changes nothing, if that would not make it smaller.
  Result<bool> replace(NodeId id, const TraceReader& trace, std::span<const LeftOut> ranges) {
    const Beneath lean = inside(fmt::format("nodes/{}/lean", id.value));
    FRIDAY_TRY_VOID(write_without(trace, ranges, lean));
    std::error_code unknown;
    const uint64_t size = fs::file_size(lean.path(), unknown);
    if (unknown || size >= stored_bytes(recording_.trace(id))) {
      remove_beneath(lean);
      return false;
    }
    FRIDAY_TRY(directory, open_directory_beneath(lean.directory()));
    if (::renameat(directory.get(), "lean", directory.get(), "trace.zst") != 0)
      return fail_errno(errno, fmt::format("cannot rename {}", lean.path()));
    remove_beneath(inside(fmt::format("nodes/{}/trace", id.value)));
    return true;
  }

 private:
  Result<void> link(const std::string& name) {
    FRIDAY_TRY(from, open_beneath(recording_.inside(name)));  // a regular file, not a link to another place
    const std::string to = inside(name).path();
    if (::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", from.get()).c_str(), AT_FDCWD, to.c_str(),
                 AT_SYMLINK_FOLLOW) == 0)
      return {};
    std::error_code failed;
    fs::copy_file(recording_.inside(name).path(), to, failed);
    if (failed) return fail(ErrorCode::io, "cannot copy {}: {}", recording_.inside(name).path(), failed.message());
    return {};
  }

  Beneath inside(const std::string& file) const { return recording_.inside(name_ + "/" + file); }
  Beneath inside_root() const { return recording_.inside(name_); }
  // Follows no links.
  static void remove_tree(const Beneath& directory) {
    if (const auto names = names_beneath(directory); names)
      for (const std::string& name : *names) remove_tree(directory.below(name));
    remove_beneath(directory);
  }

  UniqueFd lock_;  // one at a time
  const Recording& recording_;
  std::string name_;
};

// Puts the rehearsed trace in the place of the recording's own.
Result<void> replace_trace(const Recording& recording, const Rehearsal& rehearsal, NodeId id) {
  const Beneath own = recording.trace(id);
  FRIDAY_TRY(from, open_directory_beneath(rehearsal.trace(id).directory()));
  FRIDAY_TRY(to, open_directory_beneath(own.directory()));
  if (::renameat(from.get(), "trace.zst", to.get(), "trace.zst") != 0)
    return fail_errno(errno, fmt::format("cannot replace {}", packed(own).path()));
  remove_beneath(own);
  return {};
}

}  // namespace

namespace {

// Of what would be left out, keeps what is found to come from elsewhere once it is not there: where several wrote to
// one stream at once, or where contents alone told which ends belong together. Returns how much that was.
Result<size_t> keep_ambiguous(const Rehearsal& rehearsal, std::map<NodeId, std::vector<Regenerable>>& known,
                              const std::map<NodeId, std::vector<LeftOut>>& chosen) {
  FRIDAY_TRY(rehearsed, Recording::open(rehearsal.path()));
  FRIDAY_TRY(order, Schedule::compute(rehearsed));
  FRIDAY_TRY(found, find_regenerable(rehearsed, order));
  size_t kept = 0;
  for (const auto& [id, ranges] : chosen) {
    const std::vector<Regenerable>& now = found[id];
    kept += std::erase_if(known[id], [&](const Regenerable& bytes) {
      const auto at = std::ranges::lower_bound(now, bytes.offset, {}, &Regenerable::offset);
      return at == now.end() || static_cast<const LeftOut&>(*at) != bytes;
    });
  }
  return kept;
}

}  // namespace

Result<LeftOutReport> leave_out_payload(const Recording& recording, const RestoringOptions& options) {
  for (const NodeInfo& node : recording.nodes()) {
    FRIDAY_TRY_VOID(check_ended(node));
    if (!node.is_complete())
      return fail(
          ErrorCode::unsupported,
          "node {} ({}): the recording leaves out payload already; make it again first with `friday restore {}`",
          node.id, printable(node.name), printable(recording.path()));
  }
  FRIDAY_TRY(order, Schedule::load_or_compute(recording));
  FRIDAY_TRY(known, find_regenerable(recording, order));
  LeftOutReport report;
  Rehearsal rehearsal(recording);
  std::map<NodeId, std::vector<LeftOut>> chosen;
  for (bool settled = false; !settled;) {
    chosen.clear();
    for (const auto& [id, regenerable] : known)
      if (auto ranges = choose_left_out(regenerable); !ranges.empty()) chosen[id] = std::move(ranges);
    FRIDAY_TRY_VOID(rehearsal.make());
    for (auto each = chosen.begin(); each != chosen.end();) {
      FRIDAY_TRY(reader, TraceReader::open(recording, each->first));
      FRIDAY_TRY(pays, rehearsal.replace(each->first, reader, each->second));
      each = pays ? std::next(each) : chosen.erase(each);
    }
    FRIDAY_TRY(kept, keep_ambiguous(rehearsal, known, chosen));
    settled = kept == 0;
  }
  if (chosen.empty()) return report;
  FRIDAY_TRY(rehearsed, Recording::open(rehearsal.path()));
  FRIDAY_TRY_VOID(restore_payload(rehearsed, all_readable(rehearsed), options));
  for (const auto& [id, ranges] : chosen) {
    const Beneath trace = recording.trace(id);
    LeftOutReport::Node node{id, stored_bytes(trace), 0, rehearsed.find(id)->left_out};
    FRIDAY_TRY_VOID(replace_trace(recording, rehearsal, id));
    node.after = stored_bytes(trace);
    report.nodes.push_back(node);
  }
  return report;
}

}  // namespace friday
