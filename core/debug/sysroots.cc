#include "core/debug/sysroots.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/rsp/libraries.h"

namespace friday {

namespace fs = std::filesystem;

// Creates a link below `root` to the copy of a file, under the name that the program used.
void Sysroots::link_file(const std::string& root, const std::string& recorded, const uint8_t (&file)[16]) {
  if (recorded.empty() || recorded[0] != '/') return;
  // Normalised, so that no ".." in a malicious recording leads out of `root`.
  const std::string name = fs::path(recorded).lexically_normal();
  const std::string copy = session_.recording().file_copy(file).path();
  const auto link = [&](const std::string& place) {
    std::error_code ignored;
    fs::create_directories(fs::path(place).parent_path(), ignored);
    fs::create_symlink(copy, place, ignored);
  };
  link(root + name);
  // Programs name their loader by this path (PT_INTERP).
  if (constexpr const char* loader = "/ld-linux-x86-64.so.2"; name.ends_with(loader)) link(root + "/lib64" + loader);
  // On most systems /lib is a link to /usr/lib, and the loader uses the short name.
  if (name.starts_with("/usr/lib")) link(root + name.substr(4));
}

void Sysroots::link_start_image(ReplayNode& node, const std::string& root) {
  if (auto image = node.reader().image())
    for (const auto* module : image->modules)
      link_file(root, std::string(bounded_text(module->path, sizeof module->path)), module->file);
  // gdb finds separate debug information there, by build-id.
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
    // Replace a link to another file that had this name earlier, or in the parent process.
    if (fs::is_symlink(fs::symlink_status(place, ignored))) fs::remove(place, ignored);
    fs::create_directories(place.parent_path(), ignored);
    fs::create_symlink(map->path, place, ignored);
  }
}

}  // namespace friday
