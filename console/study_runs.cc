#include "console/study_runs.h"

#include <chrono>

#include "console/say.h"
#include "core/base/counted.h"

namespace friday {
namespace {

constexpr size_t kMostEvents = 50'000'000;  // of a study

}  // namespace

Result<Gathered> gather_runs(const char* command, const Study& study, const UserClasses& classes) {
  Gathered out;
  size_t events = 0;
  auto told = std::chrono::steady_clock::now();
  for (const StudyRun& run : study.runs()) {
    if (run.result != StudyRun::Result::passed && run.result != StudyRun::Result::failed) {
      out.undecided++;
      continue;
    }
    auto talk = study.talk_of(run);
    if (!talk) {
      if (talk.error().code == ErrorCode::not_found) out.gone++;
      else out.unreadable.push_back(fmt::format("run {}: {}", run.number, talk.error().message));
      continue;
    }
    if ((events += talk->events.size()) > kMostEvents)
      return fail(ErrorCode::unsupported,
                  "{} has more than {} events: compare fewer runs, or shorter ones (a copy of the directory with fewer "
                  "lines in runs.jsonl)",
                  study.directory(), kMostEvents);
    classes.apply(*talk);
    const bool failed = run.result == StudyRun::Result::failed;
    if (failed) out.reasons[run.why]++;
    out.runs.push_back({run.number, failed, std::move(*talk)});
    if (const auto now = std::chrono::steady_clock::now(); now - told > std::chrono::seconds(2)) {
      told = now;
      say(stderr, "friday {}: reading what was said: {} of {}\n", command, out.runs.size(),
          counted(study.runs().size(), "run"));
    }
  }
  return out;
}

}  // namespace friday
