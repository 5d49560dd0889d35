#include "core/trace/save.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/beneath.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/numbers.h"
#include "core/base/sparse.h"
#include "core/trace/draft.h"
#include "core/trace/json_file.h"
#include "core/trace/packed.h"
#include "core/trace/recording.h"
#include "core/trace/roll.h"
#include "core/trace/standing_still.h"
#include "core/trace/trace_file.h"

namespace friday {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kLongestBlock = 30'000ms;  // for which a recorder may take to store what it has begun with
constexpr auto kLongestImage = 10'000ms;  // for which a copy of a process may take to write its image

using Page = std::array<std::byte, format::kHeaderSize>;

// A node whose plain trace may still grow.
struct UnderWay {
  UniqueFd trace;
  Page page;
  json
      description;  // its node.json, from before `page` was read: what ended later has not ended yet; null: it has none
  const format::FileHeader& header() const { return *reinterpret_cast<const format::FileHeader*>(page.data()); }
  bool goes_on() const {
    if (header().ended || !description.is_object()) return !header().ended;
    const auto ended = description.find("ended");
    return ended == description.end() || !ended->is_object() || ended->value("how", json("running")) == "running";
  }
};

class Saver {
 public:
  Saver(std::string recording, const SaveOptions& options)
      : from_(std::move(recording)), options_(options), progress_(options.tell) {}

  Result<Saved> save(const std::string& place) {
    FRIDAY_TRY(draft, Draft::beside(place));
    {
      const auto still = stand_still(from_, kLongestBlock);
      if (!still) return std::unexpected(still.error());
      FRIDAY_TRY_VOID(look());
      if (ids_.empty()) return std::unexpected(nothing_recorded(from_));
      FRIDAY_TRY_VOID(await_images());
      FRIDAY_TRY_VOID(make_directory(draft.path() + "/nodes"));
      for (const std::string& id : ids_) FRIDAY_TRY_VOID(take_node(id, fmt::format("{}/nodes/{}", draft.path(), id)));
      FRIDAY_TRY_VOID(take_the_rest(draft.path()));
    }
    FRIDAY_TRY_VOID(describe(draft.path()));
    FRIDAY_TRY_VOID(Recording::open(draft.path()));
    FRIDAY_TRY_VOID(draft.move_to(place));
    saved_.path = place;
    if (options_.removes_ended) FRIDAY_TRY_VOID(remove_ended());
    return saved_;
  }

 private:
  Beneath inside(std::string_view name) const { return {from_, std::string(name)}; }
  Beneath directory_of(const std::string& id) const { return inside("nodes/" + id); }

  // Finds the nodes, and reads of all at once how far they are. What the compressed files have left out is what others
  // had sent before that.
  Result<void> look() {
    FRIDAY_TRY(names, names_beneath(inside("nodes")));
    for (const std::string& name : names)
      if (canonical_number(name)) ids_.push_back(name);
    for (const std::string& id : ids_)
      if (auto opened = open_beneath(directory_of(id).below("trace"))) {
        under_way_[id].trace = std::move(*opened);
        if (auto read = read_json(directory_of(id).below("node.json"))) under_way_[id].description = *std::move(read);
      }
    for (auto& [id, node] : under_way_)
      if (!read_exactly(node.trace.get(), node.page, 0)) node.trace.reset();
    std::erase_if(under_way_, [&](const auto& each) {
      return !each.second.trace || (each.second.header().checksum && !each.second.header().packing);
    });
    leave_out_what_is_to_come();
    return {};
  }

  // Processes on standby, of which nothing is recorded; and children that already ran when their parents' traces were
  // looked at, which did not have the fork yet. To what is saved they are still to come, with all that they have
  // forked.
  void leave_out_what_is_to_come() {
    const auto uuid_of = [](const uint8_t(&bytes)[16]) {
      Uuid uuid;
      std::ranges::copy(bytes, uuid.begin());
      return uuid;
    };
    std::map<Uuid, uint64_t> events;  // by the uuid of the node, how many it has
    std::set<Uuid> to_come;
    // Ids grow, so parents stand before their children.
    std::ranges::sort(ids_, {}, [](const std::string& id) { return canonical_number(id); });
    std::erase_if(ids_, [&](const std::string& id) {
      const auto node = under_way_.find(id);
      auto header = node != under_way_.end() ? Result<format::FileHeader>(node->second.header())
                                             : read_header(directory_of(id).below("trace"));
      if (!header) return false;  // what is wrong with it is said when the recording is opened
      const Uuid parent = uuid_of(header->parent_uuid);
      const auto forked_by = header->features & format::kFeatureForkChild ? events.find(parent) : events.end();
      const Uuid uuid = uuid_of(header->node_uuid);
      if (options_.without.contains(uuid)) {
        under_way_.erase(id);
        return true;
      }
      const bool out = header->on_standby || to_come.contains(parent) ||
                       (forked_by != events.end() && header->fork_event >= forked_by->second);
      if (out) to_come.insert(uuid), under_way_.erase(id);
      else events[uuid] = header->events;
      return out;
    });
  }

