#include "core/trace/event_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/trace/calls.h"
#include "core/trace/event_text.h"
#include "core/trace/mark.h"
#include "core/trace/payload.h"
#include "core/trace/told.h"

namespace friday {

using nlohmann::json;

json event_json(NodeId node, const EventView& event, std::optional<double> seconds, const ChannelTable& channels,
                uint64_t offset) {
  json out = {{"mark", text_of(Position(Mark{node, {event->index}}))},
              {"seconds", seconds ? json(*seconds) : json()},
              {"event", event->index},
              {"thread", event.thread()},
              {"thread_sequence", event->thread_seq},
              {"type", record_type_name(event.type())},
              {"entry_ticks", event->entry_ticks},
              {"return_ticks", event.return_ticks()},
              {"result", event->result},
              {"input_hash", fmt::format("{:016x}", event.input_hash())},
              {"arguments", json::array()},
              {"parts", json::array()}};
  if (event.has_call()) out["call"] = call_text(event->call);
  if (event.is_clock())
    out["clock"] = {
        {"address", event.clock_address()}, {"seconds", event.clock_seconds()}, {"fraction", event.clock_fraction()}};
  if (event.type() == format::kSignal) out["signal"] = signal_text(event->call);
  if (event.type() == format::kYield) out["yield"] = what_text(event);
  for (uint64_t a : event.arguments()) out["arguments"].push_back(a);
  for (PartView part : event.parts()) {
    json p = {{"kind", part.kind()}, {"size", part.bytes().size()}};
    if (part.address()) p["address"] = part.address();
    if (part.kind() == format::kMemory || part.kind() == format::kOutput) p["preview"] = preview(part.bytes());
    if (part.kind() == format::kPath) p["path"] = std::string(part.text());
    if (const auto* t = part.transfer()) {
      p["channel"] = t->channel, p["offset"] = t->offset, p["length"] = t->length, p["true_length"] = t->true_length;
      p["direction"] = t->direction == format::kIn ? "in" : "out";
      p["hash"] = fmt::format("{:016x}", t->hash);
      p["flags"] = t->flags;
      p["unseen"] = trace_payloads().known(*t) == PayloadKnown::length;
      if (std::string peer = channels.peer_text(part, offset); !peer.empty()) p["peer"] = peer;
    }
    if (const auto* map = part.shared_map())
      p["object"] = map->object, p["offset"] = map->offset, p["length"] = map->length, p["address"] = map->address,
      p["flags"] = map->flags;
    if (const auto* change = part.shared_write())
      p["object"] = change->object, p["offset"] = change->offset, p["length"] = change->length,
      p["change"] = change->change;
    if (const auto* state = part.state())
      p["stack_bytes"] = state->stack_bytes, p["memory_bytes"] = state->memory_bytes;
    if (const auto* wait = part.wait()) {
      const auto status = status_told(event);
      p["pid"] = wait->pid, p["status"] = status ? json(*status) : json();
    }
    if (const auto* child = part.child()) p["thread"] = child->thread, p["pid"] = child->pid;
    out["parts"].push_back(std::move(p));
  }
  return out;
}

}  // namespace friday
