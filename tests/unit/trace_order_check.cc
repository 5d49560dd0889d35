// friday_order_check REC: whether the order computed for a real recording is one that could have happened. Judges by
// the raw records alone, not by what matching made of them:
//   - every event once, each node's in its own order, logical times rising;
//   - on one boot: a call that had returned before another was entered, by the host's clock, comes first;
//   - a datagram is received after a send with that hash to that port, if one was recorded at all;
//   - no more bytes of a connection or pipe were received than had been sent, if both ends were recorded;
//   - a child starts after its fork and has ended when it is waited for;
//   - every edge points forward, and none was given up.
// Prints one JSON object with what was looked at; exit code 1 if anything is wrong.
//
// friday_order_check REC FROM TO KIND...: whether `causal` order puts one event before another: the events that follow
// the calls which named the paths FROM and TO. With a KIND (of an edge, or "host" for the rule of one host's clock) as
// if such edges did not exist.
//
// friday_order_check --list REC: the order and the edges as JSON, for tests that know the truth from the programs
// themselves: "turns": [node, first event, events], "edges": [kind, matched by, from node, event, to node, event].
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "core/trace/address.h"
#include "core/trace/host_order.h"
#include "core/trace/logical_time.h"
#include "core/trace/reader.h"

namespace friday {
namespace {

using namespace format;

// What happens at one event, from its record.
struct Deed {
  uint64_t entered = 0, returned = 0;  // ticks; 0: no call is entered or returns here
  struct Bytes {
    std::string stream;  // name of the connection or pipe and direction
    std::string packet;  // or of the datagram
    uint64_t length = 0;
    bool out = false;
  };
  std::vector<Bytes> bytes;
  std::vector<Uuid> forks;
  std::vector<uint32_t> waits;
};

struct Walked {
  std::vector<Deed> deeds;
  Uuid boot{}, uuid{};
  uint32_t pid = 0;
};

struct Socket {
  uint32_t kind = 0;
  Address local, remote;
  std::string pipe;
};

std::string packet_name(const TransferPart& part, const Address& destination) {
  return fmt::format("{:016x} {} to {}", part.hash, part.length, destination.port);
}

Deed::Bytes bytes_of(const TransferPart& part, const SocketAddress* peer, const Socket& socket) {
  Deed::Bytes bytes;
  bytes.length = part.length;
  bytes.out = part.direction == kOut;
  if (part.flags & (kPeek | kOutOfBand | kTruncated)) return bytes;
  if (socket.kind == kChannelPipe) {
    bytes.stream = socket.pipe;
  } else if (socket.kind == kChannelStream && socket.local.is_inet() && socket.remote.known()) {
    std::string here = text(socket.local), there = text(socket.remote);
    bytes.stream = bytes.out ? here + " " + there : there + " " + here;
  } else if (socket.kind == kChannelDatagram && socket.local.is_inet()) {
    Address named = peer ? parse_address(*peer) : socket.remote;
    bytes.packet = packet_name(part, bytes.out ? named : socket.local);
  }
  return bytes;
}

Result<Walked> walk(const Recording& recording, NodeId id) {
  FRIDAY_TRY(reader, TraceReader::open(recording, id));
  Walked walked;
  walked.boot = recording.find(id)->boot_id;
  walked.uuid = recording.find(id)->uuid;
  walked.pid = reader.header().pid;
  std::map<uint64_t, Socket> sockets;
  std::map<uint32_t, size_t> releases;  // by thread
  uint64_t latest = 0;
  RecordCursor cursor = reader.records();
  while (cursor.next()) {
    if (const auto* channel = cursor.record().channel()) {
      Socket& socket = sockets[channel->channel];
      socket.kind = channel->kind;
      socket.local = parse_address(channel->local);
      socket.remote = parse_address(channel->remote);
      socket.pipe = fmt::format("{} pipe {}:{}", hex_text(walked.boot), channel->device, channel->inode);
    }
    if (!cursor.record().is_event()) continue;
    EventView event = cursor.record().event();
    size_t entry = walked.deeds.size();
    Deed& deed = walked.deeds.emplace_back();
    if (event.type() != kReturn) deed.entered = event->entry_ticks;
    latest = std::max(latest, event->entry_ticks);
    if (event.type() == kRelease) {
      releases[event.thread()] = entry;
      continue;
    }
    // A return counts from when the node took it up: what stands before it in the trace came before.
    latest = std::max(latest, event.return_ticks());
    deed.returned = latest;
    if (event.type() == kReturn && releases.contains(event.thread())) entry = releases[event.thread()];
    for (PartView part : event.parts()) {
      if (const auto* moved = part.transfer()) {
        Deed::Bytes bytes = bytes_of(*moved, part.peer(), sockets[moved->channel]);
        walked.deeds[bytes.out ? entry : walked.deeds.size() - 1].bytes.push_back(bytes);
      } else if (const auto* child = part.child(); child && event.type() != kThreadStart) {
        Uuid uuid;
        std::copy(std::begin(child->node_uuid), std::end(child->node_uuid), uuid.begin());
        if (!is_zero(uuid)) walked.deeds[entry].forks.push_back(uuid);
      } else if (const auto* wait = part.wait()) {
        int status = static_cast<int>(wait->status);
        if (WIFEXITED(status) || WIFSIGNALED(status)) deed.waits.push_back(wait->pid);
      }
    }
  }
  if (cursor.error()) return std::unexpected(*cursor.error());
  return walked;
}

class Check {
 public:
  Check(const Recording& recording, const Schedule& schedule) : recording_(recording), schedule_(schedule) {}

