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
constexpr char kTooManyDatagrams[] = "so many datagrams are under way that their receipt cannot be told apart";
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
  shaper->receipts_.emplace(*area);
  shaper->sent_datagrams_.emplace(*area, shaper->options_.spaces);
  if (auto* far = dynamic_cast<FarJudge*>(shaper->judge_.get()))
    shaper->far_side_.emplace(*far, *area, shaper->options_.spaces, shaper->programs(), shaper->options_.patience);
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
  sent_datagrams_.reset();  // its entries stand in the mapping
  if (options_.late && area_) area_->on = area_->handled_when = 0;
  if (mapping_) munmap(mapping_, mapped_);
}

void Shaper::arm() {
  armed_ = true;
  note_progress();
  judge_->arm();
  __atomic_store_n(&area_->on, 1, __ATOMIC_SEQ_CST);
}

FarSide::Programs Shaper::programs() {
  return {.owner_of = [this](uint64_t inode) { return owner_of(inode); },
          .is_gone = [this](uint64_t inode) { return is_gone(inode); },
          .next_on = [this](Ticket ticket) -> const KnownConnection* {
            const auto message = messages_.find(ticket);
            if (message == messages_.end()) return nullptr;
            const Connection& connection = connections_[message->second.inode];
            const bool is_next = !connection.queue.empty() && connection.queue.front().message == ticket;
            return is_next && connection.known ? &*connection.known : nullptr;
          },
          .is_kept = [this](Ticket ticket) { return messages_.contains(ticket); }};
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
  if (request.reason & shim::kDatagram && fd)
    return take_datagram(from, HeldDatagrams::of(request, bytes, std::move(fd)));
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
  const auto verdict =
      judge_->sent({ticket, from, connection.to, piece.bytes, length, connection.known ? &*connection.known : nullptr});
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
    if (const auto message = messages_.find(piece.message); message != messages_.end() && message->second.far)
      messages_.erase(message);
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
  // The program may close the descriptor once all is passed on, and then the duplicate must not hold the connection.
  if (is_last && connection.queue.empty() && !connection.taking) connection.fd.reset();
  account(connection.inode, bytes, is_last);
}

