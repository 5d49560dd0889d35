#include "core/trace/pack.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/elf.h"
#include "core/base/files.h"
#include "core/base/mapped_file.h"
#include "core/trace/reader.h"

namespace friday {

namespace {

namespace fs = std::filesystem;

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string build_id_of(const Elf& elf) {
  const std::vector<uint8_t> id = elf.build_id();
  return hex_of({reinterpret_cast<const char*>(id.data()), id.size()});
}

bool has_debug_information(const Elf& elf) {
  return elf.section(".debug_info").has_value() || elf.section(".zdebug_info").has_value();
}

// The path under which gdb looks for a build id's file: "ab/cdef.debug".
std::string place_of(const std::string& build_id) {
  return fmt::format("{}/{}.debug", build_id.substr(0, 2), build_id.substr(2));
}

// The build id of the file to which dwz(1) moved debug information shared by several files; read from .gnu_debugaltlink
// (a name, NUL, the build id).
std::string shared_part_of(const Elf& elf) {
  auto link = elf.section(".gnu_debugaltlink");
  if (!link) return {};
  const size_t end = link->find('\0');
  return end == std::string_view::npos ? std::string() : hex_of(link->substr(end + 1));
}

class SymbolSearch {
 public:
  static Result<SymbolSearch> over(const PackOptions& options) {
    SymbolSearch search(options);
    for (const std::string& directory : options.symbols) FRIDAY_TRY_VOID(search.index(directory));
    return search;
  }

  // The path of the debug file for a build id; empty if there is none.
  std::string find(const std::string& build_id) {
    if (auto found = indexed_.find(build_id); found != indexed_.end()) return found->second;
    std::string path = options_.system + "/.build-id/" + place_of(build_id);
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path;
    // Files made by dwz(1) lie under .dwz and are named after packages, so they must be indexed by build id.
    if (!system_indexed_) {
      system_indexed_ = true;
      if (fs::is_directory(options_.system + "/.dwz", error)) (void)index(options_.system + "/.dwz");
      return find(build_id);
    }
    return {};
  }

 private:
  explicit SymbolSearch(const PackOptions& options) : options_(options) {}

  Result<void> index(const std::string& directory) {
    std::error_code error;
    fs::recursive_directory_iterator files(directory, fs::directory_options::skip_permission_denied, error);
    if (error)
      return fail(ErrorCode::bad_input, "cannot search {} for debug information: {}. Give a directory with --symbols",
                  directory, error.message());
    for (const auto& entry : files) {
      if (!entry.is_regular_file(error)) continue;
      char magic[SELFMAG] = {};
      if (FILE* file = ::fopen(entry.path().c_str(), "re")) {
        const bool is_elf =
            ::fread(magic, 1, sizeof magic, file) == sizeof magic && std::string_view(magic, SELFMAG) == ELFMAG;
        ::fclose(file);
        if (!is_elf) continue;
      }
      auto content = read_file(entry.path().string());
      if (!content) continue;
      Elf elf(*content);
      if (std::string id = build_id_of(elf); !id.empty() && has_debug_information(elf))
        indexed_.try_emplace(id, entry.path().string());
    }
    return {};
  }

  const PackOptions& options_;
  std::map<std::string, std::string> indexed_;
  bool system_indexed_ = false;
};

class Packer {
 public:
  Packer(const Recording& recording, SymbolSearch search) : recording_(recording), search_(std::move(search)) {}

  Result<PackedFile> pack(const std::string& path, std::string_view content) {
    Elf elf(content);
    PackedFile file{path, build_id_of(elf), PackedFile::State::missing, {}, 0};
    if (file.build_id.size() < 4) file.state = PackedFile::State::nameless;
    if (has_debug_information(elf)) file.state = PackedFile::State::complete;
    if (file.state == PackedFile::State::missing) FRIDAY_TRY_VOID(fetch(file.build_id, file));
    if (std::string shared = shared_part_of(elf); shared.size() >= 4) FRIDAY_TRY_VOID(fetch_shared(shared, file));
    return file;
  }

 private:
  enum class Shared { follow, ignore };
  Result<void> fetch(const std::string& build_id, PackedFile& file, Shared parts = Shared::follow) {
    const Beneath place = recording_.inside("debug/.build-id/" + place_of(build_id));
    auto kept = MappedFile::open(place);
    if (!kept && kept.error().code == ErrorCode::bad_input) return std::unexpected(kept.error());
    if (!kept) {
      const std::string source = search_.find(build_id);
      if (source.empty()) return {};
      FRIDAY_TRY(found, read_file(source));
      Elf elf(found);
      // the file is misnamed; symbols of another build would show wrong values
      if (build_id_of(elf) != build_id) return {};
      FRIDAY_TRY_VOID(write_beneath(place, found));
      file.state = PackedFile::State::added;
      file.source = source;
      kept = MappedFile::open(place);
      if (!kept) return std::unexpected(kept.error());
    } else {
      file.state = PackedFile::State::present;
    }
    file.bytes += kept->text().size();
    if (parts == Shared::ignore) return {};
    if (std::string shared = shared_part_of(Elf(kept->text())); shared.size() >= 4)
      FRIDAY_TRY_VOID(fetch_shared(shared, file));
    return {};
  }

