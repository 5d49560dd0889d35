// From a recording to what was said in it. A message is what one call sent, or a part of it where several messages of a
// known protocol stand in it; what somebody sent who was not recorded is a message as far as one call received it.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/study/descent.h"
#include "core/study/talk.h"
#include "core/trace/facts.h"
#include "core/trace/logical_time.h"
#include "core/trace/messages.h"

namespace friday {
namespace {

using End = std::tuple<uint32_t, uint64_t, uint32_t>;  // node id, event, which transfer of the event

End receiver_of(const Edge& edge) { return {edge.to.value, edge.to_event, edge.place.received_in}; }
End sender_of(const Edge& edge) { return {edge.from.value, edge.from_event, edge.place.sent_in}; }

// The channels whose other end is in the same process, as the wake-up pipes of event loops have: nobody is spoken to.
std::vector<bool> spoken_to_oneself(const FactSet& facts) {
  using Name = std::tuple<uint32_t, Address, Address>;
  std::set<Name> connections;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::pair<bool, bool>> pipes;  // read, written in this process
  for (const Channel& channel : facts.channels) {
    if (channel.local.known() && channel.remote.known())
      connections.insert({channel.node, channel.local, channel.remote});
    if (channel.kind != format::kChannelPipe) continue;
    auto& [read, written] = pipes[{channel.node, channel.device, channel.inode}];
    read |= !channel.in.empty();
    written |= !channel.out.empty();
  }
  std::vector<bool> own;
  for (const Channel& channel : facts.channels) {
    const auto pipe = pipes.find({channel.node, channel.device, channel.inode});
    const bool is_twin = channel.twin != kNoChannel && facts.channel(channel.twin).node == channel.node;
    const bool is_loop = connections.contains({channel.node, channel.remote, channel.local});
    const bool is_pipe = channel.kind == format::kChannelPipe && pipe->second.first && pipe->second.second;
    own.push_back(is_twin || is_loop || is_pipe);
  }
  return own;
}

class Gatherer {
 public:
  // `descent`: what is taken; null: all.
  Gatherer(const Recording& recording, const Schedule& schedule, const FactSet& facts, const Framing& framing,
           const Descent* descent)
      : schedule_(schedule), facts_(facts), framing_(framing), descent_(descent), own_(spoken_to_oneself(facts)) {
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
    for (const Edge* edge : edges_) partner_of_.try_emplace(sender_of(*edge), role_.at(edge->to.value));
  }

  Talk gather() {
    for (uint32_t channel = 0; channel < facts_.channels.size(); channel++)
      if (message_kind(facts_.channel(channel))) receives_of(channel);
    settle();
    for (uint32_t channel = 0; channel < facts_.channels.size(); channel++)
      if (message_kind(facts_.channel(channel))) sends_of(channel);
    std::ranges::stable_sort(places_, {}, &Place::position);
    for (const Place& place : places_) talk_.events.push_back(place.event);
    return std::move(talk_);
  }

 private:
  struct Place {
    uint64_t position;  // in the order of all events
    TalkEvent event;
  };
  // A message, which may be one of several that one call has sent.
  struct Frame {
    uint64_t event;  // that has received the end of it
    uint64_t length;
    std::string text;  // the bytes from the first one on that are known
  };
  // What one call sent, or a part of it, as one process received it.
  struct Received {
    const Edge* edge = nullptr;  // to its first bytes; null: its sender was not recorded
    NodeId node{};
    bool datagram = false;
    std::vector<Frame> frames;
    uint64_t length() const {
      uint64_t sum = 0;
      for (const Frame& frame : frames) sum += frame.length;
      return sum;
    }
  };
  // The same while it comes.
  struct Incoming {
    Received received;
    std::vector<std::pair<uint64_t, uint64_t>> reached;  // how many bytes had come with an event
    uint64_t length = 0;
    std::string text;       // the bytes from the first one on that are known
    bool in_a_row = false;  // no byte is missing so far
  };
  struct Known {
    uint64_t message;
    uint32_t text, partner;
    uint64_t length;
  };
  static constexpr size_t kMostFramed = 64 << 10;  // bytes of what one call sent in which messages are looked for

  bool is_wanted(uint32_t channel, const Transfer& transfer) const {
    return moves_message(facts_.channel(channel), transfer) && (!descent_ || descent_->has(channel, transfer));
  }

