#include "console/ls.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/trace/recording.h"
#include "core/trace/trace_file.h"

namespace friday {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct LsOptions {
  std::vector<std::string> places;
  bool as_json = false;
};

bool runs_now(const NodeInfo& node) { return node.end.how == NodeEnd::How::running && program_lives(node); }

std::string state_text(const NodeInfo& node) {
  if (node.problem) return "damaged: " + node.problem->message;
  if (!runs_now(node)) return describe(node.end);
  if (!recorder_lives(node)) return "its recorder is dead, the program goes on";
  return node.on_standby ? "on standby" : "being recorded";
}

// "0.4 s", "12 min 5 s", "3 h 12 min", "5 d 2 h".
std::string lasting(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

std::string date_text(int64_t real_ns) {
  const std::time_t seconds = real_ns / 1000000000;
  std::tm parts{};
  char text[32];
  if (real_ns <= 0 || !localtime_r(&seconds, &parts)) return "?";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

json describe_node(const Recording& recording, const NodeInfo& node, int64_t began) {
  json out = {
      {"id", node.id.value},
      {"name", node.name},
      {"host", node.host},
      {"started_ns", node.started_ns},
      {"after", static_cast<double>(node.started_ns - began) / 1e9},
      {"events", node.events},
      {"disk_bytes", disk_bytes(recording.trace(node.id))},
      {"ended", state_text(node)},
      {"runs", runs_now(node)},
      {"failed", node.end.how == NodeEnd::How::signal || (node.end.how == NodeEnd::How::exit && node.end.detail != 0)}};
  if (const auto ran = node.ran_seconds()) out["seconds"] = *ran;
  return out;
}

json describe_recording(const Recording& recording) {
  json out = {{"path", recording.path()}, {"nodes", json::array()}};
  int64_t began = recording.created_ns();
  for (const NodeInfo& node : recording.nodes())
    if (node.started_ns > 0) began = std::min(began, node.started_ns);
  uint64_t disk = 0;
  std::optional<double> seconds;
  for (const NodeInfo& node : recording.nodes()) {
    out["nodes"].push_back(describe_node(recording, node, began));
    const json& added = out["nodes"].back();
    disk += added["disk_bytes"].get<uint64_t>();
    if (added.contains("seconds"))
      seconds = std::max(seconds.value_or(0), added["after"].get<double>() + added["seconds"].get<double>());
  }
  out["began_ns"] = began;
  out["disk_bytes"] = disk;
  if (seconds) out["seconds"] = *seconds;
  return out;
}

// Rows of texts as a table: all columns but the last are as wide as their widest text.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t column = 0; column < row.size(); ++column) {
      if (widths.size() <= column) widths.push_back(0);
      widths[column] = std::max(widths[column], row[column].size());
    }
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column + 1 < row.size(); ++column)
      line += fmt::format("{:<{}}  ", row[column], widths[column]);
    say("{}{}\n", line, row.back());
  }
}

std::string ran_text(const json& what) {
  return what.contains("seconds") ? lasting(what["seconds"].get<double>()) : "-";
}

void print_nodes(const json& recording) {
  say("{}, began {}\n", recording["path"].get<std::string>(), date_text(recording["began_ns"].get<int64_t>()));
  std::vector<std::vector<std::string>> rows{{"ID", "NODE", "HOST", "FROM", "RAN", "EVENTS", "DISK", "END"}};
  for (const json& node : recording["nodes"])
    rows.push_back({std::to_string(node["id"].get<uint32_t>()), printable(node["name"].get<std::string>()),
                    printable(node["host"].get<std::string>()), fmt::format("{:+.1f} s", node["after"].get<double>()),
                    ran_text(node), std::to_string(node["events"].get<uint64_t>()),
                    size_text(node["disk_bytes"].get<uint64_t>()), printable(node["ended"].get<std::string>())});
  print_table(rows);
}

// How its nodes ended, those first that have not ended well.
std::string ends_text(const json& recording) {
  std::vector<std::string> failed;
  size_t running = 0, well = 0;
  for (const json& node : recording["nodes"]) {
    if (node["runs"].get<bool>()) ++running;
    else if (!node["failed"].get<bool>()) ++well;
    else failed.push_back(node["name"].get<std::string>() + " " + node["ended"].get<std::string>());
  }
  constexpr size_t kShown = 2;
  std::string text = running ? fmt::format("{} of its nodes run now", running) : "";
  for (size_t n = 0; n < std::min(kShown, failed.size()); ++n) text += (text.empty() ? "" : ", ") + failed[n];
  if (failed.size() > kShown) text += fmt::format(", {} more failed", failed.size() - kShown);
  if (text.empty()) return well ? "no node failed" : "no node";
  return text;
}

std::vector<std::string> summary_row(const std::string& name, const json& recording) {
  return {printable(name),
          date_text(recording["began_ns"].get<int64_t>()),
          ran_text(recording),
          counted(recording["nodes"].size(), "node"),
          size_text(recording["disk_bytes"].get<uint64_t>()),
          printable(ends_text(recording))};
}

// A recording is shown with its nodes, a directory with the recordings in it. One that cannot be read is told, and the
// others are shown.
int run_ls(const LsOptions& options) {
  json all = json::array();
  std::vector<std::vector<std::string>> rows;
  int status = 0;
  const auto look = [&](const fs::path& place, bool alone) {
    auto recording = Recording::open(place.string(), Recording::Standby::shown);
    if (!recording) {
      status = complain("ls", recording.error());
      return;
    }
    all.push_back(describe_recording(*recording));
    if (options.as_json) return;
    if (alone) print_nodes(all.back());
    else rows.push_back(summary_row(place.filename().string(), all.back()));
  };
  const std::string sessions = sessions_directory();
  std::vector<std::string> places = options.places;
  if (places.empty()) places.push_back(sessions);
  for (const std::string& place : places) {
    const std::string path = recording_named(place);
    std::error_code missing;
    if (is_recording(path)) {
      look(path, true);
    } else if (fs::is_directory(path, missing)) {
      for (const fs::path& each : recordings_in(path)) look(each, false);
    } else if (!options.places.empty()) {
      status = complain("ls", {ErrorCode::not_found, fmt::format("{} is neither a directory nor a session in {}",
                                                                 printable(place), sessions)});
    }
  }
  if (options.as_json) say_json(all);
  else if (!rows.empty()) print_table(rows);
  else if (all.empty() && status == 0)
    say("no recordings in {}: `friday record -s NAME` makes them there\n", fmt::format("{}", fmt::join(places, ", ")));
  return status;
}

}  // namespace

void add_ls_command(CLI::App& app, int* status) {
  auto options = std::make_shared<LsOptions>();
  auto* command =
      app.add_subcommand("ls", "List recordings, or the nodes of one: how long they ran and how they ended");
  command->add_option("places", options->places,
                      "Recordings, names of sessions, or directories with recordings (default: the sessions)");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Examples:\n  friday ls\n  friday ls demo\n  friday ls /var/lib/friday");
  command->callback([options, status] { *status = run_ls(*options); });
}

}  // namespace friday
