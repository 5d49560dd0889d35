// Writes a checkpoint of the group into its recording.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/beneath.h"
#include "core/base/sparse.h"
#include "core/replay/kernel_state.h"
#include "core/replay/memory_regions.h"
#include "core/replay/saved_checkpoint.h"
#include "core/replay/saved_format.h"
#include "core/replay/session.h"

namespace friday {
namespace {

using saved::MapKind;

bool is_zero(std::span<const std::byte> page) {
  return page[0] == std::byte{} && memcmp(&page[0], &page[1], page.size() - 1) == 0;
}

// Whether both are mappings of the same kind of memory, so that what one has at an address the other may keep.
bool is_same_memory(const MemoryRegion& a, const MemoryRegion& b) {
  if (a.shared || b.shared || a.grows_down || b.grows_down || a.of_file() != b.of_file()) return false;
  return !a.of_file() || (a.device == b.device && a.inode == b.inode && a.low - a.offset == b.low - b.offset);
}

}  // namespace

class SavedCheckpoint::Saver {
 public:
  Saver(ReplaySession& session, const GroupCheckpoint& here, const GroupCheckpoint& start, PageStore& pages)
      : session_(session), here_(here), start_(start), store_(pages) {}

  Result<Size> run() {
    const auto& at = here_.at_;
    if (!at.pending.empty() || at.divergence || at.failure)
      return fail(ErrorCode::unsupported, "only a place between two events can be kept");
    const uint64_t before = store_.written();
    file_.head.push_back({.events = here_.events_, .in_turn = at.in_turn ? at.in_turn->value + 1ull : 0});
    for (const auto& [id, kept] : here_.nodes_) FRIDAY_TRY_VOID(add_node(id, *kept));
    FRIDAY_TRY_VOID(add_objects());
    for (NodeId id : at.ended_now) file_.ended_now.push_back(id.value);
    file_.progress = here_.progress_;
    FRIDAY_TRY_VOID(store_.flush());  // before the file that refers to them
    CacheWriter writer;
    saved::File::for_all(file_, [&](const auto& array) { writer.add(array); });
    const Recording& recording = session_.recording();
    FRIDAY_TRY_VOID(writer.write_to(saved::place_of(recording, here_.events_), saved::identity_of(recording)));
    return Size{file_.pages.size() + file_.object_pages.size(), store_.written() - before};
  }

 private:
  Result<void> add_node(NodeId id, const GroupCheckpoint::Node& kept) {
    saved::Node node{.id = id.value,
                     .state = static_cast<uint32_t>(kept.at.state),
                     .how = static_cast<uint32_t>(kept.at.outcome.how),
                     .detail = kept.at.outcome.detail,
                     .forks = kept.at.forks,
                     .events = kept.at.events,
                     .text = kept.at.outcome.text.size(),
                     .kernel = {}};
    const std::string& text = kept.at.outcome.text;
    file_.texts.insert(file_.texts.end(), text.begin(), text.end());
    if (kept.at.spin) {
      node.has_spin = 1;
      node.spin_thread = kept.at.spin->thread;
      node.spin = kept.at.spin->point;
      node.spin_steps = kept.at.spin->steps, node.spin_hash = kept.at.spin->hash, node.spin_looks = kept.at.spin->looks;
    }
    if (kept.at.state == NodeState::live) FRIDAY_TRY_VOID(add_process(*kept.node, kept.threads, node));
    file_.nodes.push_back(node);
    return {};
  }

  Result<void> add_process(ReplayNode& twin, const std::vector<GroupCheckpoint::Thread>& threads, saved::Node& node) {
    FRIDAY_TRY(kernel, read_kernel_state(twin, twin.process().pid()));
    node.kernel = kernel;
    for (const GroupCheckpoint::Thread& thread : threads) {
      saved::Thread one{.registers = thread.registers,
                        .number = thread.number,
                        .held = thread.held ? static_cast<uint64_t>(*thread.held) + 1 : 0,
                        .blocked = thread.blocked,
                        .extended = thread.extended.size()};
      std::ranges::copy(thread.signal_stack, one.signal_stack);
      file_.threads.push_back(one);
      file_.extended.insert(file_.extended.end(), thread.extended.begin(), thread.extended.end());
    }
    node.threads = threads.size();
    const size_t maps = file_.maps.size(), pages = file_.pages.size();
    FRIDAY_TRY_VOID(add_memory(twin));
    node.maps = file_.maps.size() - maps;
    node.pages = file_.pages.size() - pages;
    for (const PatchWindow& window : twin.patched_bytes().windows_between(Addr{0}, Addr{~uint64_t{0}}))
      file_.windows.push_back(window.low), node.windows++;
    return {};
  }

