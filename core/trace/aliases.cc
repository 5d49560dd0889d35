#include "core/trace/aliases.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "core/trace/recording.h"

namespace friday {
namespace {

// Programs that run another one in a child process on behalf of their user.
bool is_wrapper(const NodeInfo& node) {
  static const std::set<std::string_view> kWrappers = {
      "ash",       "bash",    "busybox", "chroot",  "chrt",    "daemonize", "dash",
      "dumb-init", "env",     "ionice",  "ip",      "ksh",     "mksh",      "nice",
      "nohup",     "nsenter", "numactl", "prlimit", "runuser", "setpriv",   "setsid",
      "sh",        "stdbuf",  "su",      "taskset", "time",    "timeout",   "start-stop-daemon",
      "tini",      "unshare", "zsh"};
  return kWrappers.contains(std::string_view(node.program).substr(node.program.rfind('/') + 1));
}

class Aliases {
 public:
  explicit Aliases(const std::vector<NodeInfo>& nodes) : nodes_(nodes) {
    for (size_t n = 0; n < nodes.size(); n++) index_[nodes[n].id] = n;
    for (size_t n = 0; n < nodes.size(); n++) {
      for (const auto& before : {nodes[n].replaces, nodes[n].continues})
        if (before) replaced_by_.try_emplace(*before, n);
      for (const auto& maker : {nodes[n].parent, nodes[n].spawned_by})
        if (maker) children_[*maker].push_back(n);
    }
  }

  std::map<NodeId, std::string> find() const {
    std::map<NodeId, std::string> aliases;
    for (const NodeInfo& first : nodes_) {
      if (first.parent || first.spawned_by || first.replaces || first.continues) continue;
      const NodeInfo& last = nodes_[follow(index_.at(first.id))];
      // The parts before may have been removed.
      const std::string name = first.part ? first.name.substr(0, first.name.rfind("/part-")) : first.name;
      if (last.id != first.id || name != first.name) aliases[last.id] = name;
    }
    return aliases;
  }

 private:
  // The node that runs what was started as `at`. A node is made by at most one other, so no node comes twice.
  size_t follow(size_t at) const {
    for (;;) {
      at = last_program(at);
      if (!is_wrapper(nodes_[at])) return at;
      const std::vector<size_t> programs = started_by(at);
      if (programs.size() != 1) return at;
      at = programs.front();
    }
  }

  size_t last_program(size_t at) const {
    for (auto next = replaced_by_.find(nodes_[at].id); next != replaced_by_.end();
         next = replaced_by_.find(nodes_[at].id))
      at = next->second;
    return at;
  }

  // The programs that a wrapper has started in children, also in children of forked copies of itself, as a shell makes
  // them for `(daemon &)`.
  std::vector<size_t> started_by(size_t wrapper) const {
    std::vector<size_t> programs, copies = {wrapper};
    while (!copies.empty()) {
      const auto children = children_.find(nodes_[copies.back()].id);
      copies.pop_back();
      if (children == children_.end()) continue;
      for (size_t child : children->second)
        (nodes_[child].forked && !replaced_by_.contains(nodes_[child].id) ? copies : programs).push_back(child);
    }
    return programs;
  }

  const std::vector<NodeInfo>& nodes_;
  std::map<NodeId, size_t> index_, replaced_by_;
  std::map<NodeId, std::vector<size_t>> children_;
};

}  // namespace

std::map<NodeId, std::string> aliases_of(const std::vector<NodeInfo>& nodes) { return Aliases(nodes).find(); }

std::string full_name(const NodeInfo& node, const std::map<NodeId, std::string>& aliases) {
  const auto alias = aliases.find(node.id);
  return alias == aliases.end() ? node.name : fmt::format("{} = {}", alias->second, node.name);
}

}  // namespace friday
