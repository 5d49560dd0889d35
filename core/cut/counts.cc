#include "core/cut/counts.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/base/beneath.h"
#include "core/base/files.h"

namespace friday::cut {
namespace {

struct CountsHeader {
  char magic[8];
  uint32_t version;
  uint32_t name_length;
  char fingerprint[32];
  uint64_t blocks, lengths;
};
static_assert(sizeof(CountsHeader) == 64);
constexpr char kCountsMagic[8] = {'F', 'R', 'I', 'D', 'C', 'U', 'T', 'C'};
constexpr uint32_t kCountsVersion = 1;
constexpr uint32_t kLongestModuleName = 4096;            // bytes
constexpr uint64_t kMostCountsFile = uint64_t{1} << 30;  // bytes
constexpr uint64_t kMostCounters = kMostCountsFile / sizeof(uint64_t);

uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

bool is_fingerprint(std::string_view text) {
  return text.size() == 32 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

void add_up(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  for (size_t i = 0; i < to.size(); i++)
    if (__builtin_add_overflow(to[i], from[i], &to[i])) to[i] = UINT64_MAX;
}

std::vector<uint64_t> counters_at(std::string_view file, uint64_t offset, uint64_t count) {
  std::vector<uint64_t> counters(count);
  if (count > 0) std::memcpy(counters.data(), file.data() + offset, count * sizeof(uint64_t));
  return counters;
}

}  // namespace

Result<void> write_counts(const std::string& path, const std::string& fingerprint, const ModuleCounts& counts) {
  if (!is_fingerprint(fingerprint) || counts.module.size() > kLongestModuleName)
    return fail(ErrorCode::usage,
                "the counts of {} cannot be written: a fingerprint has 32 hex digits and a name at most "
                "{} bytes, and these are {} and {} bytes",
                counts.module, kLongestModuleName, fingerprint, counts.module.size());
  CountsHeader header{};
  std::memcpy(header.magic, kCountsMagic, sizeof header.magic);
  header.version = kCountsVersion;
  header.name_length = static_cast<uint32_t>(counts.module.size());
  std::memcpy(header.fingerprint, fingerprint.data(), sizeof header.fingerprint);
  header.blocks = counts.blocks.size();
  header.lengths = counts.lengths.size();
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file += counts.module;
  file.resize(sizeof header + padded(counts.module.size()), '\0');
  for (const auto* counters : {&counts.blocks, &counts.lengths})
    file.append(reinterpret_cast<const char*>(counters->data()), counters->size() * sizeof(uint64_t));
  return write_file_atomically(path, file);
}

Result<std::pair<std::string, ModuleCounts>> read_counts(const std::string& path) {
  FRIDAY_TRY(file, read_beneath(Beneath(path), kMostCountsFile));
  CountsHeader header{};
  if (file.size() >= sizeof header) std::memcpy(&header, file.data(), sizeof header);
  if (file.size() < sizeof header || std::memcmp(header.magic, kCountsMagic, sizeof kCountsMagic) != 0)
    return fail(ErrorCode::bad_input,
                "{} is no file of counts: it does not begin with {}. `friday cut profile -- COMMAND` "
                "makes them",
                path, std::string_view(kCountsMagic, sizeof kCountsMagic));
  if (header.version != kCountsVersion)
    return fail(ErrorCode::bad_input,
                "{} has counts of version {}, and this Friday reads version {}: profile the program "
                "again",
                path, header.version, kCountsVersion);
  const std::string fingerprint(header.fingerprint, sizeof header.fingerprint);
  const uint64_t begin = sizeof header + padded(header.name_length);
  const bool possible = header.name_length <= kLongestModuleName && header.blocks <= kMostCounters &&
                        header.lengths <= kMostCounters && is_fingerprint(fingerprint);
  if (!possible || file.size() != begin + (header.blocks + header.lengths) * sizeof(uint64_t))
    return fail(ErrorCode::bad_input,
                "{} is damaged: it has {} bytes, and its header announces {} blocks and {} lengths. "
                "Delete it, or profile the program again",
                path, file.size(), header.blocks, header.lengths);
  ModuleCounts counts;
  counts.module = file.substr(sizeof header, header.name_length);
  counts.blocks = counters_at(file, begin, header.blocks);
  counts.lengths = counters_at(file, begin + header.blocks * sizeof(uint64_t), header.lengths);
  return std::pair(fingerprint, std::move(counts));
}

Result<void> Counts::add(const std::string& fingerprint, ModuleCounts counts) {
  const auto [known, is_new] = modules_.try_emplace(fingerprint, std::move(counts));
  if (is_new) return {};
  ModuleCounts& sum = known->second;
  if (sum.blocks.size() != counts.blocks.size() || sum.lengths.size() != counts.lengths.size())
    return fail(ErrorCode::bad_input,
                "two runs of {} with the fingerprint {} have {} and {} blocks: one of the files is "
                "damaged. Profile the program again",
                sum.module, fingerprint, sum.blocks.size(), counts.blocks.size());
  add_up(sum.blocks, counts.blocks);
  add_up(sum.lengths, counts.lengths);
  return {};
}

Result<Counts> Counts::read(const std::string& directory) {
  FRIDAY_TRY(names, names_beneath(Beneath(directory, "")));
  Counts counts;
  size_t files = 0;
  for (const std::string& name : names) {
    if (!name.ends_with(".counts")) continue;
    files++;
    FRIDAY_TRY(one, read_counts((std::filesystem::path(directory) / name).string()));
    FRIDAY_TRY_VOID(counts.add(one.first, std::move(one.second)));
  }
  if (files == 0)
    return fail(ErrorCode::not_found,
                "{} has no counts: {} files, and none is called *.counts. `friday cut profile -- "
                "COMMAND` makes them",
                directory, names.size());
  return counts;
}

Result<ProgramCounts> counts_of(const Facts& program, const Counts& counts) {
  ProgramCounts sum;
  sum.blocks.resize(program.blocks.size());
  sum.lengths.resize(program.lengths);
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < program.modules.size(); i++) place.emplace(program.modules[i].fingerprint, i);
  for (const auto& [fingerprint, module] : counts.modules()) {
    const auto found = place.find(fingerprint);
    if (found == place.end()) {
      const bool older =
          std::ranges::any_of(program.modules, [&](const auto& each) { return each.name == module.module; });
      return fail(ErrorCode::bad_input,
                  "the profile has counts of {} with the fingerprint {}, and {} {}. Profile this build "
                  "of the program",
                  module.module, fingerprint, program.module,
                  older ? "has another build of that module" : "has no such module");
    }
    const auto& first = program.modules[found->second];
    const bool last = found->second + 1 == program.modules.size();
    const size_t blocks_end = last ? program.blocks.size() : program.modules[found->second + 1].first_block;
    const size_t lengths_end = last ? program.lengths : program.modules[found->second + 1].first_length;
    if (module.blocks.size() != blocks_end - first.first_block ||
        module.lengths.size() != lengths_end - first.first_length)
      return fail(ErrorCode::bad_input,
                  "the profile of {} has {} blocks and {} lengths, and the module has {} and {}: the "
                  "profile is damaged. Profile this build of the program",
                  module.module, module.blocks.size(), module.lengths.size(), blocks_end - first.first_block,
                  lengths_end - first.first_length);
    std::ranges::copy(module.blocks, sum.blocks.begin() + first.first_block);
    std::ranges::copy(module.lengths, sum.lengths.begin() + first.first_length);
  }
  return sum;
}

}  // namespace friday::cut