  int run() {
    for (NodeId id : schedule_.nodes()) {
      auto walked = walk(recording_, id);
      if (!walked) return wrong(describe(walked.error())), report();
      nodes_[id] = *std::move(walked);
    }
    count_totals();
    for (const Turn& turn : schedule_.turns())
      for (uint64_t event = turn.first; event < turn.first + turn.count; ++event) step(turn.node, event);
    for (auto& [id, node] : nodes_)
      if (done_[id] != node.deeds.size())
        wrong(fmt::format("node {}: {} of {} events are in the order", id, done_[id], node.deeds.size()));
    for (const Edge& edge : schedule_.edges())
      if (schedule_.position_of(edge.from, {edge.from_event}) >= schedule_.position_of(edge.to, {edge.to_event}))
        wrong(fmt::format("{} edge from node {} event {} to node {} event {} points back", name_of(edge.kind),
                          edge.from, edge.from_event, edge.to, edge.to_event));
    if (!schedule_.broken().empty()) wrong(fmt::format("{} edges were given up", schedule_.broken().size()));
    return report();
  }

 private:
  void wrong(std::string what) {
    if (++wrongs_ <= 20) fmt::print(stderr, "{}\n", what);
  }

  int report() {
    std::map<std::string, uint64_t> kinds;
    for (const Edge& edge : schedule_.edges()) ++kinds[name_of(edge.kind)];
    std::string edges;
    for (auto& [kind, count] : kinds) edges += fmt::format("{}\"{}\": {}", edges.empty() ? "" : ", ", kind, count);
    fmt::print(
        "{{\"events\": {}, \"packets\": {}, \"stream_bytes\": {}, \"forks\": {}, \"waits\": {}, \"edges\": {{{}}}, "
        "\"wrong\": {}}}\n",
        schedule_.event_count(), packets_, stream_bytes_, forks_, waits_, edges, wrongs_);
    return wrongs_ ? 1 : 0;
  }

  void count_totals() {
    for (auto& [id, node] : nodes_)
      for (const Deed& deed : node.deeds)
        for (const auto& bytes : deed.bytes) {
          if (!bytes.packet.empty() && bytes.out) sends_recorded_.insert(bytes.packet);
          if (!bytes.stream.empty()) (bytes.out ? all_sent_ : all_received_)[bytes.stream] += bytes.length;
        }
  }

  void step(NodeId id, uint64_t event) {
    Walked& node = nodes_[id];
    if (done_[id] != event || event >= node.deeds.size())
      return wrong(fmt::format("node {}: event {} stands where {} should", id, event, done_[id]));
    ++done_[id];
    LogicalTime time = schedule_.time_of(id, {event});
    if (event + id.value > 0 && !(last_ < time))
      wrong(fmt::format("node {} event {}: logical time does not rise", id, event));
    last_ = time;
    const Deed& deed = node.deeds[event];
    uint64_t& entered = entered_[node.boot];
    if (deed.returned && deed.returned < entered)
      wrong(fmt::format("node {} event {}: had returned {} ticks before something earlier in the order was entered", id,
                        event, entered - deed.returned));
    entered = std::max(entered, deed.entered);
    for (const auto& bytes : deed.bytes) move(id, event, bytes);
    for (const Uuid& child : deed.forks) forked_.insert(child);
    if (event == 0 && recording_.find(id)->parent) {
      ++forks_;
      if (!forked_.contains(node.uuid)) wrong(fmt::format("node {} starts before it is forked", id));
    }
    for (uint32_t pid : deed.waits)
      for (auto& [other, child] : nodes_)
        if (child.pid == pid && child.boot == node.boot && recording_.find(other)->parent == id) {
          ++waits_;
          if (done_[other] != child.deeds.size())
            wrong(fmt::format("node {} event {} has waited for node {}, which goes on", id, event, other));
        }
  }

  void move(NodeId id, uint64_t event, const Deed::Bytes& bytes) {
    if (!bytes.packet.empty()) {
      if (bytes.out) {
        sent_.insert(bytes.packet);
      } else if (sends_recorded_.contains(bytes.packet)) {
        ++packets_;
        if (!sent_.contains(bytes.packet))
          wrong(fmt::format("node {} event {} receives a datagram before it is sent", id, event));
      }
    }
    if (bytes.stream.empty() || all_sent_[bytes.stream] < all_received_[bytes.stream]) return;
    int64_t& in_flight = in_flight_[bytes.stream];
    in_flight += bytes.out ? static_cast<int64_t>(bytes.length) : -static_cast<int64_t>(bytes.length);
    if (!bytes.out) stream_bytes_ += bytes.length;
    if (in_flight < 0)
      wrong(fmt::format("node {} event {} receives bytes of {} before they are sent", id, event, bytes.stream));
  }

