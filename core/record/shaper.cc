#include "core/record/shaper.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>

#include "core/base/log.h"

namespace friday {

namespace {

constexpr int kLookAgainMs = 1, kLookAgainLaterMs = 100;  // until the other end of a connection is found
constexpr std::chrono::seconds kOftenFor(2);
constexpr uint64_t kMostQueued = 256 << 20;  // bytes behind messages that are held back
constexpr char kStuck[] =
    "the next message of the order is sent behind one, on the same connection, that must wait for it";

// Writes without waiting, whatever the program's description says, and without SIGPIPE.
ssize_t write_to_pipe(int fd, const std::byte* bytes, size_t size) {
  UniqueFd own(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!own) return -1;
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t written = write(own.get(), bytes, size);
  const int error = errno;
  const timespec now{};
  if (written < 0 && error == EPIPE) sigtimedwait(&pipe_signal, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
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
  area->word_count = 0;  // of an order before
  for (const std::string& word : words) {
    shim::HoldWord& entry = area->word[area->word_count++];
    entry.length = static_cast<uint32_t>(std::min(word.size(), sizeof entry.bytes));
    memcpy(entry.bytes, word.data(), entry.length);
  }
  area->handled_when = shaper->options_.handled_when;
  if (!shaper->options_.late) shaper->arm();
  return shaper;
}

Shaper::~Shaper() {
  if (options_.late && area_) area_->on = area_->handled_when = 0;
  if (mapping_) munmap(mapping_, mapped_);
}

void Shaper::arm() {
  armed_ = true;
  note_progress();
  __atomic_store_n(&area_->on, 1, __ATOMIC_SEQ_CST);
}

std::string Shaper::owner_of(uint64_t inode) {
  if (const auto known = owners_.find(inode); known != owners_.end()) {
    if (has_inode(known->second, inode)) return name_of_(known->second);
    owners_.erase(known);
  }
  std::set<std::string> names;
  pid_t owner = 0;
  for (pid_t pid : processes_())
    if (has_inode(pid, inode)) names.insert(name_of_(owner = pid));
  if (names.size() != 1) return "";  // a server that forks is about to close it in one of the two
  owners_[inode] = owner;
  return *names.begin();
}

// Whether no process has this end of a connection any more. One that nobody has accepted yet is not known.
bool Shaper::is_gone(uint64_t inode) {
  return inode && std::ranges::none_of(processes_(), [&](pid_t pid) { return has_inode(pid, inode); });
}

void Shaper::find_peer(Connection& connection) {
  if (!connection.known && connection.fd) {
    if (auto known = connection_of(connection.fd.get())) connection.known = *known;
  }
  if (!connection.known) return;
  if (!connection.peer)
    if (const auto peer = peer_inode(*connection.known, options_.spaces)) connection.peer = *peer;
  if (connection.peer && connection.peer != connection.inode) connection.to = owner_of(connection.peer);
}

void Shaper::take(const std::string& from, const shim::Request& request, std::span<const std::byte> bytes,
                  UniqueFd fd) {
  Connection& connection = connections_[request.inode];
  connection.inode = request.inode;
  if (fd) connection.fd = std::move(fd);
  if (!connection.fd) {  // this process has no descriptor left
    FRIDAY_LOG(record, info, "a message of {} is lost: no descriptor came with it", from);
    queued_ += bytes.size();
    settle(connection, bytes.size(), true);
    return give_up("the recorder had no descriptor left for a message, which is lost");
  }
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
    queued_ += part.size();
    connection.queue.push_back(std::move(piece));
    at += part.size();
  }
  connection.taking = false;
  pump(connection);
  release();
  if (queued_ > kMostQueued && !judge_->is_over())
    give_up(fmt::format("more than {} MiB have been sent behind messages that are held back", kMostQueued >> 20));
}

// `sent`: how many bytes the program has sent on the connection before the message, which begins with this piece.
void Shaper::judge(const std::string& from, const Connection& connection, uint64_t sent, Piece& piece,
                   uint64_t length) {
  const Ticket ticket = piece.message = next_++;
  if (judge_->is_over()) return;
  const auto verdict = judge_->sent({ticket, from, connection.to, piece.bytes, length});
  if (verdict == MessageJudge::Verdict::pass) return;
  const bool held = verdict == MessageJudge::Verdict::hold;
  if (held_ == 0 || !held) note_progress();
  FRIDAY_LOG(record, info, "message {} of {}, {} bytes, {}", ticket, from, length,
             held ? "is held back" : "is the next one of the order");
  messages_[ticket] = {connection.inode, sent + length, held, !held};
  held_ += held;
  if (!held && !judge_->is_over() && judge_->is_one_line() && is_behind_held(connection, ticket)) give_up(kStuck);
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

void Shaper::pump(Connection& connection) {
  connection.blocked = false;
  while (!connection.queue.empty()) {
    Piece& piece = connection.queue.front();
    if (const auto message = messages_.find(piece.message); message != messages_.end()) {
      if (message->second.held) return;
      // As long as it is not sent, nothing moves, so that the counts can be compared.
      if (message->second.watched && !message->second.is_sent && !knows_counts(connection)) return;
      if (!message->second.is_sent && message->second.watched) {
        connection.watched.push_back(piece.message);
        want(connection);
      }
      message->second.is_sent = true;
    }
    if (!write_piece(connection, piece)) break;
    const bool is_last = piece.is_last;
    const uint64_t size = piece.bytes.size();
    connection.queue.pop_front();
    settle(connection, size, is_last);
  }
  if (connection.broken) break_off(connection);
}

// False: there is no room now, or the connection is broken.
bool Shaper::write_piece(Connection& connection, Piece& piece) {
  const int fd = connection.fd.get();
  if (piece.shuts) {
    shutdown(fd, SHUT_WR);
    return true;
  }
  const bool pipe = connection.known && connection.known->is_pipe;
  while (piece.written < piece.bytes.size()) {
    pollfd room{fd, POLLOUT, 0};
    if (poll(&room, 1, 0) < 0) continue;
    // The program shall learn of the error itself: to send would take it away (SO_ERROR in socket(7)).
    if (room.revents & (POLLNVAL | POLLHUP | (pipe ? POLLERR : 0))) {
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
    const ssize_t sent = pipe ? write_to_pipe(fd, from, std::min(left, kSurelyInPipe))
                              : send(fd, from, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) piece.written += static_cast<size_t>(sent);
    else if (errno == EAGAIN) connection.blocked = true;
    else if (errno != EINTR) connection.broken = true;
    if (connection.blocked || connection.broken) return false;
  }
  return true;
}

// So many bytes of the queue are sent, or nobody will receive them. `is_last`: of what the shim has given at a time.
void Shaper::settle(Connection& connection, uint64_t bytes, bool is_last) {
  queued_ -= bytes;
  shim::ShapedEnd* end = shim::shaped_end(*area_, connection.inode);
  if (!end) return;
  __atomic_sub_fetch(&end->queued, bytes, __ATOMIC_SEQ_CST);
  if (!is_last) return;
  // The program may close the descriptor once all is passed on, and then the duplicate must not hold the connection.
  if (connection.queue.empty() && !connection.taking) connection.fd.reset();
  __atomic_add_fetch(&end->passed, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &end->passed, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Nobody will receive what is left.
void Shaper::break_off(Connection& connection) {
  for (; !connection.queue.empty(); connection.queue.pop_front()) {
    const Piece& piece = connection.queue.front();
    lose(piece.message);
    settle(connection, piece.bytes.size(), piece.is_last);
  }
}

void Shaper::lose(Ticket ticket) {
  const auto message = messages_.find(ticket);
  if (message == messages_.end()) return;
  held_ -= message->second.held;
  messages_.erase(message);
  judge_->lost(ticket);
}

// How many bytes more the receiver has counted than the sender, as it looks now. None if nobody can tell.
std::optional<int64_t> Shaper::measure(const Connection& connection) const {
  const shim::ShapedEnd* own = shim::shaped_end(*area_, connection.inode);
  const shim::ShapedEnd* peer = connection.peer ? shim::shaped_end(*area_, connection.peer) : nullptr;
  if (!own || !peer || !connection.known) return std::nullopt;
  const auto counts = [&] {
    const uint64_t queued = __atomic_load_n(&own->queued, __ATOMIC_SEQ_CST);
    return std::pair(__atomic_load_n(&own->sent, __ATOMIC_SEQ_CST) - queued,
                     __atomic_load_n(&peer->received, __ATOMIC_SEQ_CST));
  };
  const auto before = counts();
  std::optional<uint64_t> unread;
  if (int in_pipe = 0; !connection.known->is_pipe) unread = unread_bytes(*connection.known, options_.spaces);
  else if (connection.fd && ioctl(connection.fd.get(), FIONREAD, &in_pipe) == 0) unread = in_pipe;
  if (!unread || counts() != before) return std::nullopt;
  return static_cast<int64_t>(before.second + *unread - before.first);
}

// Whether it is known what the counts of a connection's two ends mean. The shims count behind their calls, so a single
// look may come between the two; it must be the same at several.
bool Shaper::knows_counts(Connection& connection) {
  constexpr unsigned kEnough = 5;  // looks
  if (!options_.late) connection.ahead = 0;
  if (connection.ahead) return true;
  const Clock::time_point now = Clock::now();
  if (!connection.since) connection.since = now;
  if (now - connection.looked < std::chrono::milliseconds(kLookAgainMs)) return false;
  connection.looked = now;
  const auto found = measure(connection);
  if (!found) return false;
  connection.times = connection.times && *found == connection.measured ? connection.times + 1 : 1;
  connection.measured = *found;
  if (connection.times < kEnough) return false;
  FRIDAY_LOG(record, info, "{} has counted {} bytes more than the sender", connection.to, *found);
  connection.ahead = found;
  return true;
}

// Whether the next message waits for knows_counts().
bool Shaper::is_counting(const Connection& connection) const {
  if (connection.ahead || !connection.since || connection.queue.empty()) return false;
  const auto next = messages_.find(connection.queue.front().message);
  return next != messages_.end() && next->second.watched && !next->second.is_sent;
}

// From now on the receiver tells when it has received, and handled, what it gets up to the end of the next message for
// which that is wanted. If it is not known yet, look() tries again.
void Shaper::want(Connection& connection) {
  std::erase_if(connection.watched, [&](Ticket each) { return !messages_.contains(each); });
  shim::ShapedEnd* peer = connection.peer ? shim::shaped_end(*area_, connection.peer) : nullptr;
  if (!peer || connection.watched.empty() || !knows_counts(connection)) return;
  const auto ahead = static_cast<uint64_t>(*connection.ahead);
  by_peer_[connection.peer] = connection.inode;
  uint64_t received = 0;
  for (Ticket each : connection.watched) {
    Message& message = messages_.at(each);
    message.wanted = true;
    if (!received && !message.received) received = message.end + ahead;
  }
  __atomic_store_n(&peer->wanted_received, received, __ATOMIC_SEQ_CST);
  __atomic_store_n(&peer->wanted_handled, messages_.at(connection.watched.front()).end + ahead, __ATOMIC_SEQ_CST);
}

// Takes note of what the receiver has received and handled, also what it had before it was wanted.
void Shaper::follow(Connection& connection) {
  const shim::ShapedEnd* peer = connection.peer ? shim::shaped_end(*area_, connection.peer) : nullptr;
  for (bool more = peer; more;) {
    want(connection);
    if (!connection.ahead) return;
    more = false;
    const auto ahead = static_cast<uint64_t>(*connection.ahead);
    const uint64_t handled = __atomic_load_n(&peer->handled, __ATOMIC_SEQ_CST);
    const uint64_t received = __atomic_load_n(&peer->received, __ATOMIC_SEQ_CST);
    const std::deque<Ticket> watched = connection.watched;
    for (Ticket each : watched) {
      Message& message = messages_.at(each);
      if (received < message.end + ahead) break;
      const bool is_handled = handled >= message.end + ahead;
      if (message.received && !is_handled) continue;
      more = true;
      note_progress();
      if (!message.received) judge_->received(each);
      message.received = true;
      if (!is_handled) continue;
      if (const auto now = options_.late ? measure(connection) : connection.ahead; now && now != connection.ahead)
        return abandon("how many bytes of a connection were received could not be told");
      FRIDAY_LOG(record, info, "message {} was handled", each);
      messages_.erase(each);
      judge_->handled(each);
    }
  }
}

void Shaper::told(uint64_t inode) {
  const auto known = by_peer_.find(inode);
  if (known == by_peer_.end()) return;
  follow(connections_[known->second]);
  release();
}

// Sends what the judge lets go.
void Shaper::release() {
  for (std::vector<MessageJudge::Released> next; !(next = judge_->release()).empty();) {
    for (const auto& [ticket, watched] : next) {
      const auto found = messages_.find(ticket);
      if (found == messages_.end()) continue;
      held_ -= found->second.held;
      found->second.held = false;
      found->second.watched = watched;
      const uint64_t inode = found->second.inode;
      if (!watched) messages_.erase(found);
      Connection& connection = connections_[inode];
      pump(connection);
      if (watched && !judge_->is_over() && judge_->is_one_line() && is_behind_held(connection, ticket)) abandon(kStuck);
    }
  }
  if (!judge_->is_over()) return;
  __atomic_store_n(&area_->on, 0, __ATOMIC_SEQ_CST);
  std::erase_if(messages_, [](const auto& each) { return !each.second.held; });
}

void Shaper::abandon(const std::string& why) {
  FRIDAY_LOG(record, info, "the order is given up: {}", why);
  has_given_up_ = true;
  judge_->give_up(why);
}

void Shaper::give_up(const std::string& why) {
  abandon(why);
  release();
}

void Shaper::let_go(const std::string& from, const shim::Request& request) {
  const std::string what(request.text, strnlen(request.text, sizeof request.text));
  if (!judge_->is_over())
    give_up(fmt::format("{} calls {} behind a message that is held back, and that call cannot wait", from, what));
  pump(connections_[request.inode]);
}

void Shaper::add_to(PollSet& set) {
  for (auto& [inode, connection] : connections_)
    if (connection.blocked)
      set.add(
          connection.fd.get(), [this, &connection] { pump(connection); }, POLLOUT);
}

int Shaper::due_ms() const {
  if (judge_->is_over() || messages_.empty()) return -1;
  for (const auto& [ticket, message] : messages_)
    if (message.watched && !message.wanted && (message.is_sent || options_.late))
      return Clock::now() - progress_ < kOftenFor ? kLookAgainMs : kLookAgainLaterMs;
  const auto left = progress_ + options_.patience - Clock::now();
  constexpr int64_t kLongest = 60'000;  // ms
  return static_cast<int>(std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 1, kLongest));
}

void Shaper::look() {
  if (judge_->is_over()) return;
  if (__atomic_load_n(&area_->full, __ATOMIC_RELAXED))
    return give_up(
        fmt::format("there were more than {} connections, of which no more can be watched", shim::kMaxShapedEnds));
  std::set<uint64_t> watched, unsent;
  for (const auto& [ticket, message] : messages_)
    if (message.watched) (message.is_sent ? watched : unsent).insert(message.inode);
  for (uint64_t inode : unsent) {
    Connection& connection = connections_[inode];
    if (!connection.peer) find_peer(connection);
    pump(connection);
    constexpr std::chrono::seconds kLongest(1);
    if (is_counting(connection) && Clock::now() - *connection.since > kLongest)
      return give_up(fmt::format("it cannot be told how much of a connection of {} was received",
                                 connection.to.empty() ? "an unknown program" : connection.to));
  }
  for (uint64_t inode : watched) {
    Connection& connection = connections_[inode];
    if (!connection.peer) find_peer(connection);
    follow(connection);
  }
  release();
  if (judge_->is_over() || messages_.empty() || Clock::now() - progress_ < options_.patience) return;
  if (held_ && judge_->do_without()) {
    note_progress();
    return release();
  }
  if (held_)
    return give_up(fmt::format("{:g} s have passed without {}",
                               std::chrono::duration<double>(options_.patience).count(), judge_->waits_for()));
  // Nobody waits. A step whose receiver has gone will never be handled; the next one like it takes its place.
  note_progress();
  std::vector<Ticket> gone;
  for (const auto& [ticket, message] : messages_)
    if (message.watched && is_gone(connections_[message.inode].peer)) gone.push_back(ticket);
  for (Ticket ticket : gone) lose(ticket);
  release();
}

void Shaper::let_all_go(const std::string& what) {
  if (!judge_->is_over()) give_up(fmt::format("{} without {}", what, judge_->waits_for()));
  for (auto& [inode, connection] : connections_) pump(connection);
}

}  // namespace friday