  Result<void> add_memory(ReplayNode& twin) {
    FRIDAY_TRY(origin, origin_of(twin));
    FRIDAY_TRY(there, read_regions(*origin));
    FRIDAY_TRY(regions, read_regions(twin));
    for (const MemoryRegion& region : regions) {
      uint64_t low = region.low;
      for (const MemoryRegion& other : there) {
        const uint64_t from = std::max(low, other.low), to = std::min(region.high, other.high);
        if (from >= to || !is_same_memory(region, other)) continue;
        FRIDAY_TRY_VOID(add_new(twin, region, low, from));
        FRIDAY_TRY_VOID(add_kept(twin, *origin, region, from, to, other.has_private));
        low = to;
      }
      FRIDAY_TRY_VOID(add_new(twin, region, low, region.high));
    }
    return {};
  }

  // The process at the start from which the node comes: its own, or that of the ancestor that has forked it.
  Result<ReplayNode*> origin_of(const ReplayNode& node) const {
    NodeId id = node.id();
    while (session_.find(id)->info().forked) id = *session_.find(id)->info().parent;
    return start_.nodes_.at(id)->node.get();
  }

  static saved::Map map_of(const MemoryRegion& region, uint64_t low, uint64_t high, MapKind kind) {
    return {.low = low,
            .high = high,
            .offset = region.inode ? region.offset + (low - region.low) : 0,
            .kind = kind,
            .protection = region.protection};
  }

  // A part that is there when the node starts.
  Result<void> add_kept(ReplayNode& twin, ReplayNode& origin, const MemoryRegion& region, uint64_t low, uint64_t high,
                        bool was_private) {
    file_.maps.push_back(map_of(region, low, high, MapKind::kept));
    std::vector<uint64_t> pages;
    for (const auto& [node, look] : {std::pair(&twin, region.has_private), std::pair(&origin, was_private)}) {
      if (!look) continue;
      FRIDAY_TRY(more, own_pages(*node, low, high));
      pages.insert(pages.end(), more.begin(), more.end());
    }
    std::ranges::sort(pages);
    const auto again = std::ranges::unique(pages);
    pages.erase(again.begin(), again.end());
    for (uint64_t page : pages) {
      FRIDAY_TRY_VOID(read_page(twin, page, page_));
      FRIDAY_TRY_VOID(read_page(origin, page, before_));
      if (page_ != before_) FRIDAY_TRY_VOID(add_page(page, file_.pages));
    }
    return {};
  }

  // A part that the loader must map.
  Result<void> add_new(ReplayNode& twin, const MemoryRegion& region, uint64_t low, uint64_t high) {
    if (low >= high) return {};
    const MapKind kind = !region.inode ? (region.grows_down ? MapKind::grows_down : MapKind::anonymous) : MapKind::file;
    saved::Map map = map_of(region, low, high, kind);
    UniqueFd file;
    if (region.inode) {
      if (const auto object = number_of_object(region)) {
        map.object = *object;
        map.kind = region.shared ? MapKind::shared : MapKind::private_object;
      } else {
        FRIDAY_TRY(copy, copy_of(twin, region, map));
        file = std::move(copy);
      }
    }
    file_.maps.push_back(map);
    if (map.kind == MapKind::shared || !region.has_private) return {};
    FRIDAY_TRY(pages, own_pages(twin, low, high));
    for (uint64_t page : pages) {
      FRIDAY_TRY_VOID(read_page(twin, page, page_));
      if (!file && map.kind != MapKind::private_object && is_zero(page_)) continue;
      if (file && read_exactly(file.get(), before_, map.offset + (page - low)) && page_ == before_) continue;
      FRIDAY_TRY_VOID(add_page(page, file_.pages));
    }
    return {};
  }

