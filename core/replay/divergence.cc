#include "core/replay/divergence.h"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "core/base/counted.h"
#include "core/base/printable.h"
#include "core/replay/node.h"
#include "core/trace/calls.h"
#include "core/trace/event_text.h"
#include "core/trace/logical_time.h"
#include "core/trace/mark.h"
#include "core/trace/recording.h"

namespace friday {
namespace {

constexpr uint64_t kAround = 5;       // events shown before and after the one that differs
constexpr size_t kLongestChain = 12;  // frames of the call stack that are shown

const char* kind_name(uint32_t kind) {
  switch (kind) {
    case shim::kDivergedType: return "type";
    case shim::kDivergedCall: return "call";
    case shim::kDivergedThread:
    case shim::kDivergedAbsent: return "thread";
    case shim::kDivergedArgument: return "argument";
    case shim::kDivergedInput: return "input";
    case shim::kDivergedNative: return "result";
    case shim::kDivergedState: return "state";
    default: return "damaged";
  }
}

const CallRule* rule_of(unsigned call) {
  for (const CallRule& rule : call_rules())
    if (rule.number == call) return &rule;
  return nullptr;
}

// The first bytes of what the call passes to the kernel, if calls.def describes that as a buffer or a string.
std::string glance_at_input(ReplayNode& node, const CallRule& rule, std::span<const uint64_t> arguments) {
  constexpr size_t kGlance = 48;
  const size_t inputs = rule.detail.find("INS(");
  if (inputs == std::string_view::npos) return {};
  const std::string detail(rule.detail.substr(inputs + 4));
  unsigned address = 0, length = 0;
  const bool buffer = sscanf(detail.c_str(), "BUF(%u, %u)", &address, &length) == 2;
  if (!buffer && sscanf(detail.c_str(), "STR(%u)", &address) != 1) return {};
  if (address >= arguments.size() || (buffer && length >= arguments.size())) return {};
  std::vector<std::byte> bytes(buffer ? std::min<uint64_t>(arguments[length], kGlance + 1) : 256);
  while (!bytes.empty() && !node.read(Addr{arguments[address]}, bytes)) bytes.resize(bytes.size() / 2);
  if (!buffer) bytes.resize(static_cast<size_t>(std::find(bytes.begin(), bytes.end(), std::byte{0}) - bytes.begin()));
  return bytes.empty() ? std::string() : fmt::format("  \"{}\"", preview(bytes, kGlance));
}

// What the thread does instead of the recorded event: a call with its arguments, or another kind of event.
std::string actual_line(ReplayNode& node, const shim::DivergenceReport& report, ThreadId thread) {
  std::string line =
      fmt::format("thread {} {}", report.actual_thread, record_type_name(static_cast<uint16_t>(report.actual_type)));
  if (report.actual_type < format::kCall || report.actual_type > format::kReturn) return line;
  auto r = node.registers(thread);
  const CallRule* rule = rule_of(report.actual_call);
  if (!r || !rule) return line + " " + call_text(report.actual_call);
  const uint64_t passed[] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};
  const std::span<const uint64_t> arguments(passed, std::min<size_t>(rule->arity, 6));
  return line + " " + call_with_arguments(report.actual_call, arguments) + glance_at_input(node, *rule, arguments);
}

// Names the part of the state that differs.
std::string state_text(ReplayNode& node, const shim::DivergenceReport& report) {
  if (report.which == shim::kStateRegisters) return "the registers";
  for (RecordCursor cursor = node.reader().records(); cursor.next();) {
    if (!cursor.record().is_event() || cursor.record().event()->index != report.event) continue;
    for (PartView part : cursor.record().event().parts())
      if (const auto* state = part.state()) {
        if (report.which == shim::kStateStack)
          return fmt::format("the {} bytes above the stack pointer", state->stack_bytes);
        if (state->memory != report.expected) continue;  // at the end of a process there are several state parts
        return fmt::format("{} of data at {:#x}", counted(state->memory_bytes, "byte"), state->address);
      }
  }
  return "parts of the state";
}

// Appends to the two lines what they do not show by themselves.
void say_what_differs(Divergence& d, ReplayNode& node, const shim::DivergenceReport& report) {
  auto both = [&](std::string_view format, const auto& recorded, const auto& replayed) {
    d.expected += fmt::format(fmt::runtime(format), recorded);
    d.actual += fmt::format(fmt::runtime(format), replayed);
  };
  switch (report.kind) {
    case shim::kDivergedArgument:
      if (report.actual_type == format::kYield)  // format::YieldKind says what its arguments are
        return both(report.which == 0 ? "   [the number of such places that it has passed is {}]"
                                      : "   [the registers there hash to {:016x}]",
                    report.expected, report.actual);
      both(fmt::format("   [argument {} is {{0:#x}} ({{0}})]", report.which + 1), report.expected, report.actual);
      break;
    case shim::kDivergedInput:
      both("   [what it reads from memory hashes to {:016x}]", report.expected, report.actual);
      break;
    case shim::kDivergedNative: both("   [the call gave {:#x}]", report.expected, report.actual); break;
    case shim::kDivergedState:
      both("   [" + state_text(node, report) + " at the call hash to {:016x}]", report.expected, report.actual);
      break;
    case shim::kDivergedAbsent: d.actual += fmt::format("   [there is no thread {}]", report.expected); break;
    default: break;
  }
}

Divergence about(ReplayNode& node, const Schedule& schedule, uint64_t event, ThreadId thread, uint64_t site) {
  Divergence d;
  d.node = node.id();
  d.node_name = node.info().name;
  d.thread = thread;
  d.event = {event};
  if (const uint64_t count = schedule.event_count(d.node)) {
    const EventIndex shown{std::min(event, count - 1)};
    d.time = schedule.time_of(d.node, shown);
    d.realtime_ns = schedule.realtime_ns(d.node, shown);
    d.since_start = schedule.seconds_of(d.node, shown);
  }
  d.chain = call_chain(node, thread, site, kLongestChain);
  for (RecordCursor cursor = node.reader().records(); cursor.next();) {
    if (!cursor.record().is_event()) continue;
    EventView record = cursor.record().event();
    if (record->index > event + kAround) break;
    if (record->index + kAround < event) continue;
    const bool here = record->index == event;
    d.around.push_back({record->index, here, event_line(record)});
    if (here) d.expected = d.around.back().line;
  }
  return d;
}

std::string no_more(const ReplayNode& node) {
  const NodeEnd& end = node.info().end;
  return fmt::format("no more events: the program {}{}", end.how == NodeEnd::How::signal ? "was " : "", describe(end));
}

std::string utc(int64_t ns) {
  const time_t seconds = ns / 1'000'000'000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return fmt::format("{}.{:06} UTC", text, ns % 1'000'000'000 / 1000);
}

}  // namespace

