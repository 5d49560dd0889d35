#include "core/record/shaper.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "core/base/log.h"
#include "core/record/sock_peers.h"

namespace friday {

namespace {

constexpr int kLookAgainMs = 1;  // until the other end of a connection is found

bool is_pipe(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

// Whether a process has the socket or pipe.
bool has_inode(pid_t pid, uint64_t inode) {
  const std::string place = fmt::format("/proc/{}/fd", pid);
  DIR* directory = opendir(place.c_str());
  if (!directory) return false;
  bool found = false;
  while (const dirent* entry = readdir(directory)) {
    struct stat status;
    if (entry->d_name[0] == '.' || fstatat(dirfd(directory), entry->d_name, &status, 0) != 0) continue;
    if ((found = status.st_ino == inode && (S_ISSOCK(status.st_mode) || S_ISFIFO(status.st_mode)))) break;
  }
  closedir(directory);
  return found;
}

}  // namespace

Result<std::unique_ptr<Shaper>> Shaper::create(ShaperOptions options, int tokens,
                                               std::function<std::string(pid_t)> name_of,
                                               std::function<std::vector<pid_t>()> processes) {
  std::unique_ptr<Shaper> shaper(new Shaper(std::move(options), std::move(name_of), std::move(processes)));
  const std::vector<std::string>& words = shaper->options_.words;
  if (words.size() > shim::kMaxHoldWords)
    return fail(ErrorCode::unsupported, "an order of more than {} messages cannot be forced", shim::kMaxHoldWords);
  constexpr off_t kPage = 4096, kAt = offsetof(shim::TokenArea, shapes), kBelow = kAt % kPage;
  if (const int error = posix_fallocate(tokens, kAt, sizeof(shim::ShapeArea)))
    return fail_errno(error, "no room for what the programs must know to hold messages back");
  shaper->mapped_ = sizeof(shim::ShapeArea) + kBelow;
  shaper->mapping_ = mmap(nullptr, shaper->mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, tokens, kAt - kBelow);
  if (shaper->mapping_ == MAP_FAILED) {
    shaper->mapping_ = nullptr;
    return fail_errno(errno, "cannot map what the programs must know to hold messages back");
  }
  auto* area = reinterpret_cast<shim::ShapeArea*>(static_cast<char*>(shaper->mapping_) + kBelow);
  shaper->area_ = area;
  for (const std::string& word : words) {
    shim::HoldWord& entry = area->word[area->word_count++];
    entry.length = static_cast<uint32_t>(std::min(word.size(), sizeof entry.bytes));
    memcpy(entry.bytes, word.data(), entry.length);
  }
  area->handled_when = shaper->options_.handled_when;
  __atomic_store_n(&area->on, 1, __ATOMIC_SEQ_CST);
  return shaper;
}

Shaper::~Shaper() {
  if (mapping_) munmap(mapping_, mapped_);
}

// The shims look an inode up in the same way (entry_of() in shaping.cc).
shim::ShapedEnd* Shaper::end_of(uint64_t inode) {
  uint32_t at = static_cast<uint32_t>(inode * 0x9e3779b97f4a7c15 >> 40) % shim::kMaxShapedEnds;
  for (uint32_t tries = 0; tries < shim::kMaxShapedEnds; tries++, at = (at + 1) % shim::kMaxShapedEnds) {
    uint64_t known = 0;
    if (__atomic_compare_exchange_n(&area_->end[at].inode, &known, inode, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
        known == inode)
      return &area_->end[at];
  }
  return nullptr;
}

std::string Shaper::owner_of(uint64_t inode) {
  if (const auto known = owners_.find(inode); known != owners_.end()) return known->second;
  std::set<std::string> names;
  for (pid_t pid : processes_())
    if (has_inode(pid, inode)) names.insert(name_of_(pid));
  if (names.size() != 1) return "";
  return owners_[inode] = *names.begin();
}

void Shaper::find_peer(Connection& connection) {
  if (connection.peer || !connection.fd) return;
  const auto peer = peer_inode(connection.fd.get());
  if (!peer) return;
  connection.peer = *peer;
  if (*peer != connection.inode) connection.to = owner_of(*peer);
}

void Shaper::take(const std::string& from, const shim::Request& request, std::span<const std::byte> bytes,
                  UniqueFd fd) {
  if (!fd) return;
  Connection& connection = connections_[request.inode];
  connection.inode = request.inode;
  connection.fd = std::move(fd);
  connection.broken = false;
  connection.taking = true;
  find_peer(connection);
  const bool begins = request.reason & shim::kFirstPiece, is_whole = begins && request.reason & shim::kLastPiece;
  std::vector<size_t> lengths{bytes.size()};
  if (is_whole && !judge_->is_over()) lengths = judge_->messages_in(bytes);
  uint64_t at = 0;
  for (size_t i = 0; i < lengths.size(); i++) {
    const auto part = bytes.subspan(at, lengths[i]);
    Piece piece{{part.begin(), part.end()}};
    piece.shuts = request.reason & shim::kShutsDown;
    piece.first = begins;
    piece.is_last = i + 1 == lengths.size();
    if (begins) judge(from, connection, request.events + at, piece, is_whole ? part.size() : request.length);
    else if (!connection.queue.empty()) piece.message = connection.queue.back().message;
    connection.queue.push_back(std::move(piece));
    at += part.size();
  }
  connection.taking = false;
  pump(connection);
}

// `sent`: how many bytes the program has sent on the connection before the message, which begins with this piece.
void Shaper::judge(const std::string& from, const Connection& connection, uint64_t sent, Piece& piece,
                   uint64_t length) {
  const Ticket ticket = piece.message = next_++;
  if (judge_->is_over()) return;
  const auto verdict = judge_->sent({ticket, from, connection.to, piece.bytes, length});
  if (judge_->is_over()) {
    __atomic_store_n(&area_->on, 0, __ATOMIC_SEQ_CST);
    return;
  }
  if (verdict == MessageJudge::Verdict::pass) return;
  const bool held = verdict == MessageJudge::Verdict::hold;
  messages_[ticket] = {connection.inode, sent + length, length, held, !held};
  if (held_ == 0) note_progress();
  held_ += held;
  FRIDAY_LOG(record, info, "message {} of {}, {} bytes, {}", ticket, from, length,
             held ? "is held back" : "is the next one of the order");
  if (!held) give_up_if_stuck(connection, ticket);
}

// Whether a message waits for another one on the same connection that must wait for it. `ticket` may not be queued yet.
bool Shaper::is_behind_held(const Connection& connection, Ticket ticket) const {
  for (const Piece& piece : connection.queue) {
    if (piece.message == ticket) return false;
    const auto message = messages_.find(piece.message);
    if (message != messages_.end() && message->second.held) return true;
  }
  return false;
}

void Shaper::give_up_if_stuck(const Connection& connection, Ticket ticket) {
  if (is_behind_held(connection, ticket))
    give_up("the next message of the order is sent behind one, on the same connection, that must wait for it");
}

void Shaper::pump(Connection& connection) {
  connection.blocked = false;
  while (!connection.queue.empty()) {
    Piece& piece = connection.queue.front();
    if (const auto message = messages_.find(piece.message); message != messages_.end()) {
      if (message->second.held) return;
      if (message->second.watched && piece.first && !piece.written) begin_watch(connection, piece.message);
    }
    if (!write_piece(connection, piece)) break;
    const bool is_last = piece.is_last;
    connection.queue.pop_front();
    if (is_last) passed(connection);
  }
  if (connection.broken) break_off(connection);
  drop_duplicate(connection);
}

// With the duplicate the connection would outlive the program's descriptor. It is needed as long as there is something
// to send, or the other end is not known of which a message is watched.
void Shaper::drop_duplicate(Connection& connection) {
  if (!connection.queue.empty() || connection.taking) return;
  const auto needs_peer = [&](const auto& each) {
    return each.second.watched && each.second.inode == connection.inode && !connection.peer;
  };
  if (connection.broken || std::ranges::none_of(messages_, needs_peer)) connection.fd.reset();
}

// False: there is no room now, or the connection is broken.
bool Shaper::write_piece(Connection& connection, Piece& piece) {
  const int fd = connection.fd.get();
  if (piece.shuts) {
    shutdown(fd, SHUT_WR);
    return true;
  }
  const bool pipe = is_pipe(fd);
  while (piece.written < piece.bytes.size()) {
    pollfd room{fd, POLLOUT, 0};
    if (poll(&room, 1, 0) < 0) continue;
    // The program shall learn of the error itself: to send would take it away (SO_ERROR in socket(7)).
    if (room.revents & (POLLERR | POLLNVAL | POLLHUP)) {
      connection.broken = true;
      return false;
    }
    if (!(room.revents & POLLOUT)) {
      connection.blocked = true;
      return false;
    }
    const std::byte* from = piece.bytes.data() + piece.written;
    const size_t left = piece.bytes.size() - piece.written;
    constexpr size_t kSurelyInPipe = 4096;  // PIPE_BUF
    const ssize_t sent =
        pipe ? write(fd, from, std::min(left, kSurelyInPipe)) : send(fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) piece.written += static_cast<size_t>(sent);
    else if (errno == EAGAIN) connection.blocked = true;
    else if (errno != EINTR) connection.broken = true;
    if (connection.blocked || connection.broken) return false;
  }
  return true;
}

void Shaper::passed(Connection& connection) {
  shim::ShapedEnd* end = end_of(connection.inode);
  if (!end) return;
  __atomic_add_fetch(&end->passed, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &end->passed, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Nobody will receive what is left.
void Shaper::break_off(Connection& connection) {
  for (; !connection.queue.empty(); connection.queue.pop_front()) {
    const Ticket ticket = connection.queue.front().message;
    if (const auto message = messages_.find(ticket); message != messages_.end()) {
      held_ -= message->second.held;
      messages_.erase(message);
      judge_->lost(ticket);
    }
    if (connection.queue.front().is_last) passed(connection);
  }
}

// From now on the receiver tells when it has handled what it gets up to the end of this message.
void Shaper::begin_watch(const Connection& connection, Ticket ticket) {
  shim::ShapedEnd* peer = connection.peer ? end_of(connection.peer) : nullptr;
  if (!peer) return;  // look() tries again
  const uint64_t end = messages_.at(ticket).end;
  __atomic_store_n(&peer->wanted, end, __ATOMIC_SEQ_CST);
}

void Shaper::handled(uint64_t inode) {
  const shim::ShapedEnd* end = end_of(inode);
  if (!end) return;
  const uint64_t handled = __atomic_load_n(&end->handled, __ATOMIC_SEQ_CST);
  std::vector<Ticket> done;
  for (const auto& [ticket, message] : messages_) {
    const auto connection = connections_.find(message.inode);
    const bool is_here = connection != connections_.end() && connection->second.peer == inode;
    if (message.watched && is_here && handled >= message.end) done.push_back(ticket);
  }
  for (Ticket ticket : done) come_true(ticket);
}

void Shaper::come_true(Ticket ticket) {
  FRIDAY_LOG(record, info, "message {} was handled", ticket);
  messages_.erase(ticket);
  note_progress();
  const auto next = judge_->handled(ticket);
  if (judge_->is_over()) __atomic_store_n(&area_->on, 0, __ATOMIC_SEQ_CST);
  send_all(next);
}

void Shaper::send_all(const std::vector<Ticket>& tickets) {
  std::set<uint64_t> changed;
  for (Ticket ticket : tickets) {
    const auto found = messages_.find(ticket);
    if (found == messages_.end()) continue;
    held_ -= found->second.held;
    found->second.held = false;
    found->second.watched = !judge_->is_over();
    changed.insert(found->second.inode);
    if (!found->second.watched) messages_.erase(found);
  }
  for (uint64_t inode : changed) pump(connections_[inode]);
  if (judge_->is_over()) return;
  for (Ticket ticket : tickets)
    if (const auto found = messages_.find(ticket); found != messages_.end())
      give_up_if_stuck(connections_[found->second.inode], ticket);
}

void Shaper::give_up(const std::string& why) {
  FRIDAY_LOG(record, info, "the order is given up: {}", why);
  const auto tickets = judge_->give_up(why);
  __atomic_store_n(&area_->on, 0, __ATOMIC_SEQ_CST);
  std::erase_if(messages_, [](const auto& each) { return each.second.watched; });
  send_all(tickets);
}

void Shaper::let_go(const std::string& from, const shim::Request& request) {
  const std::string what(request.text, strnlen(request.text, sizeof request.text));
  if (!judge_->is_over())
    give_up(fmt::format("{} calls {} behind a message that is held back, and that call cannot wait", from, what));
  pump(connections_[request.inode]);
}

void Shaper::add_to(PollSet& set) {
  for (auto& [inode, connection] : connections_)
    if (connection.blocked) set.add(connection.fd.get(), [this, &connection] { pump(connection); }, POLLOUT);
}

int Shaper::due_ms() const {
  if (judge_->is_over()) return -1;
  for (const auto& [ticket, message] : messages_)
    if (const auto found = connections_.find(message.inode);
        message.watched && found != connections_.end() && !found->second.peer)
      return kLookAgainMs;
  if (held_ == 0) return -1;
  const auto left = progress_ + options_.patience - Clock::now();
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

void Shaper::look() {
  std::set<uint64_t> peers;
  for (auto& [ticket, message] : messages_) {
    if (!message.watched) continue;
    Connection& connection = connections_[message.inode];
    if (!connection.peer) {
      find_peer(connection);
      if (connection.peer) begin_watch(connection, ticket);
      drop_duplicate(connection);
    }
    if (connection.peer) peers.insert(connection.peer);
  }
  for (uint64_t peer : peers) handled(peer);  // it may have been before that was wanted
  if (judge_->is_over() || held_ == 0 || Clock::now() - progress_ < options_.patience) return;
  give_up(fmt::format("{:g} s have passed without {}", std::chrono::duration<double>(options_.patience).count(),
                      judge_->waits_for()));
}

void Shaper::finish() {
  if (held_) give_up("the recording has ended before");
  for (auto& [inode, connection] : connections_) pump(connection);
}

}  // namespace friday
