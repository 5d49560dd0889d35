#include "console/info_channels.h"

#include <algorithm>

#include "console/complain.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/trace/channel_traffic.h"
#include "core/trace/logical_time.h"
#include "core/trace/node_list.h"
#include "core/trace/reader.h"
#include "core/trace/regenerable.h"

namespace friday {
namespace {

using nlohmann::json;

constexpr size_t kMostLines = 20;  // of a node, in text

class ChannelReport {
 public:
  ChannelReport(const Recording& recording, const Schedule& schedule,
                std::map<NodeId, std::vector<Regenerable>> regenerable)
      : recording_(recording), schedule_(schedule), regenerable_(std::move(regenerable)) {}

  // Nodes must be asked for in the order of their numbers: a forked node has the channels of its parent.
  Result<json> describe(const NodeInfo& node) {
    FRIDAY_TRY(reader, TraceReader::open(recording_, node.id, TraceReader::Gaps::allow));
    ChannelTable& channels = channels_[node.id];
    if (node.parent && channels_.contains(*node.parent)) channels.inherit(channels_[*node.parent], ~uint64_t{0});
    FRIDAY_TRY(list, channel_traffic(reader, channels));
    std::map<uint64_t, uint64_t> regenerable;
    for (const Regenerable& bytes : regenerable_[node.id]) regenerable[bytes.channel] += bytes.size;
    std::ranges::stable_sort(list, std::ranges::greater{},
                             [](const ChannelTraffic& traffic) { return traffic.in.bytes + traffic.out.bytes; });
    json out = json::array();
    for (const ChannelTraffic& traffic : list) {
      json channel = about(traffic);
      channel["received"] = direction(traffic.in);
      channel["sent"] = direction(traffic.out);
      channel["regenerable"] = regenerable[traffic.channel];
      add_left_out(channel, node, traffic);
      out.push_back(std::move(channel));
    }
    return out;
  }

 private:
  static json about(const ChannelTraffic& traffic) {
    json out = {{"channel", traffic.channel}, {"kind", "unknown"}};
    if (!traffic.about) return out;
    out["kind"] = channel_kind_name(traffic.about->kind);
    if (traffic.about->local.known()) out["local"] = text(traffic.about->local);
    if (traffic.about->remote.known()) out["remote"] = text(traffic.about->remote);
    return out;
  }

  static json direction(const ChannelTraffic::Direction& moved) {
    return {{"bytes", moved.bytes}, {"messages", moved.messages}, {"most_bytes_per_second", moved.most}};
  }

  void add_left_out(json& out, const NodeInfo& node, const ChannelTraffic& traffic) const {
    if (traffic.left_out == 0) return;
    json senders = json::array(), changes = json::array();
    for (const auto& [uuid, bytes] : traffic.left_with) {
      const NodeInfo* sender = recording_.find_uuid(uuid);
      senders.push_back({{"node", sender ? json(sender->id.value) : json()}, {"bytes", bytes}});
    }
    for (const auto& change : traffic.changes)
      changes.push_back({{"seconds", schedule_.seconds_of(node.id, {change.event})}, {"left_out", change.left_out}});
    out["left_out"] = {
        {"bytes", traffic.left_out},
        {"senders", std::move(senders)},
        {"now", traffic.leaves_out},
        {"since", traffic.last_change ? json(schedule_.seconds_of(node.id, {traffic.last_change->event})) : json()},
        {"changed", traffic.changed},
        {"changes", std::move(changes)}};
  }

