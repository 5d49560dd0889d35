#include "console/finished_run.h"

#include <array>
#include <utility>

#include "core/base/printable.h"
#include "core/record/verdict.h"
#include "core/study/study.h"

namespace friday {
namespace {

using nlohmann::json;

constexpr std::array kResults = {
    std::pair{GroupRun::Result::passed, "passed"}, std::pair{GroupRun::Result::failed, "FAILED"},
    std::pair{GroupRun::Result::undecided, "undecided"}, std::pair{GroupRun::Result::interrupted, "interrupted"}};

json programs_of(const LaunchResult& launch) {
  json programs = json::array();
  for (const ProgramEnd& program : launch.programs)
    if (program.started)
      programs.push_back({{"name", program.name},
                          {"recorded", program.recorded},
                          {"end", end_text(program.status)},
                          {"stopped", program.stopped_by != 0}});
  return programs;
}

}  // namespace

const char* name_of(GroupRun::Result result) {
  for (const auto& [known, name] : kResults)
    if (known == result) return name;
  return "";
}

FinishedRun finish_run(const GroupRun& run, const std::string& directory, unsigned number) {
  FinishedRun out{.number = number,
                  .result = run.result,
                  .seconds = run.seconds,
                  .why = run.why,
                  .code = run.code,
                  .seed = run.seed,
                  .programs = programs_of(run.launch),
                  .bad_ends = bad_ends_of_unrecorded(run.launch),
                  .unjudged = run.unjudged,
                  .is_disk_full = disk_was_full(run.launch)};
  if (out.is_judged() && !out.is_disk_full)
    if (auto kept = keep_messages(directory, number); !kept) out.not_kept = describe(kept.error());
  return out;
}

Result<FinishedRun> make_run(const GroupSpec& group, GroupRunOptions options, const std::string& directory,
                             unsigned number) {
  options.launch.collector.recording = fmt::format("{}/run-{}", directory, number);
  options.number = number;
  FRIDAY_TRY(run, run_group_once(group, options));
  return finish_run(run, directory, number);
}

json line_of(const FinishedRun& run, const std::string& kept) {
  json line = {{"run", run.number},       {"result", name_of(run.result)},
               {"seconds", run.seconds},  {"why", run.why},
               {"code", run.code},        {"recording", kept},
               {"programs", run.programs}};
  if (run.seed) line["seed"] = *run.seed;
  if (run.is_disk_full) line["incomplete"] = true;
  return line;
}

json as_json(const Result<FinishedRun>& run) {
  if (!run) return {{"error", run.error().message}, {"kind", static_cast<int>(run.error().code)}};
  json out = line_of(*run, "");
  out["bad_ends"] = run->bad_ends;
  out["unjudged"] = json::array();
  for (const BadExit& exit : run->unjudged) out["unjudged"].push_back({{"name", exit.name}, {"code", exit.code}});
  out["not_kept"] = run->not_kept;
  return out;
}

Result<FinishedRun> finished_run_of(const json& text) {
  try {
    if (text.contains("error"))
      return std::unexpected(Error{static_cast<ErrorCode>(text.at("kind")), text.at("error")});
    FinishedRun run{.number = text.at("run"),
                    .seconds = text.at("seconds"),
                    .why = text.at("why"),
                    .code = text.at("code"),
                    .seed = {},
                    .programs = text.at("programs"),
                    .bad_ends = text.at("bad_ends"),
                    .unjudged = {},
                    .is_disk_full = text.contains("incomplete"),
                    .not_kept = text.at("not_kept")};
    for (const auto& [result, name] : kResults)
      if (text.at("result") == name) run.result = result;
    for (const json& exit : text.at("unjudged")) run.unjudged.push_back({exit.at("name"), exit.at("code")});
    if (text.contains("seed")) run.seed = text.at("seed").get<uint64_t>();
    return run;
  } catch (const json::exception& error) {
    return fail(ErrorCode::component_died, "a run was handed on in a form that nobody reads: {}", error.what());
  }
}

}  // namespace friday
