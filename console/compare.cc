#include "console/compare.h"

#include <algorithm>
#include <map>
#include <memory>

#include "console/complain.h"
#include "console/order_text.h"
#include "console/study_group.h"
#include "console/study_runs.h"
#include "core/base/counted.h"
#include "core/study/compare.h"
#include "core/study/study.h"
#include "core/study/subsequences.h"
#include "core/trace/mark.h"

namespace friday {
namespace {

using nlohmann::json;

class Report {
 public:
  Report(const std::string& directory, const Gathered& gathered, const Comparison& comparison)
      : directory_(directory), gathered_(gathered), comparison_(comparison), naming_(comparison.naming) {}

  void print() const {
    const size_t passed = comparison_.runs - comparison_.failures;
    say("{}: {} failed, {} passed{}\n", counted(comparison_.runs, "run"), comparison_.failures, passed,
        comparison_.schedules > 1 ? fmt::format("; {} different orders of messages", comparison_.schedules) : "");
    if (gathered_.undecided)
      say("{} left out, as nobody knows whether it failed\n", counted(gathered_.undecided, "run"));
    if (gathered_.gone)
      say("{} left out, as neither recording nor messages are there any more\n", counted(gathered_.gone, "run"));
    for (const std::string& why : gathered_.unreadable) say("left out: {}\n", why);
    if (gathered_.reasons.size() > 1) {
      fmt::print("They failed for different reasons, and may have different causes:");
      for (const auto& [why, count] : gathered_.reasons) say(" {} x {};", count, why);
      fmt::print("\n");
    }
    fmt::print("{}\n", printable(verdict()));
    print_findings(comparison_.orders);
    if (comparison_.verdict == Comparison::Verdict::content) print_findings(comparison_.contents);
    for (const std::string& text : comparison_.left_out) say("not compared: {}\n", text);
    if (const size_t wanted = wanted_runs())
      say("\nMore runs, with the other options as before: {}\n",
          command_for_more(directory_, comparison_.runs, wanted + gathered_.undecided));
  }

  // The ranking of the paper.
  void print_anomalies(size_t most) const {
    const auto anomalies = anomalies_of(naming_);
    say("{}: {} failed, {} passed\n", counted(comparison_.runs, "run"), comparison_.failures,
        comparison_.runs - comparison_.failures);
    fmt::print("Events that are common to all runs of one kind, in one order, and not to those of the other kind: {}\n",
               anomalies.size());
    for (size_t i = 0; i < std::min(most, anomalies.size()); i++) {
      const Anomaly& each = anomalies[i];
      say("{:>3}. {:.3f}  {}, number {} in its run; common to the {} runs; in {} of {} failing and {} of {} passing\n",
          i + 1, each.weight, text_of_name(naming_, each.name), each.occurrence,
          each.of_failing ? "failing" : "passing", each.split.failing_with,
          each.split.failing_with + each.split.failing_without, each.split.passing_with,
          each.split.passing_with + each.split.passing_without);
    }
  }

  json anomalies_as_json(size_t most) const {
    const auto anomalies = anomalies_of(naming_);
    json out = {{"runs", comparison_.runs},
                {"failures", comparison_.failures},
                {"count", anomalies.size()},
                {"anomalies", json::array()}};
    for (size_t i = 0; i < std::min(most, anomalies.size()); i++) {
      const Anomaly& each = anomalies[i];
      json one = {{"weight", each.weight},
                  {"text", text_of_name(naming_, each.name)},
                  {"occurrence", each.occurrence},
                  {"common_to", each.of_failing ? "failing" : "passing"},
                  {"message", as_json_name(each.name)}};
      put_split(one, each.split);
      out["anomalies"].push_back(std::move(one));
    }
    return out;
  }

  json as_json() const {
    json out = {{"runs", comparison_.runs},
                {"failures", comparison_.failures},
                {"schedules", comparison_.schedules},
                {"undecided", gathered_.undecided},
                {"gone", gathered_.gone},
                {"unreadable", gathered_.unreadable},
                {"reasons", gathered_.reasons},
                {"verdict", name_of(comparison_.verdict)},
                {"text", verdict()},
                {"orders_compared", comparison_.order_candidates},
                {"orders", json::array()},
                {"contents", json::array()},
                {"symptoms", json::array()},
                {"left_out", comparison_.left_out}};
    if (comparison_.needed_runs) out["needed_runs"] = comparison_.needed_runs;
    for (uint32_t name : comparison_.symptoms) out["symptoms"].push_back(text_of_name(naming_, name));
    for (const Finding& each : comparison_.orders) out["orders"].push_back(as_json(each));
    for (const Finding& each : comparison_.contents) out["contents"].push_back(as_json(each));
    return out;
  }

