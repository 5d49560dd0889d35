#include "core/trace/recording.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/files.h"
#include "core/base/numbers.h"
#include "core/base/processes.h"
#include "core/trace/aliases.h"
#include "core/trace/calls.h"
#include "core/trace/file_hash.h"
#include "core/trace/json_file.h"
#include "core/trace/reader.h"

namespace friday {

using nlohmann::json;

namespace {

constexpr int kRecordingFormat = 1;

template <typename T>
T field(const json& object, const char* name, T otherwise) {
  auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->template get<T>() : otherwise;
  } else if constexpr (std::is_same_v<T, bool>) {
    return found->is_boolean() ? found->template get<T>() : otherwise;
  } else {
    return found->is_number_integer() ? found->template get<T>() : otherwise;
  }
}

std::vector<std::string> strings(const json& object, const char* name) {
  std::vector<std::string> list;
  auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return list;
  for (const json& item : *found)
    if (item.is_string()) list.push_back(item.get<std::string>());
  return list;
}

Uuid to_uuid(const uint8_t (&bytes)[16]) {
  Uuid uuid;
  std::copy(bytes, bytes + 16, uuid.begin());
  return uuid;
}

std::string hex(const uint8_t* bytes, size_t size) {
  std::string text;
  for (size_t n = 0; n < size; ++n) text += fmt::format("{:02x}", bytes[n]);
  return text;
}

std::string this_boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id");
  if (!text) return {};
  std::erase_if(*text, [](char c) { return c == '-' || c == '\n'; });
  return *text;
}

// Reads the node's end from node.json.
NodeEnd end_from_json(const json& object) {
  NodeEnd end;
  auto ended = object.find("ended");
  if (ended == object.end() || !ended->is_object()) return end;
  std::string how = field<std::string>(*ended, "how", "");
  end.detail = field<int64_t>(*ended, "detail", 0);
  if (how == "exit") end.how = NodeEnd::How::exit;
  if (how == "signal") end.how = NodeEnd::How::signal;
  if (how == "killed-by-collector") end.how = NodeEnd::How::collector;
  if (how == "running") end.how = NodeEnd::How::running;
  if (how == "exec") end.how = NodeEnd::How::replaced;
  if (how == "continued") end.how = NodeEnd::How::continued;
  if (how == "saved") end = {NodeEnd::How::limited, 0, "it was saved (friday live) while it went on"};
  return end;
}

// Reads node.json. It may be missing or stale after the collector was killed, so the trace has the last word. But if it
// is not a regular file, or larger than any that Friday writes, somebody has tampered with it: then this fails.
Result<void> read_node_json(const Beneath& file, NodeInfo& node) {
  auto read = read_json(file);
  if (!read && read.error().code == ErrorCode::bad_input) return std::unexpected(read.error());
  if (!read || !read->is_object()) return {};
  const json& object = *read;
  node.given_name = field<std::string>(object, "name", "");
  node.program = field<std::string>(object, "program", "");
  node.argv = strings(object, "argv");
  node.cwd = field<std::string>(object, "cwd", "");
  node.host = field<std::string>(object, "host", "");
  node.started_ns = field<int64_t>(object, "started_ns", 0);
  node.began_ns = field<int64_t>(object, "began_ns", 0);
  node.ended_ns = field<int64_t>(object, "ended_ns", 0);
  node.strict = field<bool>(object, "strict", false);
  node.dropped = field<uint64_t>(object, "dropped", 0);
  node.notice = field<std::string>(object, "notice", "");
  if (const auto seed = object.find("chaos"); seed != object.end() && seed->is_number_unsigned()) node.chaos = *seed;
  node.lineage = strings(object, "lineage");
  node.end = end_from_json(object);
  if (auto end = object.find("recording_end");
      end != object.end() && end->is_object() && field<uint32_t>(*end, "reason", 0) == format::kEndExec)
    node.end = {NodeEnd::How::replaced, field<int64_t>(*end, "detail", 0), field<std::string>(*end, "text", "")};
  if (auto recorder = object.find("recorder"); recorder != object.end() && recorder->is_object()) {
    node.recorder_pid = field<uint32_t>(*recorder, "pid", 0);
    node.recorder_start = field<uint64_t>(*recorder, "start", 0);
  }
  return {};
}

bool on_this_boot(const NodeInfo& node) { return hex_text(node.boot_id) == this_boot_id(); }

