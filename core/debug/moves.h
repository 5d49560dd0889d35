// The last moves of the user, to be taken back: each is the place where the group stood before. A place is a
// checkpoint, so coming back to it takes no run.
//
// Owned by the Debugger; use on the session's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/debug/alterations.h"
#include "core/debug/backward.h"
#include "core/debug/debug_stop.h"

namespace friday {

class Moves {
 public:
  Moves(Backward& backward, Alterations& alterations) : backward_(backward), alterations_(alterations) {}

  // A place to which the group has come back, with the tag that it was noted with.
  struct Undone {
    DebugStop stop;
    uint64_t tag = 0;
  };
  // Call before a command of the user moves the group. What was taken back cannot be made again any more. What is
  // altered belongs to the place. `tag` is the caller's.
  void note(uint64_t tag);
  // Call if the command has not moved it after all.
  void drop();
  // Brings the group to where it stood before the last move, or before the last undo(), altered as it was then. None if
  // there is no such place. `tag`: for the place where it stands now.
  Result<std::optional<Undone>> undo(uint64_t tag) { return go_back(undone_, redone_, tag); }
  Result<std::optional<Undone>> redo(uint64_t tag) { return go_back(redone_, undone_, tag); }
  // The same as undo() with the place of the last note(), for good: redo() does not go where the group is now. Fails
  // with unsupported if that place could not be remembered.
  Result<void> come_back();
  // Call when all nodes are rebuilt.
  void clear();

 private:
  struct Place {
    Backward::Remembered where;
    Alterations::Since altered;
    uint64_t tag = 0;
  };
  using Places = std::deque<Place>;  // the last one at the back
  Result<DebugStop> go_to(const Place& place);
  Result<std::optional<Undone>> go_back(Places& from, Places& other, uint64_t tag);
  bool keep(Places& places, uint64_t tag);

  Backward& backward_;
  Alterations& alterations_;
  Places undone_, redone_;
  bool noted_ = false;  // the last note() has remembered a place
};

}  // namespace friday
