#include "console/dump.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/base/pattern.h"
#include "core/replay/restoring.h"
#include "core/trace/address.h"
#include "core/trace/calls.h"
#include "core/trace/event_filter.h"
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
  std::string recording, node, calls, grep, peer;
  std::optional<uint32_t> thread;
  std::optional<double> from, to;
  bool as_json = false;
};

// Which events are printed; all if nothing is set.
struct Chosen {
  std::optional<EventFilter> calls;
  std::optional<Pattern> contents;
  std::string peer;
  std::optional<uint32_t> thread;
  std::optional<double> from, to;  // logical time in seconds

  static Result<Chosen> parse(const DumpOptions& options);
  bool takes(const EventView& event, std::optional<double> seconds, const ChannelTable& channels,
             uint64_t offset) const;

 private:
  bool is_found(const EventView& event) const;
};

Result<Chosen> Chosen::parse(const DumpOptions& options) {
  Chosen chosen{{}, {}, options.peer, options.thread, options.from, options.to};
  if (!options.calls.empty()) {
    FRIDAY_TRY(calls, EventFilter::parse("syscall " + options.calls));
    chosen.calls = std::move(calls);
  }
  if (!options.grep.empty()) {
    FRIDAY_TRY(pattern, Pattern::parse(options.grep));
    chosen.contents = std::move(pattern);
  }
  return chosen;
}

