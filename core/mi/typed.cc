#include "core/mi/typed.h"

#include <array>

namespace friday {

namespace {

std::optional<uint32_t> small_number(const MiValue& fields, std::string_view name) {
  auto number = fields.number_of(name);
  if (!number || *number > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

std::optional<Addr> address_of(const MiValue& fields) {
  auto number = fields.number_of("addr");
  if (!number) return std::nullopt;  // for "<MULTIPLE>" or "<PENDING>"
  return Addr{*number};
}

std::string text(const MiValue& fields, std::string_view name) { return std::string(fields.text_of(name)); }

constexpr std::array<std::pair<std::string_view, MiStopReason>, 13> stop_reasons{{
    {"", MiStopReason::none},
    {"breakpoint-hit", MiStopReason::breakpoint_hit},
    {"watchpoint-trigger", MiStopReason::watchpoint_trigger},
    {"read-watchpoint-trigger", MiStopReason::watchpoint_trigger},
    {"access-watchpoint-trigger", MiStopReason::watchpoint_trigger},
    {"watchpoint-scope", MiStopReason::watchpoint_scope},
    {"function-finished", MiStopReason::function_finished},
    {"location-reached", MiStopReason::location_reached},
    {"end-stepping-range", MiStopReason::end_stepping_range},
    {"signal-received", MiStopReason::signal_received},
    {"exited-normally", MiStopReason::exited},
    {"exited", MiStopReason::exited},
    {"exited-signalled", MiStopReason::exited_signalled},
}};

MiStopReason reason_of(std::string_view word) {
  for (auto [known, reason] : stop_reasons)
    if (known == word) return reason;
  return word == "no-history" ? MiStopReason::no_history : MiStopReason::other;
}

// gdb prints the exit code in octal with leading zeros ("exit-code=\"052\"").
std::optional<int> exit_code_of(const MiValue& fields, std::string_view reason) {
  if (reason == "exited-normally") return 0;
  std::string_view digits = fields.text_of("exit-code");
  if (digits.empty()) return std::nullopt;
  int code = 0;
  for (char c : digits) {
    if (c < '0' || c > '7') return std::nullopt;
    code = code * 8 + (c - '0');
  }
  return code;
}

// The number and expression of a watchpoint are in wpt={..}, hw-rwpt={..} or hw-awpt={..}; its values are in
// value={..}.
void read_watch(const MiValue& fields, MiStop& stop) {
  for (const char* name : {"wpt", "hw-rwpt", "hw-awpt"}) {
    const MiValue* watch = fields.find(name);
    if (!watch) continue;
    stop.breakpoint = small_number(*watch, "number");
    stop.watch_expression = text(*watch, "exp");
  }
  const MiValue* value = fields.find("value");
  if (!value) return;
  stop.old_value = text(*value, "old");
  stop.new_value = text(*value, value->find("new") ? "new" : "value");
}

MiBreakpointLocation location_of(const MiValue& fields) {
  return {.number = text(fields, "number"),
          .address = address_of(fields),
          .function = text(fields, "func"),
          .file = text(fields, "file"),
          .full_name = text(fields, "fullname"),
          .line = small_number(fields, "line"),
          .enabled = fields.text_of("enabled") == "y"};
}

MiBreakpoint breakpoint_of(const MiValue& fields) {
  MiBreakpoint breakpoint{.number = small_number(fields, "number").value_or(0),
                          .type = text(fields, "type"),
                          .disposition = text(fields, "disp"),
                          .original_location = text(fields, "original-location"),
                          .condition = text(fields, "cond"),
                          .what = text(fields, "what"),
                          .enabled = fields.text_of("enabled") == "y",
                          .pending = fields.find("pending") != nullptr,
                          .hits = fields.number_of("times").value_or(0)};
  if (const MiValue* locations = fields.find("locations"))
    for (const MiField& location : locations->fields) breakpoint.locations.push_back(location_of(location.value));
  else if (address_of(fields)) breakpoint.locations.push_back(location_of(fields));
  return breakpoint;
}

void collect_breakpoints(const MiValue& fields, std::vector<MiBreakpoint>& breakpoints) {
  for (const auto& [name, value] : fields.fields) {
    if (name == "bkpt") breakpoints.push_back(breakpoint_of(value));
    else if (name == "wpt" || name == "hw-rwpt" ||
             name == "hw-awpt")  // the answer to -break-watch has only number and exp
      breakpoints.push_back(
          {.number = small_number(value, "number").value_or(0), .type = name, .what = text(value, "exp")});
    else if (name == "BreakpointTable") collect_breakpoints(value, breakpoints);
    else if (name == "body") collect_breakpoints(value, breakpoints);
    else if (name.empty() && !breakpoints.empty() && value.kind == MiValue::Kind::tuple)
      breakpoints.back().locations.push_back(location_of(value));
  }
}

}  // namespace

MiFrame frame_of(const MiValue& fields) {
  MiFrame frame{.level = small_number(fields, "level"),
                .address = address_of(fields),
                .function = text(fields, "func"),
                .file = text(fields, "file"),
                .full_name = text(fields, "fullname"),
                .from = text(fields, "from"),
                .line = small_number(fields, "line"),
                .arguments = {}};
  if (const MiValue* arguments = fields.find("args"))
    for (const MiField& argument : arguments->fields)
      frame.arguments.emplace_back(argument.value.text_of("name"), argument.value.text_of("value"));
  return frame;
}

std::optional<MiStop> stop_of(const AsyncRecord& record) {
  if (record.kind != AsyncKind::exec || record.name != "stopped") return std::nullopt;
  const MiValue& fields = record.fields;
  MiStop stop;
  stop.reason_text = text(fields, "reason");
  stop.reason = reason_of(stop.reason_text);
  stop.breakpoint = small_number(fields, "bkptno");
  if (stop.reason == MiStopReason::watchpoint_scope) stop.breakpoint = small_number(fields, "wpnum");
  stop.thread = small_number(fields, "thread-id");
  stop.all_threads = fields.text_of("stopped-threads") == "all";
  if (const MiValue* frame = fields.find("frame")) stop.frame = frame_of(*frame);
  stop.signal = text(fields, "signal-name");
  stop.signal_meaning = text(fields, "signal-meaning");
  stop.exit_code = exit_code_of(fields, stop.reason_text);
  read_watch(fields, stop);
  if (const std::string value = text(fields, "return-value"); !value.empty())
    stop.returned = text(fields, "gdb-result-var") + " = " + value;
  return stop;
}

bool is_running(const AsyncRecord& record) { return record.kind == AsyncKind::exec && record.name == "running"; }

std::vector<MiThread> threads_of(const ResultRecord& record) {
  std::vector<MiThread> threads;
  const MiValue* list = record.fields.find("threads");
  if (!list) return threads;
  auto current = small_number(record.fields, "current-thread-id");
  for (const MiField& field : list->fields) {
    MiThread& thread = threads.emplace_back(MiThread{.id = small_number(field.value, "id").value_or(0),
                                                     .target_id = text(field.value, "target-id"),
                                                     .name = text(field.value, "name"),
                                                     .state = text(field.value, "state"),
                                                     .frame = std::nullopt});
    if (const MiValue* frame = field.value.find("frame")) thread.frame = frame_of(*frame);
    thread.current = current == thread.id;
  }
  return threads;
}

std::vector<MiFrame> frames_of(const ResultRecord& record) {
  std::vector<MiFrame> frames;
  if (const MiValue* stack = record.fields.find("stack"))
    for (const MiField& field : stack->fields) frames.push_back(frame_of(field.value));
  return frames;
}

namespace {

Result<std::string> text_field(const ResultRecord& record, std::string_view name) {
  if (record.is_error()) return std::unexpected(error_of(record));
  const MiValue* value = record.fields.find(name);
  if (!value || value->kind != MiValue::Kind::text)
    return fail(ErrorCode::bad_input, "gdb's answer has no {}: {}", name, to_string(record));
  return value->text;
}

}  // namespace

Result<std::string> value_of(const ResultRecord& record) { return text_field(record, "value"); }

Result<std::string> json_of(const ResultRecord& record) { return text_field(record, "json"); }

std::vector<MiBreakpoint> breakpoints_of(const MiValue& fields) {
  std::vector<MiBreakpoint> breakpoints;
  collect_breakpoints(fields, breakpoints);
  return breakpoints;
}

Error error_of(const ResultRecord& record) {
  std::string message(record.error_message());
  ErrorCode code = ErrorCode::bad_input;
  if (message.starts_with("Cannot access memory")) code = ErrorCode::bad_address;
  else if (message.starts_with("No symbol ") || message.ends_with(" not defined.")) code = ErrorCode::not_found;
  else if (record.fields.text_of("code") == "undefined-command") code = ErrorCode::usage;
  if (message.empty()) message = "gdb refused the command without a reason";
  Error error{.code = code, .message = std::move(message)};
  constexpr std::string_view kWhere = "address 0x";  // from "Cannot access memory at address 0x10"
  if (const size_t at = error.message.find(kWhere); code == ErrorCode::bad_address && at != std::string::npos)
    error.address = strtoull(error.message.c_str() + at + kWhere.size(), nullptr, 16);
  return error;
}

}  // namespace friday
