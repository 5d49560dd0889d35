// Answers of gdb that nodes of one program share. Two nodes whose processes have mapped the same code files have the
// same symbols and types, but at other addresses, because address-space randomisation gives each file another base.
// Therefore each answer (the plan of an expression, the locations of a breakpoint, the block of an instruction) is kept
// by file and offset, and is used for all of these nodes. File copies of a recording are named by their content, so
// equal names mean equal files, even on different hosts.
//
// Plain values; use on the session's thread only.
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

// The addresses at which a process has mapped its code files.
class Layout {
 public:
  using Place = std::pair<uint32_t, uint64_t>;  // number of the file, and bytes from its base

  // The layout of the process as it is now.
  static Result<Layout> of(pid_t pid);
  // Equal for two processes with the same files. The numbers of files are equal then, too.
  const std::string& key() const { return key_; }
  // The place of an address; none if it is in no code file, or in the ranges of several.
  std::optional<Place> place(uint64_t address) const;
  uint64_t address(const Place& place) const { return modules_[place.first].low + place.second; }

 private:
  struct Module {
    std::string file;
    uint64_t low = 0, high = 0;
  };
  std::vector<Module> modules_;  // ordered by file name
  std::string key_;
};

// gdb's answer about an expression: a plan, or the reason why the expression is invalid.
struct KnownPlan {
  std::shared_ptr<const ExpressionPlan> plan;  // null if there is a refusal
  uint32_t type = 0;                           // id in the TypeRegistry; 0 for a plan of the kind `gdb`
  std::optional<Error> refusal;
};

// The innermost lexical block that contains an instruction.
struct CodeScope {
  std::string block;             // identifies the block
  std::set<std::string> locals;  // names of the local variables that are visible there
};

// A location of a breakpoint.
struct CodeLocation {
  std::optional<Layout::Place> place;
  uint64_t address = 0;  // used if there is no place
  std::string text;      // "function at file:line"; empty if unknown
};

struct Program {
  struct SharedPlan {
    KnownPlan known;
    Layout layout;  // of the node for which it was made
  };
  std::map<Layout::Place, CodeScope> scopes;
  std::unordered_map<std::string, std::unordered_map<std::string, SharedPlan>> plans;  // by scope, then by expression
  std::map<std::string, Result<std::vector<CodeLocation>>> locations;  // by the arguments of -friday-locate
  std::map<Layout::Place, std::string> sources;                        // "function at file:line"
};

// Translates a plan from one layout to another with an equal key. Null if the plan is valid only for the process for
// which it was made.
std::shared_ptr<const ExpressionPlan> moved(const std::shared_ptr<const ExpressionPlan>& plan, const Layout& from,
                                            const Layout& to);

}  // namespace friday
