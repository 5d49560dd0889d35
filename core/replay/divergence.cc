#include "core/replay/divergence.h"

#include <vector>

#include "core/trace/calls.h"

namespace friday {
namespace {

std::string event_kind(uint32_t type) { return record_type_name(static_cast<uint16_t>(type)); }

std::string what_text(uint32_t type, uint32_t call, std::span<const uint64_t> arguments) {
  if (type == format::kSignal) return fmt::format("signal {}", call);
  if (type == format::kInstruction) return "rdtsc or rdrand";
  std::string text = call_text(call) + "(";
  for (size_t i = 0; i < arguments.size(); i++) text += fmt::format("{}{:#x}", i ? ", " : "", arguments[i]);
  return text + ")";
}

std::string line_of(const EventView& event) {
  return fmt::format("thread {} {} {} = {}", event.thread(), event_kind(event.type()), what_text(event.type(), event->call, event.arguments()), event->result);
}

// The module that covers `address`, as "libc.so.6+0x1234".
std::string place_of(const TraceReader& reader, uint64_t address) {
  for (RecordCursor cursor = reader.records(); cursor.next();) {
    if (cursor.record().is_event()) break;
    const auto* module = cursor.record().module();
    if (!module || address < module->low || address >= module->high) continue;
    std::string path(bounded_text(module->path, sizeof module->path));
    return fmt::format("{}+{:#x}", path.substr(path.rfind('/') + 1), address - module->low);
  }
  return {};
}

}  // namespace

Divergence explain(const TraceReader& reader, const std::string& node_name, const shim::DivergenceReport& report, uint64_t call_site) {
  Divergence d;
  d.node = reader.node();
  d.node_name = node_name;
  d.event = {report.event};
  d.report = report;
  d.call_site = call_site;
  if (call_site) d.where = place_of(reader, call_site);
  EventView expected;
  for (RecordCursor cursor = reader.records(); cursor.next();) {
    if (!cursor.record().is_event()) continue;
    EventView event = cursor.record().event();
    if (event->index > report.event + 2) break;
    if (event->index + 3 <= report.event) continue;
    const bool here = event->index == report.event;
    if (here) expected = event;
    d.neighbours += fmt::format("{} {:>8}  {}\n", here ? "->" : "  ", event->index, line_of(event));
  }
  d.expected = expected.operator->() ? line_of(expected) : fmt::format("{} {}", event_kind(report.expected_type), call_text(report.expected_call));
  const std::string actual_call = fmt::format("thread {} {} {}", report.actual_thread, event_kind(report.actual_type), call_text(report.actual_call));
  switch (report.kind) {
    case shim::kDivergedArgument:
      d.actual = fmt::format("{}: argument {} is {:#x}, recorded {:#x}", actual_call, report.which + 1, report.actual, report.expected);
      break;
    case shim::kDivergedInput:
      d.actual = fmt::format("{}: the memory it reads differs (hash {:016x}, recorded {:016x})", actual_call, report.actual, report.expected);
      break;
    case shim::kDivergedNative:
      d.actual = fmt::format("{}: the call made here gave {:#x}, recorded {:#x}", actual_call, report.actual, report.expected);
      break;
    case shim::kDivergedDamaged: d.actual = actual_call + ": the record makes no sense"; break;
    default: d.actual = actual_call; break;
  }
  return d;
}

std::string describe(const Divergence& d) {
  std::string text = fmt::format("divergence: node {} ({}), event {}", d.node, d.node_name, d.event.value);
  if (d.call_site) text += fmt::format(", call site {:#x}{}", d.call_site, d.where.empty() ? "" : " (" + d.where + ")");
  text += fmt::format("\n- recorded: {}\n+ replayed: {}\n", d.expected, d.actual);
  text += "events around (-> is the one that differs):\n" + d.neighbours;
  return text;
}

}  // namespace friday