 private:
  static const char* name_of(Comparison::Verdict verdict) {
    switch (verdict) {
      case Comparison::Verdict::all_passed: return "all passed";
      case Comparison::Verdict::all_failed: return "all failed";
      case Comparison::Verdict::too_few: return "too few";
      case Comparison::Verdict::order: return "order";
      case Comparison::Verdict::content: return "content";
      case Comparison::Verdict::nothing: return "nothing";
    }
    return "";
  }
  static const char* name_of(Order::Form form) {
    switch (form) {
      case Order::Form::pair: return "pair";
      case Order::Form::matter: return "matter";
      case Order::Form::between: return "between";
      case Order::Form::intrusion: return "intrusion";
      case Order::Form::content: return "content";
      case Order::Form::absence: return "absence";
    }
    return "";
  }

  // How many runs there should be for a claim; 0 if more would not help.
  size_t wanted_runs() const {
    using Verdict = Comparison::Verdict;
    const Verdict verdict = comparison_.verdict;
    if (comparison_.needed_runs) return comparison_.needed_runs;
    const bool is_short =
        verdict == Verdict::all_passed || verdict == Verdict::all_failed || verdict == Verdict::too_few;
    return is_short ? std::max<size_t>(2 * comparison_.runs, 20) : 0;
  }

  std::string verdict() const {
    using Verdict = Comparison::Verdict;
    const std::string more =
        comparison_.needed_runs
            ? fmt::format("; if the strongest is real, it takes at least {} runs to show it", comparison_.needed_runs)
            : "";
    switch (comparison_.verdict) {
      case Verdict::all_passed: return "No run has failed, so there is nothing to compare: record more of them.";
      case Verdict::all_failed:
        return "Every run has failed, so there is nothing to compare: runs that pass are needed, too.";
      case Verdict::too_few:
        return fmt::format("Too few runs for a claim: at least three that failed and three that passed are needed{}.",
                           comparison_.orders.empty() ? "" : "; what follows may be chance" + more);
      case Verdict::order: return "The order of messages goes along with failing:";
      case Verdict::content:
        return fmt::format("No order of messages goes along with failing{}, but messages do that are not in all runs:",
                           more);
      case Verdict::nothing: break;
    }
    if (comparison_.orders.empty()) return "Neither an order of messages nor a message goes along with failing.";
    if (comparison_.orders[0].p <= kMostP)
      return "No order of messages, and no message, accounts for half of the failures; the strongest are no chance, so "
             "that there may be several causes:";
    return fmt::format(
        "Neither an order of messages nor a message goes along with failing; the strongest orders may be chance{}.",
        more);
  }

  void print_findings(const std::vector<Finding>& findings) const {
    size_t number = 0;
    for (const Finding& each : findings) {
      const Split& split = each.split;
      fmt::print("\n");
      say("{:>3}. {}\n", ++number, text_of(naming_, each.order));
      say("     in {} of {} failing runs and in {} of {} passing ones{}; as strong by chance: {}\n", split.failing_with,
          split.failing_with + split.failing_without, split.passing_with, split.passing_with + split.passing_without,
          each.order.has_one() ? "" : " that could have it", chance_text(each.p));
      print_examples(each);
      if (each.alike_count)
        say("     {} cannot be told from it by these runs{}\n", counted(each.alike_count, "other order"),
            each.alike.empty() ? "" : fmt::format(", such as: {}", text_of(naming_, each.alike[0])));
    }
  }

  // The smallest share that so many shuffles can show is a bound, not an estimate.
  std::string chance_text(double p) const {
    const bool is_least = p * static_cast<double>(comparison_.shuffles + 1) < 1.5;
    return fmt::format("{}{:.1f} %", is_least ? "at most " : "", 100 * p);
  }

  void print_examples(const Finding& finding) const {
    std::string text;
    for (size_t run : finding.failing)
      if (const auto mark = mark_of(run, finding.order))
        text += fmt::format("{}run {} (goto {})", text.empty() ? "" : ", ", naming_.runs[run].number, *mark);
    if (!text.empty()) say("     failing: {}\n", text);
    text.clear();
    for (size_t run : finding.passing)
      text += fmt::format("{}run {}", text.empty() ? "" : ", ", naming_.runs[run].number);
    if (!text.empty()) say("     passing without it: {}\n", text);
  }

