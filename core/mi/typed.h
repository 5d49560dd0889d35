// Typed forms of the MI records that Friday uses: stops, frames, threads, breakpoints. This is the one place that knows
// gdb's field names and reason strings; no other file compares them. Absent fields are empty, never an error, except
// where a record would be useless without them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/mi/parser.h"

namespace friday {

struct MiFrame {
  std::optional<uint32_t> level;
  std::optional<Addr> address;
  std::string function, file, full_name, from;  // from: the library, when there is no source
  std::optional<uint32_t> line;
  std::vector<std::pair<std::string, std::string>> arguments;  // name, printed value
};

enum class MiStopReason {
  none,  // gdb gives no reason, as after attaching or for a stop the target asked for
  breakpoint_hit,
  watchpoint_trigger,  // also read and access watchpoints
  watchpoint_scope,    // a local watch whose frame has gone
  function_finished,
  location_reached,
  end_stepping_range,
  signal_received,
  exited,
  exited_signalled,
  no_history,  // reverse execution reached the start of the recording
  other,       // fork, exec, solib-event, ...: see reason_text
};

struct MiStop {
  MiStopReason reason = MiStopReason::none;
  std::string reason_text;             // gdb's word, empty when it gave none
  std::optional<uint32_t> breakpoint;  // number of the breakpoint or watchpoint
  std::optional<uint32_t> thread;      // gdb's thread number
  bool all_threads = false;            // stopped-threads="all"
  std::optional<MiFrame> frame;
  std::string signal, signal_meaning;  // SIGSEGV, "Segmentation fault"
  std::optional<int> exit_code;
  std::string watch_expression, old_value, new_value;
};

struct MiThread {
  uint32_t id = 0;
  std::string target_id, name, state;
  std::optional<MiFrame> frame;
  bool current = false;
};

struct MiBreakpointLocation {
  std::string number;  // "1.2"; the breakpoint's own number when it has one location
  std::optional<Addr> address;
  std::string function, file, full_name;
  std::optional<uint32_t> line;
  bool enabled = true;
};

struct MiBreakpoint {
  uint32_t number = 0;
  std::string type{}, disposition{}, original_location{}, condition{}, what{};
  bool enabled = true;
  bool pending = false;  // no location yet
  uint64_t hits = 0;
  std::vector<MiBreakpointLocation> locations{};
};

MiFrame frame_of(const MiValue& fields);

// "*stopped"; empty for any other record.
std::optional<MiStop> stop_of(const AsyncRecord& record);
// "*running"; empty for any other record.
bool is_running(const AsyncRecord& record);

// -thread-info, -stack-list-frames, -data-evaluate-expression.
std::vector<MiThread> threads_of(const ResultRecord& record);
std::vector<MiFrame> frames_of(const ResultRecord& record);
Result<std::string> value_of(const ResultRecord& record);

// The JSON text of a -friday-... command of core/mi/gdb_friday.py.
Result<std::string> json_of(const ResultRecord& record);

// -break-insert, -break-watch, -break-list, -break-info and =breakpoint-created / -modified, in the mi3 form
// (locations=[..]) and in the older one (the locations follow as bare tuples).
std::vector<MiBreakpoint> breakpoints_of(const MiValue& fields);

// gdb's ^error as an Error, with gdb's own words.
Error error_of(const ResultRecord& record);

}  // namespace friday