void apply_end_record(const format::EndRecord& record, NodeEnd& end) {
  std::string text(bounded_text(record.text, sizeof record.text));
  switch (record.reason) {
    case format::kEndExit:
      // as the parent sees it: exit codes have 8 bits
      if (end.how != NodeEnd::How::signal) end = {NodeEnd::How::exit, record.detail & 0xff, {}};
      return;
    case format::kEndUnhandled: end = {NodeEnd::How::unhandled, record.detail, text}; return;
    case format::kEndExec:
      if (end.how != NodeEnd::How::replaced || end.text.empty()) end = {NodeEnd::How::replaced, record.detail, text};
      return;
    case format::kEndContinued:
      if (record.detail) end = {NodeEnd::How::limited, 0, "it was switched off (friday live)"};
      else end = {NodeEnd::How::continued, 0, {}};
      return;
    case format::kEndStopped: end = {NodeEnd::How::collector, record.detail, text}; return;
    case format::kEndDiskFull:
      end = {NodeEnd::How::limited, record.detail, text.empty() ? "the disk was full; the program went on" : text};
      return;
    case format::kEndSizeLimit:
      end = {NodeEnd::How::limited, record.detail,
             text.empty() ? "the size limit was reached; the program went on" : text};
      return;
    case format::kEndCollectorGone:
      end = {NodeEnd::How::limited, record.detail,
             text.empty() ? "friday record had ended when the trace needed more room; the program went on" : text};
      return;
    default: end = {NodeEnd::How::limited, record.detail, text.empty() ? "recording refused" : text}; return;
  }
}

// The EndRecord, if the last committed record is one.
const format::EndRecord* last_end_record(const TraceReader& reader) {
  uint64_t end = reader.end_offset();
  if (end < reader.first_offset() + sizeof(format::EndRecord) || end % 8) return nullptr;
  auto record = reader.record_at(end - sizeof(format::EndRecord));
  return record ? record->end() : nullptr;
}

// Reads the records before the first event.
void read_first_records(const TraceReader& reader, NodeInfo& node) {
  std::string exe;
  // by path; a module record may come before or after the image record
  std::map<std::string, std::string, std::less<>> build_ids;
  for (RecordCursor cursor = reader.records(); cursor.next() && !cursor.record().is_event();) {
    const RecordView& record = cursor.record();
    if (const auto* image = record.image()) {
      exe = bounded_text(image->exe, sizeof image->exe);
    } else if (const auto* module = record.module()) {
      build_ids.try_emplace(std::string(bounded_text(module->path, sizeof module->path)),
                            hex(module->build_id, module->build_id_size));
    } else if (const auto* clock = record.clock()) {
      if (node.started_ns == 0) node.started_ns = clock->realtime_ns;
    }
  }
  if (exe.empty()) return;
  node.program = exe;
  if (auto found = build_ids.find(exe); found != build_ids.end()) node.build_id = found->second;
}

void read_trace_facts(const Beneath& trace, NodeInfo& node) {
  auto reader = TraceReader::open_file(trace, node.id);
  if (!reader) {
    node.problem = reader.error();
    return;
  }
  const format::FileHeader& header = reader->header();
  node.uuid = to_uuid(header.node_uuid);
  node.parent_uuid = to_uuid(header.parent_uuid);
  node.forked = header.features & format::kFeatureForkChild;
  node.part = header.features & format::kFeaturePart;
  node.schedule = header.features & format::kFeatureSchedule;
  node.boot_id = to_uuid(header.boot_id);
  node.on_standby = header.on_standby;
  node.pid = header.pid;
  node.events = header.events;
  node.trapped = header.trapped;
  node.trace_bytes = reader->end_offset();
  for (const LeftOut& range : reader->left_out()) node.left_out += range.size;
  node.restored = node.left_out > 0 && reader->is_complete();
  node.inferred = reader->inferred() != nullptr;
  node.fork_event = header.fork_event;
  read_first_records(*reader, node);
  if (const auto* end = last_end_record(*reader)) apply_end_record(*end, node.end);
  // A killed collector leaves the state "running" in node.json.
  if (node.end.how == NodeEnd::How::running && on_this_boot(node) && !program_lives(node) && !recorder_lives(node))
    node.end = {};
  // A node that killed itself: its trace says so, and no recorder had to see the end.
  if (node.end.how == NodeEnd::How::unknown && !header.ended && header.dies_of)
    node.end = {NodeEnd::How::signal, header.dies_of, ""};
}

