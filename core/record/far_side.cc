#include "core/record/far_side.h"

#include <algorithm>

namespace friday {

FarSide::FarSide(FarJudge& judge, shim::ShapeArea& area, std::span<const SocketSpace> spaces, Programs programs,
                 std::chrono::nanoseconds patience)
    : judge_(judge),
      area_(area),
      spaces_(spaces),
      programs_(std::move(programs)),
      patience_(patience),
      receipts_(area) {}

void FarSide::look() {
  for (const FarJudge::Question& question : judge_.questions()) {
    if (question.kind == FarJudge::Question::Kind::receiver) answer_who(question);
    else asked_.push_back({question});
  }
  std::erase_if(asked_, [this](Asked& asked) { return try_answer(asked); });
  for (const uint64_t inode : receipts_.ends()) take_note(inode);

  constexpr std::chrono::seconds kLookForGone(1);
  if (expected_.empty() || Clock::now() - looked_for_gone_ < kLookForGone) return;
  looked_for_gone_ = Clock::now();
  std::erase_if(expected_, [this](const auto& each) {
    const auto [number, inode] = each;
    if (!programs_.is_gone(inode)) return false;
    receipts_.forget(number);
    judge_.tell_far("lost", number);
    return true;
  });
}

bool FarSide::told(uint64_t inode) {
  const auto ends = receipts_.ends();
  if (std::ranges::find(ends, inode) == ends.end()) return false;
  take_note(inode);
  return true;
}

void FarSide::answer_who(const FarJudge::Question& question) {
  const auto end = tcp_end(question.local, question.remote, spaces_);
  FarJudge::Answer answer;
  if (end && end->inode) answer.name = programs_.owner_of(end->inode);
  // Nobody has accepted it, or a server that forks is about to close it in one of two processes.
  answer.waits = end && answer.name.empty() && (!end->inode || !programs_.is_gone(end->inode));
  judge_.answer(question, answer);
}

// How many bytes have come at an end that receives; of one that sends, how many it has sent that have come. None if
// some are on their way, or nobody has the end.
std::optional<uint64_t> FarSide::measure(Asked& asked) const {
  const FarJudge::Question& question = asked.question;
  const bool is_quiet = question.kind == FarJudge::Question::Kind::quiet, sends = is_quiet || question.sends;
  const KnownConnection* connection = is_quiet ? programs_.next_on(question.ticket) : nullptr;
  if (is_quiet && !connection) return std::nullopt;
  const auto end = is_quiet ? tcp_end(connection->local, connection->remote, spaces_)
                            : tcp_end(question.local, question.remote, spaces_);
  const shim::ShapedEnd* counts = end && end->inode ? shim::shaped_end(area_, end->inode) : nullptr;
  if (!counts || (sends && end->unacknowledged)) return std::nullopt;
  asked.inode = end->inode;
  if (sends)
    return __atomic_load_n(&counts->sent, __ATOMIC_SEQ_CST) - __atomic_load_n(&counts->queued, __ATOMIC_SEQ_CST);
  return __atomic_load_n(&counts->received, __ATOMIC_SEQ_CST) + end->unread;
}

// Whether the question is answered.
bool FarSide::try_answer(Asked& asked) {
  using Kind = FarJudge::Question::Kind;
  constexpr unsigned kEnough = 5;  // looks
  constexpr std::chrono::milliseconds kBetween(1), kLongestCount(100);
  const Clock::time_point now = Clock::now();
  const FarJudge::Question& question = asked.question;
  if (now - asked.looked < kBetween) return false;
  asked.looked = now;
  if (question.kind == Kind::quiet && !programs_.is_kept(question.ticket)) {
    judge_.answer(question, {});
    return true;
  }
  const auto found = measure(asked);
  // A message that is kept behind others waits for these; the judge has the patience.
  if (!found && question.kind == Kind::quiet && !programs_.next_on(question.ticket)) asked.since = now;
  asked.times = !found ? 0 : asked.times && *found == asked.measured ? asked.times + 1 : 1;
  if (found) asked.measured = *found;
  if (asked.times < kEnough) {
    if (now - asked.since < (question.kind == Kind::count ? kLongestCount : patience_)) return false;
    judge_.answer(question, {});
    return true;
  }
  if (question.kind == Kind::expect) {
    receipts_.expect(asked.inode, question.number, asked.measured + question.length);
    expected_[question.number] = asked.inode;
  }
  judge_.answer(question, {.count = asked.measured});
  return true;
}

void FarSide::take_note(uint64_t inode) {
  for (const auto& [number, handled] : receipts_.look(inode)) {
    judge_.tell_far(handled ? "handled" : "received", number);
    if (handled) expected_.erase(number);
  }
}

}  // namespace friday
