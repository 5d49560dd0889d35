#include "core/replay/saved_checkpoint.h"

#include <algorithm>

#include <xxhash.h>

#include "core/base/beneath.h"
#include "core/base/numbers.h"
#include "core/replay/saved_format.h"

namespace friday {

namespace saved {

uint64_t identity_of(const Recording& recording) {
  uint64_t hash = kVersion;
  for (const NodeInfo& node : recording.nodes()) {
    hash = XXH3_64bits_withSeed(node.uuid.data(), node.uuid.size(), hash);
    const uint64_t facts[] = {node.id.value, node.trace_bytes, node.events};
    hash = XXH3_64bits_withSeed(facts, sizeof facts, hash);
  }
  return hash;
}

Result<File> read(const Recording& recording, uint64_t events) {
  const uint64_t most = (64ull << 20) * (1 + recording.nodes().size());  // a node of 6 GiB has tables of 64 MiB
  const Beneath place = place_of(recording, events);
  FRIDAY_TRY(reader, CacheReader::open_file(place, identity_of(recording), most));
  File file;
  bool good = true;
  File::for_all(file, [&](auto& array) { good = good && reader.take(array); });
  if (!good || file.head.size() != 1 || file.head[0].version != kVersion || file.head[0].events != events)
    return fail(ErrorCode::bad_input, "{} is damaged, or another version of Friday wrote it", place.path());
  if (file.head[0].abi != shim::kAbiVersion)
    return fail(ErrorCode::unsupported, "{} was made by another version of Friday; make it again", place.path());
  return file;
}

}  // namespace saved

Result<std::vector<uint64_t>> saved_checkpoints(const Recording& recording) {
  const auto names = names_beneath(recording.inside("checkpoints"));
  if (!names && names.error().code == ErrorCode::not_found) return std::vector<uint64_t>{};
  if (!names) return std::unexpected(names.error());
  std::vector<uint64_t> all;
  for (const std::string& name : *names)
    if (const auto events = canonical_number(name)) all.push_back(*events);
  std::ranges::sort(all);
  return all;
}

Result<void> remove_saved_checkpoints(const Recording& recording) {
  FRIDAY_TRY(all, saved_checkpoints(recording));
  for (uint64_t events : all) remove_beneath(saved::place_of(recording, events));
  remove_beneath(recording.inside("checkpoints/pages"));
  remove_beneath(recording.inside("checkpoints"));
  return {};
}

void SavedCheckpoint::note_pages(const Recording& recording, PageStore& pages) {
  const auto all = saved_checkpoints(recording);
  if (!all) return;
  for (uint64_t events : *all) {
    const auto file = saved::read(recording, events);
    if (!file) continue;
    for (const auto* array : {&file->pages, &file->object_pages})
      for (const saved::Page& page : *array) pages.note(page.hash, page.number);
  }
}

}  // namespace friday
