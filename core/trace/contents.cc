#include "core/trace/contents.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/base/elf.h"
#include "core/base/mapped_file.h"
#include "core/trace/address.h"
#include "core/trace/pack.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"

namespace friday {

namespace {

namespace fs = std::filesystem;

class ImageMemory {
 public:
  explicit ImageMemory(const StartImage& image) : image_(image) {}

  std::string bytes(uint64_t address, size_t count) const {
    for (const auto& [start, data] : image_.contents) {
      if (address < start || address - start >= data.size()) continue;
      const auto found = data.subspan(address - start);
      return {reinterpret_cast<const char*>(found.data()), std::min(count, found.size())};
    }
    return {};
  }
  uint64_t word(uint64_t address) const {
    uint64_t value = 0;
    if (std::string found = bytes(address, sizeof value); found.size() == sizeof value)
      memcpy(&value, found.data(), sizeof value);
    return value;
  }

 private:
  const StartImage& image_;
};

// The names of the environment variables. The array of pointers to them ends just below the auxiliary vector (System V
// ABI, process initialisation), so it is read downwards from there.
std::vector<std::string> environment_of(const StartImage& image) {
  constexpr size_t kMost = 10'000, kLongestName = 4096;
  std::vector<std::string> names;
  if (!image.record || image.record->auxv_address < 16) return names;
  ImageMemory memory(image);
  uint64_t at = image.record->auxv_address - 16;
  for (uint64_t pointer; names.size() < kMost && (pointer = memory.word(at)) != 0; at -= 8) {
    const std::string text = memory.bytes(pointer, kLongestName);
    names.push_back(text.substr(0, std::min(text.find('='), text.find('\0'))));
  }
  std::ranges::sort(names);
  return names;
}

class NodeSurvey {
 public:
  NodeSurvey(const NodeInfo& node, const TraceReader& reader) : reader_(reader) {
    out_.id = node.id;
    out_.name = node.name;
    out_.host = node.host;
    out_.program = node.program;
    out_.cwd = node.cwd;
    out_.argv = node.argv;
  }

  NodeContents run() {
    if (auto image = reader_.image()) {
      out_.environment = environment_of(*image);
      for (const auto& contents : image->contents) out_.memory_bytes += contents.data.size();
    }
    RecordCursor cursor = reader_.records();
    while (cursor.next()) {
      if (const auto* channel = cursor.record().channel()) channels_[channel->channel] = *channel;
      if (cursor.record().is_event()) on_event(cursor.record().event());
    }
    if (cursor.error()) out_.problem = cursor.error()->message;
    out_.paths.assign(named_.begin(), named_.end());
    return std::move(out_);
  }

 private:
  void on_event(EventView event) {
    uint64_t memory = event.is_clock() ? 16 : 0, received = 0;
    std::string path;
    const PayloadProvider& payloads = trace_payloads();
    for (PartView part : event.parts()) {
      if (part.kind() == format::kMemory) memory += part.bytes().size();
      if (part.kind() == format::kPath && !part.text().empty()) named_.insert(path = part.text());
      if (const auto* moved = part.transfer()) {
        if (moved->direction == format::kOut) out_.sent_bytes += moved->length;
        else if (payloads.known(*moved) == PayloadKnown::bytes) {
          on_received(*moved, part.peer());
          received += payloads.bytes_in_event(*moved);
        }
      }
    }
    for (PartView part : event.parts())
      for (const auto& opened : part.descriptors())
        if (!path.empty()) paths_[opened.channel] = path;
    out_.other_bytes += memory - std::min(memory, received);
  }

