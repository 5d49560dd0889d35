// Room in a node's memory for what expressions need and the program does not have: the user's own variable
// `_friday_workspace`, arguments of calls, and string literals, which gdb would otherwise put on the program's heap by
// calling malloc. It is mapped into the process when it is first needed, at an address that no recorded program uses,
// and the program never sees it.
//
// Expressions own it. Used on the session's thread, while the node stands.
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
  static constexpr uint64_t kSize = 64 << 10;  // bytes of the user's; as much again holds arguments of calls

  explicit Workspace(Focus& focus) : focus_(focus) {}

  // Whether the text names the workspace.
  static bool is_named_in(const std::string& text);
  // Whether the workspace is first named at this position of the text.
  static bool is_named_at(const std::string& text, size_t position);
  // Whether expand() would change the text: it names the workspace, or has string literals.
  static bool is_needed_by(const std::string& text);

  // Where the user's part is; the first call maps it.
  Result<uint64_t> map(ReplayNode& node);
  // Puts data where a call's arguments lie; its address. It stays until forget_staged().
  Result<uint64_t> stage(NodeId node, std::span<const std::byte> data);
  // The call is over: the next one's arguments go to the same place.
  void forget_staged(NodeId node) { areas_[node].staged = 0; }
  // The expression as gdb can understand it: with the workspace's address instead of its name, and with string literals
  // staged.
  Result<std::string> expand(ReplayNode& node, std::string expression);
  // All nodes are built anew, without it.
  void restart() { areas_.clear(); }

 private:
  struct Area {
    uint64_t address = 0;  // 0: not mapped yet
    uint64_t staged = 0;   // bytes
  };

  Focus& focus_;
  std::map<NodeId, Area> areas_;
};

}  // namespace friday
