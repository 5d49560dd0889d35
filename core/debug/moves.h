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
  Moves(Backward& backward, Alterations& alterations) : backward_(backward), alterations_(alterations) {}

  // Call before a command of the user moves the group. What was taken back cannot be made again any more. What is
  // altered belongs to the place.
  void note();
  // Call if the command has not moved it after all.
  void drop();
  // Brings the group to where it stood before the last move, or before the last undo(), altered as it was then. None if
  // there is no such place.
  Result<std::optional<DebugStop>> undo() { return go_back(undone_, redone_); }
  Result<std::optional<DebugStop>> redo() { return go_back(redone_, undone_); }
  // The same as undo() with the place of the last note(), for good: redo() does not go where the group is now. Fails
  // with unsupported if that place could not be remembered.
  Result<void> come_back();
  // Call when all nodes are rebuilt.
  void clear();

 private:
  struct Place {
    Backward::Remembered where;
    Alterations::Since altered;
  };
  using Places = std::deque<Place>;  // the last one at the back
  Result<DebugStop> go_to(const Place& place);
  Result<std::optional<DebugStop>> go_back(Places& from, Places& other);
  bool keep(Places& places);

  Backward& backward_;
  Alterations& alterations_;
  Places undone_, redone_;
  bool noted_ = false;  // the last note() has remembered a place
};

}  // namespace friday