Divergence explain(ReplayNode& node, const Schedule& schedule, const shim::DivergenceReport& report, ThreadId thread) {
  Divergence d = about(node, schedule, report.event, thread, node.call_site(thread));
  d.kind = kind_name(report.kind);
  const bool call = report.actual_type >= format::kCall && report.actual_type <= format::kReturn;
  d.call = call ? call_text(report.actual_call) : record_type_name(static_cast<uint16_t>(report.actual_type));
  if (d.expected.empty())
    d.expected =
        fmt::format("thread {} {} {}", report.expected_thread,
                    record_type_name(static_cast<uint16_t>(report.expected_type)), call_text(report.expected_call));
  d.actual = actual_line(node, report, thread);
  say_what_differs(d, node, report);
  return d;
}

Divergence explain_death(ReplayNode& node, const Schedule& schedule, ThreadId thread, int signal,
                         std::optional<Addr> recorded) {
  Divergence d = about(node, schedule, node.events_done(), thread, 0);
  d.kind = "end";
  d.call = signal_text(signal);
  if (d.expected.empty()) d.expected = no_more(node);
  d.actual = fmt::format("thread {} dies of {}", thread.value, signal_text(signal));
  if (recorded) d.expected += fmt::format(" at {:#x}", recorded->value);
  if (auto r = node.registers(thread); r && recorded) d.actual += fmt::format(" at {:#x}", r->rip);
  return d;
}

