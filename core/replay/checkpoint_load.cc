// Makes a checkpoint of the group from what the recording holds of it.
//
// The processes are copies of those at the start of the recording, in which the kernel knows all that it must know of a
// replayed process. Their memory is replaced: what the node no longer had is unmapped, what it had got since is mapped,
// and pages that differ are written.
#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>

#include "core/base/beneath.h"
#include "core/replay/confinement.h"
#include "core/replay/image.h"
#include "core/replay/kernel_state.h"
#include "core/replay/memory_regions.h"
#include "core/replay/saved_checkpoint.h"
#include "core/replay/saved_format.h"
#include "core/replay/session.h"
#include "core/trace/calls.h"

namespace friday {

using saved::MapKind;

class SavedCheckpoint::Loader {
 public:
  Loader(ReplaySession& session, uint64_t events, const GroupCheckpoint& start, PageStore pages, saved::File file)
      : session_(session),
        events_(events),
        start_(start),
        store_(std::move(pages)),
        file_(std::move(file)),
        made_(std::make_unique<GroupCheckpoint>()) {}

  Result<std::unique_ptr<GroupCheckpoint>> run() {
    FRIDAY_TRY_VOID(check_nodes());
    FRIDAY_TRY_VOID(make_objects());
    for (const saved::Node& node : file_.nodes) FRIDAY_TRY_VOID(make_node(node));
    made_->events_ = events_;
    made_->build_ = start_.build_;
    made_->at_.moved = true;
    if (const uint64_t in_turn = file_.head[0].in_turn) made_->at_.in_turn = NodeId{static_cast<uint32_t>(in_turn - 1)};
    for (uint64_t id : file_.ended_now) made_->at_.ended_now.push_back({static_cast<uint32_t>(id)});
    made_->progress_ = file_.progress;
    return std::move(made_);
  }

 private:
  std::unexpected<Error> damaged(std::string_view what) const {
    return fail(ErrorCode::bad_input, "{} is damaged: {}. Make it again (friday checkpoint)",
                saved::place_of(session_.recording(), events_).path(), what);
  }

  Result<void> check_nodes() const {
    const auto& ids = session_.nodes();
    const bool same = std::ranges::equal(file_.nodes, ids, {}, &saved::Node::id, &NodeId::value);
    if (!same)
      return fail(ErrorCode::unsupported, "the checkpoint is of other nodes than those that are replayed: it is of {}",
                  file_.nodes.size());
    if (file_.progress.size() != ids.size()) return damaged("it lacks the progress of a node");
    const auto known = [&](uint64_t id) { return std::ranges::binary_search(ids, NodeId{static_cast<uint32_t>(id)}); };
    const uint64_t in_turn = file_.head[0].in_turn;
    if ((in_turn && !known(in_turn - 1)) || !std::ranges::all_of(file_.ended_now, known))
      return damaged("it names a node that there is not");
    uint64_t events = 0;
    for (const saved::Node& node : file_.nodes) {
      events += node.events;
      if (node.state > static_cast<uint32_t>(NodeState::ended) ||
          node.how > static_cast<uint32_t>(NodeOutcome::How::failed) ||
          node.events > session_.schedule().event_count(NodeId{node.id}))
        return damaged(fmt::format("node {} cannot be there", node.id));
    }
    return events == events_ ? Result<void>() : damaged("its nodes have not completed so many events");
  }

  // The next `count` entries of an array. None if it has not so many.
  template <typename T>
  std::optional<std::span<const T>> take(const std::vector<T>& array, size_t& used, uint64_t count) {
    if (count > array.size() - used) return std::nullopt;
    const auto part = std::span(array).subspan(used, count);
    used += count;
    return part;
  }

  Result<void> make_objects() {
    for (const saved::Object& kept : file_.objects) {
      const auto pages = take(file_.object_pages, object_pages_, kept.pages);
      if (!pages || kept.size > most_memory_) return damaged("a shared object");
      auto object = std::make_shared<const UniqueFd>(memfd_create("friday-shared", MFD_CLOEXEC));
      if (!*object || ftruncate(object->get(), static_cast<off_t>(kept.size)) != 0)
        return fail_errno(errno, "cannot make a file in memory for a shared object");
      for (const saved::Page& page : *pages) {
        FRIDAY_TRY_VOID(read_pages({&page, 1}));
        const size_t size = page.address < kept.size ? std::min<uint64_t>(kPageBytes, kept.size - page.address) : 0;
        if (!size ||
            pwrite(object->get(), bytes_.data(), size, static_cast<off_t>(page.address)) != static_cast<ssize_t>(size))
          return damaged("a shared object");
      }
      objects_.push_back(object);
      if (kept.sharing || kept.number) made_->shared_.named[{kept.sharing, kept.number}] = object;
      else made_->shared_.inherited.push_back(object);
    }
    for (const auto& [key, object] : made_->shared_.named) FRIDAY_TRY_VOID(made_->keep_contents(object));
    for (const auto& object : made_->shared_.inherited) FRIDAY_TRY_VOID(made_->keep_contents(object));
    return {};
  }

