// Where a value comes from, backward through the whole group: which instruction has written it, from where that copied
// it, which message brought it, where its sender had it, and so on, until an instruction has computed it, it is a
// constant, it comes from outside of the group, or it cannot be followed.
//
// A value is followed by its bytes. In memory, their last write is found by running the group back (Backward) with a
// watch of them. In a register, the last instructions of the thread are executed one by one, and read (flow.h). A
// system call that has written the bytes is looked up in the trace: matching says which send they come from, and at
// that send the group shows in which buffer they were.
//
// Copies are followed, computation is not: what has computed a value has inputs, of which each can be followed in turn.
// What is not certain is not followed: at each copy the bytes at the source are compared with those that were followed.
//
// Moves the group. Belongs to its caller; use on the session's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/debug/debugger.h"
#include "core/origin/flow.h"
#include "core/trace/channels.h"
#include "core/trace/index.h"

namespace friday {

// One step on the way back.
struct Hop {
  enum class How {
    copied,    // an instruction has copied the value to `bytes`
    computed,  // an instruction has computed it, from `inputs`
    constant,  // an instruction has it as a constant
    received,  // a system call has written it to `bytes`, from a message of another node, or what a node has written
    sent,      // a system call has sent it from `bytes`
    forked,    // the process had it in `bytes` when it forked the node of the hop before
    outside,   // it comes from a file, a clock, or a peer that is no node or is not known, as `text` says
    begin,     // it was in `bytes` when the recording of the node began
    lost,      // it is not followed further, for the reason in `text`
  };
  // What can be followed instead. Of `computed`: what the instruction has computed with, before it. Of a hop that is
  // only a part of what was followed: the other parts, which other writes have brought.
  struct Input {
    Bytes bytes;
    std::vector<std::byte> value;
    // Of another part: it begins at this byte of so many, and is followed from `mark`; if `written`, from behind the
    // instruction or call there, which has written it. Without a mark, from that of the hop.
    uint64_t part_at = 0, part_of = 0;
    std::optional<Position> mark{};
    bool written = false;
  };
  How how = How::lost;
  NodeId node{};
  ThreadId thread{};
  // Before the instruction; of a system call, in it; at the start of the recording, none.
  Position mark{};
  Addr pc{};  // of the instruction; 0 if no code did it
  Bytes bytes{};
  std::vector<std::byte> value;
  // The value is a part of that of the hop before (of the first hop: of the bytes that were asked for): it begins at
  // this byte of so many. part_of is 0 if it is the whole.
  uint64_t part_at = 0, part_of = 0;
  bool swapped = false;  // an instruction has reversed bytes between the hop before and this one
  std::string text;      // a sentence that says what happened
  std::vector<Input> inputs{};
};

// "copied", "computed", ... as in Python.
const char* name_of(Hop::How how);

class Origin {
 public:
  explicit Origin(Debugger& debugger);

  // Which bits of the bytes are followed, counted from the lowest one of the first byte; none: all.
  struct Bits {
    unsigned first = 0, count = 0;
  };

  // Follows bytes of a node, of its memory or of registers of its current thread, from where the group stands. Returns
  // at most `most` hops, the first one being the last write of the bytes. The last hop is one that ends a way, unless
  // there are `most`. Of a bit-field, a store that leaves its bits as they were is passed over, because it cannot be
  // told from one to its neighbours. The group stands somewhere else then, also after an error. Fails with bad_address
  // if the bytes cannot be read, with unsupported in another order than `clock` and if the group is altered, and with
  // interrupted. Calls `found` with each hop at once, in the middle of the search.
  Result<std::vector<Hop>> follow(NodeId node, const Bytes& bytes, size_t most, const Bits& bits,
                                  const std::function<void(const Hop&)>& found);

