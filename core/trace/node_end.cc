#include "core/trace/node_end.h"

#include <sys/wait.h>

#include <algorithm>

#include "core/trace/index.h"

namespace friday {

namespace {

std::optional<int> status_in(const Recording& recording, NodeId parent, uint64_t event) {
  auto reader = TraceReader::open(recording, parent);
  if (!reader) return std::nullopt;
  auto index = TraceIndex::load_or_build(recording, *reader);
  if (!index || event >= index->event_count()) return std::nullopt;
  auto view = index->event(*reader, event);
  if (!view) return std::nullopt;
  for (PartView part : view->parts())
    if (const auto* wait = part.wait()) return static_cast<int>(wait->status);
  return std::nullopt;
}

}  // namespace

NodeEnd end_of(const Recording& recording, const Schedule& schedule, const NodeInfo& node) {
  if (node.end.how != NodeEnd::How::unknown) return node.end;
  const auto edge = std::ranges::find_if(schedule.edges(), [&](const Edge& e) { return e.kind == EdgeKind::wait && e.from == node.id; });
  if (edge == schedule.edges().end()) return node.end;
  const auto status = status_in(recording, edge->to, edge->to_event);
  if (status && WIFSIGNALED(*status)) return {NodeEnd::How::signal, WTERMSIG(*status), ""};
  if (status && WIFEXITED(*status)) return {NodeEnd::How::exit, WEXITSTATUS(*status), ""};
  return node.end;
}

}  // namespace friday
