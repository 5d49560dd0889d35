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
#include <vector>

#include "console/complain.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/record/check.h"
#include "core/record/interrupts.h"
#include "core/record/verdict.h"
#include "core/study/study.h"

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

const char* name_of(GroupRun::Result result) {
  switch (result) {
    case GroupRun::Result::passed: return "passed";
    case GroupRun::Result::failed: return "FAILED";
    case GroupRun::Result::undecided: return "undecided";
    case GroupRun::Result::interrupted: return "interrupted";
  }
  return "";
}

// What is kept of a run for the table.
struct Row {
  unsigned number;
  GroupRun::Result result;
  double seconds;
  std::string why, kept;         // `kept`: where the recording is; empty if it was removed
  std::optional<uint64_t> seed;  // of the faults, if chance had a part in them
};

// What the table says of a run that is kept: why it did not pass, the seed with which it can be run again, and where
// it is.
std::string remarks(const Row& row) {
  std::string text = row.why;
  if (row.seed) text += fmt::format("{}seed {}", text.empty() ? "" : "  ", *row.seed);
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
    for (unsigned i = 0;
         i < until_.runs && failed_ < until_.failures && rows_.size() - failed_ < until_.others && !interrupts_.came();
         i++) {
      auto done = run_one(*first + i);
      if (!done) {
        line_.clear();
        const int code = complain(until_.command, done.error());
        print_table();
        return {SeriesEnd::How::failed, code};
      }
      if (!*done) break;
    }
    line_.clear();
    print_table();
    if (is_disk_full_) return {SeriesEnd::How::failed, code_};
    const bool is_interrupted = is_interrupted_ || interrupts_.came();
    return {is_interrupted ? SeriesEnd::How::interrupted : SeriesEnd::How::done, code_};
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

  // Returns false if the series is over.
  Result<bool> run_one(unsigned number) {
    const std::string place = fmt::format("{}/run-{}", directory_, number);
    options_.launch.collector.recording = place;
    options_.number = number;
    began_ = Clock::now();
    const auto draw = [this, number](const std::string& doing) {
      const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
      line_.draw(fmt::format("run {} ({} of {}): {}{:.0f} s; {} passed, {} failed", number, rows_.size() + 1,
                             until_.runs, doing, seconds, passed_, failed_));
    };
    draw("");
    if (line_.on()) {
      options_.launch.every_second = [draw] { draw(""); };
      options_.checking = [draw](const std::string& check) { draw(check + ", "); };
    }
    auto run = run_group_once(group_, options_);
    if (!run) {
      // A recording of which nothing was started is of no use.
      if (std::error_code error; rows_.empty()) std::filesystem::remove(place, error);
      return std::unexpected(run.error());
    }
    return settle(number, place, *run);
  }

  Result<bool> settle(unsigned number, const std::string& place, const GroupRun& run) {
    const bool passed = run.result == GroupRun::Result::passed;
    rows_.push_back({number, run.result, run.seconds, run.why, place, run.seed});
    if (run.result == GroupRun::Result::failed && failed_++ == 0) code_ = run.code;
    if (run.result == GroupRun::Result::undecided && code_ == 0) code_ = run.code;
    passed_ += passed;
    tell(rows_.back(), run);
    is_disk_full_ = disk_was_full(run.launch);
    is_interrupted_ = run.result == GroupRun::Result::interrupted;
    const bool is_judged = passed || run.result == GroupRun::Result::failed;
    const bool is_kept = is_judged && !is_disk_full_ && keep_what_was_said(number);
    if (passed && is_kept) FRIDAY_TRY_VOID(keep_good());
    FRIDAY_TRY_VOID(note(run));
    if (is_disk_full_) {
      line_.clear();
      say(stderr, "friday: the disk was full during run {}, so what it recorded is incomplete; no further run\n",
          number);
      if (code_ == 0) code_ = kBadInput;
      return false;
    }
    if (run.result == GroupRun::Result::interrupted && code_ == 0) code_ = 130;
    return run.result != GroupRun::Result::interrupted;
  }

  // For `friday compare`, which needs the runs that passed, too. False if it could not.
  bool keep_what_was_said(unsigned number) {
    auto kept = keep_messages(directory_, number);
    if (kept) return true;
    line_.clear();
    say(stderr, "friday: run {}: its messages could not be kept, so that its recording is, for `friday compare`: {}\n",
        number, describe(kept.error()));
    return false;
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

  void tell(const Row& row, const GroupRun& run) {
    if (until_.quiet) return;
    line_.clear();
    if (line_.on() && row.result == GroupRun::Result::passed) return;  // the line counts it
    say(stderr, "friday: run {}: {} in {:.1f} s{}{}{}\n", row.number, name_of(row.result), row.seconds,
        row.why.empty() ? "" : ": ", row.why,
        row.seed && row.result != GroupRun::Result::passed ? fmt::format("; seed {}", *row.seed) : "");
    for (const std::string& text : bad_ends_of_unrecorded(run.launch))
      if (text != row.why) say(stderr, "friday: run {}: {}\n", row.number, text);
  }

  // Appends the run to runs.jsonl.
  Result<void> note(const GroupRun& run) {
    const Row& row = rows_.back();
    nlohmann::json programs = nlohmann::json::array();
    for (const ProgramEnd& program : run.launch.programs)
      if (program.started)
        programs.push_back({{"name", program.name},
                            {"recorded", program.recorded},
                            {"end", end_text(program.status)},
                            {"stopped", program.stopped_by != 0}});
    nlohmann::json line = {
        {"run", row.number}, {"result", name_of(row.result)}, {"seconds", row.seconds}, {"why", row.why},
        {"code", run.code},  {"recording", row.kept},         {"programs", programs}};
    if (row.seed) line["seed"] = *row.seed;
    if (is_disk_full_) line["incomplete"] = true;
    FRIDAY_TRY(file, open_file(directory_ + "/runs.jsonl", O_WRONLY | O_CREAT | O_APPEND));
    const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return write_all(file.get(), std::as_bytes(std::span(text)));
  }

  // Good runs in a row whose recordings are gone are one line of the table.
  void print_table() const {
    if (until_.quiet || rows_.empty()) return;
    fmt::print(stderr, "\n{:>9}  {:>9}  {:<11}  {}\n", "run", "seconds", "result", "why, and where it is kept");
    for (size_t i = 0; i < rows_.size();) {
      size_t end = i;
      double seconds = 0;
      for (; end < rows_.size() && rows_[end].kept.empty(); end++) seconds += rows_[end].seconds;
      if (end > i) {
        const std::string runs = end - i == 1 ? fmt::format("{}", rows_[i].number)
                                              : fmt::format("{}-{}", rows_[i].number, rows_[end - 1].number);
        say(stderr, "{:>9}  {:>9.2f}  {:<11}  {}\n", runs, seconds / static_cast<double>(end - i), "passed",
            end - i == 1 ? "not kept" : "not kept; the seconds are the mean");
        i = end;
        continue;
      }
      const Row& row = rows_[i++];
      say(stderr, "{:>9}  {:>9.2f}  {:<11}  {}\n", row.number, row.seconds, name_of(row.result), remarks(row));
    }
    fmt::print(stderr, "\n");
    if (until_.for_study) return;
    say(stderr, "friday: {}: {} failed, {} passed; all are listed in {}/runs.jsonl\n", counted(rows_.size(), "run"),
        failed_, passed_, directory_);
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
  bool is_disk_full_ = false, is_interrupted_ = false;
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

SeriesEnd record_until_failure(const GroupSpec& group, GroupRunOptions options, const UntilOptions& until) {
  options.keep_output = true;
  const auto series = [&](const Interrupts& interrupts) {
    options.interrupt_fd = interrupts.fd();
    return Series(group, options, until, interrupts).run();
  };
  if (until.interrupts) return series(*until.interrupts);
  const auto interrupts = Interrupts::watch();
  if (!interrupts) return {SeriesEnd::How::failed, complain(until.command, interrupts.error())};
  return series(*interrupts);
}

}  // namespace friday
