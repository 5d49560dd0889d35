#include "core/trace/merge.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/trace/draft.h"
#include "core/trace/json_file.h"
#include "core/trace/packed.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_prefix(const std::string& text) {
  auto allowed = [](char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '+' || c == '.';
  };
  auto letter = [](char c) { return isalpha(static_cast<unsigned char>(c)); };
  return !text.empty() && std::ranges::all_of(text, allowed) && std::ranges::any_of(text, letter);
}

class Merger {
 public:
  explicit Merger(const MergeOptions& options) : options_(options), progress_(options.tell) {}
  Result<MergeReport> run();

 private:
  Result<void> check_place() const;
  Result<void> open_inputs();
  Result<void> refuse_running(const Recording& recording, const NodeInfo& node) const;
  Result<void> refuse_twice() const;
  std::optional<Error> problem_of(const Recording& recording, const NodeInfo& node) const;
  Result<void> name_nodes();
  void find_hosts();
  std::string prefixed(size_t input, const std::string& name) const {
    const std::string& prefix = options_.inputs[input].prefix;
    return prefix.empty() ? name : prefix + "." + name;
  }
  // The boot id that a node gets in the output.
  Uuid boot_of(size_t input, const Uuid& boot) const;

  Result<void> copy_node(const std::string& target, const MergeReport::Node& node);
  Result<void> copy_trace(const Beneath& from, const std::string& to, size_t input, const NodeInfo& node);
  Result<void> copy_packed_trace(const Beneath& from, const std::string& to, size_t input, const NodeInfo& node);
  Result<void> describe_node(const std::string& path, const MergeReport::Node& node, const NodeInfo& info);
  Result<void> copy_shared(const std::string& target, const Recording& recording, const char* folder);
  Result<void> copy_file(const Beneath& from, const std::string& to);
  Result<void> describe_group(const std::string& target) const;
  Result<void> check(const std::string& target);

  const MergeOptions& options_;
  std::vector<Recording> recordings_;
  MergeReport report_;
  Progress progress_;
};

Result<void> Merger::check_place() const {
  const std::string& output = options_.output;
  if (options_.inputs.size() < 2)
    return fail(ErrorCode::usage, "merge joins two or more recordings, {} given: friday merge -o OUT REC REC...",
                options_.inputs.size());
  if (output.empty())
    return fail(ErrorCode::usage, "no place for the merged recording: add -o OUT, a directory that does not exist yet");
  std::error_code error;
  if (fs::exists(fs::symlink_status(output, error)))
    return fail(ErrorCode::bad_input, "{} exists already; merge always makes a new recording. Name another place",
                output);
  fs::path parent = fs::absolute(output).parent_path();
  if (!fs::is_directory(parent, error))
    return fail(ErrorCode::bad_input, "{} cannot be created: there is no directory {}", output, parent.string());
  fs::path place = fs::canonical(parent, error);
  for (const MergeInput& input : options_.inputs) {
    fs::path inside = fs::canonical(input.path, error);
    if (error) continue;  // Recording::open reports what is wrong with it
    auto [end, unused] = std::mismatch(inside.begin(), inside.end(), place.begin(), place.end());
    if (end == inside.end())
      return fail(ErrorCode::bad_input, "{} lies inside of {}, which merge does not touch. Name another place", output,
                  input.path);
  }
  return {};
}

Result<void> Merger::refuse_running(const Recording& recording, const NodeInfo& node) const {
  auto boot = read_file("/proc/sys/kernel/random/boot_id");
  std::string here = boot.value_or("");
  std::erase_if(here, [](char c) { return c == '-' || c == '\n'; });
  if (node.end.how != NodeEnd::How::running || hex_text(node.boot_id) != here) return {};
  return fail(ErrorCode::bad_input,
              "{} is still being recorded: node {} ({}) runs as process {}. End it first, or merge a copy",
              recording.path(), node.id, node.name, node.pid);
}

