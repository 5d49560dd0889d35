#include "core/trace/facts.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "core/shim/call_flags.h"
#include "core/trace/calls.h"
#include "core/trace/raw_sockets.h"
#include "core/trace/told.h"

namespace friday {

using namespace format;

namespace {

using Locked = std::set<std::pair<uint64_t, uint64_t>>;  // device and inode of files with a lock

// Duplicates of descriptors that no channel describes yet, each with the group of those that are the same open file.
struct Undescribed {
  std::map<int, uint64_t> group;
  uint64_t groups = 0;  // how many there were, since a descriptor's number may be that of another file later
};

// What a forked child inherits: its parent's descriptors, channels and file locks at the time of the fork.
struct Inheritance {
  struct Inherited {
    uint32_t channel;
    uint64_t out_hash;
  };
  std::map<int, uint64_t> descriptors;  // fd -> channel number
  std::unordered_map<uint64_t, Inherited> channels;
  Locked locked;
  std::set<int> broadcasting;
  Undescribed undescribed;
  std::optional<std::string> cwd;
};
struct Inheritances {
  std::map<Uuid, Inheritance> forked;     // by the child
  std::map<Uuid, Inheritance> continued;  // by the node whose process goes on in another trace
  // (host, pid) -> locks and working directory of the process when it called execve
  struct Executed {
    Locked locked;
    std::optional<std::string> cwd;
  };
  std::map<std::pair<uint32_t, uint32_t>, Executed> executed;
};

class NodeWalk {
 public:
  NodeWalk(FactSet& set, uint32_t slot, Inheritances& inheritances, std::map<std::string, uint32_t>& addresses)
      : set_(set), slot_(slot), inheritances_(inheritances), addresses_(addresses) {}

  Result<void> run();

 private:
  NodeFacts& node() { return set_.nodes[slot_]; }
  void inherit(const Inheritance& inheritance);
  void on_channel(const ChannelRecord& record, const ChannelPositions* before, const ChannelPeer* peer);
  void name_unix(Channel& channel, const Address& local, const Address& remote) const;
  void on_directory(EventView event);
  void on_turn(const TurnRecord& record);
  void on_event(EventView event, uint64_t record);
  void on_call(EventView event, uint64_t record);
  void on_parts(EventView event, uint64_t record);
  void on_transfer(EventView event, PartView part, uint64_t record, uint32_t ordinal);
  void on_descriptor_call(EventView event);
  void on_connect(EventView event);
  void on_broken(EventView event);
  void on_socket_error(EventView event);
  void on_sync_call(EventView event);
  void on_event_descriptor(EventView event);
  void use(Shared kind, uint64_t device, uint64_t inode, bool lets_go);
  void use_object(EventView event, Shared kind, uint64_t device, uint64_t inode, bool lets_go);
  void release_locks();
  void on_submit(EventView event);
  void at_its_submission(EventView event, uint32_t which, bool out, Transfer* transfer);
  void on_pair(EventView event);
  void on_fork(const Uuid& child);
  Inheritance leave() const;
  void on_signals(EventView event);
  int64_t of_pidfd(uint64_t fd) const;
  void stamp(EventView event);

  Channel* channel(uint64_t number);
  Channel* channel_of_fd(uint64_t fd);
  uint32_t make_channel(uint64_t number);
  void attach(int fd, uint64_t number);
  void detach(int fd);
  void detach_range(uint64_t first, uint64_t last);
  uint32_t address_index(const SocketAddress& address);

