#include "console/merge.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/trace/merge.h"

namespace friday {
namespace {

using nlohmann::json;

struct MergeArguments {
  std::vector<std::string> recordings;
  MergeOptions merge;
  bool as_json = false;
};

json as_json(const MergeOptions& options, const MergeReport& report) {
  json out = {{"path", options.output}, {"hosts", report.hosts},  {"files", report.files},
              {"bytes", report.bytes},  {"nodes", json::array()}, {"left_out", json::array()}};
  for (const auto& node : report.nodes)
    out["nodes"].push_back({{"id", node.id.value},
                            {"name", node.name},
                            {"from", options.inputs[node.input].path},
                            {"id_there", node.original.value}});
  for (const Error& error : report.left_out) out["left_out"].push_back(describe(error));
  return out;
}

void print(const MergeOptions& options, const MergeReport& report) {
  for (const auto& node : report.nodes)
    say("node {} {}: node {} of {}\n", node.id, node.name, node.original, options.inputs[node.input].path);
  for (const Error& error : report.left_out) say(stderr, "friday merge: left out: {}\n", describe(error));
  for (auto [a, b] : report.share_a_host)
    say("{} and {} were recorded on one host (equal boot ids): their clocks count as one. If these are copies of one "
        "virtual machine, merge them "
        "with --separate-hosts\n",
        options.inputs[a].path, options.inputs[b].path);
  say("merged {} recordings into {}: {}, {}. `friday info {}` says which messages found their sender\n",
      options.inputs.size(), options.output, counted(report.nodes.size(), "node"), counted(report.hosts, "host"),
      options.output);
}

int run_merge(MergeArguments& options) {
  for (const std::string& text : options.recordings) {
    auto input = parse_merge_input(text);
    if (!input) return complain("merge", input.error());
    input->path = recording_named(input->path);
    options.merge.inputs.push_back(*std::move(input));
  }
  options.merge.tell = tell_as("merge");
  auto report = merge_recordings(options.merge);
  if (!report) return complain("merge", report.error());
  if (options.as_json) say_json(as_json(options.merge, *report));
  else print(options.merge, *report);
  return 0;
}

}  // namespace

void add_merge_command(CLI::App& app, int* status) {
  auto options = std::make_shared<MergeArguments>();
  auto* command =
      app.add_subcommand("merge", "Join recordings of several hosts into one, which all other commands take");
  command->add_option("-o,--output", options->merge.output, "The recording to make; it must not exist")->required();
  command->add_option("recording", options->recordings, "The recordings; PREFIX=REC makes node NAME of REC PREFIX.NAME")
      ->required();
  command->add_flag("--separate-hosts", options->merge.separate_hosts,
                    "Compare no clocks between recordings, also where boot ids are equal (copies of one virtual "
                    "machine, time namespaces)");
  command->add_flag("--leave-out-damaged", options->merge.leave_out_damaged,
                    "Merge without nodes whose traces cannot be used");
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->footer("Examples:\n  friday merge -o ALL REC1 REC2 REC3\n  friday merge -o ALL web1=REC1 web2=REC2");
  command->callback([options, status] { *status = run_merge(*options); });
}

}  // namespace friday