Divergence explain_overrun(ReplayNode& node, const Schedule& schedule, ThreadId thread) {
  shim::DivergenceReport report{};
  report.actual_type = format::kCall;
  report.actual_thread = thread.value;
  if (auto r = node.registers(thread)) report.actual_call = static_cast<uint32_t>(r->rax);
  Divergence d = about(node, schedule, node.events_done(), thread, node.call_site(thread));
  d.kind = "end";
  d.call = call_text(report.actual_call);
  d.expected = no_more(node);
  d.actual = actual_line(node, report, thread);
  return d;
}

Divergence explain_discontinuity(ReplayNode& node, const Schedule& schedule, ThreadId thread, NodeId next,
                                 const Discontinuity& found) {
  Divergence d = about(node, schedule, node.events_done(), thread, node.call_site(thread));
  d.kind = "memory";
  d.call = "the beginning of its next part";
  const auto bytes = [](std::span<const std::byte> data) {
    std::string text;
    for (std::byte byte : data) text += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
    return text.empty() ? " nothing is mapped there" : text;
  };
  d.expected =
      fmt::format("the memory at {:#x}, with which node {} begins:{}", found.address, next, bytes(found.recorded));
  d.actual =
      fmt::format("the memory at {:#x}, at the end of node {}:{}", found.address, node.id(), bytes(found.replayed));
  return d;
}

std::string describe(const Divergence& d) {
  std::string out = fmt::format("divergence: node {} ({}), thread {}, event {} ({}): the {} differs\n", d.node,
                                printable(d.node_name), d.thread.value, d.event.value, d.call, d.kind);
  out += fmt::format("  at {:.6f} s of logical time, {}\n", d.since_start, utc(d.realtime_ns));
  for (size_t n = 0; n < d.chain.size(); n++)
    out += fmt::format("  {} {}\n", n == 0 ? "in       " : "called by", text(d.chain[n]));
  out += fmt::format("- recorded: {}\n+ replayed: {}\n", d.expected, d.actual);
  out += "events of this node around it (-> is the one that differs):\n";
  for (const NeighbourEvent& event : d.around)
    out += fmt::format("{} {:>8}  {}\n", event.differs ? "->" : "  ", event.index, event.line);
  for (const std::string& cause : d.causes) out += fmt::format("This may be why: {}\n", cause);
  if (d.causes.empty()) out += "None of the limits in `friday help determinism` was seen to be the cause.\n";
  return out;
}

nlohmann::json to_json(const Divergence& d) {
  using nlohmann::json;
  json out = {{"text", describe(d)},
              {"node", d.node.value},
              {"name", d.node_name},
              {"thread", d.thread.value},
              {"event", d.event.value},
              {"mark", text_of(Mark{d.node, d.event})},
              {"kind", d.kind},
              {"call", d.call},
              {"logical_time", d.since_start},
              {"real_time", static_cast<double>(d.realtime_ns) / 1e9},
              {"expected", d.expected},
              {"actual", d.actual},
              {"causes", d.causes},
              {"chain", json::array()},
              {"events", json::array()}};
  for (const CodePlace& p : d.chain)
    out["chain"].push_back({{"address", p.address},
                            {"function", p.function},
                            {"offset", p.offset},
                            {"module", p.module},
                            {"module_offset", p.module_offset},
                            {"file", p.file},
                            {"line", p.line},
                            {"text", text(p)}});
  for (const NeighbourEvent& event : d.around)
    out["events"].push_back({{"index", event.index}, {"differs", event.differs}, {"text", event.line}});
  return out;
}

}  // namespace friday
