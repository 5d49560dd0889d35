#include "core/replay/causes.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/base/printable.h"
#include "core/trace/channels.h"
#include "core/trace/facts.h"
#include "core/trace/logical_time.h"
#include "core/trace/node_end.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {
namespace {

// A file that the node has mapped with MAP_PRIVATE, and still has.
struct PrivateFile {
  uint64_t event, address, device, inode;
  std::string path;
};

// What a node has done before an event that the recording does not follow in all of its effects.
struct Deeds {
  std::vector<PrivateFile> files;
  std::optional<uint64_t> made_code, submitted;  // events: the first of each kind
};

bool has_succeeded(const EventView& event) { return event->result >= 0 || event->result < -4095; }

class DeedsWalk {
 public:
  Deeds run(const TraceReader& reader, uint64_t before) {
    for (RecordCursor cursor = reader.records(); cursor.next();) {
      channels_.add(cursor.record());
      if (!cursor.record().is_event()) continue;
      const EventView event = cursor.record().event();
      if (event->index >= before) break;
      if (event.has_call() && event.type() != format::kRelease) on_call(event);
    }
    return std::move(deeds_);
  }

 private:
  void on_call(const EventView& event) {
    for (PartView part : event.parts())
      for (const auto& opened : part.descriptors()) channel_of_[opened.fd] = opened.channel;
    if (!has_succeeded(event)) return;
    switch (event->call) {
      case SYS_mmap: return on_mmap(event);
      case SYS_munmap: return on_munmap(event.argument(0), event.argument(1));
      case SYS_mprotect:
        if (event.argument(2) & PROT_EXEC) note(deeds_.made_code, event->index);
        return;
      case SYS_io_submit: return note(deeds_.submitted, event->index);
      default: return;
    }
  }

  void on_mmap(const EventView& event) {
    const uint64_t flags = event.argument(3);
    if ((event.argument(2) & PROT_EXEC) && (flags & MAP_ANONYMOUS)) note(deeds_.made_code, event->index);
    if ((flags & MAP_ANONYMOUS) || (flags & MAP_TYPE) != MAP_PRIVATE) return;
    const auto number = channel_of_.find(static_cast<int>(event.argument(4)));
    const ChannelDescription* file = number == channel_of_.end() ? nullptr : channels_.find(number->second);
    if (!file || file->kind != format::kChannelFile) return;
    std::string path;
    for (PartView part : event.parts())
      if (part.kind() == format::kPath) path = printable(part.text());
    deeds_.files.push_back({event->index, static_cast<uint64_t>(event->result), file->device, file->inode, path});
  }

  void on_munmap(uint64_t address, uint64_t length) {
    std::erase_if(deeds_.files,
                  [&](const PrivateFile& file) { return file.address >= address && file.address - address < length; });
  }

  static void note(std::optional<uint64_t>& first, uint64_t event) {
    if (!first) first = event;
  }

  ChannelTable channels_;
  std::map<int, uint64_t> channel_of_;  // by descriptor: the channel that it was last opened as
  Deeds deeds_;
};

// Who wrote to the file first after the node had mapped it, and before `end` of the order.
std::optional<SharedUse> writer_behind(const FactSet& facts, const Schedule& schedule, NodeId node,
                                       const PrivateFile& file, uint64_t end, NodeId* writer) {
  const uint64_t mapped = schedule.position_of(node, {file.event});
  for (const NodeFacts& other : facts.nodes)
    for (const SharedUse& use : other.uses) {
      if (use.kind != Shared::file || !use.lets_go || use.device != file.device || use.inode != file.inode) continue;
      const uint64_t position = schedule.position_of(other.id, {use.event});
      if (position <= mapped || position >= end) continue;
      *writer = other.id;
      return use;
    }
  return std::nullopt;
}

void add_private_files(std::vector<std::string>& causes, const Recording& recording, const Schedule& schedule,
                       NodeId node, const std::vector<PrivateFile>& files, uint64_t end) {
  if (files.empty()) return;
  const auto facts = FactSet::gather(recording, schedule.nodes());
  if (!facts) return;
  for (const PrivateFile& file : files) {
    NodeId writer{};
    const auto use = writer_behind(*facts, schedule, node, file, end, &writer);
    if (!use) continue;
    causes.push_back(
        fmt::format("node {} mapped {} privately (event {}), and node {} ({}) wrote to the file afterwards (event {}): "
                    "a page that nobody has stored to shows that, and at replay what was there when it was mapped",
                    node, file.path, file.event, writer, printable(recording.find(writer)->name), use->event));
  }
}

// Of those with whom the node shares memory: whose last stores nobody has recorded.
void add_sharers(std::vector<std::string>& causes, const Recording& recording, const Schedule& schedule, NodeId node,
                 uint64_t end) {
  std::set<NodeId> sharers;
  for (const Edge& edge : schedule.edges())
    if (edge.kind == EdgeKind::turn && (edge.from == node || edge.to == node))
      sharers.insert(edge.from == node ? edge.to : edge.from);
  if (sharers.empty()) return;
  std::string outlived, killed;
  const auto ends = places_of_ends(recording, schedule);
  for (const NodeInfo& other : recording.nodes()) {
    if (!sharers.contains(other.id) || other.id == node) continue;
    auto add = [&](std::string& list) {
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", other.id, printable(other.name));
    };
    const auto place = ends.find(other.id);
    if (is_cut_off(other.end)) add(outlived);
    else if (end_of(recording, schedule, other).how == NodeEnd::How::signal && place != ends.end() &&
             place->second.position < end)
      add(killed);
  }
  if (!outlived.empty())
    causes.push_back(
        fmt::format("node {} shares memory with processes that ran on after their recording had ended, and what they "
                    "stored there since was not recorded: node {}",
                    node, outlived));
  if (!killed.empty())
    causes.push_back(
        fmt::format("node {} shares memory with processes that were killed, and what they stored there behind their "
                    "last event was not recorded: node {}",
                    node, killed));
}

}  // namespace

std::vector<std::string> possible_causes(const Recording& recording, const Schedule& schedule,
                                         const TraceReader& reader, EventIndex before) {
  std::vector<std::string> causes;
  const NodeId node = reader.node();
  const NodeInfo* info = recording.find(node);
  if (!info) return causes;
  if (!info->notice.empty()) causes.push_back(info->notice);
  const uint64_t end =
      before.value < schedule.event_count(node) ? schedule.position_of(node, before) : schedule.event_count();
  add_sharers(causes, recording, schedule, node, end);
  const Deeds deeds = DeedsWalk().run(reader, before.value);
  add_private_files(causes, recording, schedule, node, deeds.files, end);
  if (deeds.made_code)
    causes.push_back(fmt::format(
        "node {} makes code at run time (event {}); what `rdtsc`, `rdrand`, `cpuid` and `xbegin` give there "
        "is not recorded",
        node, *deeds.made_code));
  if (deeds.submitted)
    causes.push_back(
        fmt::format("node {} uses asynchronous I/O (event {}): a buffer that it looked into before io_getevents(2) "
                    "returned is empty at replay",
                    node, *deeds.submitted));
  return causes;
}

}  // namespace friday
