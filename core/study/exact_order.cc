#include "core/study/exact_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/counted.h"
#include "core/study/shape.h"

namespace friday {
namespace {

constexpr size_t kMostClocks = size_t{1} << 26;  // 256 MiB
// Messages of a node that are neither answered nor known to be handled: more are taken for handled.
constexpr size_t kMostWaiting = 256;

using ClassKey = std::tuple<uint32_t, uint32_t, std::string>;  // roles, shape

struct Sent {
  size_t event;
  uint32_t number, clock;
};

}  // namespace

Result<RunOrder> RunOrder::of(const Talk& talk, const Naming& naming) {
  RunOrder out;
  std::map<uint32_t, uint32_t> indices;  // of nodes
  for (const TalkEvent& event : talk.events) indices.try_emplace(event.node, indices.size());
  out.nodes_ = indices.size();
  const auto sends = static_cast<size_t>(std::ranges::count(talk.events, 1u, &TalkEvent::sent));
  if ((sends + out.nodes_) * out.nodes_ > kMostClocks)
    return fail(ErrorCode::unsupported, "{} between {} processes are too many for an order of each of them",
                counted(sends, "message"), out.nodes_);
  // Each text is looked at once.
  std::map<std::pair<uint32_t, uint64_t>, Shape> shapes;  // by text and length
  for (const TalkEvent& event : talk.events) {
    if (event.text == TalkEvent::kUnknown) continue;
    const auto [known, is_new] = shapes.try_emplace({event.text, event.length});
    if (!is_new) continue;
    const Shape& shape = known->second = shape_of(talk.texts[event.text], event.length);
    for (size_t field = 0; field < shape.fields.size(); field++) {
      if (!naming.has_relied_value(shape, field)) continue;
      auto& kept = out.kept_values_[shape.masked];
      kept.resize(shape.fields.size());
      kept[field].insert(shape.fields[field].value);
    }
  }
  const auto text_of = [&](const TalkEvent& event) {
    return class_text(shapes.at({event.text, event.length}), out.kept_values_);
  };
  std::vector<std::vector<uint32_t>> now(out.nodes_, std::vector<uint32_t>(out.nodes_));
  std::map<uint64_t, Sent> under_way;                                       // by message
  std::map<ClassKey, uint32_t> counts;                                      // of what was sent
  std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> unanswered;  // by receiving node and role of the sender
  std::map<std::pair<uint32_t, uint32_t>, size_t> last_asked;               // event, by node and role that was asked
  std::map<uint32_t, std::vector<size_t>> alone;  // neither answered nor `helped`, the latest ones, by receiving node
  for (size_t at = 0; at < talk.events.size(); at++) {
    const TalkEvent& event = talk.events[at];
    const uint32_t node = indices[event.node];
    const uint32_t turn = ++now[node][node];
    if (event.sent) {
      const auto waiting = unanswered.find({node, event.partner});
      if (waiting != unanswered.end()) {
        for (size_t each : waiting->second) out.messages_[each].answered = at;
        unanswered.erase(waiting);
      } else {
        last_asked[{node, event.partner}] = at;
      }
      if (event.partner == TalkEvent::kOutside || event.text == TalkEvent::kUnknown) continue;
      const uint32_t number = ++counts[{event.role, event.partner, text_of(event)}];
      under_way.emplace(event.message, Sent{at, number, static_cast<uint32_t>(out.clocks_.size() / out.nodes_)});
      out.clocks_.insert(out.clocks_.end(), now[node].begin(), now[node].end());
      continue;
    }
    const auto sent = under_way.find(event.message);
    if (sent == under_way.end()) continue;  // somebody has received it already, or its sender is not recorded
    const uint32_t* knew = &out.clocks_[sent->second.clock * out.nodes_];
    for (size_t i = 0; i < out.nodes_; i++) now[node][i] = std::max(now[node][i], knew[i]);
    const TalkEvent& from = talk.events[sent->second.event];
    unanswered[{node, from.role}].push_back(out.messages_.size());
    out.messages_.push_back({{talk.roles[from.role], talk.roles[event.role], text_of(from)},
                             sent->second.number,
                             node,
                             turn,
                             sent->second.event,
                             at,
                             at,
                             at,
                             sent->second.clock});
    under_way.erase(sent);
    const Message& message = out.messages_.back();
    std::vector<size_t>& waiting = alone[node];
    const auto asked = last_asked.find({node, from.role});
    std::erase_if(waiting, [&](size_t each) {
      Message& earlier = out.messages_[each];
      if (earlier.answered != earlier.received) return true;
      if (asked == last_asked.end() || earlier.received > asked->second || !out.caused(earlier, message)) return false;
      earlier.helped = at;
      return true;
    });
    if (waiting.size() == kMostWaiting) waiting.erase(waiting.begin());
    waiting.push_back(out.messages_.size() - 1);
  }
  return out;
}

// Whether the later one was sent by somebody who knew that the earlier one was received, so that the two can come in no
// other order.
bool RunOrder::caused(const Message& earlier, const Message& later) const {
  return clocks_[later.sent_with * nodes_ + earlier.node] >= earlier.turn;
}

// Whether the earlier one must have been handled before the later one is sent on: not if it has led to the later one
// before it was answered, which may be needed to handle it; nor if the recorded run had not handled it, as its receiver
// waited for the answer to a question of its own, or has answered it later.
bool RunOrder::was_handled(const Message& earlier, const Message& later) const {
  const bool is_answered = earlier.answered != earlier.received;
  if (caused(earlier, later) && !(is_answered && earlier.answered < later.sent)) return false;
  if (earlier.helped != earlier.received && earlier.helped >= later.received) return false;
  return !is_answered || earlier.answered < later.received;
}

std::vector<uint32_t> RunOrder::common_to(std::span<const Talk* const> talks) const {
  using Key = std::tuple<std::string, std::string, std::string>;  // from, to, text
  std::vector<uint32_t> common(messages_.size());
  std::iota(common.begin(), common.end(), 0u);
  for (const Talk* talk : talks) {
    std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t> as_sent;  // roles, text and length
    for (const TalkEvent& event : talk->events)
      if (event.sent && event.partner != TalkEvent::kOutside && event.text != TalkEvent::kUnknown)
        as_sent[{event.role, event.partner, event.text, event.length}]++;
    std::map<Key, uint32_t> counts;
    for (const auto& [message, count] : as_sent) {
      const auto [from, to, text, length] = message;
      const Shape shape = shape_of(talk->texts[text], length);
      counts[{talk->roles[from], talk->roles[to], class_text(shape, kept_values_)}] += count;
    }
    std::erase_if(common, [&](uint32_t each) {
      const MessageClass& is = messages_[each].is;
      const auto found = counts.find({is.from, is.to, is.text});
      return found == counts.end() || found->second < messages_[each].number;
    });
  }
  return common;
}

ExactOrder RunOrder::of_all() const {
  std::vector<uint32_t> all(messages_.size());
  std::iota(all.begin(), all.end(), 0u);
  return of_these(all);
}

ExactOrder RunOrder::of_these(std::span<const uint32_t> kept) const {
  ExactOrder out;
  out.reserve(kept.size());
  // By receiving role: the messages so far which none of those behind them has needed to be handled. What a message
  // needs, those need that need that message.
  std::map<std::string, std::vector<uint32_t>> open;
  for (uint32_t i = 0; i < kept.size(); i++) {
    const Message& message = messages_[kept[i]];
    ExactMessage exact{message.is, message.number};
    std::vector<uint32_t>& before = open[message.is.to];
    for (uint32_t each : before) {
      const bool handled = was_handled(messages_[kept[each]], message);
      if (handled || each == before.back()) exact.needs.push_back({each, handled});
    }
    std::erase_if(before, [&](uint32_t each) {
      return std::ranges::find(exact.needs, ExactMessage::Need{each, true}) != exact.needs.end();
    });
    if (before.size() == kMostWaiting) before.erase(before.begin());
    before.push_back(i);
    out.push_back(std::move(exact));
  }
  return out;
}

}  // namespace friday