  // Where the order is complete in a run.
  std::optional<std::string> mark_of(size_t run, const Order& order) const {
    const auto events = events_of(naming_.runs[run], order);
    if (events.empty()) return std::nullopt;
    const TalkEvent& event = naming_.runs[run].talk->events[std::ranges::max(events)];
    return friday::text_of(Position(Mark{NodeId{event.node}, {event.event}}));
  }

  static void put_split(json& out, const Split& split) {
    out["failing_with"] = split.failing_with;
    out["failing_without"] = split.failing_without;
    out["passing_with"] = split.passing_with;
    out["passing_without"] = split.passing_without;
  }

  json as_json(const Finding& finding) const {
    json out = {{"form", name_of(finding.order.form)},
                {"text", text_of(naming_, finding.order)},
                {"messages", json::array()},
                {"g", finding.g},
                {"p", finding.p},
                {"alike", finding.alike_count},
                {"failing", json::array()},
                {"passing", json::array()}};
    put_split(out, finding.split);
    for (size_t i = 0; i < finding.order.count(); i++) out["messages"].push_back(as_json_name(finding.order.names[i]));
    for (const Order& order : finding.alike) out["alike_orders"].push_back(text_of(naming_, order));
    for (size_t run : finding.failing) {
      json example = {{"run", naming_.runs[run].number}};
      if (const auto mark = mark_of(run, finding.order)) example["mark"] = *mark;
      out["failing"].push_back(example);
    }
    for (size_t run : finding.passing) out["passing"].push_back({{"run", naming_.runs[run].number}});
    return out;
  }

  json as_json_name(uint32_t name) const {
    const Identity& identity = naming_.identities[name];
    json out = {{"role", role_text(naming_, identity.role)}, {"sent", identity.sent}, {"text", identity.text}};
    out["partner"] =
        identity.partner == TalkEvent::kOutside ? json(nullptr) : json(role_text(naming_, identity.partner));
    return out;
  }

  const std::string& directory_;  // of the study
  const Gathered& gathered_;
  const Comparison& comparison_;
  const Naming& naming_;
};

}  // namespace

int compare_study(const char* command, const std::string& directory, const ComparisonOptions& options) {
  auto study = Study::open(directory);
  if (!study) return complain(command, study.error());
  auto classes = UserClasses::parse(options.ignored, options.classes);
  if (!classes) return complain(command, classes.error());
  auto gathered = gather_runs(command, *study, *classes);
  if (!gathered) return complain(command, gathered.error());
  const Comparison comparison = compare(gathered->runs, options.most);
  const Report report(directory, *gathered, comparison);
  if (options.by_subsequences && options.as_json) say_json(report.anomalies_as_json(options.most));
  else if (options.by_subsequences) report.print_anomalies(options.most);
  else if (options.as_json) say_json(report.as_json());
  else report.print();
  return 0;
}

void add_class_options(CLI::App& command, std::vector<std::string>& ignored, std::vector<std::string>& classes) {
  command
      .add_option(
          "--ignore", ignored,
          "Leave out messages that match this regular expression, as they are shown on one line; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--class", classes,
                  "NAME=REGEX: messages that match are of one class, and called NAME; may be repeated")
      ->allow_extra_args(false);
}

void add_compare_command(CLI::App& app, int* status) {
  struct Asked : ComparisonOptions {
    std::string study;
  };
  auto options = std::make_shared<Asked>();
  auto* command = app.add_subcommand(
      "compare", "Find the order of messages, or the message, by which failing runs differ from passing ones");
  command->add_option("study", options->study, "The directory of a series of runs (friday record --until-failure)")
      ->required();
  command->add_option("--most", options->most, "How many findings are shown of each kind, by default 5")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--paper", options->by_subsequences,
                    "Rank single events by longest common subsequences, as Peek-At-Talk does, instead of orders");
  add_class_options(*command, options->ignored, options->classes);
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->footer(
      "Examples:\n  friday record -o RUNS --until-failure 50 --failures 50 --group GROUP.toml\n"
      "  friday compare RUNS");
  command->callback([options, status] { *status = compare_study("compare", options->study, *options); });
}

}  // namespace friday
