// Runs that tests write down: who said what to whom, in which order.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/study/naming.h"

namespace friday::testing {

class TalkScript {
 public:
  // A node of a role; each call is another one.
  uint32_t node(const std::string& role) {
    roles_of_.push_back(index(talk_.roles, known_roles_, role));
    return static_cast<uint32_t>(roles_of_.size() - 1);
  }
  // `from` sends; it is received by receive(). None: somebody who was not recorded.
  uint64_t send(std::optional<uint32_t> from, uint32_t to, const std::string& text) {
    const uint64_t message = next_++;
    pending_[message] = {from, to, text};
    if (from) add(*from, roles_of_[to], text, message, true);
    return message;
  }
  void receive(uint64_t message) {
    const auto& [from, to, text] = pending_.at(message);
    add(to, from ? roles_of_[*from] : TalkEvent::kOutside, text, message, false);
  }
  // Both at once.
  void say(std::optional<uint32_t> from, uint32_t to, const std::string& text) { receive(send(from, to, text)); }

  // `late_ns`: how long it took until the first message.
  StudiedRun run(unsigned number, bool failed, int64_t late_ns = 0) {
    for (TalkEvent& event : talk_.events) event.ns += late_ns;
    return {number, failed, talk_};
  }

 private:
  struct Pending {
    std::optional<uint32_t> from;
    uint32_t to;
    std::string text;
  };
  using Known = std::map<std::string, uint32_t>;
  static uint32_t index(std::vector<std::string>& list, Known& known, const std::string& text) {
    const auto [place, is_new] = known.try_emplace(text, list.size());
    if (is_new) list.push_back(text);
    return place->second;
  }
  void add(uint32_t node, uint32_t partner, const std::string& text, uint64_t message, bool sent) {
    TalkEvent event;
    event.role = roles_of_[node];
    event.partner = partner;
    event.text = index(talk_.texts, known_texts_, text);
    event.node = node;
    event.event = talk_.events.size();
    event.message = message;
    event.length = text.size();
    event.ns = static_cast<int64_t>(talk_.events.size()) * 1000;
    event.sent = sent;
    talk_.events.push_back(event);
  }

  Talk talk_;
  Known known_roles_, known_texts_;
  std::vector<uint32_t> roles_of_;  // by node
  std::map<uint64_t, Pending> pending_;
  uint64_t next_ = 0;
};

}  // namespace friday::testing