  Result<void> remove_ended() {
    std::vector<std::string> removed;
    for (const std::string& id : ids_) {
      if (const auto node = under_way_.find(id); node != under_way_.end() && node->second.goes_on()) continue;
      FRIDAY_TRY(names, names_beneath(directory_of(id)));
      for (const std::string& name : names) remove_beneath(directory_of(id).below(name));
      remove_beneath(directory_of(id));
      removed.push_back(id);
    }
    return strike_from_rolls(from_, removed);
  }

  // A trace without its image cannot be replayed, and it is written in moments.
  Result<void> await_images() {
    const auto end = std::chrono::steady_clock::now() + kLongestImage;
    for (auto& [id, node] : under_way_) {
      format::FileHeader now = node.header();
      while (now.image_end && !now.imaged && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(1ms);
        FRIDAY_TRY_VOID(read_exactly(node.trace.get(), std::as_writable_bytes(std::span(&now, 1)), 0));
      }
      reinterpret_cast<format::FileHeader*>(node.page.data())->imaged = now.imaged;
    }
    return {};
  }

  static Result<void> make_directory(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("cannot create {}", path));
    return {};
  }

  Result<void> take_node(const std::string& id, const std::string& to) {
    const Beneath directory = directory_of(id);
    const auto names = names_beneath(directory);
    if (!names && names.error().code == ErrorCode::not_found) return {};  // its fork had failed
    if (!names) return std::unexpected(names.error());
    FRIDAY_TRY_VOID(make_directory(to));
    const auto node = under_way_.find(id);
    saved_.nodes++;
    for (const std::string& name : *names) {
      if (name.ends_with(".tmp")) continue;
      const std::string target = to + "/" + name;
      if (node == under_way_.end() || (name != "trace" && name != "trace.zst" && name != "node.json"))
        FRIDAY_TRY_VOID(take_file(directory.below(name), target));
      else if (name == "trace.zst") FRIDAY_TRY_VOID(copy_file(directory.below(name), target));
      else if (name == "node.json") FRIDAY_TRY_VOID(describe_node(node->second, target));
    }
    if (node == under_way_.end()) return {};
    saved_.under_way += node->second.goes_on();
    return copy_trace(node->second, directory, to);
  }

