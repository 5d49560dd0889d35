// A cache of the collector's answers about mapped files. A request costs two context switches, and a server that maps
// each file that it sends would make it again and again for the same few files. Answers for files without code that are
// settled (ModuleReply::settled) are kept.
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/token.h"

namespace friday::shim {

using namespace format;

namespace {

// What tells one version of a file from another (fstat(2)). Renaming or linking a file changes its status change time.
struct Version {
  uint64_t device, inode;
  int64_t size, modified[2], changed[2];
};

constexpr unsigned kKnown = 64;
struct {
  Version version;
  uint8_t file[16];
  char path[kPathBytes];
} known[kKnown];  // by a hash of device and inode

Version version_of(const FileStat& st) {
  return {st.device, st.inode, st.size, {st.times[2], st.times[3]}, {st.times[4], st.times[5]}};
}

}  // namespace

ModuleReply* copy_of_file(int fd, const FileStat& st, bool executable, char* path) {
  const Version version = version_of(st);
  auto& entry = known[(st.device * 31 + st.inode) % kKnown];
  const bool mapped_writable = group_object(st.device, st.inode);
  const bool may_keep = !executable && !mapped_writable;
  static ModuleReply kept;
  if (may_keep && st.size && memcmp(&entry.version, &version, sizeof version) == 0) {
    memcpy(kept.file, entry.file, sizeof kept.file);
    kept.file_size = (uint64_t)st.size;
    memcpy(path, entry.path, kPathBytes);
    return &kept;
  }
  path_of_descriptor(fd, path, kPathBytes);
  ModuleReply* reply;
  if (!collector_module({fd, path, st.inode, executable, mapped_writable}, &reply)) return nullptr;
  if (may_keep && reply->settled && reply->file_size == (uint64_t)st.size) {
    entry.version = version;
    memcpy(entry.file, reply->file, sizeof entry.file);
    memcpy(entry.path, path, kPathBytes);
  }
  return reply;
}

}  // namespace friday::shim
