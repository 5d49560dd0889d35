#include "console/order_text.h"

#include <fmt/format.h>

namespace friday {
namespace {

std::string shortened(const std::string& text) {
  constexpr size_t kMost = 60;  // bytes of a message on the terminal
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Of the second message of a pair, which the same role receives.
std::string rest_of(const Naming& naming, uint32_t name) {
  const Identity& identity = naming.identities[name];
  return fmt::format("receives `{}` from {}", shortened(identity.text), role_text(naming, identity.partner));
}

}  // namespace

std::string role_text(const Naming& naming, uint32_t role) {
  return role == TalkEvent::kOutside ? "outside" : naming.roles[role];
}

std::string text_of_name(const Naming& naming, uint32_t name) {
  const Identity& identity = naming.identities[name];
  return fmt::format("{} {} `{}` {} {}", role_text(naming, identity.role), identity.sent ? "sends" : "receives",
                     shortened(identity.text), identity.sent ? "to" : "from", role_text(naming, identity.partner));
}

std::string text_of(const Naming& naming, const Order& order) {
  const auto& [x, y, z] = order.names;
  switch (order.form) {
    case Order::Form::pair: return fmt::format("{}, before it {}", text_of_name(naming, x), rest_of(naming, y));
    case Order::Form::matter:
      return fmt::format("{}, before it {}, about the same word", text_of_name(naming, x), rest_of(naming, y));
    case Order::Form::between:
    case Order::Form::intrusion:
      return fmt::format("{}, between {} and its next message to {}, `{}`{}", text_of_name(naming, y),
                         text_of_name(naming, x), role_text(naming, naming.identities[z].partner),
                         shortened(naming.identities[z].text),
                         order.form == Order::Form::intrusion ? ", all about the same word" : "");
    case Order::Form::content: return text_of_name(naming, x);
    case Order::Form::absence: return "never: " + text_of_name(naming, x);
  }
  return "";
}

}  // namespace friday