Result<void> Merger::open_inputs() {
  for (const MergeInput& input : options_.inputs) {
    FRIDAY_TRY(recording, Recording::open(input.path));
    FRIDAY_TRY_VOID(recording.check_copies());
    recordings_.push_back(std::move(recording));
  }
  FRIDAY_TRY_VOID(refuse_twice());
  for (size_t input = 0; input < recordings_.size(); ++input) {
    const Recording& recording = recordings_[input];
    std::set<NodeId> lost;
    for (const NodeInfo& node : recording.nodes()) {
      FRIDAY_TRY_VOID(refuse_running(recording, node));
      if (auto problem = problem_of(recording, node)) {
        if (!options_.leave_out_damaged) {
          problem->message += ". --leave-out-damaged merges without such nodes";
          return std::unexpected(*problem);
        }
        report_.left_out.push_back(*problem);
        lost.insert(node.id);
      }
    }
    // A forked node starts from its parent's memory. If the parent's trace cannot be opened, parent_uuid is set but
    // `parent` is not.
    auto is_lost = [&](const NodeInfo& node) {
      return lost.contains(node.id) || (node.parent ? lost.contains(*node.parent) : !is_zero(node.parent_uuid));
    };
    for (size_t before = 0; before != lost.size();) {
      before = lost.size();
      for (const NodeInfo& node : recording.nodes())
        if (is_lost(node) && lost.insert(node.id).second)
          report_.left_out.push_back(
              {ErrorCode::bad_input,
               fmt::format("{} ({}): forked from a node that is left out", recording.path(), node.name),
               node.id.value,
               {}});
    }
    for (const NodeInfo& node : recording.nodes())
      if (!lost.contains(node.id))
        report_.nodes.push_back(
            {NodeId{static_cast<uint32_t>(report_.nodes.size())}, prefixed(input, node.name), input, node.id});
  }
  if (report_.nodes.empty())
    return fail(ErrorCode::bad_input, "no node is left to merge: the traces of all are damaged");
  return {};
}

std::optional<Error> Merger::problem_of(const Recording& recording, const NodeInfo& node) const {
  std::optional<Error> problem = node.problem;
  if (auto regular = check_below(recording.node_directory(node.id)); !problem && !regular) problem = regular.error();
  if (!problem) {
    auto reader = TraceReader::open(recording, node.id, TraceReader::Gaps::allow);
    auto whole = reader ? reader->check() : Result<void>(std::unexpected(reader.error()));
    if (!whole) problem = whole.error();
  }
  if (problem) problem->message = fmt::format("{} ({}): {}", recording.path(), node.name, problem->message);
  return problem;
}

// Uuids of nodes are never reused. A node can occur twice only if its recording is among the inputs twice.
Result<void> Merger::refuse_twice() const {
  std::map<Uuid, std::pair<const Recording*, const NodeInfo*>> seen;
  for (const Recording& recording : recordings_)
    for (const NodeInfo& node : recording.nodes()) {
      if (is_zero(node.uuid)) continue;
      auto [place, is_new] = seen.try_emplace(node.uuid, &recording, &node);
      if (is_new) continue;
      const auto& [other, same] = place->second;
      return fail(ErrorCode::bad_input,
                  "{} and {} hold the same node, {} there and {} here: one is a copy of the other, or was merged from "
                  "it. Name each recording once",
                  other->path(), recording.path(), same->name, node.name);
    }
  return {};
}

Result<void> Merger::name_nodes() {
  std::map<std::string, size_t> owner;
  for (const MergeReport::Node& node : report_.nodes) {
    auto [place, is_new] = owner.try_emplace(node.name, node.input);
    if (is_new) continue;
    size_t first = place->second;
    std::string example;
    for (size_t input = 0; input < options_.inputs.size(); ++input)
      example += fmt::format(" h{}={}", input + 1, options_.inputs[input].path);
    return fail(ErrorCode::bad_input,
                "{} and {} both have a node {}. Tell them apart by a prefix, which their nodes' names then begin with: "
                "friday merge -o {}{}",
                options_.inputs[first].path, options_.inputs[node.input].path, node.name, options_.output, example);
  }
  return {};
}

Uuid Merger::boot_of(size_t input, const Uuid& boot) const {
  if (!options_.separate_hosts) return boot;
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(boot.data(), boot.size(), input + 1));
  Uuid made;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), made.begin());
  return made;
}

void Merger::find_hosts() {
  std::map<Uuid, std::set<size_t>> hosts;
  for (const MergeReport::Node& node : report_.nodes)
    hosts[boot_of(node.input, recordings_[node.input].find(node.original)->boot_id)].insert(node.input);
  report_.hosts = hosts.size();
  std::set<std::pair<size_t, size_t>> pairs;
  for (const auto& [boot, inputs] : hosts)
    for (size_t a : inputs)
      for (size_t b : inputs)
        if (a < b) pairs.emplace(a, b);
  report_.share_a_host.assign(pairs.begin(), pairs.end());
}