  uint32_t text_number(const std::string& text) {
    if (text.empty()) return TalkEvent::kUnknown;
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

  void receives_of(uint32_t number) {
    const Channel& channel = facts_.channel(number);
    const NodeId node = facts_.nodes[channel.node].id;
    std::optional<Incoming> open;
    const auto close = [&] {
      if (open && (open->received.edge || !own_[number])) received_.push_back(as_received(std::move(*open)));
      open.reset();
    };
    for (const Transfer& transfer : channel.in) {
      if (!is_wanted(number, transfer)) continue;
      const PayloadAnswer payload = facts_.payload(channel, transfer);
      // The payload of a raw socket begins with the IP header.
      const uint64_t header = payload && payload->size() > transfer.length ? payload->size() - transfer.length : 0;
      const auto grow = [&](const Edge* edge, uint64_t at, uint64_t length) {
        const bool goes_on = edge && open && open->received.edge && !channel.is_datagram() &&
                             sender_of(*edge) == sender_of(*open->received.edge);
        if (!goes_on) {
          close();
          open = {.received = {.edge = edge, .node = node, .datagram = channel.is_datagram(), .frames = {}},
                  .reached = {},
                  .text = {},
                  .in_a_row = !edge || edge->place.sent_at == 0};
        }
        open->length += length;
        open->reached.emplace_back(open->length, transfer.event);
        const uint64_t room = std::min(length, kMostFramed - open->text.size());
        if (!open->in_a_row || room == 0) return;
        const std::string more = payload ? first_bytes(*payload, header + at, room) : "";
        open->in_a_row = more.size() == room;
        open->text += more;
      };
      uint64_t at = 0;
      for (const Edge* edge : edges_of({node.value, transfer.event, transfer.part})) {
        if (edge->place.received_at < at) continue;  // the network delivered it twice
        if (edge->place.received_at > at) grow(nullptr, at, edge->place.received_at - at);
        grow(edge, edge->place.received_at, edge->bytes);
        at = edge->place.received_at + edge->bytes;
      }
      if (at < transfer.length || (at == 0 && channel.is_datagram() && !open)) grow(nullptr, at, transfer.length - at);
      if (channel.is_datagram()) close();
    }
    close();
  }

  // The messages that stand in what was received. Where not all bytes of one are known, it is the last one.
  Received as_received(Incoming&& open) const {
    Received out = std::move(open.received);
    std::vector<size_t> lengths = out.datagram ? std::vector{open.text.size()} : framing_.messages_in(open.text);
    if (lengths.empty()) lengths.push_back(0);
    uint64_t at = 0;
    auto with = open.reached.begin();
    for (size_t i = 0; i < lengths.size(); i++) {
      const bool is_last = i + 1 == lengths.size();
      const uint64_t length = is_last ? open.length - at : lengths[i];
      with = std::find_if(with, open.reached.end(), [&](const auto& reached) { return reached.first >= at + length; });
      out.frames.push_back(
          {with == open.reached.end() ? open.reached.back().second : with->second, length,
           open.text.substr(std::min<size_t>(at, open.text.size()), std::min<size_t>(lengths[i], Talk::kMostBytes))});
      at += length;
    }
    return out;
  }

  // Makes events of what was received as a whole, maybe in parts by several processes that share a socket.
  void settle() {
    std::map<End, uint64_t> lengths;
    for (const Channel& channel : facts_.channels)
      for (const Transfer& transfer : channel.out)
        lengths[{facts_.nodes[channel.node].id.value, transfer.event, transfer.part}] = transfer.length;
    std::map<End, std::vector<const Received*>> parts;
    for (const Received& each : received_) {
      if (each.edge) {
        parts[sender_of(*each.edge)].push_back(&each);
        continue;
      }
      for (const Frame& frame : each.frames)
        receive(each.node, frame.event, {next_++, text_number(frame.text), TalkEvent::kOutside, frame.length});
    }
    for (auto& [sender, all] : parts) {
      const Received& first =
          **std::ranges::min_element(all, {}, [](const Received* each) { return each->edge->place.sent_at; });
      const uint32_t from = role_.at(std::get<0>(sender)), to = role_.at(first.node.value);
      uint64_t sum = 0;
      for (const Received* each : all) sum += each->length();
      const auto length = lengths.find(sender);
      if (!first.datagram && length != lengths.end() && sum < length->second) continue;  // the run has ended before
      if (!first.datagram && all.size() == 1) {
        for (const Frame& frame : first.frames) {
          const Known known{next_++, text_number(frame.text), to, frame.length};
          sent_[sender].push_back(known);
          receive(first.node, frame.event, {known.message, known.text, from, frame.length});
        }
        continue;
      }
      const Known known{next_++, text_number(first.frames.front().text), to, sum};
      sent_[sender] = {known};
      const auto end_of = [&](const Received* each) {
        return schedule_.position_of(each->node, {each->frames.back().event});
      };
      if (!first.datagram) all = {*std::ranges::max_element(all, {}, end_of)};
      for (const Received* each : all)
        receive(each->node, each->frames.back().event,
                {known.message, known.text, from, first.datagram ? each->length() : sum});
    }
  }

  void receive(NodeId node, uint64_t event, const Known& known) {
    add(node, event,
        {.partner = known.partner, .text = known.text, .message = known.message, .length = known.length, .sent = 0});
  }

  void sends_of(uint32_t number) {
    const Channel& channel = facts_.channel(number);
    const NodeId node = facts_.nodes[channel.node].id;
    // Who receives by this channel, where a message of it was received.
    std::optional<uint32_t> receiver;
    for (const Transfer& transfer : channel.out)
      if (const auto found = partner_of_.find({node.value, transfer.event, transfer.part}); found != partner_of_.end())
        receiver = found->second;
    for (const Transfer& transfer : channel.out) {
      const End sender{node.value, transfer.event, transfer.part};
      if (!is_wanted(number, transfer) || (own_[number] && !receiver)) continue;
      const auto known = sent_.find(sender);
      if (known == sent_.end()) {
        add(node, transfer.event,
            {.partner = receiver.value_or(TalkEvent::kOutside),
             .message = next_++,
             .length = transfer.length,
             .sent = 1});
        continue;
      }
      const bool is_one = known->second.size() == 1;
      for (const Known& each : known->second)
        add(node, transfer.event,
            {.partner = each.partner,
             .text = each.text,
             .message = each.message,
             .length = is_one ? transfer.length : each.length,
             .sent = 1});
    }
  }

  std::span<const Edge* const> edges_of(const End& receiver) const {
    const auto found =
        std::ranges::equal_range(edges_, receiver, {}, [](const Edge* edge) { return receiver_of(*edge); });
    return {found.begin(), found.end()};
  }

  // At most `left` bytes from `at` on.
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
  const Framing& framing_;
  const Descent* descent_;
  const std::vector<bool> own_;  // by channel
  Talk talk_;
  std::map<uint32_t, uint32_t> role_;   // by node id
  std::vector<const Edge*> edges_;      // of messages, by where they were received
  std::map<End, uint32_t> partner_of_;  // the role that has received, of messages that were received in part, too
  std::vector<Received> received_;
  std::map<End, std::vector<Known>> sent_;  // messages that a recorded process received, by where they were sent
  std::unordered_map<std::string, uint32_t> text_of_;
  std::vector<Place> places_;
  uint64_t next_ = 0;
};

}  // namespace

Result<Talk> Talk::of(const Recording& recording, const Framing& framing, const std::string& scope) {
  for (const NodeInfo& node : recording.nodes())
    if (node.problem)
      return fail(ErrorCode::bad_input, "node {} ({}) cannot be read, so it is not known what was said to it: {}",
                  node.id.value, node.name, node.problem->message);
  FRIDAY_TRY(schedule, Schedule::load_or_compute(recording));
  FRIDAY_TRY(facts, FactSet::gather(recording, schedule.nodes()));
  if (scope.empty()) return Gatherer(recording, schedule, facts, framing, nullptr).gather();
  std::set<uint32_t> roots;
  for (const NodeInfo& node : recording.nodes())
    if (const std::string role = role_of(node.name); role == scope || role.starts_with(scope + "/"))
      roots.insert(node.id.value);
  if (roots.empty())
    return fail(ErrorCode::not_found, "{} has no node {}, from whose messages others could descend", recording.path(),
                scope);
  const Descent descent(schedule, facts, roots);
  return Gatherer(recording, schedule, facts, framing, &descent).gather();
}

}  // namespace friday
