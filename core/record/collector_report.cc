// What the collector reports about its nodes: node.json while they run and afterwards, and the summaries that `friday
// record` prints at the end.
#include <unistd.h>

#include <sys/wait.h>
#include <nlohmann/json.hpp>

#include "core/base/processes.h"
#include "core/record/collector_node.h"
#include "core/trace/calls.h"

namespace friday {

namespace {

nlohmann::json ending(int wait_status, bool closed, uint32_t reason, int detail) {
  if (wait_status >= 0 && WIFEXITED(wait_status)) return {{"how", "exit"}, {"detail", WEXITSTATUS(wait_status)}};
  if (wait_status >= 0 && WIFSIGNALED(wait_status)) return {{"how", "signal"}, {"detail", WTERMSIG(wait_status)}};
  if (reason == format::kEndExit) return {{"how", "exit"}, {"detail", detail & 0xff}};  // as wait(2) reports it
  if (reason == format::kEndContinued) return {{"how", "continued"}, {"detail", 0}};
  if (reason == format::kEndExec) return {{"how", "exec"}, {"detail", 0}};
  return {{"how", closed ? "unknown" : "running"}, {"detail", 0}};
}

}  // namespace

void Collector::write_description(Node& node) {
  node.describe_at = 0;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  nlohmann::json d = {
      {"id", node.id},
      {"name", node.origin.name},
      {"uuid", hex_of(node.uuid, 16)},
      {"parent_uuid", hex_of(node.parent_uuid, 16)},
      {"lineage", node.origin.lineage},
      {"program", node.origin.program},
      {"argv", node.origin.arguments},
      {"cwd", node.origin.cwd},
      {"host", host},
      {"boot_id", boot_id_.substr(0, boot_id_.find('\n'))},
      {"pid", node.pid},
      {"recorder", {{"pid", getpid()}, {"start", process_start(getpid())}}},
      {"started_ns", node.started_ns},
      {"began_ns", node.began_ns},
      {"ended_ns", node.ended_ns},
      {"strict", options_.strict},
      {"ended", ending(node.wait_status, node.closed, node.end_reason, node.end_detail)},
      {"recording_end",
       {{"reason", node.end_reason},
        {"detail", node.end_detail},
        {"text", node.end_reason == format::kEndExec && !node.execution_problem.empty() ? node.execution_problem
                                                                                        : node.end_text}}},
      {"instrumented", node.hello},
      {"notice", node.notice()}};
  if (options_.chaos) d["chaos"] = *options_.chaos;
  // If the description cannot be written, names are lost but no events: readers derive the rest from the trace.
  (void)write_beneath(node.directory.below("node.json"),
                      d.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Collector::note_step(uint32_t id, const std::string& what, const std::string& detail) {
  for (const auto& node : nodes_) {
    if (node->launched_as != id || node->dropped) continue;
    nlohmann::json step = {{"what", what}, {"at_ns", now_ns(CLOCK_MONOTONIC)}, {"real_ns", now_ns(CLOCK_REALTIME)}};
    if (!detail.empty()) step["detail"] = detail;
    node->steps += step.dump() + "\n";
    // If it cannot be written, a reader misses a remark and no event.
    (void)write_beneath(node->directory.below("steps.jsonl"), node->steps);
  }
}

std::vector<std::string> Collector::notices() const {
  std::vector<std::string> all = notices_;
  all.insert(all.end(), packer_.notices().begin(), packer_.notices().end());
  return all;
}

std::vector<NodeSummary> Collector::summaries() const {
  std::vector<NodeSummary> list;
  for (const auto& node : nodes_) {
    if (node->dropped) continue;
    NodeSummary s;
    s.id = node->id;
    s.name = node->origin.name;
    s.events = node->events;
    s.bytes = node->bytes;
    s.wait_status = node->wait_status;
    s.disk_full = node->end_reason == format::kEndDiskFull;
    if (node->packed && node->packed->stored) s.stored = node->bytes - node->packed->removed + node->packed->stored;
    if (node->packed) s.left_out = node->packed->left_out, s.foreign = node->packed->foreign;
    const int64_t end_ns = node->ended_ns ? node->ended_ns : now_ns(CLOCK_MONOTONIC);
    s.seconds = static_cast<double>(end_ns - node->began_ns) / 1e9;
    if (!node->execution_problem.empty() && node->end_reason == format::kEndExec) {
      s.ended = (node->hello ? "recording ended by execve: " : "never recorded: ") + node->execution_problem;
      s.complete = false;
    } else if (!node->hello) {
      s.ended = "never recorded: the program did not load the shim";
      s.complete = false;
    } else if (node->end_reason == format::kEndUnhandled) {
      s.ended = ended_at_call_text(static_cast<unsigned>(node->end_detail), node->end_text);
      s.complete = false;
    } else if (node->end_reason == format::kEndDiskFull) {
      s.ended = "recording ended: the disk is full; the program went on";
      s.complete = false;
    } else if (node->end_reason == format::kEndSizeLimit) {
      s.ended = fmt::format("recording ended: {}; the program went on",
                            options_.max_size ? "the recording has the size that --max-size allows"
                                              : "the file has the size that the limit of files (ulimit -f) allows");
      s.complete = false;
    } else if (node->end_reason == format::kEndRefused) {
      s.ended = "recording ended: " + node->end_text;
      s.complete = false;
    } else {
      auto how = ending(node->wait_status, node->closed, node->end_reason, node->end_detail);
      s.ended = how["how"] == "exec" ? "replaced by exec"
                : how["how"] == "continued"
                    ? node->end_detail ? "switched off" : "goes on in the next part"
                    : fmt::format("{} {}", how["how"].get<std::string>(), how["detail"].get<int>());
      // Only the parent of a forked process learns its exit status.
      if (how["how"] == "unknown") s.ended = node->hung_up ? "killed, or ended in an unknown way" : "still running";
    }
    if (auto notice = node->notice(); !notice.empty()) s.ended += "; " + notice, s.complete = false;
    list.push_back(std::move(s));
  }
  return list;
}

}  // namespace friday
