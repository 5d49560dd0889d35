#include "console/until.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "console/complain.h"
#include "console/finished_run.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/run_workers.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/record/check.h"
#include "core/record/interrupts.h"
#include "core/record/placeholders.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLongestLine = 64 << 10;  // of runs.jsonl, in bytes

// One line of the terminal that is drawn again and again, and erased before anything else is printed. Does nothing
// where standard error is no terminal.
class StatusLine {
 public:
  explicit StatusLine(bool quiet) {
    const char* term = getenv("TERM");
    on_ = !quiet && isatty(STDERR_FILENO) && term && std::string_view(term) != "dumb";
  }
  ~StatusLine() { clear(); }
  bool on() const { return on_; }
  void draw(std::string text) {
    if (!on_) return;
    winsize size{};
    const size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    text.resize(std::min(text.size(), columns - 1));
    fmt::print(stderr, "\r{}\x1b[K", printable(text));
    drawn_ = true;
  }
  void clear() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
    drawn_ = false;
  }

 private:
  bool on_ = false, drawn_ = false;
};

// A line of the table.
struct Row {
  FinishedRun run;
  std::string kept;  // where the recording is; empty if it was removed
};

// What the table says of a run that is kept: why it did not pass, the seed with which it can be run again, and where
// it is.
std::string remarks(const Row& row) {
  std::string text = row.run.why;
  if (row.run.seed) text += fmt::format("{}seed {}", text.empty() ? "" : "  ", *row.run.seed);
  return text + (text.empty() ? "" : "  ") + row.kept;
}

class Series {
 public:
  Series(const GroupSpec& group, GroupRunOptions& options, const UntilOptions& until, const Interrupts& interrupts)
      : group_(group),
        options_(options),
        until_(until),
        interrupts_(interrupts),
        directory_(options.launch.collector.recording),
        line_(until.quiet) {}

  SeriesEnd run() {
    auto first = prepare();
    if (!first) return {SeriesEnd::How::failed, complain(until_.command, first.error())};
    began_ = Clock::now();
    const auto done = until_.jobs > 1 ? make_several(*first) : make_one_by_one(*first);
    line_.clear();
    int code = code_;
    if (!done) code = complain(until_.command, done.error());
    print_table();
    if (!until_.quiet && !until_.interrupts) tell_unjudged();
    if (!done || is_disk_full_) return {SeriesEnd::How::failed, code};
    const bool is_interrupted = is_interrupted_ || interrupts_.came();
    if (is_interrupted && !until_.resumed_by.empty() && !until_.quiet)
      say(stderr, "friday: interrupted; {}\n", until_.resumed_by);
    return {is_interrupted ? SeriesEnd::How::interrupted : SeriesEnd::How::done, code};
  }