  // Opens the copy in the recording of a file that is mapped, and sets its name in `map`.
  Result<UniqueFd> copy_of(const ReplayNode& node, const MemoryRegion& region, saved::Map& map) {
    const std::string& directory = session_.recording().files_directory();
    const std::string name = region.path.starts_with(directory + "/") ? region.path.substr(directory.size() + 1) : "";
    if (region.shared || name.size() != 2 * sizeof map.file ||
        name.find_first_not_of("0123456789abcdef") != std::string::npos)
      return fail(ErrorCode::unsupported, "node {} has mapped {}, which is no file of the recording", node.id(),
                  region.path);
    for (size_t i = 0; i < sizeof map.file; i++)
      map.file[i] = static_cast<uint8_t>(std::stoul(name.substr(2 * i, 2), nullptr, 16));
    return open_beneath(session_.recording().file_copy(map.file));
  }

  // The objects that nodes share, in the order in which they are numbered: those with a name come first.
  template <typename Each>
  void for_objects(Each each) const {
    uint64_t number = 0;
    for (const auto& [key, object] : here_.shared_.named) each(number++, key, *object);
    for (const auto& object : here_.shared_.inherited) each(number++, std::pair<uint64_t, uint64_t>(), *object);
  }

  std::optional<uint64_t> number_of_object(const MemoryRegion& region) const {
    std::optional<uint64_t> found;
    for_objects([&](uint64_t number, const auto&, const UniqueFd& fd) {
      struct stat about {};
      if (fstat(fd.get(), &about) == 0 && about.st_dev == region.device && about.st_ino == region.inode) found = number;
    });
    return found;
  }

  Result<void> add_objects() {
    for (size_t i = 0; i < here_.contents_.size(); i++) {
      const GroupCheckpoint::Contents& contents = here_.contents_[i];
      saved::Object object{.size = contents.size};
      for_objects([&](uint64_t number, const auto& key, const UniqueFd&) {
        if (number == i) object.sharing = key.first, object.number = key.second;
      });
      const size_t pages = file_.object_pages.size();
      for (Extent part = next_data(contents.copy.get(), 0, contents.size); part.from < part.to;
           part = next_data(contents.copy.get(), part.to, contents.size))
        for (uint64_t at = part.from / kPageBytes * kPageBytes; at < part.to; at += kPageBytes) {
          page_.assign(kPageBytes, std::byte{});
          const auto bytes = std::span(page_).first(std::min<uint64_t>(kPageBytes, contents.size - at));
          FRIDAY_TRY_VOID(read_exactly(contents.copy.get(), bytes, at));
          if (!is_zero(page_)) FRIDAY_TRY_VOID(add_page(at, file_.object_pages));
        }
      object.pages = file_.object_pages.size() - pages;
      file_.objects.push_back(object);
    }
    return {};
  }

  static Result<void> read_page(ReplayNode& node, uint64_t address, std::vector<std::byte>& page) {
    if (!node.process().read(address, page.data(), page.size())) return std::unexpected(process_gone(node.id()));
    return {};
  }

  Result<void> add_page(uint64_t address, std::vector<saved::Page>& pages) {
    const PageHash hash = hash_of_page(page_);
    FRIDAY_TRY(number, store_.add(page_, hash));
    pages.push_back({address, number, hash});
    return {};
  }

  ReplaySession& session_;
  const GroupCheckpoint& here_;
  const GroupCheckpoint& start_;
  PageStore& store_;
  saved::File file_;
  std::vector<std::byte> page_ = std::vector<std::byte>(kPageBytes), before_ = page_;
};

Result<SavedCheckpoint::Size> SavedCheckpoint::save(ReplaySession& session, const GroupCheckpoint& here,
                                                    const GroupCheckpoint& start, PageStore& pages) {
  return Saver(session, here, start, pages).run();
}

}  // namespace friday
