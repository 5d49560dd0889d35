#include "console/forced_runs.h"

#include <algorithm>
#include <filesystem>

#include "console/complain.h"
#include "core/study/exact_forcing.h"

namespace friday {

class RunJudge : public MessageJudge {
 public:
  RunJudge(std::shared_ptr<const ForcePlan> plan, unsigned most_left_out)
      : plan_(std::move(plan)), classes_(plan_->classes), framing_(plan_->framing), left_(most_left_out) {
    if (plan_->exact()) forcing_ = std::make_unique<ExactForcing>(*plan_->exact(), plan_->kept);
    else forcing_ = std::make_unique<StepForcing>(std::get<ForcedOrder>(plan_->order));
    exact_ = dynamic_cast<ExactForcing*>(forcing_.get());
  }

  std::vector<size_t> messages_in(std::span<const std::byte> bytes) const override {
    return framing_.messages_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Verdict sent(const Sent& message) override {
    const auto* bytes = reinterpret_cast<const char*>(message.bytes.data());
    const size_t looked = std::min(message.bytes.size(), Talk::kMostBytes);  // as the comparison has looked at it
    const auto text = classes_.read({bytes, looked}, message.length);
    if (!text) return Verdict::pass;
    switch (forcing_->sent(message.ticket, role_of(message.from), role_of(message.to), *text, message.length)) {
      case Forcing::Verdict::pass: return Verdict::pass;
      case Forcing::Verdict::watch: return Verdict::watch;
      case Forcing::Verdict::hold: return Verdict::hold;
    }
    return Verdict::pass;
  }
  void received(Ticket ticket) override { forcing_->received(ticket); }
  void handled(Ticket ticket) override { forcing_->handled(ticket); }
  void lost(Ticket ticket) override { forcing_->lost(ticket); }
  void give_up(const std::string& why) override {
    why_ = why;
    forcing_->give_up();
  }
  bool is_one_line() const override { return !exact_; }
  bool do_without() override {
    const size_t before = exact_ ? exact_->left_out().size() : 0;
    if (!forcing_->do_without(left_ > 0)) return false;
    if (exact_ && exact_->left_out().size() > before) left_--;
    return true;
  }
  std::vector<Released> release() override {
    std::vector<Released> out;
    for (const auto& [ticket, watched] : forcing_->release()) out.push_back({ticket, watched});
    return out;
  }
  bool is_over() const override { return forcing_->is_complete() || forcing_->is_given_up(); }
  std::string waits_for() const override { return forcing_->waits_for(); }

  bool came_true() const override { return forcing_->came_true(); }
  std::string reason() const override { return why_.empty() ? forcing_->waits_for() : why_; }
  const ExactForcing* exact() const { return exact_; }

 private:
  const std::shared_ptr<const ForcePlan> plan_;  // which the others refer to
  std::unique_ptr<Forcing> forcing_;
  const ExactForcing* exact_ = nullptr;
  UserClasses classes_;
  Framing framing_;
  unsigned left_;
  std::string why_;
};

namespace {

shim::HandledWhen handled_when(const std::string& word) {
  return word == "received"   ? shim::kHandledAtReceipt
         : word == "answered" ? shim::kHandledAtAnswer
                              : shim::kHandledAtWait;
}

// The number of the last run that the directory has already.
Result<unsigned> last_run_in(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory + "/runs.jsonl", error)) return 0u;
  FRIDAY_TRY(study, Study::open(directory));
  unsigned last = 0;
  for (const StudyRun& run : study.runs()) last = std::max(last, run.number);
  return last;
}

Result<ForcedOutcome> outcome_of(const std::string& directory, unsigned before,
                                 const std::vector<std::shared_ptr<RunJudge>>& judges, const std::string& why) {
  ForcedOutcome out;
  if (judges.empty()) return out;  // interrupted before the first run
  FRIDAY_TRY(study, Study::open(directory));
  size_t at = 0;
  for (const StudyRun& run : study.runs()) {
    if (run.number <= before || at == judges.size()) continue;
    const RunJudge& judge = *judges[at++];
    if (run.result == StudyRun::Result::interrupted) continue;
    out.runs++;
    const bool failed = run.result == StudyRun::Result::failed;
    out.failed_alike += failed && without_numbers(run.why) == without_numbers(why);
    if (failed && without_numbers(run.why) != without_numbers(why)) out.failed_otherwise = run.why;
    if (judge.came_true()) {
      out.forced++;
      out.forced_failed += failed;
    } else {
      out.not_forced.emplace_back(run.number, judge.reason());
    }
    if (judge.exact()) out.only_received += judge.exact()->only_received();
    if (judge.exact()) out.left_out.insert(judge.exact()->left_out().begin(), judge.exact()->left_out().end());
  }
  return out;
}

}  // namespace

void apply_when_stuck(const std::string& word, ForcedSeries& series) {
  constexpr double kForEver = 1e8;  // seconds
  if (word == "wait") series.patience = kForEver;
  if (word == "skip") series.most_left_out = ~0u;
  series.stops = word == "stop";
}

ShaperOptions shaper_options(const std::shared_ptr<const ForcePlan>& plan, const std::string& until,
                             const ForcedSeries& series, std::function<void(std::shared_ptr<RunJudge>)> made) {
  return {.judge =
              [plan, most = series.most_left_out, made = std::move(made)] {
                auto judge = std::make_shared<RunJudge>(plan, most);
                if (made) made(judge);
                return judge;
              },
          .words = words_of(*plan),
          .handled_when = handled_when(until),
          .patience = std::chrono::nanoseconds(static_cast<int64_t>(series.patience * 1e9)),
          .stops = series.stops};
}

Result<ForcedOutcome> run_forced(const GroupSpec& group, const ForcePlan& plan, const std::string& until,
                                 const ForcedSeries& series) {
  FRIDAY_TRY(before, last_run_in(series.directory));
  std::vector<std::shared_ptr<RunJudge>> judges;
  GroupRunOptions run = options_of_runs("force", series.directory, series.quiet);
  CollectorOptions& collector = run.launch.collector;
  collector.schedule = !series.record;
  collector.shaper = shaper_options(std::make_shared<const ForcePlan>(plan), until, series,
                                    [&](std::shared_ptr<RunJudge> judge) { judges.push_back(std::move(judge)); });
  const UntilOptions options{.runs = series.times,
                             .failures = series.times,
                             .others = series.others,
                             .keep = {},
                             .quiet = series.quiet,
                             .command = "force",
                             .for_study = true,
                             .interrupts = series.interrupts};
  const SeriesEnd end = record_until_failure(group, run, options);
  if (end.how == SeriesEnd::How::failed) return ForcedOutcome{.end = end.how};
  FRIDAY_TRY(outcome, outcome_of(series.directory, before, judges, plan.why));
  outcome.end = end.how;
  return outcome;
}

}  // namespace friday