  Result<void> make_node(const saved::Node& saved) {
    const NodeId id{saved.id};
    const auto made = std::make_shared<GroupCheckpoint::Node>();
    made_->nodes_[id] = made;
    GroupCheckpoint::Node& kept = *made;
    kept.is_saved = true;
    const auto text = take(file_.texts, texts_, saved.text);
    if (!text) return damaged("the end of a node");
    kept.at = {.state = static_cast<NodeState>(saved.state),
               .outcome = {static_cast<NodeOutcome::How>(saved.how), saved.detail, {text->begin(), text->end()}},
               .spin = {},
               .forks = saved.forks,
               .events = saved.events};
    if (saved.has_spin)
      kept.at.spin = ExpectedSpin{static_cast<uint32_t>(saved.spin_thread), saved.spin, saved.spin_steps,
                                  saved.spin_hash, saved.spin_looks};
    if (kept.at.state == NodeState::waiting) return {};
    ReplayNode& now = *session_.find(id);
    kept.node = std::make_shared<ReplayNode>(now.info(), now.reader());
    if (kept.at.state == NodeState::live) {
      made_->copied_++;
      return make_process(saved, kept);
    }
    kept.node->set_snapshot(kept.at);
    return {};
  }

  Result<void> make_threads(const saved::Node& saved, GroupCheckpoint::Node& kept) {
    const auto threads = take(file_.threads, threads_, saved.threads);
    if (!threads || threads->empty() || threads->size() > shim::kMaxThreads) return damaged("its threads");
    for (const saved::Thread& thread : *threads) {
      const auto extended = take(file_.extended, extended_, thread.extended);
      if (!extended || thread.number >= ~0u) return damaged("a thread");
      GroupCheckpoint::Thread one{};
      one.number = static_cast<uint32_t>(thread.number);
      if (thread.held) one.held = static_cast<int>(thread.held - 1);
      one.registers = thread.registers;
      one.extended.assign(extended->begin(), extended->end());
      one.blocked = thread.blocked;
      std::ranges::copy(thread.signal_stack, one.signal_stack);
      kept.threads.push_back(std::move(one));
    }
    return {};
  }

  // Makes the process from a copy of that at the start from which the node comes.
  Result<void> make_process(const saved::Node& saved, GroupCheckpoint::Node& kept) {
    FRIDAY_TRY_VOID(make_threads(saved, kept));
    ReplayNode& node = *kept.node;
    NodeId origin = node.id();
    while (session_.find(origin)->info().forked) origin = *session_.find(origin)->info().parent;
    ReplayNode& from = *start_.nodes_.at(origin)->node;
    FRIDAY_TRY(pid, from.process().clone(from.process().pid(), from.control().syscall_instruction, kTwinFlags));
    FRIDAY_TRY(process, TracedProcess::adopt(pid));
    FRIDAY_TRY_VOID(node.become_copy(from, std::move(process)));
    FRIDAY_TRY_VOID(node.remove_all_stops());
    if (origin != node.id())
      FRIDAY_TRY_VOID(map_trace(node.process(), pid, node.receiver(), *session_.channel_, node.reader()));
    const auto maps = take(file_.maps, maps_, saved.maps);
    const auto pages = take(file_.pages, pages_, saved.pages);
    const auto windows = take(file_.windows, windows_, saved.windows);
    if (!maps || !pages || !windows) return damaged("the memory of a node");
    FRIDAY_TRY_VOID(unmap_gone(node, *maps));
    for (const saved::Map& map : *maps) FRIDAY_TRY_VOID(make_map(node, map));
    FRIDAY_TRY_VOID(put_pages(node, *pages));
    FRIDAY_TRY_VOID(session_.tell_shim(node));
    FRIDAY_TRY_VOID(set_kernel_state(node, pid, saved.kernel));
    FRIDAY_TRY_VOID(set_signal_stack(node, pid, kept.threads.front().signal_stack));
    if (!node.refresh_control()) return std::unexpected(process_gone(node.id()));
    node.load_patches();
    // Patches of code that was unmapped since are still in the shim's table.
    for (const PatchWindow& window : node.patched_bytes().windows_between(Addr{0}, Addr{~uint64_t{0}}))
      if (std::ranges::find(*windows, window.low) == windows->end())
        node.patched_bytes().remove_window(Addr{window.low});
    return {};
  }

  Result<uint64_t> call(ReplayNode& node, long number, std::initializer_list<uint64_t> arguments) {
    const std::vector<uint64_t> values(arguments);
    FRIDAY_TRY(done, node.process().inject(node.process().pid(), node.control().syscall_instruction, number, values));
    if (done < 0 && done > -4096)
      return damaged(fmt::format("{} for node {}: {}", call_text(static_cast<unsigned>(number)), node.id(),
                                 errno_text(static_cast<int>(-done))));
    return static_cast<uint64_t>(done);
  }

