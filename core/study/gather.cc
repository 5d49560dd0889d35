// From a recording to what was said in it. A message is what one call sent; what somebody sent who was not recorded is
// a message as far as one call received it.
#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/study/talk.h"
#include "core/trace/facts.h"
#include "core/trace/logical_time.h"

namespace friday {
namespace {

using End = std::tuple<uint32_t, uint64_t, uint32_t>;  // node id, event, which transfer of the event

End receiver_of(const Edge& edge) { return {edge.to.value, edge.to_event, edge.place.received_in}; }

class Gatherer {
 public:
  Gatherer(const Recording& recording, const Schedule& schedule, const FactSet& facts)
      : schedule_(schedule), facts_(facts) {
    std::map<std::string, uint32_t> known;
    for (NodeId id : schedule.nodes()) {
      const auto [role, is_new] = known.try_emplace(role_of(recording.find(id)->name), talk_.roles.size());
      if (is_new) talk_.roles.push_back(role->first);
      role_[id.value] = role->second;
    }
    for (const Edge& edge : schedule.edges())
      if (is_message(edge)) edges_.push_back(&edge);
    std::ranges::sort(edges_, {},
                      [](const Edge* edge) { return std::pair(receiver_of(*edge), edge->place.received_at); });
  }

  Talk gather() {
    for (const Channel& channel : facts_.channels)
      if (channel.is_stream() || channel.is_datagram() || channel.kind == format::kChannelPipe) receives_of(channel);
    for (const Channel& channel : facts_.channels)
      if (channel.is_stream() || channel.is_datagram() || channel.kind == format::kChannelPipe) sends_of(channel);
    std::ranges::stable_sort(places_, {}, &Place::position);
    for (const Place& place : places_) talk_.events.push_back(place.event);
    return std::move(talk_);
  }

 private:
  struct Place {
    uint64_t position;  // in the order of all events
    TalkEvent event;
  };
  // A message that is being received.
  struct Open {
    const Edge* edge = nullptr;  // null: its sender was not recorded
    uint64_t event = 0, length = 0;
    std::string text;
  };
  struct Known {
    uint64_t message;
    uint32_t text, partner;
  };

  static bool is_moved(const Channel& channel, const Transfer& transfer) {
    return !(transfer.flags & (format::kPeek | format::kOutOfBand)) && (channel.is_datagram() || transfer.length > 0);
  }

  uint32_t text_number(const std::string& text) {
    const auto [known, is_new] = text_of_.try_emplace(text, talk_.texts.size());
    if (is_new) talk_.texts.push_back(text);
    return known->second;
  }

  void add(NodeId node, uint64_t event, TalkEvent what) {
    what.role = role_.at(node.value);
    what.node = node.value;
    what.event = event;
    what.ns = schedule_.time_of(node, {event}).l - schedule_.origin();
    places_.push_back({schedule_.position_of(node, {event}), what});
  }

  // What a process says to itself, as the wake-up pipes of event loops do, is no message.
  static bool is_own(const Open& open, NodeId node) { return open.edge && open.edge->from == node; }

  void close(Open& open, NodeId node) {
    if (open.length > 0 && !is_own(open, node)) {
      Known known{next_++, open.text.empty() ? TalkEvent::kUnknown : text_number(open.text), role_.at(node.value)};
      uint32_t partner = TalkEvent::kOutside;
      if (open.edge) {
        partner = role_.at(open.edge->from.value);
        const End sender{open.edge->from.value, open.edge->from_event, open.edge->place.sent_in};
        const auto [sent, is_first] = sent_.try_emplace(sender, known);  // a datagram may have several receivers
        if (!is_first) known.message = sent->second.message;
      }
      add(node, open.event,
          {.partner = partner, .text = known.text, .message = known.message, .length = open.length, .sent = 0});
    } else if (open.length > 0) {
      own_.emplace_back(open.edge->from.value, open.edge->from_event, open.edge->place.sent_in);
    }
    open = {};
  }

  void receives_of(const Channel& channel) {
    const NodeId node = facts_.nodes[channel.node].id;
    Open open;
    for (const Transfer& transfer : channel.in) {
      if (!is_moved(channel, transfer)) continue;
      const PayloadAnswer payload = facts_.payload(channel, transfer);
      const auto grow = [&](const Edge* edge, uint64_t at, uint64_t length) {
        const bool goes_on = edge && open.edge && edge->from == open.edge->from &&
                             edge->from_event == open.edge->from_event &&
                             edge->place.sent_in == open.edge->place.sent_in && !channel.is_datagram();
        if (!goes_on) close(open, node);
        if (!goes_on) open.edge = edge;
        open.event = transfer.event;
        open.length += length;
        if (payload && open.text.size() < Talk::kMostBytes)
          open.text += first_bytes(*payload, at, std::min(length, Talk::kMostBytes - open.text.size()));
      };
      uint64_t at = 0;
      for (const Edge* edge : edges_of({node.value, transfer.event, transfer.part})) {
        if (edge->place.received_at > at) grow(nullptr, at, edge->place.received_at - at);
        if (edge->place.received_at < at) continue;  // the network delivered it twice
        grow(edge, at, edge->bytes);
        at += edge->bytes;
      }
      if (at < transfer.length) grow(nullptr, at, transfer.length - at);
    }
    close(open, node);
  }

  void sends_of(const Channel& channel) {
    const NodeId node = facts_.nodes[channel.node].id;
    std::ranges::sort(own_);
    for (const Transfer& transfer : channel.out) {
      const End sender{node.value, transfer.event, transfer.part};
      if (!is_moved(channel, transfer) || std::ranges::binary_search(own_, sender)) continue;
      const auto known = sent_.find(sender);
      TalkEvent event{.length = transfer.length, .sent = 1};
      if (known == sent_.end()) {
        event.message = next_++;
      } else {
        event.message = known->second.message;
        event.text = known->second.text;
        event.partner = known->second.partner;
      }
      add(node, transfer.event, event);
    }
  }

  std::span<const Edge* const> edges_of(const End& receiver) const {
    const auto found =
        std::ranges::equal_range(edges_, receiver, {}, [](const Edge* edge) { return receiver_of(*edge); });
    return {found.begin(), found.end()};
  }

  static std::string first_bytes(const Payload& payload, uint64_t at, uint64_t left) {
    std::string text;
    for (std::span<const std::byte> piece : payload.pieces) {
      const uint64_t skipped = std::min<uint64_t>(at, piece.size());
      at -= skipped;
      piece = piece.subspan(skipped, std::min<uint64_t>(left, piece.size() - skipped));
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      left -= piece.size();
      if (left == 0) break;
    }
    return text;
  }

  const Schedule& schedule_;
  const FactSet& facts_;
  Talk talk_;
  std::map<uint32_t, uint32_t> role_;  // by node id
  std::vector<const Edge*> edges_;     // of messages, by where they were received
  std::map<End, Known> sent_;          // messages that a recorded process received, by where they were sent
  std::vector<End> own_;               // sends of a process to itself
  std::unordered_map<std::string, uint32_t> text_of_;
  std::vector<Place> places_;
  uint64_t next_ = 0;
};

}  // namespace

Result<Talk> Talk::of(const Recording& recording) {
  FRIDAY_TRY(schedule, Schedule::load_or_compute(recording));
  FRIDAY_TRY(facts, FactSet::gather(recording, schedule.nodes()));
  return Gatherer(recording, schedule, facts).gather();
}

}  // namespace friday
