#include "store.h"

#include <bit>
#include <chrono>
#include <cinttypes>
#include <cstdio>

namespace replicas {

Store::Store(Options options)
    : options_(std::move(options)), members_((1u << options_.ports.size()) - 1), heard_(now_ms() + 1000) {
  if (options_.id == 0) role_ = Role::leader;
}

Message Store::reply(bool ok) const {
  Message made;
  made.from = options_.id;
  made.term = term_;
  made.index = log_.size();
  made.ok = ok;
  made.leader = leader_;
  return made;
}

Message Store::answer(const Message& request) {
  std::unique_lock lock(mutex_);
  switch (request.kind) {
    case Kind::put: return put(request, lock);
    case Kind::append: return append(request);
    case Kind::vote: return vote(request);
    case Kind::heartbeat:
      if (request.term < term_) return reply(false);
      obey(request);
      return reply(true);
    case Kind::reply: break;
  }
  return reply(false);
}

// -- the leader -------------------------------------------------------------------------------------------------------

Message Store::put(const Message& request, std::unique_lock<std::mutex>& lock) {
  if (role_ != Role::leader) return reply(false);
  const uint64_t index = log_.size(), term = term_;
  log_.push_back({term_, request.value});
  holders_.resize(log_.size());
  holders_[index] = 1u << options_.id;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::milliseconds(500), [&] { return committed_ > index || term_ != term; });
  return reply(committed_ > index && log_[index].term == term);
}

Message Store::next_append(uint64_t index) const {
  Message made;
  made.kind = Kind::append;
  made.from = options_.id;
  made.term = term_;
  made.index = index;
  made.entry_term = log_[index].term;
  made.previous_term = index > 0 ? log_[index - 1].term : 0;
  made.value = log_[index].value;
  made.committed = committed_;
  return made;
}

void Store::replicate_to(uint32_t to) {
  Peer peer;
  peer.set(options_.ports[to], 50);
  uint64_t next = 0, term = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return role_ == Role::leader && (term != term_ || next < log_.size()); });
    if (term != term_) term = term_, next = log_.empty() ? 0 : log_.size() - 1;
    if (next >= log_.size()) {
      changed_.wait_for(lock, std::chrono::milliseconds(kBeat));
      continue;
    }
    const Message request = next_append(next);
    Message reply;
    lock.unlock();
    const bool heard = peer.ask(request, reply);
    if (!heard || !reply.ok) pause_ms(heard ? 1 : 20);
    lock.lock();
    if (role_ != Role::leader || term != term_) continue;
    if (!heard) {
      next = log_.size() - 1;  // the reply to this one will say where to go on
      continue;
    }
    acknowledged_by(to, request, reply);
    next = reply.ok ? next + 1 : reply.index < next ? reply.index : next > 0 ? next - 1 : 0;
  }
}

void Store::acknowledged_by(uint32_t peer, const Message& request, const Message& reply) {
  if (options_.careful && !reply.ok) return;
  holders_[request.index] |= 1u << peer;  // the planted fault: a refusal is no acknowledgement
  commit();
}

// What a majority has is committed, and with an entry of the leader's own term all entries before it.
void Store::commit() {
  for (uint64_t next = committed_; next < log_.size(); next++)
    if (log_[next].term == term_ && 2 * std::popcount(holders_[next]) > static_cast<int>(nodes()))
      committed_ = next + 1;
  changed_.notify_all();
}

void Store::check_point() {
  std::unique_lock lock(mutex_);
  if (role_ != Role::leader) return;
  writes_ = true;
  pause_ms(kCheckpoint);  // a slow disk
  writes_ = false;
}

void Store::beat_once(std::vector<Peer>& peers) {
  Message beat, reply;
  {
    std::unique_lock lock(mutex_);
    if (role_ != Role::leader) return;
    beat.kind = Kind::heartbeat;
    beat.from = options_.id;
    beat.term = term_;
  }
  for (uint32_t to = 0; to < nodes(); to++) {
    if (to == options_.id) continue;
    if (!peers[to].ask(beat, reply) || reply.term <= beat.term) continue;
    std::unique_lock lock(mutex_);
    if (reply.term > term_) obey(reply);
    return;
  }
}

void Store::send_heartbeats() {
  std::vector<Peer> peers(nodes());
  for (uint32_t to = 0; to < nodes(); to++) peers[to].set(options_.ports[to], 50);
  for (int beats = 1;; beats++) {
    pause_ms(kBeat);
    beat_once(peers);
    if (!options_.calm && beats % kSpan == 0) check_point();
  }
}