 private:
  // Creates the directory, in which nobody else may record a series. Returns the number of the first run: behind those
  // that are there already.
  Result<unsigned> prepare() {
    namespace fs = std::filesystem;
    if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("cannot create {}", directory_));
    FRIDAY_TRY(lock, open_file(directory_, O_RDONLY | O_DIRECTORY));
    lock_ = std::move(lock);
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)  // not every file system has locks
      return fail(ErrorCode::bad_input,
                  "another series of runs is being recorded into {}: wait for its end, or name another directory",
                  directory_);
    if (fs::exists(directory_ + "/recording.json"))
      return fail(ErrorCode::bad_input,
                  "{} is a recording: with --until-failure, -o names a directory in which each run has a recording of "
                  "its own; name a new or empty one",
                  directory_);
    // Recordings may have been removed, so the list counts too.
    const auto listed = nlohmann::json::parse(last_line_of(directory_ + "/runs.jsonl", kLongestLine), nullptr, false);
    unsigned last = 0;
    if (listed.is_object() && listed.contains("run") && listed["run"].is_number_unsigned()) last = listed["run"];
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory_, error)) {
      const std::string name = entry.path().filename().string();
      unsigned number = 0;
      if (name == "runs.jsonl" || name == "messages" || name == "study.json" || name.starts_with("forced-")) continue;
      const bool is_run =
          name.starts_with("run-") &&
          std::from_chars(name.data() + 4, name.data() + name.size(), number).ptr == name.data() + name.size();
      if (!is_run)
        return fail(ErrorCode::bad_input, "{} holds {}, which is no run of a group; name a new or empty directory",
                    directory_, name);
      last = std::max(last, number);
    }
    if (error) return fail(ErrorCode::io, "cannot read {}: {}", directory_, error.message());
    return last + 1;
  }

  // Whether another run is to be made after so many. `failed`: runs that have, and are not in the table yet.
  bool goes_on(unsigned made, size_t failed = 0) const {
    return made < until_.runs && failed_ + failed < until_.failures && rows_.size() - failed_ < until_.others &&
           !is_over_ && !interrupts_.came();
  }

  Result<void> make_one_by_one(unsigned first) {
    options_.interrupt_fd = interrupts_.fd();
    for (unsigned made = 0; goes_on(made); made++) {
      began_ = Clock::now();
      const unsigned number = first + made;
      const auto draw = [this, number](const std::string& doing) {
        this->draw(fmt::format("run {} ({} of {}): {}", number, rows_.size() + 1, until_.runs, doing));
      };
      draw("");
      if (line_.on()) {
        options_.launch.every_second = [draw] { draw(""); };
        options_.checking = [draw](const std::string& check) { draw(check + ", "); };
      }
      FRIDAY_TRY_VOID(settle(number, until_.live ? make_live_run(*until_.live, group_, options_, directory_, number)
                                                 : make_run(group_, options_, directory_, number)));
    }
    return {};
  }

  Result<void> make_several(unsigned first) {
    RunWorkers workers(interrupts_);
    options_.parts = until_.jobs;
    for (unsigned made = 0;;) {
      for (; goes_on(made, workers.failed()) && workers.running() < until_.jobs; made++) {
        unsigned part = 0;
        while (workers.is_used(part)) part++;
        const unsigned number = first + made;
        const auto make = [this, number, part](const Interrupts& interrupts) {
          options_.part = part;
          options_.interrupt_fd = interrupts.fd();
          return make_run(group_, options_, directory_, number);
        };
        FRIDAY_TRY_VOID(workers.start(number, part, make));
      }
      if (workers.running() == 0) return {};
      draw(fmt::format("{} at a time, {} of {}: ", counted(workers.running(), "run"), rows_.size(), until_.runs));
      workers.wait(std::chrono::seconds(1));
      while (auto done = workers.take())
        FRIDAY_TRY_VOID(settle(first + static_cast<unsigned>(rows_.size()), *std::move(done)));
    }
  }

  void draw(const std::string& doing) {
    const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
    line_.draw(fmt::format("{}{:.0f} s; {} passed, {} failed", doing, seconds, passed_, failed_));
  }

  Result<void> settle(unsigned number, Result<FinishedRun> made) {
    const std::string place = fmt::format("{}/run-{}", directory_, number);
    if (!made) {
      // A recording of which nothing was started is of no use.
      if (std::error_code error; rows_.empty()) std::filesystem::remove(place, error);
      return std::unexpected(made.error());
    }
    rows_.push_back({*std::move(made), place});
    const FinishedRun& run = rows_.back().run;
    const bool passed = run.result == GroupRun::Result::passed;
    if (run.result == GroupRun::Result::failed && failed_++ == 0) code_ = run.code;
    if (run.result == GroupRun::Result::undecided && code_ == 0) code_ = run.code;
    passed_ += passed;
    tell(run);
    is_disk_full_ |= run.is_disk_full;
    is_interrupted_ |= run.result == GroupRun::Result::interrupted;
    is_over_ = is_disk_full_ || is_interrupted_;
    if (passed && !run.is_disk_full && run.not_kept.empty()) FRIDAY_TRY_VOID(keep_good());
    FRIDAY_TRY_VOID(note(rows_.back()));
    if (run.is_disk_full) {
      line_.clear();
      say(stderr, "friday: the disk was full during run {}, so what it recorded is incomplete; no further run\n",
          number);
      if (code_ == 0) code_ = kBadInput;
    }
    if (run.result == GroupRun::Result::interrupted && code_ == 0) code_ = 130;
    return {};
  }

  // Removes the oldest good recording that need not be kept.
  Result<void> keep_good() {
    good_.push_back(rows_.size() - 1);
    if (!until_.keep.good || good_.size() <= *until_.keep.good) return {};
    Row& row = rows_[good_.front()];
    good_.pop_front();
    std::error_code error;
    std::filesystem::remove_all(row.kept, error);
    if (error) return fail(ErrorCode::io, "cannot remove {}: {}", row.kept, error.message());
    row.kept.clear();
    return {};
  }

  void tell(const FinishedRun& run) {
    if (!run.not_kept.empty()) {
      line_.clear();
      say(stderr,
          "friday: run {}: its messages could not be kept, so that its recording is, for `friday compare`: {}\n",
          run.number, run.not_kept);
    }
    if (until_.quiet) return;
    line_.clear();
    if (line_.on() && run.result == GroupRun::Result::passed) return;  // the line counts it
    const std::string why = run.why == name_of(run.result) ? "" : run.why;
    say(stderr, "friday: run {}: {} in {:.1f} s{}{}{}\n", run.number, name_of(run.result), run.seconds,
        why.empty() ? "" : ": ", why,
        run.seed && run.result != GroupRun::Result::passed ? fmt::format("; seed {}", *run.seed) : "");
    for (const std::string& text : run.bad_ends)
      if (text != run.why) say(stderr, "friday: run {}: {}\n", run.number, text);
  }

  // Appends the run to runs.jsonl.
  Result<void> note(const Row& row) {
    FRIDAY_TRY(file, open_file(directory_ + "/runs.jsonl", O_WRONLY | O_CREAT | O_APPEND));
    const std::string text =
        line_of(row.run, row.kept).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return write_all(file.get(), std::as_bytes(std::span(text)));
  }

  // Good runs in a row whose recordings are gone are one line of the table.
  void print_table() const {
    if (until_.quiet || rows_.empty()) return;
    fmt::print(stderr, "\n{:>9}  {:>9}  {:<11}  {}\n", "run", "seconds", "result", "why, and where it is kept");
    for (size_t i = 0; i < rows_.size();) {
      size_t end = i;
      double seconds = 0;
      for (; end < rows_.size() && rows_[end].kept.empty(); end++) seconds += rows_[end].run.seconds;
      if (end > i) {
        const std::string runs = end - i == 1 ? fmt::format("{}", rows_[i].run.number)
                                              : fmt::format("{}-{}", rows_[i].run.number, rows_[end - 1].run.number);
        say(stderr, "{:>9}  {:>9.2f}  {:<11}  {}\n", runs, seconds / static_cast<double>(end - i), "passed",
            end - i == 1 ? "not kept" : "not kept; the seconds are the mean");
        i = end;
        continue;
      }
      const Row& row = rows_[i++];
      say(stderr, "{:>9}  {:>9.2f}  {:<11}  {}\n", row.run.number, row.run.seconds, name_of(row.run.result),
          remarks(row));
    }
    fmt::print(stderr, "\n");
    if (until_.for_study) return;
    say(stderr, "friday: {}: {} failed, {} passed; all are listed in {}/runs.jsonl\n", counted(rows_.size(), "run"),
        failed_, passed_, directory_);
  }

  // Says once of the whole series which programs failed by their exit codes in runs that counted as passed.
  void tell_unjudged() const {
    std::map<std::string, std::set<int>> codes;
    unsigned runs = 0;
    for (const Row& row : rows_) {
      runs += !row.run.unjudged.empty();
      for (const BadExit& exit : row.run.unjudged) codes[exit.name].insert(exit.code);
    }
    if (codes.empty()) return;
    std::vector<std::string> ends, names;
    // By default the node of stop_when_ends must succeed; beside others it has to be named.
    if (!group_.stop_when_ends.empty()) names.push_back(fmt::format("\"{}\"", group_.stop_when_ends));
    for (const auto& [name, of_name] : codes) {
      ends.push_back(fmt::format("{} ended with exit code {}", name, fmt::join(of_name, " or ")));
      names.push_back(fmt::format("\"{}\"", name));
    }
    say(stderr,
        "friday: in {} that passed, {}, and nothing in the group file says that this is a failure; if it is one, add "
        "to [group]: must_succeed = [{}]\n",
        counted(runs, "run"), fmt::format("{}", fmt::join(ends, ", ")), fmt::format("{}", fmt::join(names, ", ")));
  }

  const GroupSpec& group_;
  GroupRunOptions& options_;
  const UntilOptions& until_;
  const Interrupts& interrupts_;
  const std::string directory_;
  UniqueFd lock_;  // of the directory
  StatusLine line_;
  std::vector<Row> rows_;
  std::deque<size_t> good_;  // rows of good runs whose recordings are there
  unsigned failed_ = 0, passed_ = 0;
  bool is_disk_full_ = false, is_interrupted_ = false, is_over_ = false;
  int code_ = 0;
  Clock::time_point began_;
};

}  // namespace

