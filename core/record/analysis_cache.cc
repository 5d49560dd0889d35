#include "core/record/analysis_cache.h"

#include <Zydis/Zydis.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/fd.h"
#include "core/record/file_store.h"

namespace friday {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'F', 'R', 'C', 'O', 'D', 'E', '0', '1'};
constexpr size_t kMostBuildId = 20;

// An entry: this header, followed by the sites.
struct Header {
  char magic[8];
  uint8_t version[16];
  uint8_t content[16];
  uint64_t size;
  uint32_t sites, build_id_size;
  uint8_t build_id[kMostBuildId];
  uint32_t is_elf;
  uint64_t checksum;  // of the whole entry, with 0 here
};
static_assert(sizeof(Header) == 88);

// The build id of the program that this code belongs to, by the notes that the loader has mapped.
std::string own_build_id() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          const auto* notes = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= segment.p_memsz;) {
            ElfW(Nhdr) note;
            memcpy(&note, notes + at, sizeof note);
            const size_t name = at + sizeof note, text = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0)
              static_cast<std::string*>(out)->assign(notes + text, note.n_descsz);
            at = text + (note.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the first object is the program
      },
      &found);
  return found;
}

// Which analyser made an entry: this build of Friday, with this version of the decoder. Empty if that is not known.
std::optional<ContentHash> version() {
  std::string made_of = own_build_id();
  if (made_of.empty()) return std::nullopt;
  const ZyanU64 decoder = ZydisGetVersion();
  made_of.append(reinterpret_cast<const char*>(&decoder), sizeof decoder);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(made_of.data(), made_of.size()));
  ContentHash hash;
  memcpy(hash.data(), canonical.digest, hash.size());
  return hash;
}

bool is_own(const struct stat& st) { return st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

bool is_own_directory(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && is_own(st);
}

uint64_t checksum_of(std::vector<char>& entry) {
  memset(entry.data() + offsetof(Header, checksum), 0, sizeof(Header::checksum));
  return XXH3_64bits(entry.data(), entry.size());
}

}  // namespace

AnalysisCache AnalysisCache::of_user() {
  const char* chosen = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  std::string path = chosen && chosen[0] == '/' ? chosen : home && home[0] == '/' ? std::string(home) + "/.cache" : "";
  if (path.empty() || !version()) return {};
  for (const char* part : {"", "/friday", "/code"}) {
    path += part;
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return {};
    if (!is_own_directory(path)) return {};
  }
  return AnalysisCache(path);
}

std::string AnalysisCache::path_of(const ContentHash& content) const {
  return fmt::format("{}/{}", directory_, hex_of(content.data(), content.size()));
}

std::optional<CodeAnalysis> AnalysisCache::find(const ContentHash& content, uint64_t size) const {
  if (directory_.empty()) return std::nullopt;
  const UniqueFd file(open(path_of(content).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat st;
  constexpr size_t kMost = sizeof(Header) + shim::kMaxSites * sizeof(shim::Site);
  if (!file || fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode) || !is_own(st)) return std::nullopt;
  if (static_cast<size_t>(st.st_size) < sizeof(Header) || static_cast<size_t>(st.st_size) > kMost) return std::nullopt;
  std::vector<char> entry(static_cast<size_t>(st.st_size));
  if (!read_exactly(file.get(), std::as_writable_bytes(std::span(entry)), 0)) return std::nullopt;
  Header header;
  memcpy(&header, entry.data(), sizeof header);
  const auto made_by = version();
  if (memcmp(header.magic, kMagic, sizeof kMagic) != 0 || !made_by ||
      memcmp(header.version, made_by->data(), made_by->size()) != 0 ||
      memcmp(header.content, content.data(), content.size()) != 0 || header.size != size ||
      header.build_id_size > kMostBuildId || entry.size() != sizeof header + header.sites * sizeof(shim::Site) ||
      header.checksum != checksum_of(entry))
    return std::nullopt;
  futimens(file.get(), nullptr);  // it was used: entries are removed by age
  CodeAnalysis analysis;
  analysis.is_elf = header.is_elf != 0;
  analysis.build_id.assign(header.build_id, header.build_id + header.build_id_size);
  analysis.sites.resize(header.sites);
  memcpy(analysis.sites.data(), entry.data() + sizeof header, header.sites * sizeof(shim::Site));
  return analysis;
}

void AnalysisCache::keep(const ContentHash& content, uint64_t size, const CodeAnalysis& analysis) const {
  const auto made_by = version();
  if (directory_.empty() || !made_by || analysis.build_id.size() > kMostBuildId) return;
  Header header{};
  memcpy(header.magic, kMagic, sizeof kMagic);
  memcpy(header.version, made_by->data(), made_by->size());
  memcpy(header.content, content.data(), content.size());
  header.size = size;
  header.sites = static_cast<uint32_t>(analysis.sites.size());
  header.build_id_size = static_cast<uint32_t>(analysis.build_id.size());
  std::ranges::copy(analysis.build_id, header.build_id);
  header.is_elf = analysis.is_elf;
  std::vector<char> entry(sizeof header + analysis.sites.size() * sizeof(shim::Site));
  memcpy(entry.data(), &header, sizeof header);
  if (!analysis.sites.empty())
    memcpy(entry.data() + sizeof header, analysis.sites.data(), analysis.sites.size() * sizeof(shim::Site));
  header.checksum = checksum_of(entry);
  memcpy(entry.data(), &header, sizeof header);
  if (write_beneath(Beneath(path_of(content)), std::string_view(entry.data(), entry.size()))) remove_oldest();
}

// Removes the entries that were not used for longest, until the rest takes three quarters of the space.
void AnalysisCache::remove_oldest() const {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t all = 0;
  std::error_code error;
  for (const auto& each : fs::directory_iterator(directory_, error)) {
    struct stat st;
    if (lstat(each.path().c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    entries.push_back({each.last_write_time(error), static_cast<uint64_t>(st.st_blocks) * 512, each.path()});
    all += entries.back().bytes;
  }
  if (all <= most_bytes_) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (all <= most_bytes_ / 4 * 3) break;
    fs::remove(entry.path, error);
    all -= entry.bytes;
  }
}

}  // namespace friday
