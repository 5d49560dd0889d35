// Synthetic recordings for the tests of core/trace: a temporary recording that is removed at the end, and a small
// language to write what a node did (send, receive, connect, fork) at given times.
#pragma once

#include <netinet/in.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/trace/record.h"
#include "tests/unit/trace_writer.h"

namespace friday::testing {

class TemporaryRecording {
 public:
  TemporaryRecording() {
    std::string name =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/friday-trace-XXXXXX" : "/tmp/friday-trace-XXXXXX";
    path_ = mkdtemp(name.data());
    auto made = create_recording(path_, 1);
    EXPECT_TRUE(made) << made.error().message;
  }
  ~TemporaryRecording() { std::filesystem::remove_all(path_); }
  TemporaryRecording(const TemporaryRecording&) = delete;
  const std::string& path() const { return path_; }
  std::string trace(uint32_t node) const { return path_ + "/nodes/" + std::to_string(node) + "/trace"; }

  void save(const TraceWriter& writer, const std::string& json = "") {
    auto node = create_node(path_);
    ASSERT_TRUE(node) << node.error().message;
    auto saved = writer.save(trace(node->value));
    ASSERT_TRUE(saved) << saved.error().message;
    if (!json.empty()) {
      ASSERT_TRUE(write_file_atomically(path_ + "/nodes/" + std::to_string(node->value) + "/node.json", json));
    }
  }

 private:
  std::string path_;
};

inline format::SocketAddress inet(const char* address, uint16_t port) {
  unsigned a, b, c, d;
  sscanf(address, "%u.%u.%u.%u", &a, &b, &c, &d);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(a << 24 | b << 16 | c << 8 | d);
  format::SocketAddress socket_address{};
  socket_address.length = sizeof name;
  memcpy(socket_address.bytes, &name, sizeof name);
  return socket_address;
}

inline format::SocketAddress unix_path(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  memcpy(name.sun_path, path.data(), path.size());
  format::SocketAddress socket_address{};
  socket_address.length = static_cast<uint32_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  memcpy(socket_address.bytes, &name, socket_address.length);
  return socket_address;
}

inline format::FileHeader header_of(uint8_t node, uint8_t boot, uint32_t pid) {
  format::FileHeader header{};
  header.clock_kind = format::kClockTsc;
  header.ticks_per_second = 1'000'000'000;
  header.node_uuid[0] = node + 1;
  header.boot_id[0] = boot + 1;
  header.pid = pid;
  return header;
}

// A node that writes its own trace. Times are the host's ticks; a call takes `duration` ticks.
class Script {
 public:
  Script(uint8_t node, uint8_t boot = 0, uint32_t pid = 0) : writer(header_of(node, boot, pid ? pid : 1000u + node)) {}
  explicit Script(const format::FileHeader& header) : writer(header) {}

  TraceWriter writer;
  uint64_t duration = 10;

  void clock(uint64_t ticks, int64_t monotonic, int64_t real = 0) {
    format::ClockRecord record{};
    record.ticks = ticks;
    record.monotonic_ns = monotonic;
    record.realtime_ns = real;
    record.event = writer.events();
    writer.add_record(format::kClockRecord, record);
  }

  // `peer_pid`: of a connected Unix socket, the process at its other end. `protocol`: of a raw socket.
  void channel(uint64_t number, uint32_t kind, int fd, format::SocketAddress local, format::SocketAddress remote,
               uint64_t inode = 0, uint32_t peer_pid = 0, int protocol = 0) {
    struct : format::ChannelRecord {
      format::ChannelPositions positions;
      format::ChannelPeer peer;
    } record{};
    record.peer.pid = peer_pid;
    record.channel = number;
    record.event = writer.events();
    record.kind = kind;
    record.type = protocol ? SOCK_RAW : 0;
    record.protocol = protocol;
    record.fd = fd;
    record.device = inode ? 9 : 0;
    record.inode = inode;
    memcpy(&family_, local.length ? local.bytes : remote.bytes, sizeof family_);
    record.domain = local.length || remote.length ? family_ : 0;
    record.local = local;
    record.remote = remote;
    writer.add_record(format::kChannelRecord, record);
  }

  EventSpec call(uint64_t at, uint16_t number, std::vector<uint64_t> arguments, int64_t result = 0) {
    EventSpec spec;
    spec.call = number;
    spec.arguments = std::move(arguments);
    spec.result = result;
    spec.entry_ticks = at;
    spec.return_ticks = at + duration;
    return spec;
  }

  uint64_t plain(uint64_t at, uint16_t number = SYS_getppid, std::vector<uint64_t> arguments = {}, int64_t result = 0) {
    return writer.add(call(at, number, std::move(arguments), result));
  }

  uint64_t send(uint64_t at, uint64_t channel, const std::string& text, const format::SocketAddress* to = nullptr) {
    EventSpec spec = call(at, SYS_sendto, {0, 0, text.size()}, static_cast<int64_t>(text.size()));
    spec.parts.record(format::kTransfer, out(channel, text, to));
    return writer.add(spec);
  }

  // A stream or pipe send; `to` makes it a datagram.
  format::TransferPart out(uint64_t channel, const std::string& text, const format::SocketAddress* to) {
    format::TransferPart part{};
    part.channel = channel;
    part.length = part.true_length = text.size();
    part.direction = format::kOut;
    part.representation = format::kHashOnly;
    Stream& stream = out_[channel];
    part.offset = stream.offset;
    part.hash = run_hash(std::as_bytes(std::span(text)), datagrams.contains(channel) ? 0 : stream.hash);
    stream.hash = part.hash;
    stream.offset += text.size();
    if (to) part.peer = *to;
    return part;
  }

  // What the next send is chained to.
  void set_chain(uint64_t channel, uint64_t hash) { out_[channel].hash = hash; }

  // `at` is the return; the call entered `waited` earlier.
  uint64_t receive(uint64_t at, uint64_t channel, const std::string& text, const format::SocketAddress* from = nullptr,
                   uint16_t flags = 0, uint64_t waited = 10) {
    EventSpec spec = call(at - waited, SYS_recvfrom, {0, 0x1000, text.size()}, static_cast<int64_t>(text.size()));
    spec.return_ticks = at;
    format::TransferPart part{};
    part.channel = channel;
    part.length = part.true_length = text.size();
    part.direction = format::kIn;
    part.representation = format::kInline;
    part.flags = flags;
    Stream& stream = in_[channel];
    part.offset = stream.offset;
    if (!(flags & format::kPeek)) stream.offset += text.size();
    if (datagrams.contains(channel)) part.hash = run_hash(std::as_bytes(std::span(text)), 0);
    if (from) part.peer = *from;
    if (!text.empty()) spec.parts.memory(0x1000, text);
    spec.parts.record(format::kTransfer, part);
    return writer.add(spec);
  }

  void end(uint32_t reason = format::kEndExit, int detail = 0) {
    format::EndRecord record{};
    record.event = writer.events();
    record.reason = reason;
    record.detail = detail;
    writer.add_record(format::kEndRecord, record);
  }

  std::map<uint64_t, bool> datagrams;  // channels of this kind

 private:
  struct Stream {
    uint64_t offset = 0, hash = 0;
  };
  std::map<uint64_t, Stream> out_, in_;
  uint16_t family_ = 0;
};

}  // namespace friday::testing
