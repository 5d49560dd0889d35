// Memory in a node for what expressions need besides the program's own data: the user's variable `_friday_workspace`,
// arguments of calls, and string literals (gdb would otherwise call malloc for them). It is mapped into the process
// when it is first needed, at an address that no recorded program uses. The program never sees it.
//
// Owned by Expressions. Use on the session's thread only, while the node is stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "core/debug/focus.h"

namespace friday {

class Workspace {
 public:
  static constexpr uint64_t kSize = 64 << 10;  // bytes for the user; as many follow for arguments of calls

  explicit Workspace(Focus& focus) : focus_(focus) {}

  // Whether the text contains the name of the workspace.
  static bool is_named_in(const std::string& text);
  // Whether the first occurrence of that name is at this position of the text.
  static bool is_named_at(const std::string& text, size_t position);
  // Whether expand() would change the text: it names the workspace or contains string literals.
  static bool is_needed_by(const std::string& text);

  // The address of the user's part. The first call maps the workspace.
  Result<uint64_t> map(ReplayNode& node);
  // Copies data to the part for arguments and returns its address. It is valid until forget_staged(). Fails with
  // unsupported if more than kSize bytes are staged.
  Result<uint64_t> stage(NodeId node, std::span<const std::byte> data);
  // Call after the function has returned. Frees the space of all staged data.
  void forget_staged(NodeId node) { areas_[node].staged = 0; }
  // Translates an expression for gdb: replaces the name of the workspace by its address, and each string literal by the
  // address of a staged copy.
  Result<std::string> expand(ReplayNode& node, std::string expression);
  // Call when all nodes are rebuilt; their processes have no workspace then.
  void restart() { areas_.clear(); }

 private:
  struct Area {
    uint64_t address = 0;  // 0 if it is not mapped yet
    uint64_t staged = 0;   // bytes in use for arguments
  };

  Focus& focus_;
  std::map<NodeId, Area> areas_;
};

}  // namespace friday
