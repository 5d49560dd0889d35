// friday_trace_edit TRACE EVENT CHANGE [NUMBER [NUMBER]]: changes one event of a trace and seals it again, so that
// every check of a reader passes and only the replay can tell. For tests of divergence reports:
//   byte N       flips a bit in byte N of the first memory that the event wrote
//   input        another hash of what the call read
//   argument N V argument N (from 1) becomes V
//   call V       another call number
//   owner        no owner of a robust mutex has died there
//   drop         the event is not there
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/trace/record.h"

namespace friday {
namespace {

using namespace format;

class Editor {
 public:
  explicit Editor(std::string data)
      : data_(std::move(data)), header_(*reinterpret_cast<const FileHeader*>(data_.data())) {
    for (uint64_t at = header_.header_size; at < header_.committed;) {
      const auto* record = reinterpret_cast<const RecordHeader*>(data_.data() + at);
      records_.emplace_back(data_.data() + at, record->size);
      at += record->size;
    }
  }

  EventRecord* event(uint64_t index) {
    for (std::string& record : records_)
      if (is_event(header_of(record).type) && as_event(record)->index == index) return as_event(record);
    return nullptr;
  }

  void drop(uint64_t index) {
    std::erase_if(records_, [&](std::string& record) {
      return is_event(header_of(record).type) && as_event(record)->index == index;
    });
    header_.events--;
  }

  // The trace with its events counted, and every record's checksum, anew.
  std::string sealed() {
    std::string out = data_.substr(0, header_.header_size);
    uint64_t events = 0;
    std::map<uint32_t, uint32_t> next;
    for (std::string& record : records_) {
      RecordHeader& header = header_of(record);
      if (is_event(header.type)) {
        as_event(record)->index = events++;
        as_event(record)->thread_seq = next[header.thread]++;
      }
      if (header.type == kEndRecord) reinterpret_cast<EndRecord*>(record.data())->event = events;
      header.checksum = 0;
      header.checksum = record_checksum(std::as_bytes(std::span(record)), out.size());
      out += record;
    }
    header_.committed = out.size();
    memcpy(out.data(), &header_, sizeof header_);
    seal_header(std::as_writable_bytes(std::span(out).first(kHeaderSize)));
    return out;
  }

 private:
  static RecordHeader& header_of(std::string& record) { return *reinterpret_cast<RecordHeader*>(record.data()); }
  static EventRecord* as_event(std::string& record) { return reinterpret_cast<EventRecord*>(record.data()); }

  std::string data_;
  FileHeader header_;
  std::vector<std::string> records_;
};

std::byte* first_memory(EventRecord* event) {
  for (PartView part : EventView(event).parts())
    if (part.kind() == kMemory) return const_cast<std::byte*>(part.bytes().data());
  return nullptr;
}

int edit(const std::string& path, uint64_t index, const std::string& change, uint64_t a, uint64_t b) {
  auto data = read_file(path);
  if (!data) return fprintf(stderr, "cannot read %s\n", path.c_str()), 2;
  Editor editor(*std::move(data));
  EventRecord* event = editor.event(index);
  if (!event) return fprintf(stderr, "there is no event %lu\n", index), 2;
  if (change == "byte" && first_memory(event)) first_memory(event)[a] ^= std::byte{1};
  else if (change == "input") event->input_hash ^= 1;
  else if (change == "argument" && a >= 1 && a <= event->argument_count)
    reinterpret_cast<uint64_t*>(event + 1)[a - 1] = b;
  else if (change == "call") event->call = static_cast<uint16_t>(a);
  else if (change == "owner" && (event->header.flags & kFlagOwnerDied))
    event->header.flags &= static_cast<uint16_t>(~kFlagOwnerDied);
  else if (change == "drop") editor.drop(index);
  else return fprintf(stderr, "event %lu: cannot do `%s`\n", index, change.c_str()), 2;
  if (!write_file_atomically(path, editor.sealed())) return fprintf(stderr, "cannot write %s\n", path.c_str()), 2;
  return 0;
}

}  // namespace
}  // namespace friday

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: friday_trace_edit TRACE EVENT CHANGE [NUMBER [NUMBER]]\n"), 2;
  auto number = [&](int n) { return n < argc ? strtoull(argv[n], nullptr, 0) : 0; };
  return friday::edit(argv[1], number(2), argv[3], number(4), number(5));
}