  // Unmaps what the process has and the node did not have any more. `maps` rise.
  Result<void> unmap_gone(ReplayNode& node, std::span<const saved::Map> maps) {
    FRIDAY_TRY(regions, read_regions(node));
    if (!std::ranges::is_sorted(maps, {}, &saved::Map::low)) return damaged("the order of the mappings of a node");
    for (const MemoryRegion& region : regions) {
      uint64_t low = region.low;
      for (const saved::Map& map : maps) {
        if (map.kind != MapKind::kept || map.high <= low || map.low >= region.high) continue;
        if (map.low > low) FRIDAY_TRY_VOID(call(node, SYS_munmap, {low, map.low - low}));
        low = map.high;
      }
      if (low < region.high) FRIDAY_TRY_VOID(call(node, SYS_munmap, {low, region.high - low}));
    }
    return {};
  }

  Result<void> make_map(ReplayNode& node, const saved::Map& map) {
    const uint64_t size = map.high - map.low;
    if (map.low % kPageBytes || map.high % kPageBytes || map.low >= map.high || size > most_memory_)
      return damaged("a mapping");
    if (map.kind == MapKind::kept) {
      FRIDAY_TRY_VOID(call(node, SYS_mprotect, {map.low, size, map.protection}));
      return {};
    }
    uint64_t flags = MAP_FIXED_NOREPLACE | (map.kind == MapKind::shared ? MAP_SHARED : MAP_PRIVATE);
    uint64_t number = ~uint64_t{0};
    if (map.kind == MapKind::anonymous) flags |= MAP_ANONYMOUS | (map.protection & PROT_WRITE ? 0 : MAP_NORESERVE);
    else if (map.kind == MapKind::grows_down) flags |= MAP_ANONYMOUS | MAP_NORESERVE | MAP_GROWSDOWN;
    else {
      FRIDAY_TRY(received, hand_over(node, map));
      number = received;
    }
    FRIDAY_TRY(place, call(node, SYS_mmap, {map.low, size, map.protection, flags, number, map.offset}));
    if (number != ~uint64_t{0}) FRIDAY_TRY_VOID(call(node, SYS_close, {number}));
    return place == map.low ? Result<void>() : damaged("a mapping");
  }

  // Gives the process the file that the mapping is of. Returns the descriptor there.
  Result<uint64_t> hand_over(ReplayNode& node, const saved::Map& map) {
    UniqueFd copy;
    int fd = -1;
    if (map.kind == MapKind::file) {
      FRIDAY_TRY(opened, open_beneath(session_.recording().file_copy(map.file)));
      copy = std::move(opened);
      fd = copy.get();
    } else if (map.object < objects_.size()) {
      fd = objects_[map.object]->get();
    } else {
      return damaged("a mapping of a shared object");
    }
    FRIDAY_TRY(number, node.receive(node.process().pid(), fd));
    return static_cast<uint64_t>(number);
  }

  // Reads pages that follow each other in the store into bytes_, and compares their hashes.
  Result<void> read_pages(std::span<const saved::Page> pages) {
    bytes_.resize(pages.size() * kPageBytes);
    FRIDAY_TRY_VOID(store_.read(pages[0].number, bytes_));
    for (size_t i = 0; i < pages.size(); i++)
      if (hash_of_page(std::span(bytes_).subspan(i * kPageBytes, kPageBytes)) != pages[i].hash)
        return damaged(fmt::format("page {} of checkpoints/pages is not what it was", pages[i].number));
    return {};
  }

  Result<void> put_pages(ReplayNode& node, std::span<const saved::Page> pages) {
    constexpr size_t kTogether = 64;
    for (size_t from = 0, count = 0; from < pages.size(); from += count) {
      for (count = 1; from + count < pages.size() && count < kTogether; count++) {
        const saved::Page &last = pages[from + count - 1], &next = pages[from + count];
        if (next.address != last.address + kPageBytes || next.number != last.number + 1) break;
      }
      FRIDAY_TRY_VOID(read_pages(pages.subspan(from, count)));
      if (!node.process().write(pages[from].address, bytes_.data(), bytes_.size()))
        return damaged(
            fmt::format("the contents of {:#x} in node {}, where nothing is mapped", pages[from].address, node.id()));
    }
    return {};
  }

  ReplaySession& session_;
  const uint64_t events_;
  const GroupCheckpoint& start_;
  const PageStore store_;
  const saved::File file_;
  std::unique_ptr<GroupCheckpoint> made_;
  std::vector<SharedObjects::Object> objects_;
  std::vector<std::byte> bytes_;
  // How many entries of the arrays are used.
  size_t texts_ = 0, threads_ = 0, extended_ = 0, maps_ = 0, pages_ = 0, windows_ = 0, object_pages_ = 0;
  static constexpr uint64_t most_memory_ = uint64_t{1} << 47;  // the addresses that a process has
};

Result<std::unique_ptr<GroupCheckpoint>> SavedCheckpoint::load(ReplaySession& session, uint64_t events,
                                                               const GroupCheckpoint& start) {
  FRIDAY_TRY(file, saved::read(session.recording(), events));
  FRIDAY_TRY(pages, PageStore::open(session.recording()));
  return Loader(session, events, start, std::move(pages), std::move(file)).run();
}

}  // namespace friday
