#include "console/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/infer/inference.h"
#include "core/replay/cuts.h"
#include "core/replay/saved_checkpoint.h"
#include "core/replay/saved_format.h"
#include "core/trace/mark.h"

namespace friday {
namespace {

struct CheckpointOptions {
  std::string recording;
  double every = 0;
  std::vector<std::string> at;
  bool drop = false, json = false, unconfined = false;
};

struct Kept {
  uint64_t events = 0, bytes = 0;  // bytes: what it has added to the recording; 0 if it was there before
};

double seconds_at(const Schedule& schedule, uint64_t events) {
  const Mark next = schedule.at_position(events);
  return schedule.seconds_of(next.node, next.event);
}

void print(const Schedule& schedule, const std::vector<Kept>& all, const CheckpointOptions& options) {
  nlohmann::json list = nlohmann::json::array();
  for (const Kept& kept : all) {
    if (kept.events >= schedule.event_count()) continue;  // of another recording
    const std::string mark = text_of(schedule.at_position(kept.events));
    const double seconds = seconds_at(schedule, kept.events);
    if (options.json)
      list.push_back({{"events", kept.events}, {"mark", mark}, {"seconds", seconds}, {"bytes", kept.bytes}});
    else if (kept.bytes)
      say("{:>12.6f} s  {}  after {}, {:.1f} MiB\n", seconds, mark, counted(kept.events, "event"),
          static_cast<double>(kept.bytes) / (1 << 20));
    else say("{:>12.6f} s  {}  after {}\n", seconds, mark, counted(kept.events, "event"));
  }
  if (options.json) say_json(list);
}

// The cuts that the options ask for, without the start and the end, where there is nothing to keep.
Result<std::set<uint64_t>> wanted_cuts(const Schedule& schedule, const CheckpointOptions& options) {
  std::set<uint64_t> cuts;
  for (const std::string& place : options.at) {
    FRIDAY_TRY(cut, cut_named(schedule, place));
    if (cut >= schedule.event_count())
      return fail(ErrorCode::usage, "nothing lies behind {}, so no checkpoint is needed there", place);
    cuts.insert(cut);
  }
  if (options.every > 0 && schedule.event_count() > 0)
    for (double at = options.every, last = seconds_at(schedule, schedule.event_count() - 1); at <= last;
         at += options.every)
      cuts.insert(schedule.position_at(at));
  cuts.erase(0);
  cuts.erase(schedule.event_count());
  return cuts;
}

uint64_t size_of(const Recording& recording, uint64_t events) {
  struct stat about {};
  return stat(saved::place_of(recording, events).path().c_str(), &about) == 0 ? static_cast<uint64_t>(about.st_size)
                                                                              : 0;
}

// Keeps the cut after so many events, or the first one behind it at which that is possible: at some, a thread has only
// just begun, or a fork is under way.
Result<Kept> keep(ReplaySession& session, uint64_t events, const GroupCheckpoint& start, PageStore& pages) {
  constexpr uint64_t kMostTries = 200;
  for (const uint64_t last = events + kMostTries;; events++) {
    if (events >= session.schedule().event_count())
      return fail(ErrorCode::unsupported, "no checkpoint is possible from there to the end of the recording");
    FRIDAY_TRY_VOID(run_to_cut(session, events));
    const auto here = session.checkpoint();
    if (!here && (here.error().code != ErrorCode::unsupported || events == last)) return std::unexpected(here.error());
    if (!here || !session.is_between_events()) continue;
    FRIDAY_TRY(size, SavedCheckpoint::save(session, **here, start, pages));
    return Kept{events, size.new_pages * 4096 + size_of(session.recording(), events)};
  }
}

Result<std::vector<Kept>> make(ReplaySession& session, std::set<uint64_t> cuts) {
  const Recording& recording = session.recording();
  FRIDAY_TRY(there, saved_checkpoints(recording));
  for (uint64_t events : there) cuts.erase(events);
  std::vector<Kept> made;
  if (cuts.empty()) return made;
  FRIDAY_TRY(start, session.checkpoint());
  FRIDAY_TRY(pages, PageStore::open_to_write(recording));
  SavedCheckpoint::note_pages(recording, pages);
  FRIDAY_TRY_VOID(begin_near(session, *cuts.begin()));
  const bool show = isatty(STDERR_FILENO);
  for (uint64_t events : cuts) {
    FRIDAY_TRY(kept, keep(session, events, *start, pages));
    made.push_back(kept);
    if (show) say(stderr, "\r{} of {} checkpoints", made.size(), cuts.size());
  }
  if (show) fmt::print(stderr, "\r\033[K");
  return made;
}

int run_checkpoint(const CheckpointOptions& options) {
  const auto complain_of = [](const Error& error) {
    const int code = complain("checkpoint", error);
    return error.code == ErrorCode::diverged ? static_cast<int>(kDiverged) : code;
  };
  auto recording = Recording::open(options.recording);
  if (!recording) return complain_of(recording.error());
  if (options.drop) {
    if (auto removed = remove_saved_checkpoints(*recording); !removed) return complain_of(removed.error());
    if (options.at.empty() && options.every == 0) return 0;
  }
  if (options.at.empty() && options.every == 0) {
    auto there = saved_checkpoints(*recording);
    if (!there) return complain_of(there.error());
    auto schedule = Schedule::load_or_compute(*recording);
    if (!schedule) return complain_of(schedule.error());
    std::vector<Kept> all;
    for (uint64_t events : *there) all.push_back({events});
    if (all.empty() && !options.json) say("the recording holds no checkpoints; --every 10 makes some\n");
    print(*schedule, all, options);
    return 0;
  }
  ReplayOptions replay;
  replay.library_directory = library_directory();
  replay.infer = infer::make_infer(library_directory());
  replay.unconfined = options.unconfined;
  auto session = ReplaySession::open(options.recording, replay);
  if (!session) return complain_of(session.error());
  auto cuts = wanted_cuts((*session)->schedule(), options);
  if (!cuts) return complain_of(cuts.error());
  auto made = make(**session, *cuts);
  for (const std::string& notice : (*session)->take_notices()) say(stderr, "friday checkpoint: {}\n", notice);
  if (!made) return complain_of(made.error());
  print((*session)->schedule(), *made, options);
  return 0;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, int* status) {
  auto options = std::make_shared<CheckpointOptions>();
  auto* command = app.add_subcommand(
      "checkpoint",
      "Keep the state of the whole group at some places in the recording, so that later commands begin "
      "there; without options, list those places");
  add_recording(*command, options->recording);
  command->add_option("--every", options->every, "Keep one every so many seconds of the recording")
      ->check(CLI::PositiveNumber);
  command->add_option("--at", options->at, "Keep one here: a mark or a time in seconds; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--drop", options->drop, "Remove those that there are first");
  command->add_flag("--json", options->json, "Print the places as JSON");
  add_unconfined_flag(*command, options->unconfined);
  command->footer("Examples:\n  friday checkpoint REC --every 10\n  friday checkpoint REC --at 3#1234 --at 5.2");
  command->callback([options, status] { *status = run_checkpoint(*options); });
}

}  // namespace friday
