// Finds which received bytes need not be stored (regenerable.h) while the programs still run and their traces grow.
//
// What each recorded process sends is remembered, with its hash, until the bytes come by at a receiver: those that have
// the hash of a send, at its place in the stream, are what was sent, and can be left out. So nothing is believed: a
// mistake about which ends belong together costs no more than bytes that stay. Seen are TCP and Unix connections
// between recorded processes, pipes, socketpairs, and datagrams; not seen are sends larger than kMostTail.
//
// Memory is bounded, at the price of bytes that stay: channels that were not used for long are forgotten, and so are
// sends that nobody has received for long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/trace/address.h"
#include "core/trace/payload.h"
#include "core/trace/record.h"
#include "core/trace/regenerable.h"

namespace friday {

class LiveRegenerable {
 public:
  // Adds a trace of this recording, and returns its number. What a trace has received is left out only if a trace of
  // the same generation has sent it: traces of one generation are removed together.
  struct Of {
    Uuid node{};
    Uuid parent{};         // the node that it was forked from, or of which it is the next part; zero if none
    bool is_part = false;  // the latter
    uint64_t generation = 0;
  };
  size_t add(const Of& of);

  // Notes what the next records of a trace say of channels and sends. `records`: whole records. Of records that the
  // caller skips, it says nothing.
  void note(size_t trace, std::span<const std::byte> records);
  // Forgets what is too old; to be called when all traces have been noted as far as they go.
  void settle();

  struct Found {
    std::vector<Regenerable> regenerable;  // in rising order
    // What came by sockets and pipes from programs that are not recorded, if it was asked for; in rising order.
    std::vector<Regenerable> foreign;
    uint64_t received = 0;  // bytes of payload that stand in the block
  };
  // The trace has ended, and nothing more will be asked of it.
  void forget(size_t trace);
  // The trace of the process from which this one was forked.
  std::optional<size_t> parent(size_t trace);

  // What can be left out of a block of whole records, which begins at `offset` in the trace and whose records have been
  // noted. The blocks of a trace must be asked for in their order. `ahead`: the records behind it, as far as they are
  // known already; of a send whose end is not received in either, what the block has cannot be left out.
  Found find(size_t trace, std::span<const std::byte> block, uint64_t offset, std::span<const std::byte> ahead = {},
             bool with_foreign = false);

  // The kind of a channel and the addresses of its two ends, as far as they are known.
  std::vector<std::string> names(size_t trace, uint64_t channel);

 private:
  static constexpr size_t kMostChannels = 1 << 16;   // of all traces
  static constexpr size_t kMostWaiting = 1 << 16;    // sends of a stream that wait for their receiver
  static constexpr size_t kMostUnclaimed = 64;       // the same, if no recorded process has the other end yet
  static constexpr size_t kMostOffered = 1 << 12;    // the same of a Unix connection, whose ends are found by contents
  static constexpr size_t kMostDatagrams = 1 << 16;  // of all
  static constexpr size_t kMostOffers = 1 << 10;     // ends of Unix connections on one path
  static constexpr unsigned kMostRefusals = 8;       // hashes in a row that do not agree
  static constexpr uint64_t kMostTail = 4u << 20;    // bytes of a stream that are kept for a send that is not complete

  struct Send {
    uint64_t start, length;  // in the stream, in bytes
    uint64_t hash, seed;
    uint64_t ticks;  // when the call was entered
    uint64_t generation;
    SentFromCall source;
    uint64_t end() const { return start + length; }
  };
  // One direction of a connection.
  struct Stream {
    std::deque<Send> sends;  // in the order in which they were noted
    bool claimed = false;    // a recorded process has the receiving end; of a pipe: has received
    bool offered = false;    // stands in offers_
    unsigned refusals = 0;
    // The last received bytes, from the beginning of a send on whose end has not been received yet.
    uint64_t tail_start = 0;
    std::vector<std::byte> tail;
  };
  struct Channel {
    uint32_t kind = 0;
    std::string own;  // how the stream that it sends is called
    std::string local, remote;
    std::shared_ptr<Stream> out, in;
    std::string wants;  // of a Unix connection: where in offers_ the stream is that it receives, while that is unknown
    uint64_t hash = 0;  // of the last send: the seed of the next
    uint64_t used = 0;
    bool is_of_part_before = false;  // this part has not described it yet
  };
  struct Trace {
    Uuid node{}, parent{};
    uint64_t generation = 0;
    bool takes_over = false;  // a part that has not taken over the channels of the part before
    std::unordered_map<uint64_t, Channel> channels;
    std::unordered_map<uint32_t, std::pair<uint64_t, uint64_t>> released;  // by thread: event and entry of its call
    bool ended = false;
    size_t children = 0;  // traces of forked processes that have not ended: they may still need its channels
  };
  // Received bytes of one stream, consecutive in the trace.
  struct Piece {
    uint64_t start;  // in the stream
    std::span<const std::byte> bytes;
    uint64_t offset;      // in the trace; 0: in a block before
    uint64_t in_message;  // bytes of the same receive before them
    uint64_t ticks;       // when the receive had returned
    uint64_t channel;
    bool ahead;  // behind the block
    uint64_t end() const { return start + bytes.size(); }
  };

  void leave(Trace* trace);
  Trace* parent_of(const Trace& trace);
  void forget_channels();
  Channel* channel(size_t trace, uint64_t number);
  std::shared_ptr<Stream> stream(const std::string& name);
  void take_over(Trace& part);
  void note_channel(Trace& trace, const format::ChannelRecord& record, const format::ChannelPositions* before);
  void note_event(size_t trace, EventView event);
  void note_unix(Channel& known, const Address& local, const Address& remote);
  void note_pair(size_t trace, EventView event);
  void note_send(Trace& trace, EventView event, Channel& through, const format::TransferPart& moved, uint32_t ordinal);
  void bind(Channel& through, const PayloadPiece& first, EventView event);
  void find_foreign(size_t trace, std::span<const std::byte> block, uint64_t offset);
  void receive_all(size_t trace, std::span<const std::byte> records, uint64_t offset, bool ahead);
  void receive(const PayloadPiece& piece, const RecordView& record, Channel& through, bool ahead);
  void match(Stream& stream, std::vector<Piece>& pieces);
  bool agrees(const Send& send, std::span<const Piece> pieces);
  static void end_block(Stream& stream, std::span<const Piece> pieces);
  void match_datagram(const Piece& piece, const format::TransferPart& moved);

  std::vector<Trace> traces_;
  std::map<Uuid, size_t> by_node_;
  std::unordered_map<std::string, std::weak_ptr<Stream>> streams_;
  // Of Unix connections, what each side sends, by the path of the listening socket and by the side.
  std::unordered_map<std::string, std::vector<std::weak_ptr<Stream>>> offers_;
  std::unordered_map<uint64_t, Send> datagrams_, datagrams_before_;  // by hash
  uint64_t uses_ = 0;
  size_t channels_ = 0;  // of all traces
  // Used by find().
  Uuid receiver_{};
  uint64_t generation_ = 0;
  std::map<Stream*, std::vector<Piece>> received_;
  Found found_;
  std::vector<std::byte> gathered_;
};

}  // namespace friday