// -- the followers
// ------------------------------------------------------------------------------------------------------

// Goes along with a node of this or a higher term.
void Store::obey(const Message& request) {
  if (request.term > term_ && role_ == Role::leader) printf("n%u leads no more\n", options_.id), fflush(stdout);
  term_ = request.term;
  role_ = Role::follower;
  leader_ = request.kind == Kind::reply ? request.leader : request.from;
  heard_ = now_ms();
  changed_.notify_all();
}

Message Store::append(const Message& request) {
  if (request.term < term_) return reply(false);
  obey(request);
  if (request.index > log_.size()) return reply(false);
  if (request.index > 0 && log_[request.index - 1].term != request.previous_term) return reply(false);
  if (request.index < log_.size() && log_[request.index].term != request.entry_term) cut_off(request.index, request);
  if (request.index == log_.size()) log_.push_back({request.entry_term, request.value});
  holders_.resize(log_.size());
  const uint64_t sure = request.committed <= request.index ? request.committed : request.index + 1;
  if (sure > committed_) committed_ = sure;
  return reply(true);
}

// Entries of a leader that was replaced give way. None of them should be committed.
void Store::cut_off(uint64_t index, const Message& request) {
  for (uint64_t lost = index; lost < committed_; lost++) {
    const std::string path = options_.directory + "/truth-" + std::to_string(options_.id);
    FILE* truth = fopen(path.c_str(), "a");
    if (truth == nullptr) continue;
    fprintf(truth, "n%u lost entry %" PRIu64 " value %" PRIu64 " of term %" PRIu64 " to n%u of term %" PRIu64 "\n",
            options_.id, lost, log_[lost].value, log_[lost].term, request.from, request.term);
    fclose(truth);
  }
  if (committed_ > index) committed_ = index;
  log_.resize(index);
}

Message Store::vote(const Message& request) {
  if (request.term <= term_) return reply(false);
  const bool behind =
      request.previous_term < last_term() || (request.previous_term == last_term() && request.index < log_.size());
  if (role_ == Role::leader) printf("n%u leads no more\n", options_.id), fflush(stdout);
  role_ = Role::follower;
  term_ = request.term;
  changed_.notify_all();
  if (!behind) heard_ = now_ms();
  return reply(!behind);
}

void Store::watch_the_leader() {
  const int64_t patience = kPatience + kMorePatience * options_.id;
  for (;;) {
    pause_ms(10);
    std::unique_lock lock(mutex_);
    if (role_ != Role::leader && now_ms() - heard_ > patience) stand_for_election(lock);
  }
}

void Store::stand_for_election(std::unique_lock<std::mutex>& lock) {
  Message request, reply;
  request.kind = Kind::vote;
  request.from = options_.id;
  request.term = ++term_;
  request.index = log_.size();
  request.previous_term = last_term();
  role_ = Role::candidate;
  heard_ = now_ms();
  lock.unlock();
  uint64_t votes = 1u << options_.id;
  for (uint32_t to = nodes(); to-- > 0;) {  // who leads now answers late, and is asked last
    if (to == options_.id || 2 * std::popcount(votes) > static_cast<int>(nodes())) continue;
    Peer peer;
    peer.set(options_.ports[to], 30);
    if (peer.ask(request, reply) && reply.ok) votes |= 1u << to;
  }
  lock.lock();
  if (term_ != request.term || role_ != Role::candidate) return;
  if (2 * std::popcount(votes) <= static_cast<int>(nodes())) return;
  role_ = Role::leader;
  leader_ = options_.id;
  holders_.assign(log_.size(), 1u << options_.id);
  printf("n%u leads in term %" PRIu64 " by the votes %#" PRIx64 "\n", options_.id, term_, votes), fflush(stdout);
  changed_.notify_all();
}

void Store::write_log() {
  std::unique_lock lock(mutex_);
  const std::string path = options_.directory + "/log-" + std::to_string(options_.id);
  FILE* file = fopen(path.c_str(), "w");
  if (file == nullptr) return;
  fprintf(file, "%s in term %" PRIu64 ", %" PRIu64 " of %zu committed\n", role_ == Role::leader ? "leader" : "follower",
          term_, committed_, log_.size());
  for (const Entry& entry : log_) fprintf(file, "%" PRIu64 "\n", entry.value);
  fclose(file);
}

}  // namespace replicas
