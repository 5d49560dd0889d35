#include "core/record/receipts.h"

#include <algorithm>

namespace friday {

void Receipts::expect(uint64_t inode, Ticket ticket, uint64_t end) {
  expected_[inode].push_back({ticket, end});
  if (shim::ShapedEnd* at = shim::shaped_end(area_, inode)) want(*at, expected_[inode]);
}

void Receipts::forget(Ticket ticket) {
  for (auto& [inode, messages] : expected_)
    std::erase_if(messages, [&](const Message& message) { return message.ticket == ticket; });
  std::erase_if(expected_, [](const auto& end) { return end.second.empty(); });
}

// From now on the shim tells when the next message is received, and when the first one is handled.
void Receipts::want(shim::ShapedEnd& end, const std::deque<Message>& messages) const {
  const auto next = std::ranges::find(messages, false, &Message::received);
  __atomic_store_n(&end.wanted_received, next == messages.end() ? 0 : next->end, __ATOMIC_SEQ_CST);
  __atomic_store_n(&end.wanted_handled, messages.empty() ? 0 : messages.front().end, __ATOMIC_SEQ_CST);
}

std::vector<Receipts::News> Receipts::look(uint64_t inode) {
  std::vector<News> news;
  const auto known = expected_.find(inode);
  shim::ShapedEnd* end = known == expected_.end() ? nullptr : shim::shaped_end(area_, inode);
  if (!end) return news;
  std::deque<Message>& messages = known->second;
  for (bool more = true; more;) {
    // First what is wanted, then the counts: what comes between is seen here, and told, too.
    want(*end, messages);
    more = false;
    const uint64_t handled = __atomic_load_n(&end->handled, __ATOMIC_SEQ_CST);
    const uint64_t received = __atomic_load_n(&end->received, __ATOMIC_SEQ_CST);
    for (Message& message : messages) {
      if (received < message.end) break;
      if (!message.received) news.push_back({message.ticket, false}), more = true;
      message.received = true;
    }
    while (!messages.empty() && messages.front().received && messages.front().end <= handled) {
      news.push_back({messages.front().ticket, true});
      messages.pop_front();
      more = true;
    }
  }
  if (messages.empty()) expected_.erase(known);
  return news;
}

std::vector<uint64_t> Receipts::ends() const {
  std::vector<uint64_t> all;
  for (const auto& [inode, messages] : expected_) all.push_back(inode);
  return all;
}

}  // namespace friday