Result<std::vector<NodeId>> list_node_ids(const Beneath& nodes) {
  const std::string path = nodes.path();
  const auto names = names_beneath(nodes);
  if (!names && names.error().code == ErrorCode::bad_input) return std::unexpected(names.error());
  if (!names)
    return fail(ErrorCode::bad_input, "{} holds no nodes ({}). Record one with `friday record -o REC -- PROGRAM`", path,
                names.error().message);
  std::vector<NodeId> ids;
  for (const std::string& name : *names)
    if (const auto number = canonical_number(name); number && *number <= UINT32_MAX)
      ids.push_back({static_cast<uint32_t>(*number)});
  std::ranges::sort(ids);
  if (ids.empty())
    return fail(ErrorCode::bad_input, "{} holds no nodes. Record one with `friday record -o REC -- PROGRAM`", path);
  return ids;
}

// A forked child takes the program, host and directory of its parent.
void inherit(const NodeInfo& parent, NodeInfo& child) {
  if (child.program.empty()) child.program = parent.program;
  if (child.build_id.empty() && child.program == parent.program) child.build_id = parent.build_id;
  if (child.argv.empty()) child.argv = parent.argv;
  if (child.cwd.empty()) child.cwd = parent.cwd;
  if (child.host.empty()) child.host = parent.host;
}

// Gives nodes their names, parents before children: in a merged recording a child may have a lower number than its
// parent. If a node claims to be its own ancestor, its parent is ignored.
class Namer {
 public:
  explicit Namer(std::vector<NodeInfo>& nodes) : nodes_(nodes), state_(nodes.size()) {
    for (size_t n = 0; n < nodes.size(); ++n) by_uuid_[nodes[n].uuid].push_back(n);
  }

  void name_all() {
    std::vector<size_t> line;  // a node and its ancestors, youngest first
    for (size_t n = 0; n < nodes_.size(); ++n) {
      for (size_t at = n; at < nodes_.size() && state_[at] == State::unseen; at = parent_of(at)) {
        state_[at] = State::begun;
        line.push_back(at);
      }
      for (; !line.empty(); line.pop_back()) name(line.back());
    }
  }

 private:
  enum class State { unseen, begun, named };
  // Names grow with each generation, and every node stores the names of all its ancestors. No honest recording has this
  // many generations, but a crafted one of a few megabytes could exhaust memory. Beyond this depth a node is named by
  // itself and keeps only its oldest ancestor and the nearest ones.
  static constexpr size_t kDeepest = 100;

  // The index of the parent; the number of nodes if there is none.
  size_t parent_of(size_t index) const {
    const auto found = is_zero(nodes_[index].parent_uuid) ? by_uuid_.end() : by_uuid_.find(nodes_[index].parent_uuid);
    if (found == by_uuid_.end()) return nodes_.size();
    for (auto n = found->second.rbegin(); n != found->second.rend(); ++n)
      if (*n != index) return *n;
    return nodes_.size();
  }

  void name(size_t index) {
    NodeInfo& node = nodes_[index];
    const size_t parent = parent_of(index);
    if (parent < nodes_.size() && state_[parent] == State::named) name_child(node, nodes_[parent]);
    else name_first(node);
    if (node.given_name.empty()) node.given_name = node.name;
    taken_.insert(node.name);
    node.lineage.push_back(node.name);
    state_[index] = State::named;
  }

  void name_child(NodeInfo& node, const NodeInfo& parent) {
    const bool replaces = !node.forked && node.pid == parent.pid;
    if (node.forked) inherit(parent, node);
    if (node.forked) node.parent = parent.id;
    else if (node.part) node.continues = parent.id;
    else if (replaces) node.replaces = parent.id;
    else node.spawned_by = parent.id;
    node.generation = parent.generation + 1;
    node.lineage = parent.lineage;
    if (node.part && parent.part && !node.lineage.empty()) node.lineage.pop_back();
    if (node.lineage.size() > kDeepest) node.lineage.erase(node.lineage.begin() + 1);
    if (node.generation > kDeepest) node.name = unused(fmt::format("node-{}", node.id));
    else if (node.part) node.name = next_part(parent);
    else if (replaces) node.name = fmt::format("{}/exec-1", parent.name);
    else node.name = fmt::format("{}/child-{}", parent.name, ++children_[parent.id]);
  }

