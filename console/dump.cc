#include "console/dump.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/say.h"
#include "core/trace/address.h"
#include "core/trace/calls.h"
#include "core/trace/event_json.h"
#include "core/trace/event_text.h"
#include "core/trace/logical_time.h"
#include "core/trace/node_list.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"
#include "core/trace/told.h"

namespace friday {
namespace {

struct DumpOptions {
  std::string recording, node;
  bool as_json = false;
};

std::string transfer_flags(const format::TransferPart& transfer) {
  static constexpr std::pair<uint16_t, const char*> kNames[] = {{format::kPeek, ", peek"},
                                                                {format::kTruncated, ", truncated"},
                                                                {format::kOutOfBand, ", out of band"},
                                                                {format::kEndOfStream, ", end of stream"}};
  std::string text;
  for (auto [flag, name] : kNames)
    if (transfer.flags & flag) text += name;
  return text;
}

std::string parts_text(const EventView& event, const ChannelTable& channels) {
  std::string text = clock_text(event);
  for (PartView part : event.parts()) {
    if (const auto* t = part.transfer()) {
      text += fmt::format("  {} channel {} at {}, {} bytes{}{}", t->direction == format::kIn ? "<-" : "->", t->channel,
                          t->offset, t->length, trace_payloads().known(*t) == PayloadKnown::length ? " unseen" : "",
                          transfer_flags(*t));
      if (std::string peer = channels.peer_text(part); !peer.empty()) text += fmt::format(", peer {}", peer);
    } else if (const auto* wait = part.wait()) {
      const auto status = status_told(event);
      text += fmt::format("  waited for process {}, {}", wait->pid,
                          status ? fmt::format("status {:#x}", *status) : "of whose status it was not told");
    } else if (const auto* content = part.map_content()) {
      text += fmt::format("  maps {} bytes at {} of its file", content->length, content->offset);
    } else if (const auto* map = part.shared_map()) {
      text += map->flags & format::kUnmapped ? fmt::format("  detaches shared memory at {:#x}", map->address)
              : map->flags & format::kInherited
                  ? fmt::format("  {} bytes shared with children to come", map->length)
                  : fmt::format("  shared memory {}, {} bytes at {} of it{}", map->object, map->length, map->offset,
                                map->flags & format::kObjectIsNew ? ", new" : "");
    } else if (const auto* change = part.shared_write()) {
      static constexpr const char* kDone[] = {"changes", "writes", "clears", "sets size", "allocates", "copies"};
      text += fmt::format("  {} {} bytes at {} of shared memory {}",
                          kDone[change->change < std::size(kDone) ? change->change : 0], change->length, change->offset,
                          change->object);
    } else if (const auto* word = part.owner_died()) {
      text += fmt::format("  [{:#x}]={:#x}, of a mutex whose owner died", part.address(), word->value);
    } else if (part.kind() == format::kSignalInfo && part.bytes().size() >= 20) {
      int32_t words[5];  // the first fields of siginfo_t: si_signo, si_errno, si_code, padding, si_pid
      memcpy(words, part.bytes().data(), sizeof words);
      text += fmt::format("  code {}, from process {}", words[2], words[4]);
    } else if (part.kind() == format::kMemory && !part.bytes().empty()) {
      text += fmt::format("  [{:#x}]={} \"{}\"", part.address(), part.bytes().size(), preview(part.bytes()));
    } else if (part.kind() == format::kPath) {
      text += fmt::format("  \"{}\"", part.text());
    } else if (const auto* child = part.child()) {
      text += child->thread ? fmt::format("  thread {} (tid {})", child->thread, child->pid)
                            : fmt::format("  process {}", child->pid);
    }
    if (text.size() > 400) return text + "  ...";
  }
  return text;
}

// The event's logical time in seconds. None if the group has no schedule, or if the schedule was computed before the
// event was recorded.
std::optional<double> seconds_at(const Schedule* schedule, NodeId node, const EventView& event) {
  if (!schedule || std::ranges::find(schedule->nodes(), node) == schedule->nodes().end() ||
      event->index >= schedule->event_count(node))
    return std::nullopt;
  return schedule->seconds_of(node, {event->index});
}

void print_event(const EventView& event, std::optional<double> seconds, const ChannelTable& channels) {
  const std::string at = seconds ? fmt::format("{:.6f}", *seconds) : "-";
  std::string line =
      fmt::format("{:>8} {:>12} thread {:<3} {:<8} {}{}{}", event->index, at, event.thread(),
                  record_type_name(event.type()), what_text(event), result_text(event), parts_text(event, channels));
  say("{}\n", line);
}

Result<void> dump_node(const TraceReader& reader, const Schedule* schedule, bool as_json) {
  ChannelTable channels;
  RecordCursor cursor = reader.records();
  while (cursor.next()) {
    channels.add(cursor.record());
    if (!cursor.record().is_event()) continue;
    const EventView event = cursor.record().event();
    const auto seconds = seconds_at(schedule, reader.node(), event);
    if (as_json) say_json(event_json(event, seconds, channels, cursor.record().offset()), -1);
    else print_event(event, seconds, channels);
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  return {};
}

int run_dump(const DumpOptions& options) {
  auto recording = Recording::open(options.recording);
  if (!recording) return complain("dump", recording.error());
  auto nodes = parse_node_list(*recording, options.node);
  if (!nodes) return complain("dump", nodes.error());
  auto schedule = Schedule::load_or_compute(*recording);
  if (!schedule)
    (void)complain("dump", {schedule.error().code,
                            "no times are shown, as the group's events have no order: " + schedule.error().message,
                            schedule.error().node});
  for (NodeId id : *nodes) {
    auto reader = TraceReader::open(*recording, id);
    if (!reader) return complain("dump", reader.error());
    if (nodes->size() > 1 && !options.as_json) say("node {} {}\n", id, recording->find(id)->name);
    if (auto printed = dump_node(*reader, schedule ? &*schedule : nullptr, options.as_json); !printed)
      return complain("dump", printed.error());
  }
  return 0;
}

}  // namespace

void add_dump_command(CLI::App& app, int* status) {
  auto options = std::make_shared<DumpOptions>();
  auto* command = app.add_subcommand("dump", "Print the recorded events of a node, a line each");
  command->add_option("recording", options->recording, "The recording")->required();
  command->add_option("--node", options->node, "The node: a number, a name or a list")->required();
  command->add_flag("--json", options->as_json, "Print a JSON object a line");
  command->footer("Example:\n  friday dump REC --node 3");
  command->callback([options, status] { *status = run_dump(*options); });
}

}  // namespace friday
