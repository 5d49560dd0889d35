// What the nodes of a recording wrote to their standard output and standard error (descriptors 1 and 2), as the lines
// of one stream in causal order. The bytes are those that the recorder has kept (format::kOutput); where it has not,
// the number of missing bytes is told.
//
// A write takes effect when it is entered; that is its place in the order. A line's place is that of the write that
// completed it, so the times of lines ascend, and what another node has written meanwhile stands before it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/logical_time.h"
#include "core/trace/reader.h"

namespace friday {

struct OutputWrite {
  uint64_t event;   // at which the call was entered
  uint64_t record;  // offset in the trace of the event that has the call's result, and the bytes if they were kept
  uint64_t length;  // how many bytes were written
  uint64_t stream;  // 1: standard output, 2: standard error

  std::string_view name() const { return stream == 1 ? "out" : "err"; }
};

// Finds the writes in events that are given one after the other.
class OutputFinder {
 public:
  // The write that `event`, which lies at `record`, completes; none for most events.
  std::optional<OutputWrite> add(const EventView& event, uint64_t record);

 private:
  std::map<uint32_t, uint64_t> entered_;  // by thread: the release event of the call that it is in
};

// All writes of a node in the order of their entries. Read from the recording's cache; without one, the whole trace is
// read once.
Result<std::vector<OutputWrite>> outputs_of(const Recording& recording, const TraceReader& reader);

struct OutputText {
  std::string bytes;
  uint64_t missing = 0;  // how many bytes were written behind these
};
OutputText output_text(const EventView& event, const OutputWrite& write);

// A line, without its newline.
struct OutputLine {
  uint64_t event, first_event;  // the writes that have completed and begun it, by the events at which they were entered
  uint64_t stream;              // 1 or 2
  std::string text;
  uint64_t missing = 0;  // bytes that the recording does not have, behind `text`
  bool whole = true;     // false: no newline follows
};

// Puts the writes of one node together to lines.
class LineCutter {
 public:
  static constexpr size_t kLongest = 64 << 10;  // a longer line is given in pieces

  // Appends to `lines` the lines that this write has completed.
  void add(const OutputWrite& write, const OutputText& text, std::vector<OutputLine>& lines);
  // Ends the line of a stream that was begun, because nothing follows.
  void finish(uint64_t stream, std::vector<OutputLine>& lines);

 private:
  struct Begun {
    std::string text;
    uint64_t first_event = 0, event = 0, missing = 0;
    bool any = false;
  };
  void end_line(Begun& begun, uint64_t stream, bool whole, std::vector<OutputLine>& lines);
  std::array<Begun, 3> begun_;
};

// The lines of several nodes in the order of `schedule`, one after the other. Reads the text of a write when it comes
// to it. Belongs to one thread.
class OutputLog {
 public:
  struct Line {
    NodeId node;
    OutputLine line;
  };

  // `nodes` must be scheduled. `schedule` must outlive this.
  static Result<OutputLog> open(const Recording& recording, const Schedule& schedule, std::span<const NodeId> nodes);

  // Leaves out the writes before `position` of the order. Their text is not read, so the first line of a node may lack
  // its beginning.
  void skip_to(uint64_t position);

  // The next line; none at the end.
  Result<std::optional<Line>> next();

 private:
  struct Source {
    NodeId node;
    TraceReader reader;
    std::vector<OutputWrite> writes;
    std::array<size_t, 3> last{};  // by stream: one more than the index of its last write
    size_t at = 0;
    LineCutter cutter;
  };
  explicit OutputLog(const Schedule& schedule) : schedule_(&schedule) {}
  void push(size_t source);
  Result<void> take(Source& source);

  const Schedule* schedule_;
  std::vector<Source> sources_;
  std::vector<std::pair<uint64_t, size_t>> waiting_;  // heap: position of each source's next write, and the source
  std::deque<Line> ready_;
};

}  // namespace friday
