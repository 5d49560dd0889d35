#include "console/force_plan.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "console/say.h"
#include "console/study_runs.h"
#include "core/base/beneath.h"
#include "core/base/counted.h"
#include "core/shim/shim_abi.h"
#include "core/study/compare.h"

namespace friday {
namespace {

using nlohmann::json;

// ---- Of a study

// A run that has passed or failed. Fails if there is none of this number.
Result<const StudyRun*> judged_run(const Study& study, unsigned number) {
  const auto run = std::ranges::find(study.runs(), number, &StudyRun::number);
  if (run == study.runs().end())
    return fail(ErrorCode::not_found, "{} has no run {}: its runs are those that {}/runs.jsonl lists",
                study.directory(), number, study.directory());
  if (run->result != StudyRun::Result::passed && run->result != StudyRun::Result::failed)
    return fail(ErrorCode::usage, "nobody knows whether run {} has failed: name one that passed or failed", number);
  return &*run;
}

// The finding that was named, or else the first one that is as it is to come: of a run that has failed its order holds
// there, of one that passed it does not.
Result<const Finding*> finding_for(const ForceOptions& options, const Comparison& comparison, bool holds) {
  const auto& findings = comparison.orders;
  const auto run = std::ranges::find(comparison.naming.runs, options.run, &NamedRun::number);
  if (run == comparison.naming.runs.end())
    return fail(ErrorCode::not_found, "what was said in run {} is not there any more", options.run);
  const auto fits = [&](const Finding& each) { return events_of(*run, each.order).empty() != holds; };
  if (options.only > findings.size())
    return fail(ErrorCode::usage, "the comparison has {}: --only {} is none of them", counted(findings.size(), "order"),
                options.only);
  if (options.only && fits(findings[options.only - 1])) return &findings[options.only - 1];
  const auto other = std::ranges::find_if(findings, fits);
  if (!options.only && other != findings.end()) return &*other;
  const std::string what = options.only ? fmt::format("finding {} of `friday compare {}`", options.only, options.study)
                                        : fmt::format("none of the findings of `friday compare {}`", options.study);
  const std::string how = options.only ? (holds ? "does not hold" : "holds") : holds ? "holds" : "fails to hold";
  std::string others;
  for (size_t i = 0; options.only && i < findings.size(); i++)
    if (fits(findings[i])) others += fmt::format("{}{}", others.empty() ? "; here it is " : ", ", i + 1);
  return fail(ErrorCode::unsupported,
              "run {} {}, but {} {} in it{}: name another run, or force all its messages (--whole)", options.run,
              holds ? "has failed" : "has passed", what, how, others);
}

Result<ForcePlan> plan_of_finding(const ForceOptions& options, const Study& study, ForcePlan plan) {
  FRIDAY_TRY(gathered, gather_runs("force", study, plan.classes));
  const Comparison comparison = compare(gathered.runs, std::max(options.only, 5u));
  if (comparison.verdict != Comparison::Verdict::order)
    return fail(ErrorCode::unsupported,
                "no order of messages goes along with failing in {}, so that there is none to force (`friday compare "
                "{}` says more; --whole forces the order of all messages)",
                options.study, options.study);
  FRIDAY_TRY(finding, finding_for(options, comparison, plan.holds));
  plan.finding = static_cast<size_t>(finding - comparison.orders.data()) + 1;
  FRIDAY_TRY(order, forced_order(comparison.naming, finding->order, plan.holds, options.run));
  if (!order) return fail(ErrorCode::unsupported, "finding {} is no order of messages", plan.finding);
  plan.order = *std::move(order);
  return plan;
}

// In seconds.
double longest_silence(const Talk& talk) {
  int64_t longest = 0;
  for (size_t i = 1; i < talk.events.size(); i++)
    longest = std::max(longest, talk.events[i].ns - talk.events[i - 1].ns);
  return static_cast<double>(longest) / 1e9;
}

Result<ForcePlan> plan_of_run(const Study& study, const StudyRun& run, ForcePlan plan) {
  FRIDAY_TRY(gathered, gather_runs("force", study, plan.classes));
  const auto studied = std::ranges::find(gathered.runs, run.number, &StudiedRun::number);
  if (studied == gathered.runs.end())
    return fail(ErrorCode::not_found, "what was said in run {} is not there any more", run.number);
  FRIDAY_TRY(order, RunOrder::of(studied->talk, Naming::of(gathered.runs)));
  if (order.size() < 2)
    return fail(ErrorCode::unsupported,
                "run {} has {} from one recorded program to another: there is no order of them to force", run.number,
                counted(order.size(), "message"));
  plan.order = order.of_all();
  plan.kept = order.kept_values();
  std::vector<const Talk*> failing;
  for (const StudiedRun& each : gathered.runs) {
    if (each.failed) failing.push_back(&each.talk);
    plan.longest_silence = std::max(plan.longest_silence, longest_silence(each.talk));
  }
  plan.common = order.common_to(failing);
  plan.whole = std::move(order);
  return plan;
}

Result<ForcePlan> plan_of_study(const ForceOptions& options, UserClasses classes) {
  FRIDAY_TRY(study, Study::open(options.study));
  ForcePlan plan{.classes = std::move(classes)};
  FRIDAY_TRY(origin, origin_of(options.study));
  plan.origin = std::move(origin);
  FRIDAY_TRY(rules, message_rules_of(options.study));
  plan.framing = std::move(rules.framing);
  FRIDAY_TRY(run, judged_run(study, options.run));
  plan.holds = run->result == StudyRun::Result::failed;
  plan.why = run->why;
  for (const StudyRun& each : study.runs()) {
    plan.failures += each.result == StudyRun::Result::failed;
    plan.runs += each.result == StudyRun::Result::failed || each.result == StudyRun::Result::passed;
  }
  if (options.minimise && !plan.holds)
    return fail(ErrorCode::usage, "run {} has passed: --minimise looks for what makes a run fail", options.run);
  if (options.minimise || options.whole) return plan_of_run(study, *run, std::move(plan));
  return plan_of_finding(options, study, std::move(plan));
}

// ---- An order that the user has written down, in the form in which --json shows it

constexpr size_t kMostWritten = 64 << 20;  // bytes

std::optional<MessageClass> message_of(const json& each) {
  if (!each.is_object()) return std::nullopt;
  const auto word = [&](const char* name) { return each.value(name, json("")); };
  if (!word("from").is_string() || !word("to").is_string() || !word("text").is_string()) return std::nullopt;
  MessageClass out{word("from"), word("to"), word("text")};
  if (out.from.empty() || out.text.empty()) return std::nullopt;
  return out;
}

bool read_classes(const json& known, const char* key, std::vector<MessageClass>& list) {
  if (!known.contains(key)) return true;
  if (!known[key].is_array()) return false;
  for (const json& each : known[key]) {
    auto message = message_of(each);
    if (!message) return false;
    list.push_back(*std::move(message));
  }
  return true;
}

// Which one like it a message is, from 1.
std::optional<uint32_t> number_in(const json& message) {
  const json number = message.value("number", json(1u));
  if (!number.is_number_unsigned() || number == 0 || number > UINT32_MAX) return std::nullopt;
  return number.get<uint32_t>();
}

// Of each step: the so-many-th like it is meant, as others come before the first step.
bool read_numbers(const json& steps, std::vector<uint32_t>& before) {
  for (const json& each : steps) {
    const auto number = number_in(each);
    if (!number) return false;
    before.push_back(*number - 1);
  }
  return true;
}

// The messages are numbered from 1 in the file.
bool read_exact(const json& list, ExactOrder& order) {
  if (!list.is_array()) return false;
  for (const json& each : list) {
    auto message = message_of(each);
    if (!message || message->to.empty()) return false;
    const auto number = number_in(each);
    const json after = each.value("after", json::array());
    if (!number || !after.is_array()) return false;
    ExactMessage exact{*std::move(message), *number};
    for (const json& need : after) {
      if (!need.is_object()) return false;
      const json which = need.value("message", json()), until = need.value("until", json("handled"));
      if (!which.is_number_unsigned() || which == 0 || which > order.size()) return false;
      if (until != "handled" && until != "received") return false;
      exact.needs.push_back({which.get<uint32_t>() - 1, until == "handled"});
    }
    order.push_back(std::move(exact));
  }
  std::set<std::tuple<std::string, std::string, std::string, uint32_t>> known;  // no message twice
  for (const ExactMessage& each : order)
    if (!known.emplace(each.is.from, each.is.to, each.is.text, each.number).second) return false;
  return order.size() > 1;
}

bool read_values(const json& known, KeptValues& kept) {
  const json shapes = known.value("values", json::object());
  if (!shapes.is_object()) return false;
  for (const auto& [shape, fields] : shapes.items()) {
    if (!fields.is_array()) return false;
    for (const json& values : fields) {
      if (!values.is_array() || !std::ranges::all_of(values, [](const json& each) { return each.is_string(); }))
        return false;
      kept[shape].push_back(values.get<std::set<std::string>>());
    }
  }
  return true;
}

// Texts that a file has under a key; none if it has something else there.
std::optional<std::vector<std::string>> texts_in(const json& known, const char* key) {
  const json list = known.value(key, json::array());
  if (!list.is_array() || !std::ranges::all_of(list, [](const json& each) { return each.is_string(); }))
    return std::nullopt;
  return list.get<std::vector<std::string>>();
}

// What only the order of a finding has.
bool read_finding(const json& known, ForcedOrder& order) {
  const json before = known.value("before", json()), one_matter = known.value("one_matter", json(false));
  if (!one_matter.is_boolean()) return false;
  order.one_matter = one_matter;
  if (before.is_null()) return true;
  if (!before.is_array() || before.size() != order.steps.size() ||
      !std::ranges::all_of(before, [](const json& each) { return each.is_number_unsigned() && each <= UINT32_MAX; }))
    return false;
  order.before = before.get<std::vector<uint32_t>>();
  return true;
}

}  // namespace

Result<ForcePlan> read_order(const std::string& text, const std::string& place, std::vector<std::string> ignored,
                             std::vector<std::string> classes) {
  constexpr const char* kForm =
      R"({"steps": [{"from": "crawler", "to": "redis", "text": "SET price:f1 #"}, ...], "kept_out": [...]})";
  ForcePlan plan;
  const json known = json::parse(text, nullptr, false);
  bool sound = known.is_object();
  if (sound && known.contains("exact")) {
    sound = read_exact(known["exact"], plan.order.emplace<ExactOrder>()) && read_values(known, plan.kept);
  } else if (sound) {
    ForcedOrder& order = plan.order.emplace<ForcedOrder>();
    sound = read_classes(known, "steps", order.steps) && read_classes(known, "kept_out", order.kept_out) &&
            order.steps.size() > 1 && read_numbers(known["steps"], order.before) && read_finding(known, order);
  }
  // What the messages were named by is a part of the order.
  std::string frame;
  if (sound) {
    const auto more_ignored = texts_in(known, "ignore"), more_classes = texts_in(known, "class");
    const json until = known.value("until", json(""));
    sound = more_ignored && more_classes && known.value("frame", json("")).is_string() &&
            (until == json("") || until == "received" || until == "handled" || until == "answered");
    if (sound) {
      ignored.insert(ignored.end(), more_ignored->begin(), more_ignored->end());
      classes.insert(classes.end(), more_classes->begin(), more_classes->end());
      plan.until = until;
      frame = known.value("frame", "");
    }
  }
  if (!sound)
    return fail(ErrorCode::bad_input,
                "{} is no order of at least two messages: write {}, or take a file that "
                "--minimise has written",
                place, kForm);
  FRIDAY_TRY(parsed, UserClasses::parse(ignored, classes));
  plan.classes = std::move(parsed);
  FRIDAY_TRY(framing, Framing::parse(frame));
  plan.framing = std::move(framing);
  return plan;
}

namespace {

Result<ForcePlan> plan_by_hand(const ForceOptions& options) {
  FRIDAY_TRY(text, read_beneath(Beneath(options.order), kMostWritten));
  FRIDAY_TRY(plan, read_order(text, options.order, options.ignored, options.classes));
  if (!options.live.empty()) return std::move(plan);
  if (options.study.empty()) {
    plan.origin.group = options.group;
  } else {
    FRIDAY_TRY(origin, origin_of(options.study));
    plan.origin = std::move(origin);
  }
  return std::move(plan);
}

// ---- In words and as JSON

json as_json(const MessageClass& message) {
  return {{"from", message.from}, {"to", message.to}, {"text", message.text}};
}

}  // namespace

void print_order(const ForcePlan& plan) {
  constexpr size_t kMostShown = 20;
  const ExactOrder& order = *plan.exact();
  if (order.size() > kMostShown) {
    say("The order of all {}.\n", counted(order.size(), "message"));
    return;
  }
  for (size_t i = 0; i < order.size(); i++) {
    std::string waits;
    for (const ExactMessage::Need& need : order[i].needs)
      waits += fmt::format("{} {} was {}", waits.empty() ? ", when" : " and", need.message + 1,
                           need.handled ? "handled" : "received");
    say("  {}. {}{}{}\n", i + 1, describe(order[i].is),
        order[i].number > 1 ? fmt::format(" (number {} of these)", order[i].number) : "", waits);
  }
}

Result<ForcePlan> plan_of(const ForceOptions& options) {
  FRIDAY_TRY(classes, UserClasses::parse(options.ignored, options.classes));
  const bool of_run = !options.study.empty() && options.run;
  if (options.order.empty()) {
    if (!of_run)
      return fail(ErrorCode::usage,
                  "nothing to force: give a study and one of its runs, or --order FILE with a study or --group "
                  "GROUP.toml");
    if (!options.group.empty()) return fail(ErrorCode::usage, "a study knows its group: leave --group away");
    return plan_of_study(options, std::move(classes));
  }
  if (options.run || options.whole || options.minimise)
    return fail(ErrorCode::usage, "give either one of the study's runs, or --order FILE, not both");
  if (options.live.empty() && options.study.empty() == options.group.empty())
    return fail(ErrorCode::usage, "--order needs what it is forced onto: a study, --group GROUP.toml, or --live REC");
  if (options.live.empty() && options.study.empty() && options.output.empty())
    return fail(ErrorCode::usage, "--order with --group needs -o DIRECTORY for the recordings");
  return plan_by_hand(options);
}

std::vector<MessageClass> messages_of(const ForcePlan& plan) {
  std::vector<MessageClass> all;
  if (const ExactOrder* exact = plan.exact()) {
    for (const ExactMessage& each : *exact) all.push_back(each.is);
    return all;
  }
  const auto& order = std::get<ForcedOrder>(plan.order);
  all = order.steps;
  all.insert(all.end(), order.kept_out.begin(), order.kept_out.end());
  return all;
}

std::vector<std::string> words_of(const ForcePlan& plan) {
  std::vector<std::string> words;
  const auto add = [&](const MessageClass& message) {
    std::string word = plan.classes.is_class(message.text) ? "" : literal_of(message);
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  };
  for (const MessageClass& message : messages_of(plan)) {
    add(message);
    if (plan.exact() && (words.size() > shim::kMaxHoldWords || words.back().empty())) return {""};
  }
  return words;
}

namespace {

json order_as_json(const ForcePlan& plan) {
  if (const ExactOrder* exact = plan.exact()) {
    json list = json::array();
    for (const ExactMessage& message : *exact) {
      json each = as_json(message.is);
      each["number"] = message.number;
      each["after"] = json::array();
      for (const ExactMessage::Need& need : message.needs)
        each["after"].push_back({{"message", need.message + 1}, {"until", need.handled ? "handled" : "received"}});
      list.push_back(std::move(each));
    }
    return {{"exact", std::move(list)}, {"values", plan.kept}};
  }
  const auto messages = [](const std::vector<MessageClass>& list) {
    json out = json::array();
    for (const MessageClass& each : list) out.push_back(as_json(each));
    return out;
  };
  const ForcedOrder& order = std::get<ForcedOrder>(plan.order);
  json steps = messages(order.steps);
  for (size_t i = 0; i < order.steps.size(); i++)
    if (const auto number = order.number_of(i)) steps[i]["number"] = *number;
  return {{"steps", std::move(steps)}, {"kept_out", messages(order.kept_out)}};
}

}  // namespace

json as_json(const ForcePlan& plan) {
  json out = order_as_json(plan);
  if (!plan.framing.text().empty()) out["frame"] = plan.framing.text();
  return out;
}

void print_plan(const ForceOptions& options, const ForcePlan& plan) {
  if (plan.runs && options.run)
    say("As in run {}, which has {}{}.", options.run, plan.holds ? "failed" : "passed",
        plan.finding > 1 ? fmt::format(" (finding {})", plan.finding) : "");
  if (plan.exact()) {
    if (plan.runs && options.run) say("\n");
    print_order(plan);
  } else {
    const ForcedOrder& order = std::get<ForcedOrder>(plan.order);
    say("{}Each is {} before the next one is sent on:\n", plan.runs && options.run ? " " : "", options.until);
    for (size_t i = 0; i < order.steps.size(); i++) {
      const auto number = order.number_of(i);
      say("  {}. {}{}\n", i + 1, describe(order.steps[i]), number ? fmt::format(" (number {} of these)", *number) : "");
    }
    for (const MessageClass& each : order.kept_out) say("     and in between no {}\n", describe(each));
  }
  fflush(stdout);  // what is said of the runs comes behind it, also in a pipe
}

}  // namespace friday