  void on_received(const format::TransferPart& moved, const format::SocketAddress* peer) {
    auto found = channels_.find(moved.channel);
    const uint32_t kind = found == channels_.end() ? uint32_t{format::kChannelUnknown} : found->second.kind;
    if (kind == format::kChannelFile) {
      auto path = paths_.find(moved.channel);
      out_.file_bytes[path == paths_.end() ? "?" : path->second] += moved.length;
    } else if (kind == format::kChannelStream || kind == format::kChannelDatagram ||
               kind == format::kChannelSeqpacket) {
      Address from = parse_address(peer ? *peer : found->second.remote);
      if (!from.known() && peer) from = parse_address(found->second.remote);
      out_.peer_bytes[from.is_inet()                    ? text(from)
                      : found->second.domain == AF_UNIX ? kLocal
                                                        : "peers that no call named"] += moved.length;
    } else if (kind == format::kChannelPipe) {
      out_.peer_bytes[kLocal] += moved.length;
    } else {
      out_.device_bytes += moved.length;
    }
  }

  static constexpr const char* kLocal = "pipes and local sockets";
  const TraceReader& reader_;
  NodeContents out_;
  std::map<uint64_t, format::ChannelRecord> channels_;
  std::map<uint64_t, std::string> paths_;  // by channel
  std::set<std::string> named_;
};

void survey_copies(const Recording& recording, Contents& out) {
  const std::map<std::string, std::string> paths = paths_of_copies(recording);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(recording.files_directory(), error)) {
    auto known = paths.find(entry.path().filename().string());
    auto content = MappedFile::open(recording.inside("files/" + entry.path().filename().string()));
    if (!content) continue;
    out.copies.push_back(
        {known == paths.end() ? "?" : known->second, content->text().size(), Elf(content->text()).header != nullptr});
  }
  std::ranges::sort(out.copies, {}, [](const CopyContents& copy) { return std::pair(copy.path, copy.bytes); });
}

void survey_sizes(const Recording& recording, Contents& out) {
  const fs::path root(recording.path());
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(root, error)) {
    const fs::file_type type = entry.symlink_status(error).type();
    if (type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular) {
      out.others[entry.path().lexically_relative(root).string() + ", no regular file"] = 0;
      continue;
    }
    const uint64_t size = entry.file_size(error);
    const fs::path inside = entry.path().lexically_relative(root);
    const std::string top = inside.begin()->string();
    out.total_bytes += size;
    if (top == "debug") out.symbol_bytes += size;
    else if (top != "nodes" && top != "files" && top != "payload" && top != "cache" && top != "roll" &&
             top != "recording.json")
      out.others[inside.string()] = size;
  }
}

}  // namespace

bool sounds_secret(const std::string& name) {
  std::string lower;
  for (char c : name) lower += static_cast<char>(tolower(static_cast<unsigned char>(c)));
  for (const char* word :
       {"passw",   "passwd", "pgpass",      "secret",     "token",   "credential", "apikey",   "api_key",
        "private", "cookie", "session_key", "access_key", "id_rsa",  "id_ed25519", "id_ecdsa", ".ssh/",
        ".gnupg/", ".netrc", ".pem",        ".keytab",    "/shadow", ".env"})
    if (lower.find(word) != std::string::npos) return true;
  return lower.ends_with("_key") || lower.ends_with(".key") || lower.ends_with("_auth") || lower.ends_with("_pass");
}

Result<Contents> survey(const Recording& recording) {
  for (const char* folder : {"files", "debug", "payload"}) FRIDAY_TRY_VOID(check_below(recording.inside(folder)));
  Contents out;
  out.readable_by_others = recording.readable_by_others();
  for (const NodeInfo& node : recording.nodes()) {
    auto reader = TraceReader::open(recording, node.id, TraceReader::Gaps::allow);
    if (reader) {
      out.nodes.push_back(NodeSurvey(node, *reader).run());
      out.nodes.back().left_out = node.left_out;
    } else {
      NodeContents& unread = out.nodes.emplace_back();
      unread.id = node.id;
      unread.name = node.name;
      unread.problem = reader.error().message;
    }
  }
  survey_copies(recording, out);
  survey_sizes(recording, out);
  return out;
}

}  // namespace friday
