// The last moves of the user, to be taken back: each is the place where the group stood before. A place is a
// checkpoint, so coming back to it takes no run.
//
// Owned by the Debugger; use on the session's thread only.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "core/debug/alterations.h"
#include "core/debug/backward.h"
#include "core/debug/debug_stop.h"

namespace friday {

class Moves {
 public:
  Moves(Backward& backward, const Alterations& alterations) : backward_(backward), alterations_(alterations) {}

  // Call before a command of the user moves the group. What was taken back cannot be made again any more. A place where
  // the group is altered is not remembered.
  void note();
  // Call if the command has not moved it after all.
  void drop();
  // Brings the group to where it stood before the last move, or before the last undo(). What the user has altered since
  // is dropped. None if there is no such place.
  Result<std::optional<DebugStop>> undo() { return go_back(undone_, redone_); }
  Result<std::optional<DebugStop>> redo() { return go_back(redone_, undone_); }
  // The same as undo() with the place of the last note(), for good: redo() does not go where the group is now. Fails
  // with unsupported if that place could not be remembered.
  Result<void> come_back();
  // Call when all nodes are rebuilt.
  void clear();

 private:
  using Places = std::deque<Backward::Remembered>;  // the last one at the back
  Result<std::optional<DebugStop>> go_back(Places& from, Places& other);
  bool keep(Places& places);

  Backward& backward_;
  const Alterations& alterations_;
  Places undone_, redone_;
  bool noted_ = false;  // the last note() has remembered a place
};

}  // namespace friday
