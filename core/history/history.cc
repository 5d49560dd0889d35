#include "core/history/history.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "core/base/counted.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/history/thinning.h"
#include "core/replay/saved_checkpoint.h"

namespace friday {
namespace {

using namespace std::chrono_literals;

constexpr auto kShortest = 20ms;  // between two checkpoints
constexpr auto kAgain = 2ms;      // after a place where none can be made
constexpr int kLasting = 50;  // so many such places in a row, and it is not the place: it is said, and tried less often
constexpr int kShare = 20;    // a run is so many times as long as a checkpoint before the next one
constexpr size_t kMostTwins = 2000;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kProcess = 64 << 10;  // what the kernel keeps for a process, page tables apart

uint64_t available_memory() {
  const auto text = read_file("/proc/meminfo");
  constexpr std::string_view kKey = "MemAvailable:";
  const size_t at = text ? text->find(kKey) : std::string::npos;
  return at == std::string::npos ? 1ull << 30 : strtoull(text->c_str() + at + kKey.size(), nullptr, 10) << 10;
}

// How many pages a process has got from the kernel so far: the field minflt of /proc/PID/stat, proc(5).
uint64_t minor_faults(pid_t process) {
  constexpr int kField = 10 - 3;  // the state, field 3, follows the name
  const auto text = read_file(fmt::format("/proc/{}/stat", process));
  const size_t name = text ? text->rfind(") ") : std::string::npos;
  if (name == std::string::npos) return 0;
  const char* at = text->c_str() + name + 2;
  for (int field = 0; at && field < kField; field++) at = strchr(at, ' ') ? strchr(at, ' ') + 1 : nullptr;
  return at ? strtoull(at, nullptr, 10) : 0;
}

}  // namespace

History::History(ReplaySession& session, uint64_t budget)
    : session_(session), budget_(budget ? budget : available_memory() / 4) {
  session_.on_pause = [this] { pause(); };
}

History::~History() {
  session_.on_pause = {};
  session_.pause_at.reset();
}

void History::set_on(bool on) {
  on_ = on;
  refusal_.clear();
  if (on) pause_in({});
  else {
    session_.pause_at.reset();
    rest();
  }
}

void History::set_budget(uint64_t bytes) {
  budget_ = bytes;
  thin();
}

void History::pause_in(Clock::duration time) {
  session_.pause_at = Clock::now() + time;
  if (!resting_) alarm_.set(time);
}

void History::begin_run() {
  if (on_ && is_unaltered() && entries_.empty() && session_.is_at_start() && session_.sync() == SyncMode::clock)
    (void)make();
  if (!resting_ || !session_.pause_at) return;
  resting_ = false;
  alarm_.set(*session_.pause_at - Clock::now());
}

void History::rest() {
  if (!std::exchange(resting_, true)) alarm_.clear();
}

uint64_t History::bytes() const {
  uint64_t all = 0;
  for (const Entry& entry : entries_) all += entry.bytes;
  return all;
}

uint64_t History::faults() const {
  uint64_t all = 0;
  for (NodeId id : session_.nodes())
    if (ReplayNode* node = session_.find(id); node->state() == NodeState::live)
      all += minor_faults(node->process().pid());
  return all;
}

std::shared_ptr<const GroupCheckpoint> History::before(uint64_t events, uint64_t done) {
  if (session_.sync() == SyncMode::clock) load_before(events, done);
  return kept_before(events);
}

std::shared_ptr<const GroupCheckpoint> History::kept_before(uint64_t events) const {
  const auto behind = std::ranges::lower_bound(entries_, events, {}, &History::events_of);
  return behind == entries_.begin() ? start() : std::prev(behind)->checkpoint;
}

// Loads the last checkpoint of the recording with fewer events, if the group is not nearer by itself.
void History::load_before(uint64_t events, uint64_t done) {
  // So many events are replayed in about the time in which a checkpoint is loaded.
  const uint64_t worth = 500 * session_.nodes().size();
  if (!saved_) saved_ = saved_checkpoints(session_.recording()).value_or(std::vector<uint64_t>());
  for (;;) {
    const auto behind = std::ranges::lower_bound(*saved_, events);
    if (behind == saved_->begin()) return;
    const uint64_t saved = *std::prev(behind);
    const auto nearest = kept_before(events);
    if (saved < std::max(done, nearest ? nearest->events() : 0) + worth) return;
    if (!start() && (!session_.is_at_start() || !is_unaltered() || !make())) return;
    auto loaded = SavedCheckpoint::load(session_, saved, *start());
    if (loaded) {
      const uint64_t bytes = (*loaded)->copied() * kProcess + (*loaded)->shared_bytes();
      insert(std::move(*loaded), bytes);
      return;
    }
    session_.add_notice(fmt::format("a checkpoint of the recording cannot be used: {}", describe(loaded.error())));
    // What is replayed is other than what was kept, or one is damaged.
    if (loaded.error().code == ErrorCode::unsupported) saved_->clear();
    else saved_->erase(std::prev(behind));
  }
}

std::shared_ptr<const GroupCheckpoint> History::start() const {
  return entries_.empty() || !entries_.front().checkpoint->is_start() ? nullptr : entries_.front().checkpoint;
}

void History::note_return() {
  faults_then_ = faults();
  events_then_ = session_.events_done();
  last_ = nullptr;
  if (on_) pause_in(between_);
}

void History::clear() {
  entries_.clear();
  last_ = nullptr;
  if (on_) pause_in({});
}

// Whether the group has been here before: then there is a checkpoint between the place where it set out and this one.
bool History::is_covered(uint64_t events) const {
  const auto known = kept_before(events + 1);
  return known && known->events() > events_then_;
}

void History::insert(std::unique_ptr<GroupCheckpoint> checkpoint, uint64_t bytes) {
  const auto behind = std::ranges::upper_bound(entries_, checkpoint->events(), {}, &History::events_of);
  entries_.insert(behind, {std::move(checkpoint), bytes, ++made_});
}

std::shared_ptr<const GroupCheckpoint> History::numbered(uint64_t number) const {
  const auto found = std::ranges::find(entries_, number, &Entry::number);
  return found == entries_.end() ? nullptr : found->checkpoint;
}

std::vector<History::Entry> History::take_new() {
  std::vector<Entry> made;
  if (told_ == made_) return made;
  for (const Entry& entry : entries_)
    if (entry.number > told_) made.push_back(entry);
  told_ = made_;
  return made;
}

void History::note_copy(std::chrono::nanoseconds time) {
  between_ = std::max<Clock::duration>(between_ + time * kShare, kShortest);
  if (on_) pause_in(between_);
}

void History::drop_behind(uint64_t events) {
  std::erase_if(entries_, [&](const Entry& entry) {
    const bool drops = events_of(entry) > events;
    if (drops && entry.checkpoint.get() == last_) last_ = nullptr;
    return drops;
  });
}

// Makes a checkpoint here, and drops others that are too many for the limits then.
Result<void> History::make() {
  if (!session_.is_between_events())
    return fail(ErrorCode::unsupported, "no checkpoint can be made here: a node is in the middle of an event");
  const uint64_t events = session_.events_done();
  FRIDAY_TRY(made, session_.checkpoint());
  const uint64_t now = faults();
  if (last_)
    for (Entry& entry : entries_)
      if (entry.checkpoint.get() == last_) entry.bytes += (now - std::min(now, faults_then_)) * kPage;
  last_ = made.get();
  const uint64_t least = made->copied() * kProcess + made->shared_bytes();
  insert(std::move(made), least);
  faults_then_ = now;
  events_then_ = events;
  thin();
  return {};
}

Result<void> History::keep_now() {
  if (session_.sync() != SyncMode::clock)
    return fail(ErrorCode::unsupported, "checkpoints need the order clock, in which all nodes stand at one time");
  if (!is_unaltered())
    return fail(ErrorCode::unsupported, "a node is altered, so this is no place of the recording to come back to");
  return make();
}

void History::pause() {
  session_.pause_at.reset();
  if (!on_ || !refusal_.empty()) return;
  const uint64_t events = session_.events_done();
  if (!is_unaltered() || is_covered(events)) {
    events_then_ = events;
    return pause_in(std::max<Clock::duration>(between_, kShortest));
  }
  const auto start = Clock::now();
  if (auto made = make(); !made) {
    if (made.error().code == ErrorCode::unsupported && !entries_.empty()) return try_later(made.error());
    refusal_ = made.error().message;
    session_.add_notice(
        fmt::format("no more checkpoints are made: {}; `set checkpoints on` tries again", printable(refusal_)));
    return;
  }
  refused_ = 0;
  const auto cost = Clock::now() - start;
  FRIDAY_LOG(replay, info, "checkpoint after {}, {:.1f} ms; {} in all, {} MiB", counted(events, "event"),
             std::chrono::duration<double, std::milli>(cost).count(), entries_.size(), bytes() >> 20);
  between_ = std::max<Clock::duration>(cost * kShare, kShortest);
  pause_in(between_);
}

// A place where no checkpoint can be made is soon left, but what refuses may also last: then there is ever more to
// replay on the way back.
void History::try_later(const Error& why) {
  if (++refused_ == kLasting)
    session_.add_notice(
        fmt::format("no checkpoint could be made since {}: {}; going back takes longer, as more is replayed",
                    counted(events_then_, "event"), printable(why.message)));
  pause_in(kAgain * std::min(refused_, kLasting));
}

// Drops checkpoints until all limits are kept, but never the first and the last.
void History::thin() {
  auto twins = [this] {
    std::set<pid_t> all;
    for (const Entry& entry : entries_) {
      const auto some = entry.checkpoint->twins();
      all.insert(some.begin(), some.end());
    }
    return all.size();
  };
  while (entries_.size() > 2 && (twins() > kMostTwins || bytes() > budget_)) {
    std::vector<uint64_t> events;
    for (const Entry& entry : entries_) events.push_back(events_of(entry));
    const size_t least = least_missed(events, events_then_);
    if (entries_[least].checkpoint.get() == last_) last_ = nullptr;
    entries_[least - 1].bytes += entries_[least].bytes / 2;  // pages that both held are now this one's alone
    entries_.erase(entries_.begin() + static_cast<long>(least));
  }
}

}  // namespace friday