 private:
  // Each of these goes one hop on, and returns whether the way goes on behind it. origin.cc
  Result<bool> go_on();
  Result<bool> from_memory();
  Result<bool> from_register();
  Result<bool> from_store(NodeId node, ThreadId thread);
  Result<bool> from_start();
  // calls.cc
  Result<bool> from_call(NodeId node, ThreadId thread);
  Result<bool> from_transfer(const EventView& event, const format::TransferPart& transfer, uint32_t number,
                             uint64_t offset);
  Result<bool> from_send(const Edge& edge, uint64_t offset);
  // Brings the group to an event. Fails with interrupted if it stops before.
  Result<DebugStop> go_to_event(NodeId node, EventIndex event);
  // Goes to the call that has sent the bytes, and follows them in its buffers: they begin at `offset` of its transfer
  // `number`, which has `rest` bytes from there on. `done`, `does`: "sent", "sends" or the like, for the hop's text.
  Result<bool> from_buffers(NodeId node, EventIndex event, uint32_t number, uint64_t offset, uint64_t rest,
                            const char* done, const char* does);
  // files.cc
  struct Write {
    NodeId node{};
    EventIndex event{};
    uint64_t position = 0;  // of the event in the order of all nodes
    uint32_t number = 0;    // of the transfer in the event
    uint64_t offset = 0;    // bytes that the writer had sent through the channel before
    uint64_t length = 0;
    std::optional<uint64_t> place{};  // in the file, if the call says it
  };
  Result<bool> from_object(const EventView& event, const ChannelDescription& object,
                           const format::TransferPart& transfer, uint32_t number, uint64_t offset);
  Result<std::vector<Write>> writes_to(const ChannelDescription& object, uint64_t before);
  Result<std::vector<std::byte>> written_by(const Write& write);
  Result<const ChannelTable*> channels_of(NodeId node);

  Result<std::optional<DebugStop>> run_to_write();
  Result<bool> from_copy(const Instruction& store, const user_regs_struct& before, const user_regs_struct& after);
  Result<bool> take(const std::vector<Piece>& pieces, const Instruction& instruction, const user_regs_struct& before);
  Result<std::optional<Instruction>> instruction_at(uint64_t pc);
  Result<std::vector<std::byte>> read(const Bytes& bytes);
  Result<bool> check_source();
  void narrow(const Piece& piece);
  void follow_part(const Bytes& part);
  // Which of the bytes, of which a write has written a part, carry the value. origin.cc
  std::pair<Bytes, Bytes> around(const Bytes& written) const;
  std::optional<Bytes> what_says_more(const Bytes& written) const;
  Result<bool> leave_out(const Bytes& written);
  void set_aside(const Bytes& part, bool written, std::optional<Position> mark = {});
  void follow_written(const Bytes& written, const Bytes& part);
  std::span<const std::byte> value_of(const Bytes& part) const;
  bool matters(const Bytes& part) const;
  bool carries(const Bytes& part) const;
  bool are_followed(std::span<const std::byte> bytes) const;
  bool changes_bits(const WatchHit& hit) const;
  bool is_in_file(const Mapping& mapping) const;
  std::string name_of_file(const std::string& path) const;
  Result<Hop*> add(Hop::How how, Addr pc, const std::string& text);
  Result<bool> end(Hop::How how, Addr pc, const std::string& text);
  ReplayNode& node() { return *debugger_.session().find(node_); }
  Result<const TraceIndex*> index_of(NodeId node);

  Debugger& debugger_;
  Backward& backward_;
  NodeId node_{};
  ThreadId thread_{};             // of which `wanted_` is a register
  Bytes wanted_;                  // the bytes that are followed now, before the group's place
  std::vector<std::byte> value_;  // theirs; bits that are not followed are 0
  std::vector<std::byte> mask_;   // the bits of these that are followed; empty: all
  std::vector<Hop> hops_;
  std::string bits_;      // which bits of the value are followed, for the first hop's text
  uint64_t part_at_ = 0;  // where the bytes that are followed begin in the value of the hop before
  uint64_t part_of_ = 0;  // how many bytes that value has
  bool swapped_ = false;  // bytes were reversed since that hop
  const std::function<void(const Hop&)>* found_ = nullptr;
  int left_out_ = 0;                // how often bytes were left out since the last hop
  std::vector<Hop::Input> others_;  // the parts that were not followed since then
  uint64_t instructions_ = 0;       // that were looked at
  std::map<NodeId, TraceIndex> indexes_;
  std::map<NodeId, ChannelTable> channels_;
};

// A piece of memory that a call has filled, and which bytes of which of its transfers these are.
struct Received {
  uint64_t address = 0;
  std::span<const std::byte> bytes;
  const format::TransferPart* transfer = nullptr;  // null: of none
  uint32_t number = 0;                             // of the transfer in its event
  uint64_t offset = 0;                             // of the first byte in the transfer
};
std::vector<Received> received_parts(const EventView& event);
// Where a send, before which the node waits, takes byte `offset` of its transfer `number` from; with as much as follows
// it in the same buffer. None if it takes it from no memory.
Result<std::optional<Bytes>> sent_run(ReplayNode& node, const EventView& event, uint32_t number, uint64_t offset);

}  // namespace friday