// Tells the shims that so many bytes of an end are not kept any more.
void Shaper::account(uint64_t inode, uint64_t bytes, bool is_last) {
  queued_ -= bytes;
  shim::ShapedEnd* end = shim::shaped_end(*area_, inode);
  if (!end) return;
  __atomic_sub_fetch(&end->queued, bytes, __ATOMIC_SEQ_CST);
  if (!is_last) return;
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
  if (const auto unsent = datagrams_.find(ticket); unsent != datagrams_.end()) {
    account(unsent->second.inode, unsent->second.bytes.size(), true);
    datagrams_.erase(unsent);
  }
  sent_datagrams_->forget(ticket);
  receipts_->forget(ticket);
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

// From now on the receiver tells when it has received, and handled, what was sent. If it is not known yet, look()
// tries again.
void Shaper::want(Connection& connection) {
  std::erase_if(connection.watched, [&](Ticket each) { return !messages_.contains(each); });
  if (!connection.peer || connection.watched.empty() || !knows_counts(connection)) return;
  by_peer_[connection.peer] = connection.inode;
  for (Ticket each : connection.watched) {
    Message& message = messages_.at(each);
    message.wanted = true;
    receipts_->expect(connection.peer, each, message.end + static_cast<uint64_t>(*connection.ahead));
  }
  connection.watched.clear();
}

void Shaper::follow(Connection& connection) {
  want(connection);
  take_note(connection.peer);
}

// Tells the judge what the programs at an end of a connection have received and handled.
void Shaper::take_note(uint64_t inode) {
  for (const auto& [ticket, handled] : receipts_->look(inode)) {
    const auto message = messages_.find(ticket);
    if (message == messages_.end()) continue;
    note_progress();
    if (!handled) {
      judge_->received(ticket);
      continue;
    }
    if (options_.late && !message->second.is_datagram) {
      const Connection& connection = connections_[message->second.inode];
      if (const auto now = measure(connection); now && now != connection.ahead)
        return abandon("how many bytes of a connection were received could not be told");
    }
    FRIDAY_LOG(record, info, "message {} was handled", ticket);
    messages_.erase(message);
    judge_->handled(ticket);
  }
}

// ---- Datagrams

void Shaper::take_datagram(const std::string& from, HeldDatagram datagram) {
  queued_ += datagram.bytes.size();
  const Ticket ticket = next_++;
  if (judge_->is_over() || datagram.is_for_several()) return (void)pass_on(datagram, 0);
  find_receiver(datagram);
  const std::string to = datagram.receiver ? owner_of(datagram.receiver) : "";
  const auto verdict = judge_->sent({ticket, from, to, datagram.bytes, datagram.bytes.size()});
  if (verdict == MessageJudge::Verdict::pass) {
    if (pass_on(datagram, 0) == HeldDatagrams::Sent::unnoted) give_up(kTooManyDatagrams);
    return release();
  }
  const bool held = verdict == MessageJudge::Verdict::hold;
  if (held_ == 0 || !held) note_progress();
  FRIDAY_LOG(record, info, "datagram {} of {}, {} bytes, {}", ticket, from, datagram.bytes.size(),
             held ? "is held back" : "is the next one of the order");
  Message& message = messages_[ticket] = {.inode = datagram.inode, .end = 0, .held = held, .watched = !held};
  message.is_datagram = true;
  message.receiver = datagram.receiver;
  held_ += held;
  datagrams_.emplace(ticket, std::move(datagram));
  if (!held) pass_on_if_possible(ticket);
  release();
  constexpr size_t kMostKept = 1000;  // each has a descriptor
  if (datagrams_.size() > kMostKept) give_up(fmt::format("more than {} datagrams are held back", kMostKept));
}

// Who receives it, if that is a recorded program.
void Shaper::find_receiver(HeldDatagram& datagram) {
  sent_datagrams_->find_receiver(datagram);
  if (is_gone(datagram.receiver)) datagram.receiver = 0;
}

HeldDatagrams::Sent Shaper::pass_on(const HeldDatagram& datagram, Ticket ticket) {
  const auto sent = sent_datagrams_->send(datagram, ticket);
  account(datagram.inode, datagram.bytes.size(), true);
  return sent;
}

// Sends a datagram that is not held any more. One that is watched, and that no recorded program will receive, is lost:
// the next one like it takes its place. Where equal ones may have come before anybody counted (`late`), it waits until
// its receiver has read all.
void Shaper::pass_on_if_possible(Ticket ticket) {
  const auto unsent = datagrams_.find(ticket);
  const auto message = messages_.find(ticket);
  const bool watched = message != messages_.end() && message->second.watched;
  if (watched) find_receiver(unsent->second);
  const uint64_t receiver = unsent->second.receiver;
  if (watched && receiver && options_.late && !read_all_.contains(receiver)) {
    if (unsent->second.unread) return;
    read_all_.insert(receiver);
  }
  if (watched) {
    message->second.is_sent = message->second.wanted = true;
    message->second.receiver = unsent->second.receiver;
  }
  const auto sent = pass_on(unsent->second, watched ? ticket : 0);
  datagrams_.erase(unsent);
  if (!watched) return;
  if (sent == HeldDatagrams::Sent::unnoted) abandon(kTooManyDatagrams);
  else if (sent == HeldDatagrams::Sent::lost || !receiver) lose(ticket);
}

// What of those that were sent on was received.
void Shaper::look_at_datagrams() {
  for (const HeldDatagrams::Receipt& receipt : sent_datagrams_->look()) {
    if (!messages_.contains(receipt.ticket)) continue;
    receipts_->expect(receipt.inode, receipt.ticket, receipt.ordinal);
    take_note(receipt.inode);
  }
}

void Shaper::told(uint64_t inode) {
  look_at_datagrams();
  const auto known = by_peer_.find(inode);
  if (known != by_peer_.end()) follow(connections_[known->second]);
  else if (!far_side_ || !far_side_->told(inode)) take_note(inode);
  release();
}

// Sends what the judge lets go.
void Shaper::release() {
  for (std::vector<MessageJudge::Released> next; !(next = judge_->release()).empty();) {
    for (const auto& [ticket, watched, far] : next) {
      const auto found = messages_.find(ticket);
      if (found == messages_.end()) continue;
      held_ -= found->second.held;
      found->second.held = false;
      found->second.watched = watched;
      found->second.far = far;
      if (found->second.is_datagram) {
        if (!watched) messages_.erase(found);
        pass_on_if_possible(ticket);
        continue;
      }
      const uint64_t inode = found->second.inode;
      if (!watched && !far) messages_.erase(found);
      Connection& connection = connections_[inode];
      pump(connection);
      if (watched && !judge_->is_over() && judge_->is_one_line() && is_behind_held(connection, ticket)) abandon(kStuck);
    }
  }
  if (!judge_->is_over()) return;
  __atomic_store_n(&area_->on, 0, __ATOMIC_SEQ_CST);
  std::erase_if(messages_, [](const auto& each) { return !each.second.held; });
  std::vector<Ticket> unsent;
  for (const auto& [ticket, datagram] : datagrams_)
    if (!messages_.contains(ticket)) unsent.push_back(ticket);
  for (const Ticket ticket : unsent) pass_on_if_possible(ticket);
  for (auto& [inode, connection] : connections_)
    if (!connection.queue.empty() && !connection.blocked) pump(connection);  // pieces that waited to be counted
  receipts_->clear();
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

bool Shaper::is_idle() const {
  // A program that was killed may have given less than it has noted.
  constexpr std::chrono::seconds kLongest(5);
  if (queued_ == 0 && Clock::now() - progress_ > kLongest) return true;
  return queued_ == 0 && std::ranges::all_of(area_->end, [](const shim::ShapedEnd& end) {
           return __atomic_load_n(&end.taken, __ATOMIC_SEQ_CST) == __atomic_load_n(&end.passed, __ATOMIC_SEQ_CST);
         });
}

void Shaper::add_to(PollSet& set) {
  judge_->add_to(set);
  for (auto& [inode, connection] : connections_)
    if (connection.blocked)
      set.add(
          connection.fd.get(), [this, &connection] { pump(connection); }, POLLOUT);
}

int Shaper::due_ms() const {
  constexpr int kLookForGoneMs = 1000;
  if (judge_->is_over()) return -1;
  if (far_side_ && far_side_->must_look_often()) return kLookAgainMs;
  if (messages_.empty()) return far_side_ && far_side_->expects() ? kLookForGoneMs : -1;
  for (const auto& [ticket, message] : messages_)
    if (message.watched && !message.wanted && (message.is_sent || message.is_datagram || options_.late))
      return Clock::now() - progress_ < kOftenFor ? kLookAgainMs : kLookAgainLaterMs;
  const auto left = progress_ + options_.patience - Clock::now();
  constexpr int64_t kLongest = 60'000;  // ms
  return static_cast<int>(std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 1, kLongest));
}

void Shaper::look() {
  if (judge_->is_over()) return far_side_ ? release() : void();
  if (__atomic_load_n(&area_->full, __ATOMIC_RELAXED))
    return give_up(fmt::format("there were more than {} connections and sockets, of which no more can be watched",
                               shim::kMaxShapedEnds));
  if (far_side_) far_side_->look();
  look_at_datagrams();
  std::set<uint64_t> watched, unsent, receivers;
  std::vector<Ticket> unknown;  // datagrams of which it is not known yet who will receive them
  for (const auto& [ticket, message] : messages_) {
    if (!message.watched) continue;
    if (!message.is_datagram) (message.is_sent ? watched : unsent).insert(message.inode);
    else if (message.is_sent) receivers.insert(message.receiver);
    else unknown.push_back(ticket);
  }
  for (const Ticket ticket : unknown) pass_on_if_possible(ticket);
  for (const uint64_t inode : receivers) take_note(inode);
  for (uint64_t inode : unsent) {
    Connection& connection = connections_[inode];
    if (!connection.peer) find_peer(connection);
    pump(connection);
    if (is_counting(connection) && Clock::now() - *connection.since > options_.patience)
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
    if (message.watched && is_gone(message.is_datagram ? message.receiver : connections_[message.inode].peer))
      gone.push_back(ticket);
  for (Ticket ticket : gone) lose(ticket);
  release();
}

// What the order lacks is known here only if the judge is.
std::string Shaper::without(const std::string& what) const {
  return far_side_ ? what : fmt::format("{} without {}", what, judge_->waits_for());
}

void Shaper::leave(const std::string& what) {
  if (!judge_->is_over()) judge_->leave(without(what));
  release();
  let_all_go(what);
}

void Shaper::let_all_go(const std::string& what) {
  if (!judge_->is_over()) give_up(without(what));
  for (auto& [inode, connection] : connections_) pump(connection);
}

}  // namespace friday