  // NAME/part-3 behind NAME/part-2, NAME/part-2 behind NAME.
  static std::string next_part(const NodeInfo& before) {
    constexpr std::string_view kPart = "/part-";
    const size_t at = before.part ? before.name.rfind(kPart) : std::string::npos;
    if (at == std::string::npos) return fmt::format("{}{}2", before.name, kPart);
    const auto number = canonical_number(before.name.substr(at + kPart.size()));
    return fmt::format("{}{}{}", before.name.substr(0, at), kPart, number.value_or(1) + 1);
  }

  void name_first(NodeInfo& node) {
    // A program that replaced another by execve has its ancestors' names in its own node.json.
    if (!node.lineage.empty()) node.lineage.pop_back();
    std::string base = node.given_name;
    if (base.empty()) base = node.program.substr(node.program.rfind('/') + 1);
    if (base.empty()) base = fmt::format("node-{}", node.id);
    node.name = unused(base);
  }

  std::string unused(const std::string& base) const {
    std::string name = base;
    for (int n = 2; taken_.contains(name); ++n) name = fmt::format("{}#{}", base, n);
    return name;
  }

  std::vector<NodeInfo>& nodes_;
  std::vector<State> state_;
  std::map<Uuid, std::vector<size_t>> by_uuid_;
  std::set<std::string> taken_;
  std::map<NodeId, int> children_;
};

// Finds a recording directly below a directory that is not one itself, for a better error message.
std::string recording_within(const std::string& path) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error))
    if (std::error_code unseen; std::filesystem::exists(entry->path() / "recording.json", unseen))
      return entry->path().filename().string();
  return {};
}

Result<int64_t> read_recording_json(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    return fail(ErrorCode::bad_input, "there is no recording {}: {}", path, strerror(errno));
  if (!S_ISDIR(status.st_mode))
    return fail(ErrorCode::bad_input, "{} is not a recording: a recording is a directory made by `friday record -o`",
                path);
  auto text = read_json({path, "recording.json"});
  if (std::string one; !text && !(one = recording_within(path)).empty())
    return fail(ErrorCode::bad_input, "{} is not a recording, but holds some, such as {}/{}; name each of them", path,
                path, one);
  if (!text)
    return fail(ErrorCode::bad_input, "{} is not a recording: {}. Give a directory made by `friday record -o`", path,
                text.error().message);
  const json& object = *text;
  if (!object.is_object())
    return fail(ErrorCode::bad_input, "{}/recording.json is damaged: it is not a JSON object. Copy the recording again",
                path);
  auto version = field<int64_t>(object, "format", -1);
  if (version != kRecordingFormat)
    return fail(ErrorCode::bad_input,
                "{} has recording format {}, this Friday reads format {}. Use the Friday that recorded it", path,
                version, kRecordingFormat);
  return field<int64_t>(object, "created", 0);
}

}  // namespace

std::string hex_text(const Uuid& uuid) { return hex(uuid.data(), uuid.size()); }

bool is_zero(const Uuid& uuid) {
  return std::ranges::all_of(uuid, [](uint8_t byte) { return byte == 0; });
}

bool program_lives(const NodeInfo& node) {
  return on_this_boot(node) && process_start(static_cast<pid_t>(node.pid)) != 0;
}

bool recorder_lives(const NodeInfo& node) {
  return on_this_boot(node) && node.recorder_start != 0 &&
         process_start(static_cast<pid_t>(node.recorder_pid)) == node.recorder_start;
}

bool is_cut_off(const NodeEnd& end) {
  return end.how == NodeEnd::How::unhandled || end.how == NodeEnd::How::limited || end.how == NodeEnd::How::collector;
}

std::string describe(const NodeEnd& end) {
  switch (end.how) {
    case NodeEnd::How::exit: return fmt::format("exited with {}", end.detail);
    case NodeEnd::How::signal: return fmt::format("killed by {}", signal_text(static_cast<int>(end.detail)));
    case NodeEnd::How::collector:
      return end.detail ? fmt::format("stopped by friday record with {}", signal_text(static_cast<int>(end.detail)))
                        : "stopped by friday record";
    case NodeEnd::How::unhandled: return ended_at_call_text(static_cast<unsigned>(end.detail), end.text);
    case NodeEnd::How::replaced:
      if (end.detail) return fmt::format("executed a program that is not recorded: {}", end.text);
      return end.text.empty() ? "replaced by another program (execve)"
                              : fmt::format("replaced by {} (execve)", end.text);
    case NodeEnd::How::continued: return "its process went on in the next part";
    case NodeEnd::How::limited: return fmt::format("recording ended: {}", end.text);
    case NodeEnd::How::running: return "still running";
    case NodeEnd::How::unknown: return "unknown (recording was cut off)";
  }
  return "unknown";
}