  FactSet& set_;
  uint32_t slot_;
  Inheritances& inheritances_;
  std::map<std::string, uint32_t>& addresses_;
  std::unordered_map<uint64_t, uint32_t> numbers_;  // channel number -> index in set_.channels
  std::unordered_map<uint64_t, Inheritance::Inherited> inherited_;
  std::map<int, uint64_t> descriptors_;
  // locks held by this node or by the processes that it comes from; flock(2) locks belong to the open file, so fork and
  // exec share them
  Locked locked_;
  std::optional<std::string> cwd_;  // empty after fchdir(2), which may lead anywhere
  Undescribed undescribed_;
  std::set<int> broadcasting_;  // descriptors of sockets that may broadcast, and that no channel describes yet
  struct Release {
    uint64_t event, time;
  };
  std::unordered_map<uint32_t, Release> releases_;  // by thread: the call that it is in, from its release event
  struct Submission {
    uint64_t event, time, entered;
  };
  // requests of io_submit(2), by the address of their control block
  std::unordered_map<uint64_t, Submission> submissions_;
  // asynchronous requests are given to virtual threads; this is when each of them becomes idle
  std::vector<uint64_t> asynchronous_;
  std::set<uint32_t> closing_;         // threads in a close(2) whose descriptor is gone already
  std::map<int64_t, int64_t> pidfds_;  // the process of each that pidfd_open(2) returned
  std::set<uint32_t> borrowed_;  // threads that a vfork child runs on; the descriptors it opens and closes are its own
  // Where and when the outgoing and incoming effects of the current event take place.
  uint64_t out_event_ = 0, out_time_ = 0, in_event_ = 0, in_time_ = 0;
  uint64_t turn_time_ = 0;  // start of the current turn, if its first event is still to come
};

bool is_return(EventView event) { return event.type() == kReturn; }

uint32_t NodeWalk::make_channel(uint64_t number) {
  auto index = static_cast<uint32_t>(set_.channels.size());
  Channel& made = set_.channels.emplace_back();
  made.node = slot_;
  made.number = number;
  made.first_event = node().times.size();
  made.first_time = node().times.empty() ? 0 : node().times.back().back;
  numbers_[number] = index;
  return index;
}

Channel* NodeWalk::channel(uint64_t number) {
  auto own = numbers_.find(number);
  if (own != numbers_.end()) return &set_.channels[own->second];
  auto parent = inherited_.find(number);
  if (parent == inherited_.end()) return nullptr;
  uint32_t index = make_channel(number);
  Channel& made = set_.channels[index];
  const Channel& from = set_.channels[parent->second.channel];
  made.kind = from.kind;
  made.domain = from.domain;
  made.socket_type = from.socket_type;
  made.device = from.device;
  made.inode = from.inode;
  made.local = from.local;
  made.remote = from.remote;
  made.listener = from.listener;
  made.peer_pid = from.peer_pid;
  made.inherited_from = parent->second.channel;
  made.out_seed = parent->second.out_hash;
  made.can_write = from.can_write;
  made.may_broadcast = from.may_broadcast;
  return &made;
}

Channel* NodeWalk::channel_of_fd(uint64_t fd) {
  auto found = descriptors_.find(static_cast<int>(fd));
  return found == descriptors_.end() ? nullptr : channel(found->second);
}

void NodeWalk::attach(int fd, uint64_t number) {
  undescribed_.group.erase(fd);
  if (auto held = descriptors_.find(fd); held != descriptors_.end()) {
    if (held->second == number) return;
    detach(fd);
  }
  descriptors_[fd] = number;
  if (Channel* known = channel(number)) ++known->descriptors;
}

void NodeWalk::detach(int fd) {
  pidfds_.erase(fd);
  broadcasting_.erase(fd);
  undescribed_.group.erase(fd);
  auto found = descriptors_.find(fd);
  if (found == descriptors_.end()) return;
  Channel* known = channel(found->second);
  descriptors_.erase(found);
  if (known && locked_.contains({known->device, known->inode})) use(Shared::lock, known->device, known->inode, true);
  if (!known || --known->descriptors > 0 || known->gone_event != kNoEvent) return;
  known->gone_event = out_event_;
  known->gone_time = out_time_;
  if (known->close_event != kNoEvent) return;
  known->close_event = out_event_;
  known->close_time = out_time_;
}

uint32_t NodeWalk::address_index(const SocketAddress& address) {
  std::string key(reinterpret_cast<const char*>(address.bytes), std::min(address.length, kSocketAddressBytes));
  if (key.empty()) return 0;
  auto [place, is_new] = addresses_.try_emplace(std::move(key), static_cast<uint32_t>(set_.addresses.size()));
  if (is_new) set_.addresses.push_back(parse_address(address));
  return place->second;
}

void NodeWalk::inherit(const Inheritance& inheritance) {
  inherited_ = inheritance.channels;
  for (auto [fd, number] : inheritance.descriptors) attach(fd, number);
  locked_ = inheritance.locked;
  broadcasting_ = inheritance.broadcasting;
  undescribed_ = inheritance.undescribed;
  cwd_ = inheritance.cwd;
}

// Names a Unix socket by whole paths: the same relative name means another file in another directory. A socket is bound
// once; one that was accepted has the name that its listener was bound to.
void NodeWalk::name_unix(Channel& channel, const Address& local, const Address& remote) const {
  auto name = [&](Address& place, const Address& told) {
    if (place.known() || !told.known()) return;
    place = told;
    if (cwd_ && place.name[0] != '/' && place.name[0] != 0)
      place.name = (std::filesystem::path(*cwd_) / place.name).lexically_normal().string();
  };
  name(channel.local, local);
  name(channel.remote, remote);
}

void NodeWalk::on_directory(EventView event) {
  if (event->result != 0) return;
  if (event->call == SYS_fchdir) {
    cwd_.reset();
    return;
  }
  for (PartView part : event.parts())
    if (part.kind() == kPath) {
      const std::filesystem::path to(part.text());
      if (to.is_absolute()) cwd_ = to.string();
      else if (cwd_) cwd_ = (std::filesystem::path(*cwd_) / to).lexically_normal().string();
      if (cwd_ && cwd_->size() > PATH_MAX) cwd_.reset();
    }
}

void NodeWalk::on_channel(const ChannelRecord& record, const ChannelPositions* before, const ChannelPeer* peer) {
  uint64_t number = record.channel;
  // A descriptor that is already known may be described again under another channel number.
  if (!numbers_.contains(number) && !inherited_.contains(number))
    if (Channel* held = channel_of_fd(static_cast<uint64_t>(record.fd)))
      if (held->device == record.device && held->inode == record.inode) numbers_[number] = numbers_.at(held->number);
  Channel* known = channel(number);
  if (!known) {
    known = &set_.channels[make_channel(number)];
    if (before) {
      known->out_seed = before->out_hash;
      known->in_base = before->in_bytes;
      known->out_base = before->out_bytes;
    }
  }
  known->kind = record.kind;
  known->domain = record.domain;
  known->socket_type = record.type;
  known->device = record.device;
  known->inode = record.inode;
  known->can_write = (record.open_flags & O_ACCMODE) != O_RDONLY;
  if (peer && peer->pid) known->peer_pid = peer->pid;
  if (record.domain == AF_UNIX && record.kind != kChannelDatagram) {
    name_unix(*known, parse_address(record.local), parse_address(record.remote));
  } else {
    if (record.local.length) known->local = parse_address(record.local);
    if (record.remote.length) known->remote = parse_address(record.remote);
  }
  // For a raw socket, some calls report the protocol number where other sockets have a port.
  if (known->is_datagram() && known->socket_type == SOCK_RAW)
    known->local.port = known->remote.port = static_cast<uint16_t>(record.protocol);
  known->may_broadcast |= broadcasting_.contains(record.fd);
  std::vector<int> all{record.fd};
  if (auto described = undescribed_.group.find(record.fd); described != undescribed_.group.end())
    for (auto [fd, group] : undescribed_.group)
      if (group == described->second && fd != record.fd) all.push_back(fd);
  for (int fd : all) {
    attach(fd, known->number);
    broadcasting_.erase(fd);
  }
}

// A call that returned while another process held the turn counts as returned when this process got the turn.
void NodeWalk::on_turn(const TurnRecord& record) {
  if (record.flags & kJoins) {
    node().joins.push_back({record.group, record.turn, node().times.size()});
    return;
  }
  node().turns.push_back({record.group, record.turn, node().times.size()});
  turn_time_ = record.ticks;
}

// Widens the intervals of events so that they are monotonic within the node.
void NodeWalk::stamp(EventView event) {
  std::vector<EventTime>& times = node().times;
  uint64_t floor = times.empty() ? 0 : times.back().back;
  floor = std::max(floor, std::exchange(turn_time_, 0));
  uint64_t index = times.size();
  uint64_t entry = event->entry_ticks, back = event.return_ticks();
  if (is_return(event)) entry = back;
  constexpr uint64_t kMost = ~uint64_t{0} >> 1;
  entry = std::min(std::max(entry, floor), kMost);
  back = std::min(std::max(back, entry), kMost);
  bool outgoing = event.has_call() && !is_return(event) && has_outgoing_effect(event->call);
  times.push_back({entry, back, outgoing});
  out_event_ = in_event_ = index;
  out_time_ = entry;
  in_time_ = back;
  if (event.type() == kRelease) {
    releases_[event.thread()] = {index, entry};
  } else if (is_return(event)) {
    auto release = releases_.find(event.thread());
    if (release == releases_.end()) return;
    out_event_ = release->second.event;
    out_time_ = release->second.time;
    releases_.erase(release);
  }
}

// What another node inherits from this one here: of the channels, those that it has a descriptor of.
Inheritance NodeWalk::leave() const {
  Inheritance left{descriptors_, {}, locked_, broadcasting_, undescribed_, cwd_};
  for (auto [fd, number] : descriptors_) {
    if (auto own = numbers_.find(number); own != numbers_.end()) {
      const Channel& known = set_.channels[own->second];
      left.channels[number] = {own->second, known.out.empty() ? known.out_seed : known.out.back().hash};
    } else if (auto parents = inherited_.find(number); parents != inherited_.end()) {
      left.channels[number] = parents->second;
    }
  }
  return left;
}

void NodeWalk::on_fork(const Uuid& child) {
  node().forks.push_back({out_event_, child});
  inheritances_.forked[child] = leave();
}

void NodeWalk::on_transfer(EventView event, PartView part, uint64_t record, uint32_t ordinal) {
  const TransferPart& moved = *part.transfer();
  Channel* through = channel(moved.channel);
  // One call transfers at most 2 GiB (MAX_RW_COUNT); a larger value means a damaged trace.
  if (!through || moved.length > UINT32_MAX || moved.true_length > UINT32_MAX) return;
  bool out = moved.direction == kOut;
  if (through->kind == kChannelFile) use(Shared::file, through->device, through->inode, out);
  if (!through->is_stream() && !through->is_datagram() && through->kind != kChannelPipe) return;
  Transfer transfer{};
  transfer.event = out ? out_event_ : in_event_;
  transfer.time = out ? out_time_ : in_time_;
  transfer.entered = event->entry_ticks;
  transfer.returned = std::max(event.return_ticks(), transfer.entered);
  transfer.thread = event.thread();
  transfer.offset = moved.offset;
  transfer.hash = moved.hash;
  transfer.record = record;
  transfer.length = through->is_datagram() ? std::max(moved.true_length, moved.length) : moved.length;
  transfer.part = ordinal;
  transfer.flags = moved.flags;
  transfer.is_unseen = set_.payloads.known(moved) == PayloadKnown::length;
  const bool raw = through->is_datagram() && through->socket_type == SOCK_RAW;
  if (raw && through->domain == AF_INET && !out && !(moved.flags & kTruncated))
    leave_out_header(set_.payloads, event, transfer);
  if (const SocketAddress* peer = part.peer())
    transfer.peer = address_index(raw ? with_protocol(*peer, through->local.port) : *peer);
  if (event->call == SYS_io_getevents) at_its_submission(event, moved.message, out, &transfer);
  (out ? through->out : through->in).push_back(transfer);
  if (!out && (moved.flags & kEndOfStream)) through->ends.push_back({in_event_, in_time_});
  if (out && transfer.event == out_event_) node().times[event->index].outgoing = !is_return(event);
}

constexpr uint64_t kKeyOffset = 8, kEventBytes = 32,
                   kControlOffset = 8;             // struct iocb, struct io_event: linux/aio_abi.h
constexpr uint32_t kFirstAsynchronous = 1u << 31;  // above all thread numbers that a program can have

// io_submit(2) writes a key into each request that it accepts; the recorded writes therefore show which requests began.
void NodeWalk::on_submit(EventView event) {
  for (PartView part : event.parts())
    if (part.kind() == kMemory) submissions_[part.address() - kKeyOffset] = {out_event_, out_time_, event->entry_ticks};
}

// Dates a transfer from the submission of its request: the kernel moves the bytes at any time from then on,
// independently of what the submitting thread does.
void NodeWalk::at_its_submission(EventView event, uint32_t which, bool out, Transfer* transfer) {
  for (PartView part : event.parts()) {
    if (part.kind() != kMemory || part.address() != event.argument(3) ||
        part.bytes().size() < (which + uint64_t{1}) * kEventBytes)
      continue;
    uint64_t control = 0;
    memcpy(&control, part.bytes().data() + which * kEventBytes + kControlOffset, sizeof control);
    auto submitted = submissions_.find(control);
    if (submitted == submissions_.end()) return;
    transfer->entered = submitted->second.entered;
    if (out) {
      transfer->event = submitted->second.event;
      transfer->time = submitted->second.time;
      node().times[transfer->event].outgoing = true;
    }
    auto idle = std::ranges::find_if(asynchronous_, [&](uint64_t busy) { return busy < transfer->entered; });
    transfer->thread = kFirstAsynchronous + static_cast<uint32_t>(idle - asynchronous_.begin());
    if (idle == asynchronous_.end()) asynchronous_.push_back(transfer->returned);
    else *idle = transfer->returned;
    return;
  }
}

void NodeWalk::on_parts(EventView event, uint64_t record) {
  uint32_t transfers = 0;
  for (PartView part : event.parts()) {
    if (part.transfer()) {
      on_transfer(event, part, record, transfers++);
    } else if (const ChildPart* child = part.child()) {
      if (event.type() == kThreadStart) continue;
      Uuid uuid;
      std::copy(std::begin(child->node_uuid), std::end(child->node_uuid), uuid.begin());
      if (!is_zero(uuid)) on_fork(uuid);
      else node().threads.push_back(child->pid);
    } else if (const WaitPart* wait = part.wait()) {
      // Without a status the child has ended, unless the caller also waited for stopped or continued children.
      const auto status = status_told(event);
      if (status || !(event.argument(2) & (WUNTRACED | WCONTINUED)))
        node().waits.push_back({in_event_, in_time_, wait->pid, static_cast<uint32_t>(status.value_or(0))});
    } else if (const FileIdentityPart* file = part.file_identity()) {
      use(Shared::file, file->device, file->inode, false);
    } else {
      for (const DescriptorsPart& opened : part.descriptors()) attach(opened.fd, opened.channel);
    }
  }
}

// Notes that a call failed since the other end of its connection is gone. After a shutdown(2) of its own, a process
// learns nothing from EPIPE.
void NodeWalk::on_broken(EventView event) {
  if (event->result != -ECONNRESET && event->result != -EPIPE) return;
  const uint32_t flags = call_flags(event->call);
  if (!(flags & (shim::kIn | shim::kOut | shim::kCopies))) return;
  Channel* known = channel_of_fd(event.argument(flags & shim::kCopies ? shim::copies_to(flags) : 0));
  if (!known || !(known->is_stream() || known->is_datagram() || known->kind == kChannelPipe)) return;
  if (event->result == -EPIPE && known->close_event != kNoEvent) return;
  known->breaks.push_back({in_event_, in_time_});
  node().times[event->index].outgoing = false;  // nothing was sent
}

// A connection that was not established: its connect(2) has reached nobody.
void forget_connect(Channel& channel) {
  if (channel.in.empty() && channel.out.empty()) channel.connect_event = kNoEvent;
}

// A program with a non-blocking socket calls connect(2) again to learn the result; only the first call reaches the
// peer. After a failure the socket may be connected once more.
void NodeWalk::on_connect(EventView event) {
  Channel* known = channel_of_fd(event.argument(0));
  if (!known) return;
  switch (-event->result) {
    case 0:
    case EINPROGRESS:
    case EINTR:
      if (known->connect_event != kNoEvent) return;
      known->connect_event = out_event_;
      known->connect_time = out_time_;
      known->connect_back = in_time_;
      return;
    case EALREADY:
    case EISCONN:
    case EAGAIN: return;
    default: forget_connect(*known);
  }
}

// SO_ERROR tells once why a connection was not established; of an established one it tells of a reset.
void NodeWalk::on_socket_error(EventView event) {
  Channel* known = channel_of_fd(event.argument(0));
  if (!known || event->result != 0 || event.argument(1) != SOL_SOCKET || event.argument(2) != SO_ERROR) return;
  for (PartView part : event.parts()) {
    if (part.kind() != kMemory || part.address() != event.argument(3) || part.bytes().size() < sizeof(int)) continue;
    int error = 0;
    memcpy(&error, part.bytes().data(), sizeof error);
    if (error == ECONNRESET || error == EPIPE) known->breaks.push_back({in_event_, in_time_});
    else if (error) forget_connect(*known);
  }
}

void NodeWalk::on_pair(EventView event) {
  for (PartView part : event.parts()) {
    if (part.kind() != kMemory || part.bytes().size() != 8) continue;
    int fds[2];
    memcpy(fds, part.bytes().data(), sizeof fds);
    if (!descriptors_.contains(fds[0]) || !descriptors_.contains(fds[1])) return;
    Channel* first = channel_of_fd(static_cast<uint64_t>(fds[0]));
    Channel* second = channel_of_fd(static_cast<uint64_t>(fds[1]));
    if (!first || !second || first == second) return;
    first->twin = numbers_.at(second->number);
    second->twin = numbers_.at(first->number);
    return;
  }
}

// Closes all descriptors of the range that are open, as close_range(2) does.
void NodeWalk::detach_range(uint64_t first, uint64_t last) {
  if (first > last) return;
  std::vector<int> closed;
  auto gather = [&](const auto& held) {
    const auto end = held.upper_bound(static_cast<int>(std::min<uint64_t>(last, INT32_MAX)));
    for (auto at = held.lower_bound(static_cast<int>(std::min<uint64_t>(first, INT32_MAX))); at != end; ++at)
      closed.push_back(at->first);
  };
  gather(descriptors_);
  gather(undescribed_.group);
  for (int fd : closed) detach(fd);
}

// Whether a setsockopt(2) lets its socket send to broadcast addresses. Of the value there is only the hash.
bool allows_broadcast(EventView event) {
  static const uint64_t off = run_hash(std::vector<std::byte>(sizeof(int)), 0);
  return event->result == 0 && event.argument(1) == SOL_SOCKET && event.argument(2) == SO_BROADCAST &&
         event->input_hash != off;
}

// Handles calls that create, copy and close descriptors, and calls that change the state of a connection. The flags of
// calls.def tell which calls do the former. The latter are named here, and so is socketpair(2): kOpensPair holds for
// pipes, too, but the two ends of a pipe are known by their inode.
void NodeWalk::on_descriptor_call(EventView event) {
  const uint32_t flags = call_flags(event->call);
  const uint64_t fd = event.argument(0);
  const int64_t result = event->result;
  const bool duplicates = event->call == SYS_fcntl
                              ? event.argument(1) == F_DUPFD || event.argument(1) == F_DUPFD_CLOEXEC
                              : (flags & shim::kDuplicates) != 0;
  if (duplicates && result >= 0 && static_cast<uint64_t>(result) != fd) {
    auto from = descriptors_.find(static_cast<int>(fd));
    if (from != descriptors_.end()) {
      attach(static_cast<int>(result), from->second);
    } else {
      detach(static_cast<int>(result));
      const uint64_t group = undescribed_.group.try_emplace(static_cast<int>(fd), ++undescribed_.groups).first->second;
      undescribed_.group[static_cast<int>(result)] = group;
    }
  }
  if ((flags & shim::kAccepts) && result >= 0)
    if (Channel* known = channel_of_fd(static_cast<uint64_t>(result))) {
      known->accept_event = in_event_;
      known->accept_time = in_time_;
      if (const Channel* listener = channel_of_fd(fd)) {
        known->listener = numbers_.at(listener->number);
        if (known->domain == AF_UNIX) known->local = listener->local;
      }
    }
  // Another thread may have been given the number since the call was made.
  const bool is_done = is_return(event) && closing_.erase(event.thread()) > 0;
  if (flags & shim::kCloses && !is_done) detach(static_cast<int>(fd));
  if ((flags & shim::kClosesRange) && result == 0 && !(event.argument(2) & CLOSE_RANGE_CLOEXEC))
    detach_range(fd, event.argument(1));
  switch (event->call) {
    case SYS_socketpair:
      if (result == 0) on_pair(event);
      break;
    case SYS_shutdown:
      if (Channel* known = channel_of_fd(fd);
          known && result == 0 && event.argument(1) != 0 && known->close_event == kNoEvent) {
        known->close_event = out_event_;
        known->close_time = out_time_;
      }
      break;
    case SYS_setsockopt:
      if (!allows_broadcast(event)) break;
      if (Channel* known = channel_of_fd(fd)) known->may_broadcast = true;
      else broadcasting_.insert(static_cast<int>(fd));
      break;
    case SYS_chdir:
    case SYS_fchdir: on_directory(event); break;
    case SYS_connect: on_connect(event); break;
    case SYS_getsockopt: on_socket_error(event); break;
    default: on_broken(event);
  }
}

void NodeWalk::use(Shared kind, uint64_t device, uint64_t inode, bool lets_go) {
  node().uses.push_back(
      {kind, device, inode, lets_go ? out_event_ : in_event_, lets_go ? out_time_ : in_time_, lets_go});
}

// Notes a use of an object that processes wait for. An acquire is noted as a release too, because from then on others
// may have to wait for this process.
void NodeWalk::use_object(EventView event, Shared kind, uint64_t device, uint64_t inode, bool lets_go) {
  use(kind, device, inode, lets_go);
  if (lets_go) node().times[event->index].outgoing = !is_return(event);
  else node().uses.push_back({kind, device, inode, in_event_, in_time_, true});
  if (kind == Shared::lock) locked_.insert({device, inode});
}

// When a node ends, the kernel releases its locks.
void NodeWalk::release_locks() {
  if (node().times.empty()) return;
  for (auto [device, inode] : locked_)
    node().uses.push_back({Shared::lock, device, inode, node().times.size() - 1, node().times.back().point(), true});
}

// Handles read(2) and write(2) on an eventfd, which only its channel identifies, and read(2) on a signalfd.
void NodeWalk::on_event_descriptor(EventView event) {
  Channel* known = channel_of_fd(event.argument(0));
  if (!known || known->kind != kChannelEvent) return;
  uint32_t root = numbers_.at(known->number);
  while (set_.channels[root].inherited_from != kNoChannel) root = set_.channels[root].inherited_from;
  if (event->call == SYS_write) return use_object(event, Shared::eventfd, 0, uint64_t{root} + 1, true);
  for (PartView part : event.parts()) {
    if (part.kind() != kMemory || part.bytes().size() < 8) continue;
    if (part.bytes().size() == 8) use(Shared::eventfd, 0, uint64_t{root} + 1, false);
  }
  on_signals(event);
}

// Handles locks, semaphores, eventfds, message queues and calls that wait for signals. The calls are named here, since
// each names its object, and says whether it takes or releases it, in a way of its own, for which calls.def has no
// words.
void NodeWalk::on_sync_call(EventView event) {
  if (event->result < 0) return;
  const uint64_t object = event.argument(0);
  const SyncPart* sync = nullptr;
  for (PartView part : event.parts())
    if (part.sync()) sync = part.sync();
  Channel* known = nullptr;
  switch (event->call) {
    case SYS_read:
    case SYS_write: on_event_descriptor(event); break;
    case SYS_flock:
      known = channel_of_fd(object);
      if (known && known->inode)
        use_object(event, Shared::lock, known->device, known->inode, event.argument(1) & LOCK_UN);
      break;
    case SYS_fcntl:
      known = sync ? channel_of_fd(object) : nullptr;
      if (known && known->inode) use_object(event, Shared::lock, known->device, known->inode, sync->role == kLetsGo);
      break;
    case SYS_semop:
    case SYS_semtimedop:
      if (sync) use_object(event, Shared::semaphore, 0, object + 1, sync->role == kLetsGo);
      break;
    case SYS_semctl:
      if (const uint64_t command = event.argument(2) & 0xff;
          command == SETVAL || command == SETALL || command == IPC_RMID)
        use_object(event, Shared::semaphore, 0, object + 1, true);
      break;
    case SYS_msgsnd:
    case SYS_msgrcv: use_object(event, Shared::queue, 0, object + 1, event->call == SYS_msgsnd); break;
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
      known = channel_of_fd(object);
      if (known && known->inode)
        use_object(event, Shared::queue, known->device, known->inode, event->call == SYS_mq_timedsend);
      break;
    case SYS_rt_sigtimedwait: on_signals(event); break;
    case SYS_io_submit: on_submit(event); break;
  }
}

void NodeWalk::on_signals(EventView event) {
  for (const ToldSignal& told : signals_told(event))
    node().signals.push_back({in_event_, in_time_, told.signal, told.code, told.sender});
}

// The process of a pidfd; 0, which may be any, if it comes from elsewhere: from clone(2), or from another process.
int64_t NodeWalk::of_pidfd(uint64_t fd) const {
  const auto found = pidfds_.find(static_cast<int32_t>(fd));
  return found == pidfds_.end() ? 0 : found->second;
}

// Handles a call that has returned. Calls that send signals are named here, because calls.def does not say which
// arguments are the receiver and the signal.
void NodeWalk::on_call(EventView event, uint64_t record) {
  on_parts(event, record);
  switch (event->call) {
    case SYS_vfork:
    case SYS_clone:
      if (event.type() == kCall && event->result == 0) borrowed_.insert(event.thread());
      else if (event.type() == kReturn) borrowed_.erase(event.thread());
      break;
    case SYS_kill:
    case SYS_tkill:
    case SYS_rt_sigqueueinfo:
      if (event->result == 0)
        node().kills.push_back(
            {out_event_, out_time_, static_cast<int32_t>(event.argument(0)), static_cast<int>(event.argument(1))});
      break;
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
      if (event->result == 0)
        node().kills.push_back(
            {out_event_, out_time_, static_cast<int32_t>(event.argument(0)), static_cast<int>(event.argument(2))});
      break;
    case SYS_pidfd_open:
      if (event->result >= 0) pidfds_[event->result] = static_cast<int32_t>(event.argument(0));
      break;
    case SYS_pidfd_send_signal:
      if (event->result == 0)
        node().kills.push_back(
            {out_event_, out_time_, of_pidfd(event.argument(0)), static_cast<int>(event.argument(1))});
      break;
    default:
      if (!borrowed_.contains(event.thread())) on_descriptor_call(event);
      on_sync_call(event);
  }
}

void NodeWalk::on_event(EventView event, uint64_t record) {
  stamp(event);
  if (event.type() == kCall || event.type() == kReturn) {
    on_call(event, record);
  } else if (event.type() == kSignal) {
    on_signals(event);
  } else if (event.type() != kRelease) {
    on_parts(event, record);
  } else if (call_flags(event->call) & shim::kCloses && !borrowed_.contains(event.thread())) {
    detach(static_cast<int>(event.argument(0)));
    closing_.insert(event.thread());
  }
}

Result<void> NodeWalk::run() {
  const TraceReader& reader = set_.readers[slot_];
  cwd_ = node().cwd;
  const bool forked = reader.header().features & kFeatureForkChild;
  if (auto found = inheritances_.forked.find(node().uuid); forked && found != inheritances_.forked.end())
    inherit(found->second);
  if (node().continues)
    if (auto found = inheritances_.continued.find(*node().continues); found != inheritances_.continued.end())
      inherit(found->second);
  const auto process = std::pair(node().host, node().pid);
  const bool starts = !forked && !node().continues;
  if (auto before = inheritances_.executed.find(process); starts && before != inheritances_.executed.end())
    locked_ = before->second.locked, cwd_ = before->second.cwd;
  node().times.reserve(
      std::min<uint64_t>(reader.header().events, (reader.end_offset() - reader.first_offset()) / sizeof(EventRecord)));
  bool continued = false;
  RecordCursor cursor = reader.records();
  while (cursor.next()) {
    const RecordView& record = cursor.record();
    if (record.is_event()) on_event(record.event(), record.offset());
    else if (const auto* described = record.channel())
      on_channel(*described, record.channel_positions(), record.channel_peer());
    else if (const auto* clock = record.clock()) set_.clocks[node().host].add(*clock);
    else if (const auto* turn = record.turn()) on_turn(*turn);
    else if (const auto* end = record.end())
      node().replaced |= end->reason == kEndExec, continued |= end->reason == kEndContinued;
    else if (const auto* thread = record.image_thread()) node().threads.push_back(static_cast<uint32_t>(thread->tid));
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  if (continued) {
    inheritances_.continued[node().uuid] = leave();
    return {};
  }
  release_locks();
  if (node().replaced) inheritances_.executed[process] = {locked_, cwd_};
  return {};
}

// Orders the slots so that parents come before their children.
std::vector<uint32_t> parents_first(const Recording& recording, std::span<const NodeId> nodes) {
  std::vector<uint32_t> order(nodes.size());
  for (uint32_t slot = 0; slot < nodes.size(); ++slot) order[slot] = slot;
  std::ranges::stable_sort(order, {}, [&](uint32_t slot) { return recording.find(nodes[slot])->generation; });
  return order;
}

}  // namespace

Result<FactSet> FactSet::gather(const Recording& recording, std::span<const NodeId> nodes) {
  FactSet set;
  std::map<Uuid, uint32_t> hosts;
  for (NodeId id : nodes) {
    FRIDAY_TRY(reader, TraceReader::open(recording, id, TraceReader::Gaps::allow));
    const NodeInfo& info = *recording.find(id);
    NodeFacts& node = set.nodes.emplace_back();
    node.id = id;
    node.host = hosts.try_emplace(info.boot_id, static_cast<uint32_t>(hosts.size())).first->second;
    node.pid = reader.header().pid;
    node.uuid = info.uuid;
    if (info.part) node.continues = info.parent_uuid;
    node.sharing = reader.header().sharing;
    node.cwd = info.cwd;
    node.family = info.lineage.empty() ? info.name : info.lineage.front();
    node.replaced = info.end.how == NodeEnd::How::replaced;
    node.threads.push_back(node.pid);
    set.readers.push_back(std::move(reader));
  }
  set.clocks.resize(hosts.size());
  Inheritances inheritances;
  std::map<std::string, uint32_t> addresses;
  for (uint32_t slot : parents_first(recording, nodes))
    FRIDAY_TRY_VOID(NodeWalk(set, slot, inheritances, addresses).run());
  for (uint32_t host = 0; host < set.clocks.size(); ++host) unify_clock_kinds(set, host);
  return set;
}

PayloadAnswer FactSet::payload(const Channel& channel, const Transfer& transfer) const {
  const TraceReader& reader = readers[channel.node];
  PayloadAnswer answer = payloads.read(reader.seen_event(transfer.record), transfer.part);
  if (answer && !reader.is_complete() &&
      std::ranges::any_of(answer->pieces, [&](std::span<const std::byte> piece) { return reader.lacks(piece); }))
    return std::unexpected(PayloadGap::left_out);
  return answer;
}

}  // namespace friday
