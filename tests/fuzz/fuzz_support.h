// What the fuzz targets share: a directory in memory for the files that a reader is given, and a look at every byte
// that a reader shows, so that a sanitizer sees what lies outside.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include "core/base/fd.h"
#include "core/trace/index.h"
#include "core/trace/reader.h"

namespace friday::fuzz {

class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") + std::string("/friday-fuzz-XXXXXX");
    if (!mkdtemp(name.data())) abort();
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

  void write(const std::string& name, const uint8_t* data, size_t size) const {
    const std::string file = path_ + "/" + name;
    UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd || !write_all(fd.get(), std::as_bytes(std::span(data, size)))) abort();
  }

 private:
  std::string path_;
};

inline volatile uint64_t sink;

inline void look_at(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (std::byte byte : bytes) sum += static_cast<uint64_t>(byte);
  sink = sink + sum;
}

inline void look_at(const EventView& event) {
  for (uint64_t argument : event.arguments()) sink = sink + argument;
  for (PartView part : event.parts()) {
    look_at(part.bytes());
    if (const auto* p = part.transfer()) sink = sink + p->length;
    if (const auto* p = part.peer()) look_at(std::as_bytes(std::span(p->bytes)));
    if (const auto* p = part.map_content()) sink = sink + p->length;
    if (const auto* p = part.child()) sink = sink + p->pid;
    if (const auto* p = part.wait()) sink = sink + p->status;
    if (const auto* p = part.file_identity()) sink = sink + p->inode;
    for (const auto& p : part.descriptors()) sink = sink + p.channel;
  }
}

// Everything that a reader of one trace offers.
inline void look_at(const TraceReader& reader) {
  for (RecordCursor cursor = reader.records(); cursor.next();) {
    look_at(cursor.record().bytes());
    if (cursor.record().is_event()) look_at(cursor.record().event());
  }
  if (auto image = reader.image())
    for (const auto& contents : image->contents) look_at(contents.data);
  if (auto index = TraceIndex::build(reader)) {
    for (uint64_t event = 0; event < index->event_count(); event++)
      if (auto found = index->event(reader, event)) look_at(*found);
    (void)index->modules(reader);
  }
  for (uint64_t offset :
       {uint64_t{0}, uint64_t{4096}, reader.end_offset() / 16 * 8, reader.end_offset() - 8, ~uint64_t{7}})
    (void)reader.record_at(offset);
}

}  // namespace friday::fuzz
