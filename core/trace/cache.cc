#include "core/trace/cache.h"

#include <sys/stat.h>

#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/base/beneath.h"
#include "core/trace/packed.h"

namespace friday {

namespace {

// "FRIDAYC8"; the digit is raised whenever the meaning of any cache file changes
constexpr uint64_t kCacheMagic = 0x3843594144495246;

struct CacheHeader {
  uint64_t magic, fingerprint, size, checksum;
};

}  // namespace

std::string cache_name(std::string_view what, NodeId node) { return fmt::format("{}-{}", what, node); }

uint64_t fingerprint(const Recording& recording, std::span<const NodeId> nodes) {
  uint64_t hash = kCacheMagic;
  for (NodeId id : nodes) {
    struct stat status {};
    ::lstat(stored_path(recording.trace(id).path()).c_str(), &status);
    const NodeInfo* node = recording.find(id);
    uint64_t facts[] = {id.value,
                        static_cast<uint64_t>(status.st_size),
                        static_cast<uint64_t>(status.st_ino),
                        static_cast<uint64_t>(status.st_mtim.tv_sec),
                        static_cast<uint64_t>(status.st_mtim.tv_nsec),
                        node ? node->trace_bytes : 0,
                        node ? node->events : 0};
    hash = XXH3_64bits_withSeed(facts, sizeof facts, hash);
    // What was derived without the payload is derived again when a replay has made it again.
    if (node && !node->is_complete()) hash = XXH3_64bits_withSeed(&node->left_out, sizeof node->left_out, hash);
  }
  return hash;
}

void CacheWriter::append(const void* bytes, size_t size) {
  if (size) data_.append(static_cast<const char*>(bytes), size);
}

Result<void> CacheWriter::write_to(const Beneath& file, uint64_t fingerprint) {
  CacheHeader header{kCacheMagic, fingerprint, data_.size(), XXH3_64bits(data_.data(), data_.size())};
  data_.insert(0, reinterpret_cast<const char*>(&header), sizeof header);
  return write_beneath(file, data_);
}

Result<CacheReader> CacheReader::open(const Recording& recording, const std::string& name, uint64_t fingerprint) {
  uint64_t most = 16u << 20;
  for (const NodeInfo& node : recording.nodes())
    most += node.trace_bytes * 4;  // no cache file holds more than 4 bytes for each byte of trace
  return open_file(recording.inside("cache/" + name), fingerprint, most);
}

Result<CacheReader> CacheReader::open_file(const Beneath& file, uint64_t fingerprint, uint64_t most) {
  CacheReader reader;
  FRIDAY_TRY(data, read_beneath(file, most));
  reader.data_ = std::move(data);
  CacheHeader header;
  auto unusable = [&] {
    return fail(ErrorCode::bad_input, "{} is damaged, or was made from another recording", file.path());
  };
  if (reader.data_.size() < sizeof header) return unusable();
  memcpy(&header, reader.data_.data(), sizeof header);
  const char* body = reader.data_.data() + sizeof header;
  uint64_t size = reader.data_.size() - sizeof header;
  if (header.magic != kCacheMagic || header.fingerprint != fingerprint || header.size != size ||
      header.checksum != XXH3_64bits(body, size))
    return unusable();
  reader.at_ = sizeof header;
  return reader;
}

bool CacheReader::take_bytes(std::span<const std::byte>& bytes) {
  uint64_t size;
  if (data_.size() - at_ < sizeof size) return false;
  memcpy(&size, data_.data() + at_, sizeof size);
  at_ += sizeof size;
  if (size > data_.size() - at_) return false;
  bytes = {reinterpret_cast<const std::byte*>(data_.data() + at_), size};
  at_ = std::min((at_ + size + 7) & ~size_t{7}, data_.size());
  return true;
}

}  // namespace friday