  // Adds the file that dwz(1) split off. It has no entry of its own in the result; only its size is added.
  Result<void> fetch_shared(const std::string& build_id, PackedFile& file) {
    PackedFile shared = file;
    shared.bytes = 0;
    FRIDAY_TRY_VOID(fetch(build_id, shared, Shared::ignore));
    file.bytes += shared.bytes;
    return {};
  }

  const Recording& recording_;
  SymbolSearch search_;
};

std::string name_of_copy(const uint8_t (&file)[16]) {
  return hex_of({reinterpret_cast<const char*>(file), sizeof file});
}

}  // namespace

std::map<std::string, std::string> paths_of_copies(const Recording& recording) {
  std::map<std::string, std::string> paths;
  for (const NodeInfo& node : recording.nodes()) {
    auto reader = TraceReader::open(recording, node.id, TraceReader::Gaps::allow);
    if (!reader) continue;
    for (RecordCursor cursor = reader->records(); cursor.next();) {
      if (const auto* module = cursor.record().module()) {
        paths.try_emplace(name_of_copy(module->file), bounded_text(module->path, sizeof module->path));
      } else if (const auto* map = cursor.record().image_map()) {
        if (map->path[0]) paths.try_emplace(name_of_copy(map->file), bounded_text(map->path, sizeof map->path));
      } else if (cursor.record().is_event()) {
        const format::MapContentPart* mapped = nullptr;
        for (PartView part : cursor.record().event().parts()) {
          if (part.map_content()) mapped = part.map_content();
          if (mapped && part.kind() == format::kPath) paths.try_emplace(name_of_copy(mapped->file), part.text());
        }
      }
    }
  }
  return paths;
}

namespace {

// The name of the copy of the program that the node's process started with; empty for a forked node, which has no start
// image.
std::string copy_of_program(const Recording& recording, const NodeInfo& node) {
  auto reader = TraceReader::open(recording, node.id, TraceReader::Gaps::allow);
  if (!reader) return {};
  for (RecordCursor cursor = reader->records(); cursor.next() && !cursor.record().is_event();) {
    const auto* map = cursor.record().image_map();
    if (map && bounded_text(map->path, sizeof map->path) == node.program) return name_of_copy(map->file);
  }
  return {};
}

bool is_described(const Recording& recording, const std::string& copy, const std::vector<std::string>& directories) {
  auto content = MappedFile::open(recording.inside("files/" + copy));
  if (!content) return true;
  const Elf elf(content->text());
  const std::string build_id = build_id_of(elf);
  if (!elf.header || has_debug_information(elf)) return true;
  auto in = [&](const std::string& directory) {
    std::error_code error;
    return fs::is_regular_file(directory + "/.build-id/" + place_of(build_id), error);
  };
  return build_id.size() >= 4 && (in(recording.path() + "/debug") || std::ranges::any_of(directories, in));
}

}  // namespace

std::vector<NodeId> nodes_without_debug_information(const Recording& recording,
                                                    const std::vector<std::string>& directories) {
  std::map<std::string, bool> known;  // by name of the copy
  std::map<NodeId, std::string> copies;
  std::vector<NodeId> found;
  for (const NodeInfo& node : recording.nodes()) {
    std::string& copy = copies[node.id];
    copy = copy_of_program(recording, node);
    if (copy.empty() && node.parent) copy = copies[*node.parent];
    if (copy.empty()) continue;
    auto it = known.find(copy);
    if (it == known.end()) it = known.emplace(copy, is_described(recording, copy, directories)).first;
    if (!it->second) found.push_back(node.id);
  }
  return found;
}

Result<std::vector<PackedFile>> pack_symbols(const Recording& recording, const PackOptions& options) {
  FRIDAY_TRY(search, SymbolSearch::over(options));
  Packer packer(recording, std::move(search));
  std::map<std::string, PackedFile> files;  // by path and name of the copy
  for (const auto& [copy, path] : paths_of_copies(recording)) {
    auto content = MappedFile::open(recording.inside("files/" + copy));
    if (!content && content.error().code == ErrorCode::bad_input) return std::unexpected(content.error());
    if (!content || !Elf(content->text()).header) continue;
    FRIDAY_TRY(file, packer.pack(path, content->text()));
    files.emplace(path + '\0' + copy, std::move(file));
  }
  std::vector<PackedFile> list;
  for (auto& [key, file] : files) list.push_back(std::move(file));
  return list;
}

}  // namespace friday
