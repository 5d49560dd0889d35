// The table of the program's descriptors while recording. An open file description gets a channel number the first time
// it moves bytes, so that sender and receiver can be matched after recording. The reader of a trace has a table of its
// own (core/trace/facts.cc), for another purpose: docs/architecture.md, "What looks alike and is not one".
#include <asm/ioctls.h>
#include <asm/socket.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/tcp.h>

#include "core/shim/collector.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

struct Channel {
  uint64_t number;
  uint32_t kind;
  uint32_t references;
  uint64_t in_bytes, out_bytes, out_hash;
  bool stale;  // no record describes its present state: it is new, or was bound or connected since
  bool raw;    // a raw IPv4 socket: what is received, and with IP_HDRINCL what is sent, begins with the IP header
};

Channel channels[kMaxDescriptors];   // from index 1; unused if `references` is 0
uint16_t slot_of[kMaxDescriptors];   // descriptor -> index in `channels`; 0: none yet
uint16_t free_hint = 1;              // where the search for an unused entry begins
uint64_t next_number = 1;            // of the next channel
uint8_t plain[kMaxDescriptors / 8];  // of a schedule, bits: the descriptor is known to be that of a file or the like

bool is_plain(int fd) { return __atomic_load_n(&plain[fd / 8], __ATOMIC_RELAXED) >> (fd % 8) & 1; }
void set_plain(int fd, bool on) {
  const uint8_t bit = (uint8_t)(1u << (fd % 8));
  if (is_plain(fd) == on) return;
  if (on) __atomic_fetch_or(&plain[fd / 8], bit, __ATOMIC_SEQ_CST);
  else __atomic_fetch_and(&plain[fd / 8], (uint8_t)~bit, __ATOMIC_SEQ_CST);
}

// A vfork child has descriptors of its own, which are not in the table.
bool in_table(int fd) { return fd >= 0 && fd < kMaxDescriptors && !me()->borrowed; }

Channel* channel_of(int fd) { return in_table(fd) && slot_of[fd] ? &channels[slot_of[fd]] : nullptr; }

Channel* take_slot(int fd) {
  for (int tries = 0; tries < kMaxDescriptors; tries++) {
    uint16_t slot = free_hint++;
    if (!free_hint) free_hint = 1;
    if (slot && !channels[slot].references) {
      channels[slot] = {next_number++, kChannelUnknown, 1, 0, 0, 0, true, false};
      slot_of[fd] = slot;
      return &channels[slot];
    }
  }
  return nullptr;
}

// SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, AF_UNIX, AF_INET and AF_INET6 of the C library's <sys/socket.h>.
constexpr uint32_t kStreamType = 1, kDatagramType = 2, kRawType = 3, kSeqpacketType = 5, kUnix = 1, kInet = 2,
                   kInet6 = 10;

void classify_socket(int fd, ChannelRecord* record) {
  record->type = socket_option(fd, SO_TYPE);
  record->domain = socket_option(fd, SO_DOMAIN);
  record->protocol = socket_option(fd, SO_PROTOCOL);
  const bool listening = socket_option(fd, SO_ACCEPTCONN);
  record->kind = listening                                                                           ? kChannelListen
                 : record->type == kStreamType                                                       ? kChannelStream
                 : record->type == kDatagramType                                                     ? kChannelDatagram
                 : record->type == kSeqpacketType                                                    ? kChannelSeqpacket
                 : record->type == kRawType && (record->domain == kInet || record->domain == kInet6) ? kChannelDatagram
                                                                                                     : kChannelUnknown;
  record->local.length = record->remote.length = kSocketAddressBytes;
  if (failed(native(sys::getsockname, fd, record->local.bytes, &record->local.length))) record->local.length = 0;
  if (failed(native(sys::getpeername, fd, record->remote.bytes, &record->remote.length))) record->remote.length = 0;
  record->local.length = min(record->local.length, kSocketAddressBytes);
  record->remote.length = min(record->remote.length, kSocketAddressBytes);
}

