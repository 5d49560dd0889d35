#include "core/debug/sysroots.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/rsp/libraries.h"

namespace friday {

namespace fs = std::filesystem;

// Links the recording's copy of a file below `root`, under the name that the program knew it by.
void Sysroots::link_file(const std::string& root, const std::string& recorded, const uint8_t (&file)[16]) {
  if (recorded.empty() || recorded[0] != '/') return;
  const std::string name =
      fs::path(recorded).lexically_normal();  // whatever a recording says: no ".." leads out of `root`
  const std::string copy = session_.recording().file_copy(file).path();
  const auto link = [&](const std::string& place) {
    std::error_code ignored;
    fs::create_directories(fs::path(place).parent_path(), ignored);
    fs::create_symlink(copy, place, ignored);
  };
  link(root + name);
  // The name that programs have for their loader.
  if (constexpr const char* loader = "/ld-linux-x86-64.so.2"; name.ends_with(loader)) link(root + "/lib64" + loader);
  // /lib is a link to /usr/lib on most systems, and the loader's own list uses the short name.
  if (name.starts_with("/usr/lib")) link(root + name.substr(4));
}

void Sysroots::link_start_image(ReplayNode& node, const std::string& root) {
  if (auto image = node.reader().image())
    for (const auto* module : image->modules)
      link_file(root, std::string(bounded_text(module->path, sizeof module->path)), module->file);
  // Separate debug information, where gdb looks for it: by build id.
  std::error_code ignored;
  const std::string recording = session_.recording().path();
  if (!fs::is_directory(recording + "/debug/.build-id", ignored)) return;
  fs::create_directories(root + "/usr/lib/debug", ignored);
  fs::create_directory_symlink(fs::canonical(recording, ignored) / "debug/.build-id", root + "/usr/lib/debug/.build-id",
                               ignored);
}

const std::string& Sysroots::path(ReplayNode& node) {
  if (auto known = paths_.find(node.id()); known != paths_.end()) return known->second;
  if (node.info().parent) {
    const std::string of_parent = path(*session_.find(*node.info().parent));
    return paths_.emplace(node.id(), of_parent).first->second;
  }
  const std::string& root =
      paths_.emplace(node.id(), fmt::format("{}/{}", session_.directory(), node.id())).first->second;
  link_start_image(node, root);
  return root;
}

void Sysroots::add_loaded_files(ReplayNode& node) {
  if (!complete_.insert(node.id()).second) return;
  const std::string& root = path(node);
  const uint8_t none[16]{};
  for (RecordCursor cursor = node.reader().records(); cursor.next();) {
    if (!cursor.record().is_event()) continue;
    const format::MapContentPart* mapped = nullptr;
    for (PartView part : cursor.record().event().parts()) {
      if (part.map_content()) mapped = part.map_content();
      if (mapped && memcmp(mapped->file, none, sizeof none) != 0 && part.kind() == format::kPath)
        link_file(root, std::string(part.text()), mapped->file);
    }
  }
}

void Sysroots::add_loader_names(ReplayNode& node) {
  auto loaded = loaded_libraries(node);
  auto maps = node.mappings();
  if (!loaded || !maps) return;
  std::error_code ignored;
  for (const LoadedLibrary& library : loaded->libraries) {
    const fs::path place = path(node) + fs::path("/" + library.name).lexically_normal().string();
    const auto map =
        std::ranges::find_if(*maps, [&](const Mapping& m) { return library.base >= m.low && library.base < m.high; });
    if (map == maps->end() || !map->path.starts_with('/') || fs::equivalent(place, map->path, ignored)) continue;
    // Another file of this name was there at another time, or in the process that this one is forked from.
    if (fs::is_symlink(fs::symlink_status(place, ignored))) fs::remove(place, ignored);
    fs::create_directories(place.parent_path(), ignored);
    fs::create_symlink(map->path, place, ignored);
  }
}

}  // namespace friday
