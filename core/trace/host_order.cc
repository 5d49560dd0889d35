#include "core/trace/host_order.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace friday {
namespace {

struct Item {
  uint64_t entry, back;
  uint32_t node;
  uint64_t event;
};

// Processes events in the order of their entries. `last_` holds the returned events that an edge to the next event may
// have to start from. An event that returned before another returned event was entered is dropped: it precedes that
// event, and the order follows by transitivity. Usually one event is left.
class Sweep {
 public:
  Sweep(std::vector<Item> items, std::vector<HostEdge>& edges) : items_(std::move(items)), edges_(edges) {}

  void run() {
    std::ranges::stable_sort(items_, {}, &Item::entry);
    std::vector<size_t> by_return(items_.size());
    std::iota(by_return.begin(), by_return.end(), size_t{0});
    std::ranges::stable_sort(by_return, {}, [&](size_t n) { return items_[n].back; });
    size_t returned = 0;
    for (const Item& item : items_) {
      for (; returned < by_return.size() && items_[by_return[returned]].back < item.entry; ++returned)
        complete(items_[by_return[returned]]);
      order_before(item);
    }
  }

 private:
  void complete(const Item& item) {
    latest_entry_ = std::max(latest_entry_, item.entry);
    // A later event of the same node implies the order of the earlier one.
    std::erase_if(last_, [&](const Item& other) { return other.node == item.node || other.back < latest_entry_; });
    if (item.back >= latest_entry_) last_.push_back(item);
  }

  void order_before(const Item& item) {
    for (const Item& before : last_) {
      if (before.node == item.node) continue;
      auto [known, is_new] = known_.try_emplace({before.node, item.node}, before.event);
      if (!is_new && known->second == before.event) continue;
      known->second = before.event;
      edges_.push_back({before.node, item.node, before.event, item.event});
    }
  }

  std::vector<Item> items_;
  std::vector<HostEdge>& edges_;
  std::vector<Item> last_;
  uint64_t latest_entry_ = 0;
  // (from, to) -> latest event of `from` that is known to precede `to`
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> known_;
};

}  // namespace

std::vector<HostEdge> host_order(const FactSet& facts) {
  std::vector<HostEdge> edges;
  for (uint32_t host = 0; host < facts.clocks.size(); ++host) {
    std::vector<Item> items;
    for (uint32_t slot = 0; slot < facts.nodes.size(); ++slot) {
      const NodeFacts& node = facts.nodes[slot];
      if (node.host != host) continue;
      for (uint64_t event = 0; event < node.times.size(); ++event)
        items.push_back({node.times[event].entry, node.times[event].back, slot, event});
    }
    Sweep(std::move(items), edges).run();
  }
  return edges;
}

Result<std::vector<HostEdge>> host_order(const Recording& recording, std::span<const NodeId> nodes) {
  FRIDAY_TRY(facts, FactSet::gather(recording, nodes));
  return host_order(facts);
}

}  // namespace friday