  const Recording& recording_;
  const Schedule& schedule_;
  std::map<NodeId, std::vector<Regenerable>> regenerable_;
  std::map<NodeId, ChannelTable> channels_;
};

std::string text_of(const json& moved, const char* verb) {
  if (moved["messages"] == 0) return "";
  return fmt::format("{} {} in {}, at most {} a second", verb, size_text(moved["bytes"].get<uint64_t>()),
                     counted(moved["messages"].get<uint64_t>(), "message"),
                     size_text(static_cast<uint64_t>(moved["most_bytes_per_second"].get<double>())));
}

// For example "left out: 12 MiB, which node 0 has, since 1.250 s".
std::string left_out_text(const json& channel) {
  const uint64_t regenerable = channel["regenerable"].get<uint64_t>();
  if (!channel.contains("left_out"))
    return regenerable ? fmt::format("kept, {} could be left out", size_text(regenerable)) : "";
  const json& left_out = channel["left_out"];
  std::string senders;
  for (const json& sender : left_out["senders"])
    senders += fmt::format("{}{}", senders.empty() ? "" : ", ",
                           sender["node"].is_null() ? "one that is not in the recording"
                                                    : fmt::format("{}", sender["node"].get<uint32_t>()));
  std::string since;
  if (!left_out["since"].is_null())
    since = fmt::format("; {} since {:.3f} s", left_out["now"].get<bool>() ? "so" : "kept",
                        left_out["since"].get<double>());
  if (left_out["changed"] > 1) since += fmt::format(", after {} changes", left_out["changed"].get<uint64_t>() - 1);
  return fmt::format("left out: {}, from node {}{}", size_text(left_out["bytes"].get<uint64_t>()), senders, since);
}

// All files of a node in one line.
void print_files(const json& channels) {
  uint64_t files = 0, received = 0, sent = 0;
  for (const json& channel : channels) {
    if (channel["kind"] != channel_kind_name(format::kChannelFile)) continue;
    files++;
    received += channel["received"]["bytes"].get<uint64_t>();
    sent += channel["sent"]["bytes"].get<uint64_t>();
  }
  if (files) say("  {}: {} read, {} written\n", counted(files, "file"), size_text(received), size_text(sent));
}

void print_node(const NodeInfo& node, const json& channels) {
  say("node {} {}\n", node.id, node.name);
  size_t lines = 0, more = 0;
  for (const json& channel : channels) {
    const auto kind = channel["kind"].get<std::string>();
    if (kind == channel_kind_name(format::kChannelFile)) continue;
    if (lines++ >= kMostLines) {
      more++;
      continue;
    }
    say("  {:<12} {} <> {}\n", fmt::format("{} {}", kind, channel["channel"].get<uint64_t>()),
        channel.value("local", "-"), channel.value("remote", "-"));
    for (const std::string& line :
         {text_of(channel["received"], "received"), text_of(channel["sent"], "sent"), left_out_text(channel)})
      if (!line.empty()) say("               {}\n", line);
  }
  if (more) say("  ... and {}, with fewer bytes; --json has all\n", counted(more, "more channel"));
  print_files(channels);
}

}  // namespace

int show_channels(const std::string& path, const std::string& nodes, bool as_json) {
  auto recording = Recording::open(path);
  if (!recording) return complain("info", recording.error());
  auto chosen = parse_node_list(*recording, nodes.empty() ? "*" : nodes);
  if (!chosen) return complain("info", chosen.error());
  auto schedule = Schedule::load_or_compute(*recording);
  if (!schedule) return complain("info", schedule.error());
  auto regenerable = find_regenerable(*recording, *schedule);
  if (!regenerable) return complain("info", regenerable.error());
  ChannelReport report(*recording, *schedule, std::move(*regenerable));
  json all = json::array();
  for (const NodeInfo& node : recording->nodes()) {
    if (node.problem) continue;
    auto channels = report.describe(node);
    if (!channels) return complain("info", channels.error());
    if (std::ranges::find(*chosen, node.id) == chosen->end()) continue;
    if (!as_json) print_node(node, *channels);
    all.push_back({{"id", node.id.value}, {"name", node.name}, {"channels", std::move(*channels)}});
  }
  if (as_json) say_json({{"nodes", std::move(all)}});
  return 0;
}

}  // namespace friday