// Whether the pattern is found in what the event moved, stored or named.
bool Chosen::is_found(const EventView& event) const {
  const auto text_of = [](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  uint32_t ordinal = 0;
  for (PartView part : event.parts()) {
    if (part.kind() == format::kMemory || part.kind() == format::kPath)
      if (contents->finds(text_of(part.bytes()))) return true;
    // Payload may lie in several buffers.
    if (part.transfer())
      if (const auto payload = trace_payloads().read(event, ordinal++); payload)
        if (const std::vector<std::byte> bytes = payload->joined(); contents->finds(text_of(bytes))) return true;
  }
  return contents->finds(text_of(kept_output(event)));
}

bool Chosen::takes(const EventView& event, std::optional<double> seconds, const ChannelTable& channels,
                   uint64_t offset) const {
  if (thread && event.thread() != *thread) return false;
  if ((from && (!seconds || *seconds < *from)) || (to && (!seconds || *seconds > *to))) return false;
  if (calls && !calls->is_of(event)) return false;
  if (!peer.empty()) {
    bool met = false;
    for (PartView part : event.parts())
      met |= part.transfer() && channels.peer_text(part, offset).find(peer) != std::string::npos;
    if (!met) return false;
  }
  return !contents || is_found(event);
}

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

// A descriptor that the call has opened, bound or connected, with the addresses that the kernel has told of it.
std::string descriptor_text(const format::DescriptorsPart& opened, const ChannelTable& channels) {
  std::string text = fmt::format("  descriptor {} is channel {}", opened.fd, opened.channel);
  const ChannelDescription* channel = channels.find(opened.channel);
  if (!channel) return text;
  text += fmt::format(", {}", channel_kind_name(channel->kind));
  if (channel->local.known()) text += fmt::format(" at {}", friday::text(channel->local));
  if (channel->remote.known()) text += fmt::format(" to {}", friday::text(channel->remote));
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
    } else if (const std::string address = address_text(event, part); !address.empty()) {
      text += fmt::format("  [{:#x}]={} {}", part.address(), part.bytes().size(), address);
    } else if (part.kind() == format::kMemory && !part.bytes().empty()) {
      text += fmt::format("  [{:#x}]={} \"{}\"", part.address(), part.bytes().size(), preview(part.bytes()));
    } else if (part.kind() == format::kOutput) {
      text += fmt::format("  \"{}\"", preview(part.bytes()));
    } else if (part.kind() == format::kPath) {
      text += fmt::format("  \"{}\"", part.text());
    } else if (!part.descriptors().empty()) {
      for (const auto& opened : part.descriptors()) text += descriptor_text(opened, channels);
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

Result<void> dump_node(const TraceReader& reader, const Schedule* schedule, const Chosen& chosen, bool as_json) {
  ChannelTable channels;
  RecordCursor cursor = reader.records();
  while (cursor.next()) {
    channels.add(cursor.record());
    if (!cursor.record().is_event()) continue;
    const EventView event = cursor.record().event();
    const auto seconds = seconds_at(schedule, reader.node(), event);
    if (!chosen.takes(event, seconds, channels, cursor.record().offset())) continue;
    if (as_json) say_json(event_json(reader.node(), event, seconds, channels, cursor.record().offset()), -1);
    else print_event(event, seconds, channels);
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  return {};
}

// Those that --node says; without it the only one.
Result<std::vector<NodeId>> nodes_of(const Recording& recording, const DumpOptions& options) {
  constexpr size_t kMostNamed = 20;
  const auto& nodes = recording.nodes();
  if (!options.node.empty() || nodes.empty()) return parse_node_list(recording, options.node);
  if (nodes.size() == 1) return std::vector{nodes.front().id};
  std::string names;
  for (size_t i = 0; i < nodes.size() && i < kMostNamed; i++)
    names += fmt::format("{}{} {}", i ? ", " : "", nodes[i].id, nodes[i].name);
  if (nodes.size() > kMostNamed) names += ", ...";
  return fail(ErrorCode::usage, "{} has {}: say with --node which of them (--node '*': all): {}", recording.path(),
              counted(nodes.size(), "node"), names);
}

int run_dump(const DumpOptions& options) {
  const auto chosen = Chosen::parse(options);
  if (!chosen) return complain("dump", chosen.error());
  auto recording = Recording::open(options.recording);
  if (!recording) return complain("dump", recording.error());
  auto nodes = nodes_of(*recording, options);
  if (!nodes) return complain("dump", nodes.error());
  recording = completed(*std::move(recording), {nodes->begin(), nodes->end()}, {library_directory(), false, {}});
  if (!recording) return complain("dump", recording.error());
  auto schedule = Schedule::load_or_compute(*recording);
  if (!schedule)
    (void)complain("dump", {schedule.error().code,
                            "no times are shown, as the group's events have no order: " + schedule.error().message,
                            schedule.error().node});
  for (NodeId id : *nodes) {
    auto reader = TraceReader::open(*recording, id);
    if (!reader) return complain("dump", reader.error());
    if (nodes->size() > 1 && !options.as_json) say("node {} {}\n", id, recording->find(id)->name);
    if (auto printed = dump_node(*reader, schedule ? &*schedule : nullptr, *chosen, options.as_json); !printed)
      return complain("dump", printed.error());
  }
  return 0;
}

}  // namespace

void add_dump_command(CLI::App& app, int* status) {
  auto options = std::make_shared<DumpOptions>();
  auto* command = app.add_subcommand("dump", "Print the recorded events of a node, a line each");
  add_recording(*command, options->recording);
  command->add_option("--node", options->node, "The node: a number, a name or a list (default: the only one)");
  command->add_option("--call", options->calls, "Only these system calls: names or numbers, joined by commas");
  command->add_option("--thread", options->thread, "Only events of the thread with this number");
  command->add_option("--peer", options->peer,
                      "Only calls that moved bytes to or from an address in which this text occurs, such as :7000");
  command->add_option(
      "--grep", options->grep,
      "Only events whose contents (what was received, read, written to the standard output or error, or "
      "a path) match this regular expression");
  command->add_option("--from", options->from, "Only events at or after this logical time in seconds");
  command->add_option("--to", options->to, "Only events up to this logical time in seconds");
  command->add_flag("--json", options->as_json, "Print a JSON object a line");
  command->footer(
      "Examples:\n  friday dump REC --node 3\n  friday dump REC --node 'n*' --call sendto,recvfrom --peer :7000 --from "
      "5.1 "
      "--to 5.3\n  friday dump REC --node 3 --grep 'VOTE|APPEND'");
  command->callback([options, status] { *status = run_dump(*options); });
}

}  // namespace friday
