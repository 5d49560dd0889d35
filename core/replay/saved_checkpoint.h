// Checkpoints that a recording holds, in its directory checkpoints/: the state of the whole group at a consistent cut
// at which each live node waits before its next event. A session that opens the recording, on any machine, comes there
// without replaying what lies before. docs/trace-format.md describes the files.
//
// A checkpoint is named by the number of events that all nodes together have completed. Of its memory it holds what is
// neither that of a file of the recording nor that of the node's start image, and each page once for all checkpoints
// (page_store.h). A node that had ended is kept without its process, so its memory cannot be read there.
//
// Whoever made the files is not trusted: what they say is put into processes that are confined (confinement.h), which
// have as many rights as their recorded code. A file that is damaged, or of another recording, fails with bad_input.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/replay/checkpoint.h"
#include "core/replay/page_store.h"

namespace friday {

class ReplaySession;

// The checkpoints that the recording holds, rising.
Result<std::vector<uint64_t>> saved_checkpoints(const Recording& recording);
// Removes all of them.
Result<void> remove_saved_checkpoints(const Recording& recording);

class SavedCheckpoint {
 public:
  // Of how many pages a checkpoint tells, and how many of them no earlier one had.
  struct Size {
    uint64_t pages = 0, new_pages = 0;
  };
  // Writes a checkpoint of the session. `start` is one of its start. Fails with unsupported where the state cannot be
  // described by a file; then nothing is left of it.
  static Result<Size> save(ReplaySession& session, const GroupCheckpoint& here, const GroupCheckpoint& start,
                           PageStore& pages);
  // Makes the checkpoint of this number of events ready for ReplaySession::restore(). The group may stand anywhere.
  static Result<std::unique_ptr<GroupCheckpoint>> load(ReplaySession& session, uint64_t events,
                                                       const GroupCheckpoint& start);
  // Tells the store which pages the checkpoints of the recording already have there.
  static void note_pages(const Recording& recording, PageStore& pages);

 private:
  class Saver;
  class Loader;
};

}  // namespace friday