Result<void> Merger::copy_file(const Beneath& from, const std::string& to) {
  FRIDAY_TRY(about, copy_to_draft(from, to, "copying", progress_));
  report_.bytes += static_cast<uint64_t>(about.st_size);
  ++report_.files;
  return {};
}

void change_boot(std::span<std::byte> page, const Uuid& boot) {
  auto* header = reinterpret_cast<format::FileHeader*>(page.data());
  memcpy(header->boot_id, boot.data(), boot.size());
  if (header->checksum) seal_header(page);
}

// Copies only committed bytes: the space after them, which a killed collector leaves behind, holds no data.
Result<void> Merger::copy_trace(const Beneath& from, const std::string& to, size_t input, const NodeInfo& node) {
  FRIDAY_TRY_VOID(copy_file(from, to));
  FRIDAY_TRY(file, open_file(to, O_RDWR));
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return fail_errno(errno, fmt::format("cannot stat {}", to));
  auto end = static_cast<off_t>(node.trace_bytes);
  if (status.st_size > end && ::ftruncate(file.get(), end) != 0)
    return fail_errno(errno, fmt::format("cannot cut {}", to));
  Uuid boot = boot_of(input, node.boot_id);
  if (boot == node.boot_id) return {};
  std::vector<std::byte> page(format::kHeaderSize);
  FRIDAY_TRY_VOID(read_exactly(file.get(), page, 0));
  change_boot(page, boot);
  if (::pwrite(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size()))
    return fail_errno(errno, fmt::format("cannot write {}", to));
  return {};
}

Result<void> Merger::copy_packed_trace(const Beneath& from, const std::string& to, size_t input, const NodeInfo& node) {
  FRIDAY_TRY_VOID(copy_file(from, to));
  FRIDAY_TRY(file, open_file(to, O_RDONLY));
  FRIDAY_TRY(list, list_packed(file.get(), to));
  if (!list.header) return {};  // the header is in the plain file beside it
  Uuid boot = boot_of(input, node.boot_id);
  change_boot(std::as_writable_bytes(std::span(*list.header)), boot);
  return replace_packed_header(to, std::as_bytes(std::span(*list.header)));
}

