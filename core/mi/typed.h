// Typed forms of the MI records that Friday uses: stops, frames, threads, breakpoints. Only this file knows gdb's field
// names and reason strings. An absent field is empty and not an error, unless the record would be useless without it.
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
  std::string function, file, full_name, from;  // `from` is the library, for a frame without source
  std::optional<uint32_t> line;
  std::vector<std::pair<std::string, std::string>> arguments;  // name, printed value
};

enum class MiStopReason {
  none,  // gdb gives no reason, as after attaching, or for a stop that the target requested
  breakpoint_hit,
  watchpoint_trigger,  // also read and access watchpoints
  watchpoint_scope,    // the frame of a watched local variable has ended
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
  std::string reason_text;             // gdb's reason string; empty if gdb gave none
  std::optional<uint32_t> breakpoint;  // number of the breakpoint or watchpoint
  std::optional<uint32_t> thread;      // gdb's thread number
  bool all_threads = false;            // stopped-threads="all"
  std::optional<MiFrame> frame;
  std::string signal, signal_meaning;  // SIGSEGV, "Segmentation fault"
  std::optional<int> exit_code;
  std::string watch_expression, old_value, new_value;
  std::string returned;  // for function_finished: "$1 = 5"; empty if the function returns nothing
};

struct MiThread {
  uint32_t id = 0;
  std::string target_id, name, state;
  std::optional<MiFrame> frame;
  bool current = false;
};

struct MiBreakpointLocation {
  std::string number;  // for example "1.2"; the breakpoint's own number if it has only one location
  std::optional<Addr> address;
  std::string function, file, full_name;
  std::optional<uint32_t> line;
  bool enabled = true;
};

struct MiBreakpoint {
  uint32_t number = 0;
  std::string type{}, disposition{}, original_location{}, condition{}, what{};
  bool enabled = true;
  bool pending = false;  // it has no location yet
  uint64_t hits = 0;
  std::vector<MiBreakpointLocation> locations{};
};

MiFrame frame_of(const MiValue& fields);

// Converts "*stopped"; empty for any other record.
std::optional<MiStop> stop_of(const AsyncRecord& record);
// True for "*running".
bool is_running(const AsyncRecord& record);

// Results of -thread-info, -stack-list-frames and -data-evaluate-expression.
std::vector<MiThread> threads_of(const ResultRecord& record);
std::vector<MiFrame> frames_of(const ResultRecord& record);
Result<std::string> value_of(const ResultRecord& record);

// The JSON text in the result of a -friday-... command (core/mi/gdb_friday.py).
Result<std::string> json_of(const ResultRecord& record);

// Converts the results of -break-insert, -break-watch, -break-list and -break-info, and the records =breakpoint-created
// and =breakpoint-modified; both in mi3 form (locations=[..]) and in the older one, where locations follow as bare
// tuples.
std::vector<MiBreakpoint> breakpoints_of(const MiValue& fields);

// Converts an ^error record of gdb to an Error with gdb's message.
Error error_of(const ResultRecord& record);

}  // namespace friday