uint32_t kind_of_mode(uint32_t mode) {
  switch (mode & kFileType) {
    case kRegularFile:
    case kDirectory: return kChannelFile;
    case kFifo: return kChannelPipe;
    case kCharacterDevice: return kChannelDevice;
    case 0: return kChannelEvent;  // anonymous inodes
    default: return kChannelUnknown;
  }
}

void write_channel(int fd, Channel* channel) {
  FileStat st = {};
  if (failed(native(sys::fstat, fd, &st))) return;
  ChannelRecord* record = (ChannelRecord*)record_begin(
      kChannelRecord, sizeof(ChannelRecord) + sizeof(ChannelPositions) + sizeof(ChannelPeer));
  record->channel = channel->number;
  record->event = trace_header()->events;
  record->fd = fd;
  record->device = st.device;
  record->inode = st.inode;
  record->open_flags = (uint32_t)native(sys::fcntl, fd, F_GETFL, 0);
  if ((st.mode & kFileType) == kSocketFile) classify_socket(fd, record);
  else record->kind = kind_of_mode(st.mode);
  ChannelPositions* positions = (ChannelPositions*)(record + 1);
  *positions = {channel->in_bytes, channel->out_bytes, channel->out_hash};
  *(ChannelPeer*)(positions + 1) = {record->domain == kUnix ? socket_option(fd, SO_PEERCRED) : 0, 0};
  channel->kind = record->kind;
  channel->raw = record->kind == kChannelDatagram && record->type == kRawType && record->domain == kInet;
  channel->stale = false;
  record_commit(record);
}

}  // namespace

uint32_t socket_option(int fd, int name, uint32_t otherwise) {
  uint32_t value = 0, size = sizeof value;
  return failed(native(sys::getsockopt, fd, SOL_SOCKET, name, &value, &size)) ? otherwise : value;
}

void channel_prepare(int fd) {
  if (!in_table(fd)) return;
  Channel* channel = channel_of(fd);
  if (!channel) channel = take_slot(fd);
  if (channel && channel->stale) write_channel(fd, channel);
}

void channel_opened(EventWriter& writer, int fd) {
  Channel* channel = channel_of(fd);
  if (!channel) return;
  DescriptorsPart part = {channel->number, fd, 0};
  writer.part(kDescriptors, &part, sizeof part);
}

void channel_forget(int fd) {
  if (in_table(fd)) set_plain(fd, false);
  if (!me()->borrowed) shape_forget(fd);
  Channel* channel = channel_of(fd);
  if (!channel) return;
  channel->references--;
  slot_of[fd] = 0;
}

void channel_duplicate(int from, int to) {
  if (!in_table(from) || !in_table(to) || from == to) return;
  channel_forget(to);
  if (!slot_of[from] && !take_slot(from)) return;
  slot_of[to] = slot_of[from];
  channels[slot_of[to]].references++;
}

void channel_changed(int fd) {
  if (Channel* channel = channel_of(fd)) channel->stale = true;
}