  const Recording& recording_;
  const Schedule& schedule_;
  std::map<NodeId, Walked> nodes_;
  std::map<NodeId, uint64_t> done_;
  std::map<Uuid, uint64_t> entered_;
  LogicalTime last_{INT64_MIN, 0, {}, 0};
  std::set<std::string> sends_recorded_, sent_;
  std::map<std::string, uint64_t> all_sent_, all_received_;
  std::map<std::string, int64_t> in_flight_;
  std::set<Uuid> forked_;
  uint64_t wrongs_ = 0, packets_ = 0, stream_bytes_ = 0, forks_ = 0, waits_ = 0;
};

int check(const char* path) {
  auto recording = Recording::open(path);
  if (!recording) return fmt::print(stderr, "{}\n", describe(recording.error())), 2;
  auto schedule = Schedule::compute(*recording);
  if (!schedule) return fmt::print(stderr, "{}\n", describe(schedule.error())), 2;
  return Check(*recording, *schedule).run();
}

int list(const char* path) {
  auto recording = Recording::open(path);
  if (!recording) return fmt::print(stderr, "{}\n", describe(recording.error())), 2;
  auto schedule = Schedule::compute(*recording);
  if (!schedule) return fmt::print(stderr, "{}\n", describe(schedule.error())), 2;
  std::string turns, edges;
  for (const Turn& turn : schedule->turns())
    turns += fmt::format("{}[{}, {}, {}]", turns.empty() ? "" : ", ", turn.node, turn.first, turn.count);
  for (const Edge& edge : schedule->edges())
    edges += fmt::format("{}[\"{}\", \"{}\", {}, {}, {}, {}]", edges.empty() ? "" : ", ", name_of(edge.kind),
                         name_of(edge.by), edge.from, edge.from_event, edge.to, edge.to_event);
  fmt::print("{{\"turns\": [{}], \"edges\": [{}]}}\n", turns, edges);
  return 0;
}

struct Place {
  uint32_t slot;
  uint64_t event;
};

// The event that follows the one which named a path.
std::optional<Place> find_mark(const FactSet& facts, std::string_view path) {
  for (uint32_t slot = 0; slot < facts.nodes.size(); ++slot)
    for (RecordCursor cursor = facts.readers[slot].records(); cursor.next();) {
      if (!cursor.record().is_event()) continue;
      for (PartView part : cursor.record().event().parts())
        if (part.kind() == kPath && part.text() == path) return Place{slot, cursor.record().event()->index + 1};
    }
  return std::nullopt;
}

// Prints "ordered" or "not ordered".
int check_pair(const char* path, const char* from_mark, const char* to_mark,
               const std::set<std::string_view>& without) {
  auto recording = Recording::open(path);
  if (!recording) return fmt::print(stderr, "{}\n", describe(recording.error())), 2;
  std::vector<NodeId> nodes;
  for (const NodeInfo& node : recording->nodes()) nodes.push_back(node.id);
  auto facts = FactSet::gather(*recording, nodes);
  if (!facts) return fmt::print(stderr, "{}\n", describe(facts.error())), 2;
  auto from = find_mark(*facts, from_mark), to = find_mark(*facts, to_mark);
  if (!from || !to) return fmt::print(stderr, "no call names {}\n", from ? to_mark : from_mark), 2;
  std::vector<HostEdge> edges;
  if (!without.contains("host")) edges = host_order(*facts);
  auto slot_of = [&](NodeId id) { return static_cast<uint32_t>(std::ranges::find(nodes, id) - nodes.begin()); };
  for (const Edge& edge : match(*facts).edges)
    if (!without.contains(name_of(edge.kind)))
      edges.push_back({slot_of(edge.from), slot_of(edge.to), edge.from_event, edge.to_event});
  // By node: the first event that is known to come behind FROM.
  std::vector<uint64_t> behind(nodes.size(), kNoEvent);
  behind[from->slot] = from->event;
  for (bool more = true; more;) {
    more = false;
    for (const HostEdge& edge : edges)
      if (behind[edge.from] <= edge.from_event && behind[edge.to] > edge.to_event) {
        behind[edge.to] = edge.to_event;
        more = true;
      }
  }
  fmt::print("{}\n", behind[to->slot] <= to->event ? "ordered" : "not ordered");
  return 0;
}

}  // namespace
}  // namespace friday

int main(int argc, char** argv) {
  if (argc >= 4) return friday::check_pair(argv[1], argv[2], argv[3], {argv + 4, argv + argc});
  if (argc == 3 && argv[1] == std::string_view("--list")) return friday::list(argv[2]);
  if (argc != 2) return fmt::print(stderr, "usage: friday_order_check [--list] REC\n"), 2;
  return friday::check(argv[1]);
}
