// What nodes of one program share. Two nodes whose processes have the same files mapped as code have the same symbols
// and types, only elsewhere: with random addresses each file has another base. So whatever gdb was asked once (the plan
// of an expression, the places of a breakpoint, the block of an instruction) is kept by place, file and offset, and
// serves all of them. A recording's files are named by content, so equal names are equal files, on whatever host they
// were.
//
// Plain values, used on the session's thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/stop/plan.h"

namespace friday {

// Where the code files of a process stand.
class Layout {
 public:
  using Place = std::pair<uint32_t, uint64_t>;  // file, offset from its base

  // What the process has mapped now.
  static Result<Layout> of(pid_t pid);
  // Equal for two processes with the same files.
  const std::string& key() const { return key_; }
  std::optional<Place> place(uint64_t address) const;
  uint64_t address(const Place& place) const { return modules_[place.first].low + place.second; }

 private:
  struct Module {
    std::string file;
    uint64_t low = 0, high = 0;
  };
  std::vector<Module> modules_;  // by file name, so that numbers agree between equal keys
  std::string key_;
};

// A plan as the debugger keeps it: with its type's id in the registry, or gdb's refusal of the expression.
struct KnownPlan {
  std::shared_ptr<const ExpressionPlan> plan;
  uint32_t type = 0;  // of a plan for gdb 0
  std::optional<Error> refusal;
};

// The innermost block of an instruction.
struct CodeScope {
  std::string block;             // key
  std::set<std::string> locals;  // names of variables that are seen there
};

struct CodeLocation {
  std::optional<Layout::Place> place;
  uint64_t address = 0;  // without a place
  std::string text;      // "function at file:line"
};

struct Program {
  struct SharedPlan {
    KnownPlan known;
    Layout layout;  // of the node it was made on
  };
  std::map<Layout::Place, CodeScope> scopes;
  std::unordered_map<std::string, std::unordered_map<std::string, SharedPlan>> plans;  // by scope, by expression
  std::map<std::string, Result<std::vector<CodeLocation>>> locations;  // by what a breakpoint was asked for
  std::map<Layout::Place, std::string> sources;                        // "function at file:line"
};

// The plan for a process whose files stand elsewhere; null when it holds for the one it was made on only.
std::shared_ptr<const ExpressionPlan> moved(const std::shared_ptr<const ExpressionPlan>& plan, const Layout& from,
                                            const Layout& to);

}  // namespace friday