Result<void> check_recording(const std::string& path) {
  FRIDAY_TRY_VOID(read_recording_json(path));
  return {};
}

Error nothing_recorded(const std::string& path) {
  return {
      ErrorCode::bad_input,
      fmt::format("nothing of {} is recorded yet: its programs are on standby. Switch the recording on with `friday "
                  "live {} full`",
                  path, path)};
}

Result<Recording> Recording::open(const std::string& path, Standby standby) {
  Recording recording;
  recording.path_ = path;
  while (recording.path_.size() > 1 && recording.path_.back() == '/') recording.path_.pop_back();
  FRIDAY_TRY(created, read_recording_json(recording.path_));
  recording.created_ns_ = created;
  FRIDAY_TRY(ids, list_node_ids(recording.inside("nodes")));
  for (NodeId id : ids) {
    NodeInfo node;
    node.id = id;
    auto described = read_node_json(recording.inside(fmt::format("nodes/{}/node.json", id)), node);
    read_trace_facts(recording.trace(id), node);
    if (!described && !node.problem) node.problem = Error{ErrorCode::bad_input, described.error().message, id.value};
    if (!node.on_standby || standby == Standby::shown) recording.nodes_.push_back(std::move(node));
  }
  if (recording.nodes_.empty()) return std::unexpected(nothing_recorded(recording.path_));
  Namer(recording.nodes_).name_all();
  for (size_t n = 0; n < recording.nodes_.size(); ++n) {
    NodeInfo& node = recording.nodes_[n];
    const auto [first, is_new] = recording.by_uuid_.try_emplace(node.uuid, n);
    if (is_new || is_zero(node.uuid) || node.problem) continue;
    // Uuids are never reused. The replay would wait for a process that never begins, as its parent has forked only one.
    node.problem = Error{ErrorCode::bad_input,
                         fmt::format("node {} is a copy of node {}: their traces have the same identity. Remove "
                                     "nodes/{} from the recording",
                                     node.id, recording.nodes_[first->second].id, node.id),
                         node.id.value};
  }
  struct stat status;
  recording.readable_by_others_ = ::stat(recording.path_.c_str(), &status) == 0 && (status.st_mode & 077) != 0;
  return recording;
}

const NodeInfo* Recording::find(NodeId id) const {
  auto found = std::ranges::lower_bound(nodes_, id, {}, &NodeInfo::id);
  return found != nodes_.end() && found->id == id ? &*found : nullptr;
}

const NodeInfo* Recording::find_uuid(const Uuid& uuid) const {
  auto found = by_uuid_.find(uuid);
  return found == by_uuid_.end() ? nullptr : &nodes_[found->second];
}

Result<NodeId> Recording::resolve(const std::string& name) const {
  uint32_t number;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc{} && end == name.data() + name.size() && find(NodeId{number})) return NodeId{number};
  const auto aliases = aliases_of(nodes_);
  for (const auto& [id, alias] : aliases)
    if (alias == name) return id;
  for (const NodeInfo& node : nodes_)
    if (node.name == name) return node.id;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
    if (node->given_name == name) return node->id;
  std::string known;
  for (const NodeInfo& node : nodes_)
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", node.id, full_name(node, aliases));
  return fail(ErrorCode::not_found, "there is no node {}; the recording has {}", name, known);
}

Beneath Recording::node_directory(NodeId id) const { return {path_, fmt::format("nodes/{}", id)}; }
Beneath Recording::trace(NodeId id) const { return {path_, fmt::format("nodes/{}/trace", id)}; }
Result<void> Recording::check_copies() const {
  // gdb opens these files by name
  for (const char* folder : {"files", "debug"}) FRIDAY_TRY_VOID(check_below(inside(folder)));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(files_directory(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() != 32 || name.find_first_not_of("0123456789abcdef") != std::string::npos) continue;
    FRIDAY_TRY(file, open_beneath(inside("files/" + name)));
    FRIDAY_TRY(found, hash_of_contents(file.get(), entry.file_size(error)));
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, found);
    if (hex(hash.digest, 16) != name)
      return fail(ErrorCode::bad_input,
                  "{} is not the file that was recorded (code and symbols come from it): its contents have another "
                  "hash than its "
                  "name says. Copy the recording again",
                  entry.path().string());
  }
  return {};
}

Beneath Recording::file_copy(const uint8_t (&file)[16]) const { return {path_, "files/" + hex(file, 16)}; }

}  // namespace friday
