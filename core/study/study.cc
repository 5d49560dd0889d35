#include "core/study/study.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

namespace friday {
namespace {

constexpr uint64_t kMostList = uint64_t{256} << 20;   // bytes of runs.jsonl
constexpr uint64_t kMostOrigin = uint64_t{32} << 20;  // bytes of study.json

Result<StudyRun> parse(const std::string& line, const std::string& path) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  StudyRun run;
  const bool sound = json.is_object() && json.contains("run") && json["run"].is_number_unsigned() &&
                     json["run"] <= 1'000'000'000u && json.contains("result") && json["result"].is_string();
  if (!sound) return fail(ErrorCode::bad_input, "{}: this line does not describe a run: {}", path, line.substr(0, 200));
  run.number = json["run"];
  const std::string result = json["result"];
  if (result == "passed") run.result = StudyRun::Result::passed;
  if (result == "FAILED") run.result = StudyRun::Result::failed;
  if (result == "interrupted") run.result = StudyRun::Result::interrupted;
  if (json.contains("incomplete") && json["incomplete"] == true) run.result = StudyRun::Result::undecided;
  if (json.contains("why") && json["why"].is_string()) run.why = json["why"];
  return run;
}

Beneath messages_of(const std::string& study, unsigned run) { return {study, fmt::format("messages/run-{}", run)}; }

Result<Talk> recorded_talk(const std::string& study, unsigned run) {
  FRIDAY_TRY(recording, Recording::open(fmt::format("{}/run-{}", study, run)));
  FRIDAY_TRY(rules, message_rules_of(study));
  return Talk::of(recording, rules.framing, rules.scope);
}

Result<void> write_talk(const std::string& study, unsigned run, const Talk& talk) {
  FRIDAY_TRY_VOID(make_directory_beneath(Beneath(study, "messages")));
  return talk.write(messages_of(study, run));
}

}  // namespace

Result<MessageRules> message_rules_of(const std::string& study) {
  const Beneath file(study, "study.json");
  const auto text = read_beneath(file, kMostOrigin);
  if (!text && text.error().code == ErrorCode::not_found) return MessageRules();
  if (!text) return std::unexpected(text.error());
  const auto parsed = nlohmann::json::parse(*text, nullptr, false);
  const auto text_of = [&](const char* key) -> std::optional<std::string> {
    const auto value = parsed.value(key, nlohmann::json(""));
    return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  };
  const auto frame = parsed.is_object() ? text_of("frame") : std::nullopt,
             scope = parsed.is_object() ? text_of("scope") : std::nullopt;
  if (!frame || !scope) return fail(ErrorCode::bad_input, "{} is damaged", file.path());
  FRIDAY_TRY(framing, Framing::parse(*frame));
  return MessageRules{std::move(framing), *scope};
}

Result<void> keep_messages(const std::string& study, unsigned run) {
  FRIDAY_TRY(talk, recorded_talk(study, run));
  return write_talk(study, run, talk);
}

Result<Study> Study::open(const std::string& directory) {
  Study study;
  study.directory_ = directory;
  const Beneath list(directory, "runs.jsonl");
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0)
    return fail(ErrorCode::not_found,
                "there is no study {}: {}; it is the directory behind -o of `friday diagnose` or `friday record "
                "--until-failure`",
                directory, strerror(errno));
  auto text = read_beneath(list, kMostList);
  if (!text && text.error().code == ErrorCode::not_found)
    return fail(
        ErrorCode::not_found,
        "{} is no study: it has no list of runs (runs.jsonl); `friday record --until-failure N --group GROUP.toml` "
        "makes one",
        directory);
  if (!text) return std::unexpected(text.error());
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    // A last line without its end was being written when the series was killed.
    if (end < text->size() && end > at) {
      FRIDAY_TRY(run, parse(text->substr(at, end - at), list.path()));
      study.runs_.push_back(std::move(run));
    }
    at = end + 1;
  }
  std::ranges::stable_sort(study.runs_, {}, &StudyRun::number);
  const auto twice = std::ranges::adjacent_find(study.runs_, {}, &StudyRun::number);
  if (twice != study.runs_.end())
    return fail(ErrorCode::bad_input, "{} lists run {} twice: two series were written to one directory", list.path(),
                twice->number);
  return study;
}

std::string Study::recording_of(const StudyRun& run) const { return fmt::format("{}/run-{}", directory_, run.number); }

Result<Talk> Study::talk_of(const StudyRun& run) const {
  auto kept = Talk::read(messages_of(directory_, run.number));
  if (kept) return kept;
  struct stat status {};
  if (lstat(recording_of(run).c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    if (kept.error().code != ErrorCode::not_found) return kept;
    return fail(ErrorCode::not_found, "run {}: neither its recording nor its messages are there any more", run.number);
  }
  FRIDAY_TRY(talk, recorded_talk(directory_, run.number));
  (void)write_talk(directory_, run.number, talk);  // the next comparison takes longer without it
  return std::move(talk);
}

}  // namespace friday