// Makes a channel of a connection that was there before the recording, as far as it has come: its positions count from
// its beginning, so that they agree with those of its other end (tcp(7), TCP_INFO).
static void describe_connection(int fd) {
  tcp_info info = {};
  uint32_t size = sizeof info;
  if (socket_option(fd, SO_TYPE) != kStreamType || socket_option(fd, SO_PROTOCOL) != IPPROTO_TCP ||
      socket_option(fd, SO_ACCEPTCONN))
    return;
  if (failed(native(sys::getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &size))) return;
  if (size < __builtin_offsetof(tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans) return;
  int unread = 0;
  native(sys::ioctl, fd, FIONREAD, &unread);
  Channel* channel = take_slot(fd);
  if (!channel) return;
  channel->in_bytes = info.tcpi_bytes_received - (uint64_t)unread;
  channel->out_bytes = info.tcpi_bytes_sent - info.tcpi_bytes_retrans + info.tcpi_notsent_bytes;
}

void each_descriptor(void (*visit)(int fd, int with), int with) {
  const int directory = (int)native(sys::open, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  struct Entry {  // struct linux_dirent64 of getdents(2)
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
  };
  alignas(8) static char entries[1024];
  for (long filled; (filled = native(sys::getdents64, directory, entries, sizeof entries)) > 0;)
    for (long at = 0; at < filled; at += ((const Entry*)(entries + at))->size) {
      int fd = 0;
      const char* digit = ((const Entry*)(entries + at))->name;
      for (; *digit >= '0' && *digit <= '9'; digit++) fd = fd * 10 + (*digit - '0');
      if (!*digit && fd != directory && !collector_owns(fd)) visit(fd, with);
    }
  native(sys::close, directory);
}

void channels_anew() {
  memset(channels, 0, sizeof channels);
  memset(slot_of, 0, sizeof slot_of);
  free_hint = 1;
  each_descriptor(
      [](int fd, int) {
        if (in_table(fd)) describe_connection(fd);
      },
      0);
}

void channels_again() {
  for (Channel& channel : channels) channel.stale = true;
}

bool channel_is_datagram(int fd) {
  Channel* channel = channel_of(fd);
  return channel && (channel->kind == kChannelDatagram || channel->kind == kChannelSeqpacket);
}
bool channel_sends_header(int fd) {
  Channel* channel = channel_of(fd);
  uint32_t value = 0, size = sizeof value;
  return channel && channel->raw && !failed(native(sys::getsockopt, fd, IPPROTO_IP, IP_HDRINCL, &value, &size)) &&
         value;
}
uint64_t channel_number(int fd) {
  Channel* channel = channel_of(fd);
  return channel ? channel->number : 0;
}
bool channel_carries(int fd) {
  if (!in_table(fd)) return false;
  if (const Channel* channel = channel_of(fd); channel && !channel->stale)
    return channel->kind == kChannelStream || channel->kind == kChannelDatagram || channel->kind == kChannelPipe ||
           channel->kind == kChannelSeqpacket || channel->kind == kChannelListen;
  FileStat st;
  if (is_plain(fd) || failed(native(sys::fstat, fd, &st))) return false;
  const bool carries = (st.mode & kFileType) == kSocketFile || (st.mode & kFileType) == kFifo;
  set_plain(fd, !carries);
  return carries;
}
uint64_t channel_hash(int fd) {
  Channel* channel = channel_of(fd);
  return channel ? channel->out_hash : 0;
}

void channel_transfer(EventWriter& writer, int fd, const Moved& moved) {
  Channel* channel = channel_of(fd);
  if (!channel || channel->kind == kChannelEvent || channel->kind == kChannelDevice) return;
  TransferPart* part =
      (TransferPart*)writer.part_space(kTransfer, moved.peer_length ? sizeof(TransferPart) : kTransferBytes);
  if (!part) return;
  const bool in = moved.direction == format::kIn;
  part->channel = channel->number;
  part->offset = in ? channel->in_bytes : channel->out_bytes;
  part->hash = moved.seen ? moved.hash : in ? 0 : channel->out_hash;
  part->length = moved.length;
  part->true_length = moved.full_length ? moved.full_length : moved.length;
  part->direction = moved.direction;
  const bool cut = keeps_schedule && moved.length > first_bytes;
  part->representation = !moved.seen ? kHeaderOnly : !in ? kHashOnly : cut ? kBeginning : kInline;
  part->flags = moved.flags;
  part->message = moved.message;
  part->kept = part->representation == kBeginning ? (uint16_t)first_bytes : 0;
  if (moved.peer_length) {
    part->peer.length = min(moved.peer_length, kSocketAddressBytes);
    memset(part->peer.bytes, 0, kSocketAddressBytes);
    memcpy(part->peer.bytes, moved.peer, part->peer.length);
  }
  if (in && !(moved.flags & kPeek)) channel->in_bytes += moved.length;
  if (!in) {
    channel->out_bytes += moved.length;
    channel->out_hash = part->hash;
  }
}

}  // namespace friday::shim