GroupRunOptions options_of_runs(const char* command, const std::string& directory, bool quiet) {
  GroupRunOptions run;
  run.launch.collector.recording = directory;
  if (!quiet) run.launch.collector.tell = tell_as(command);
  run.launch.shim = library_directory() + "/friday-shim.so";
  run.launch.own_process_groups = true;
  run.predicate_command = {executable_path(), "run"};
  return run;
}

void tell_near_misses(const char* command, const GroupSpec& group) {
  for (const std::string& miss : near_misses(group)) say(stderr, "friday {}: {}\n", command, miss);
}

Result<Keep> parse_keep(const std::string& text) {
  if (text == "failed") return Keep{0};
  if (text == "all") return Keep{std::nullopt};
  unsigned good = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), good);
  if (error == std::errc{} && end == text.data() + text.size()) return Keep{good};
  return fail(ErrorCode::usage,
              "--keep {}: write failed, all, or how many recordings of runs that passed are to be kept beside those "
              "that failed, such as 2",
              text);
}

CLI::Option* add_jobs_option(CLI::App& command, unsigned& jobs) {
  return command
      .add_option(
          "-j,--jobs", jobs,
          "How many runs are made at a time (default: 1), of groups whose ports are {port:NAME} and whose files "
          "are in {dir}")
      ->check(CLI::Range(1u, 64u));
}

SeriesEnd record_until_failure(const GroupSpec& group, GroupRunOptions options, const UntilOptions& until) {
  options.keep_output = true;
  if (until.interrupts) return Series(group, options, until, *until.interrupts).run();
  const auto interrupts = Interrupts::watch();
  if (!interrupts) return {SeriesEnd::How::failed, complain(until.command, interrupts.error())};
  return Series(group, options, until, *interrupts).run();
}

}  // namespace friday