// Writes node.json with the new name and id. Other fields are kept, including those that this version does not know.
Result<void> Merger::describe_node(const std::string& path, const MergeReport::Node& node, const NodeInfo& info) {
  json object = json::object();
  if (auto read = read_json(recordings_[node.input].node_directory(node.original).below("node.json"));
      read && read->is_object())
    object = *std::move(read);
  object["id"] = node.id.value;
  object["name"] = prefixed(node.input, info.given_name);
  if (options_.separate_hosts) object["boot_id"] = hex_text(boot_of(node.input, info.boot_id));
  json lineage = json::array();
  for (const std::string& name : info.lineage) lineage.push_back(prefixed(node.input, name));
  object["lineage"] = lineage;
  return write_file_atomically(path, object.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

Result<void> Merger::copy_node(const std::string& target, const MergeReport::Node& node) {
  const Recording& recording = recordings_[node.input];
  const NodeInfo& info = *recording.find(node.original);
  std::string directory = fmt::format("{}/nodes/{}", target, node.id);
  if (::mkdir(directory.c_str(), 0700) != 0) return fail_errno(errno, fmt::format("cannot create {}", directory));
  std::error_code error;
  const Beneath here = recording.node_directory(node.original);
  for (const auto& entry : fs::directory_iterator(here.path(), error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("node.json") || entry.symlink_status(error).type() == fs::file_type::directory) continue;
    if (name == "trace") FRIDAY_TRY_VOID(copy_trace(here.below(name), directory + "/" + name, node.input, info));
    else if (name == "trace.zst")
      FRIDAY_TRY_VOID(copy_packed_trace(here.below(name), directory + "/" + name, node.input, info));
    else FRIDAY_TRY_VOID(copy_file(here.below(name), directory + "/" + name));
  }
  return describe_node(directory + "/node.json", node, info);
}

// Copies files whose names are derived from their contents; a file that already exists is the same.
Result<void> Merger::copy_shared(const std::string& target, const Recording& recording, const char* folder) {
  fs::path from = fs::path(recording.path()) / folder, to = fs::path(target) / folder;
  std::error_code error;
  if (!fs::is_directory(from, error)) return {};
  fs::create_directories(to, error);
  for (const auto& entry : fs::recursive_directory_iterator(from, error)) {
    const fs::path name = entry.path().lexically_relative(from), place = to / name;
    if (entry.symlink_status(error).type() == fs::file_type::directory) {
      if (::mkdir(place.c_str(), 0700) != 0 && errno != EEXIST)
        return fail_errno(errno, fmt::format("cannot create {}", place.string()));
    } else if (!place.string().ends_with(".tmp") && !fs::exists(place, error)) {
      FRIDAY_TRY_VOID(copy_file(recording.inside(folder).below(name.string()), place.string()));
    }
  }
  if (error) return fail(ErrorCode::io, "cannot read {}: {}", from.string(), error.message());
  return {};
}

Result<void> Merger::describe_group(const std::string& target) const {
  int64_t created = INT64_MAX;
  json parts = json::array();
  for (size_t input = 0; input < recordings_.size(); ++input) {
    created = std::min(created, recordings_[input].created_ns());
    std::set<std::string> hosts;
    json nodes = json::array();
    for (const MergeReport::Node& node : report_.nodes)
      if (node.input == input) {
        nodes.push_back(node.id.value);
        hosts.insert(recordings_[input].find(node.original)->host);
      }
    parts.push_back({{"name", fs::absolute(recordings_[input].path()).filename().string()},
                     {"prefix", options_.inputs[input].prefix},
                     {"created", recordings_[input].created_ns()},
                     {"hosts", hosts},
                     {"nodes", nodes}});
  }
  json description = {
      {"format", 1}, {"created", created}, {"merged", parts}, {"separate_hosts", options_.separate_hosts}};
  return write_file_atomically(target + "/recording.json",
                               description.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

// Checks that a reader of the output sees what was intended. If nodes were left out, a name such as NAME#2 may become a
// lower number.
Result<void> Merger::check(const std::string& target) {
  FRIDAY_TRY(made, Recording::open(target));
  for (MergeReport::Node& node : report_.nodes) {
    const NodeInfo* found = made.find(node.id);
    const NodeInfo& original = *recordings_[node.input].find(node.original);
    if (found && !report_.left_out.empty()) node.name = found->name;
    if (found && !found->problem && found->uuid == original.uuid && found->events == original.events &&
        found->name == node.name)
      continue;
    return fail(
        ErrorCode::io,
        "node {} ({}) is not the same in the merged recording as in {}: {}. Was the recording changed meanwhile?",
        node.id, node.name, recordings_[node.input].path(),
        !found           ? "it is missing"
        : found->problem ? found->problem->message
                         : fmt::format("it is {} with {} events", found->name, found->events));
  }
  return {};
}

Result<MergeReport> Merger::run() {
  FRIDAY_TRY_VOID(check_place());
  FRIDAY_TRY_VOID(open_inputs());
  FRIDAY_TRY_VOID(name_nodes());
  find_hosts();
  FRIDAY_TRY(draft, Draft::beside(options_.output));
  for (const char* folder : {"/nodes", "/files"})
    if (::mkdir((draft.path() + folder).c_str(), 0700) != 0)
      return fail_errno(errno, fmt::format("cannot create {}{}", draft.path(), folder));
  for (const MergeReport::Node& node : report_.nodes) FRIDAY_TRY_VOID(copy_node(draft.path(), node));
  for (const Recording& recording : recordings_)
    for (const char* folder : {"files", "debug", "payload"})
      FRIDAY_TRY_VOID(copy_shared(draft.path(), recording, folder));
  FRIDAY_TRY_VOID(describe_group(draft.path()));
  FRIDAY_TRY_VOID(check(draft.path()));
  FRIDAY_TRY_VOID(draft.move_to(options_.output));
  return std::move(report_);
}

}  // namespace

Result<MergeInput> parse_merge_input(const std::string& text) {
  std::error_code error;
  size_t equals = text.find('=');
  if (equals == std::string::npos || fs::exists(text, error)) return MergeInput{text, {}};
  MergeInput input{text.substr(equals + 1), text.substr(0, equals)};
  if (!is_prefix(input.prefix))
    return fail(
        ErrorCode::usage,
        "\"{}\" cannot begin the names of nodes: use letters, digits, _ - . +, and at least one letter, as in web1={}",
        input.prefix, input.path);
  return input;
}

Result<MergeReport> merge_recordings(const MergeOptions& options) { return Merger(options).run(); }

}  // namespace friday
