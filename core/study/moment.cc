#include "core/study/moment.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/study/message_class.h"

namespace friday {
namespace {

bool is_named(const Talk& talk, const TalkEvent& event, const Naming& naming, uint32_t name) {
  const Identity& identity = naming.identities[name];
  if (event.sent != static_cast<uint64_t>(identity.sent) || event.text == TalkEvent::kUnknown) return false;
  const bool is_outside = identity.partner == TalkEvent::kOutside;
  if (is_outside != (event.partner == TalkEvent::kOutside)) return false;
  if (!is_role(talk.roles[event.role], naming.roles[identity.role])) return false;
  if (!is_outside && !is_role(talk.roles[event.partner], naming.roles[identity.partner])) return false;
  return has_text(look_at(talk.texts[event.text], event.length), identity.text);
}

bool has_common_word(const LookedAt& a, const LookedAt& b) {
  return std::ranges::find_first_of(a.words, b.words) != a.words.end();
}

class Finder {
 public:
  Finder(const Talk& talk, const Naming& naming, const Order& order) : talk_(talk), naming_(naming), order_(order) {
    of_one_matter_ = order.form == Order::Form::matter || order.form == Order::Form::intrusion;
  }

  // The first y behind some x.
  std::optional<size_t> second_of_two(bool holds) const {
    std::vector<size_t> firsts;
    for (size_t event = 0; event < talk_.events.size(); event++) {
      if (is(event, 0)) firsts.push_back(event);
      else if (is(event, 1) && (!holds || std::ranges::any_of(firsts, [&](size_t x) { return match(x, event); })))
        return event;
    }
    return std::nullopt;
  }

  // The first z whose sender has sent x to the same partner before, and nothing between, or nothing of the same matter.
  // It holds if some y lies between.
  std::optional<size_t> last_of_three(bool holds) const {
    for (size_t event = 0; event < talk_.events.size(); event++) {
      if (!is(event, 2)) continue;
      const auto before = sent_before(event);
      if (!before || !is(*before, 0)) continue;
      bool between = false;
      for (size_t y = *before + 1; y < event; y++) between |= is(y, 1) && match(y, event);
      if (between == holds) return event;
    }
    return std::nullopt;
  }

  std::optional<size_t> first_of(size_t name, size_t from = 0) const {
    for (size_t event = from; event < talk_.events.size(); event++)
      if (is(event, name)) return event;
    return std::nullopt;
  }

  // Of two messages, of which `second` is the second one: the one of the other name that goes with it.
  std::optional<size_t> first_of_two(size_t second, bool holds) const {
    if (!holds) return first_of(0, second);
    for (size_t event = second; event-- > 0;)
      if (is(event, 0) && match(event, second)) return event;
    return std::nullopt;
  }

  std::optional<size_t> between(size_t last, bool holds) const {
    const auto before = sent_before(last);
    for (size_t event = holds && before ? *before + 1 : 0; event < (holds ? last : talk_.events.size()); event++)
      if (is(event, 1) && (!holds || match(event, last))) return event;
    return std::nullopt;
  }

  std::optional<size_t> sent_before(size_t event) const {
    const TalkEvent& last = talk_.events[event];
    for (size_t at = event; at-- > 0;) {
      const TalkEvent& each = talk_.events[at];
      if (each.sent && each.node == last.node && each.partner == last.partner && match(at, event)) return at;
    }
    return std::nullopt;
  }

 private:
  bool is(size_t event, size_t name) const { return is_named(talk_, talk_.events[event], naming_, order_.names[name]); }
  LookedAt looked(size_t event) const {
    const TalkEvent& at = talk_.events[event];
    return look_at(at.text == TalkEvent::kUnknown ? "" : std::string_view(talk_.texts[at.text]), at.length);
  }
  bool match(size_t a, size_t b) const { return !of_one_matter_ || has_common_word(looked(a), looked(b)); }

  const Talk& talk_;
  const Naming& naming_;
  const Order& order_;
  bool of_one_matter_ = false;
};

}  // namespace

std::optional<size_t> moment_in(const Talk& talk, const Naming& naming, const Order& order, bool holds,
                                size_t message) {
  const Finder finder(talk, naming, order);
  if (order.has_one()) return finder.first_of(0);
  const auto last = order.has_three() ? finder.last_of_three(holds) : finder.second_of_two(holds);
  if (!last || message + 1 == order.count()) return last;
  if (!order.has_three()) return finder.first_of_two(*last, holds);
  return message == 0 ? finder.sent_before(*last) : finder.between(*last, holds);
}

}  // namespace friday