  // What the program has committed, but for what is in the compressed file.
  Result<void> copy_trace(UnderWay& node, const Beneath& directory, const std::string& to) {
    auto* header = reinterpret_cast<format::FileHeader*>(node.page.data());
    uint64_t done = format::kHeaderSize;
    if (auto packed = open_file(to + "/trace.zst", O_RDONLY)) {
      FRIDAY_TRY(list, list_packed(packed->get(), to + "/trace.zst"));
      done = list.end();
    }
    header->allocated = header->committed;
    header->closed = format::kEndStopped;
    FRIDAY_TRY(file, open_file(to + "/trace", O_WRONLY | O_CREAT | O_EXCL, 0600));
    const uint64_t end = header->committed;
    if (::ftruncate(file.get(), static_cast<off_t>(end)) != 0)
      return fail_errno(errno, fmt::format("cannot write {}/trace", to));
    progress_.begin("saving " + directory.below("trace").path(), end);
    if (::pwrite(file.get(), node.page.data(), node.page.size(), 0) != static_cast<ssize_t>(node.page.size()))
      return fail_errno(errno, fmt::format("cannot write {}/trace", to));
    std::vector<std::byte> buffer(1u << 20);
    for (Extent data = next_data(node.trace.get(), done, end); data.from < end;
         data = next_data(node.trace.get(), data.to, end))
      for (uint64_t at = data.from; at < data.to;) {
        const auto part = std::span(buffer).first(std::min<uint64_t>(buffer.size(), data.to - at));
        FRIDAY_TRY_VOID(read_exactly(node.trace.get(), part, at));
        if (::pwrite(file.get(), part.data(), part.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(part.size()))
          return fail_errno(errno, fmt::format("cannot write {}/trace", to));
        at += part.size();
        saved_.copied += part.size();
        progress_.add(part.size());
      }
    return {};
  }

  static Result<void> describe_node(const UnderWay& node, const std::string& to) {
    json object = node.description;
    if (!object.is_object()) return {};
    object.erase("recorder");
    if (node.goes_on()) object["ended"] = {{"how", "saved"}, {"detail", 0}};
    return write_file_atomically(to, object.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  }

  // Files that never change, or only by being replaced or appended to.
  Result<void> take_file(const Beneath& from, const std::string& to) {
    FRIDAY_TRY(source, open_beneath(from));
    const std::string opened = fmt::format("/proc/self/fd/{}", source.get());
    struct stat about;
    if (::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) != 0) return copy_file(from, to);
    if (::fstat(source.get(), &about) == 0) saved_.linked += static_cast<uint64_t>(about.st_blocks) * 512;
    return {};
  }

  Result<void> copy_file(const Beneath& from, const std::string& to) {
    FRIDAY_TRY(about, copy_to_draft(from, to, "saving", progress_));
    saved_.copied += static_cast<uint64_t>(about.st_blocks) * 512;
    return {};
  }

  // All but what is made anew (the cache), belongs to the recorder (tokens) or is of the whole recording (checkpoints).
  Result<void> take_the_rest(const std::string& to) {
    const std::set<std::string_view> own = {"nodes",         "cache",          "tokens",     "checkpoints",
                                            "switches.json", "recording.json", "order.json", "order-state.json"};
    const std::set<std::string_view> shared = {"files", "payload", "debug"};
    FRIDAY_TRY(names, names_beneath(inside("")));
    for (const std::string& name : names) {
      if (own.contains(name) || name.ends_with(".tmp")) continue;
      if (shared.contains(name)) FRIDAY_TRY_VOID(take_directory(inside(name), to + "/" + name));
      else if (struct stat about; ::lstat(inside(name).path().c_str(), &about) == 0 && S_ISREG(about.st_mode))
        FRIDAY_TRY_VOID(copy_file(inside(name), to + "/" + name));  // the output of a program of a group
    }
    return {};
  }

  Result<void> take_directory(const Beneath& from, const std::string& to) {
    FRIDAY_TRY_VOID(make_directory(to));
    FRIDAY_TRY(names, names_beneath(from));
    for (const std::string& name : names) {
      struct stat about;
      if (name.ends_with(".tmp") || ::lstat(from.below(name).path().c_str(), &about) != 0) continue;
      if (S_ISDIR(about.st_mode)) FRIDAY_TRY_VOID(take_directory(from.below(name), to + "/" + name));
      else FRIDAY_TRY_VOID(take_file(from.below(name), to + "/" + name));
    }
    return {};
  }

  Result<void> describe(const std::string& to) const {
    FRIDAY_TRY(object, read_json(inside("recording.json")));
    timespec now;
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (object.is_object())
      object["saved"] = {{"from", fs::path(from_).filename().string()},
                         {"at_ns", now.tv_sec * 1'000'000'000 + now.tv_nsec}};
    return write_file_atomically(to + "/recording.json",
                                 object.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  }

  const std::string from_;
  const SaveOptions& options_;
  Progress progress_;
  std::vector<std::string> ids_;
  std::map<std::string, UnderWay> under_way_;  // by the name of the node's directory
  Saved saved_;
};

// Checks the place, or chooses one.
Result<std::string> place_for(const std::string& recording, const std::string& place) {
  std::error_code error;
  const auto exists = [&](const std::string& path) { return fs::exists(fs::symlink_status(path, error)); };
  if (place.empty()) {
    std::string free;
    for (unsigned n = 1; free.empty(); n++)
      if (const std::string path = fmt::format("{}-saved-{}", recording, n); !exists(path)) free = path;
    return free;
  }
  if (exists(place)) return fail(ErrorCode::bad_input, "{} exists already; name another place", place);
  const fs::path parent = fs::absolute(place).parent_path();
  if (!fs::is_directory(parent, error))
    return fail(ErrorCode::bad_input, "{} cannot be created: there is no directory {}", place, parent.string());
  const fs::path inside = fs::canonical(recording, error), at = fs::canonical(parent, error);
  if (std::ranges::mismatch(inside, at).in1 == inside.end())
    return fail(ErrorCode::bad_input, "{} lies inside of {}. Name another place", place, recording);
  return place;
}

}  // namespace

Result<Saved> save_recording(const std::string& path, const SaveOptions& options) {
  FRIDAY_TRY_VOID(check_recording(path));
  std::error_code error;
  const std::string from = fs::canonical(path, error).string();
  if (error) return fail(ErrorCode::bad_input, "cannot resolve {}: {}", path, error.message());
  FRIDAY_TRY(to, place_for(from, options.place));
  return Saver(from, options).save(to);
}

}  // namespace friday
