#include "core/base/memory_map.h"

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>

#include "core/base/files.h"

namespace friday {

namespace {

// Reads a line from its beginning on: numbers, and what stands between them.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  template <typename T>
  LineReader& number(T& value, int base) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    good_ &= error == std::errc();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return *this;
  }
  LineReader& expect(char c) {
    good_ &= rest_.starts_with(c);
    if (good_) rest_.remove_prefix(1);
    return *this;
  }
  LineReader& take(size_t size, std::string_view& text) {
    good_ &= rest_.size() >= size;
    text = rest_.substr(0, size);
    rest_.remove_prefix(std::min(size, rest_.size()));
    return *this;
  }
  bool good() const { return good_; }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

Result<std::vector<MappedRange>> parse_memory_map(std::string_view text) {
  std::vector<MappedRange> list;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    MappedRange range;
    std::string_view rights;
    unsigned major = 0, minor = 0;
    LineReader reader(line);
    reader.number(range.low, 16).expect('-').number(range.high, 16).expect(' ').take(4, rights).expect(' ');
    reader.number(range.offset, 16).expect(' ').number(major, 16).expect(':').number(minor, 16).expect(' ');
    reader.number(range.inode, 10);
    if (!reader.good()) return fail(ErrorCode::bad_input, "not a line of /proc/PID/maps: \"{}\"", line);
    range.protection = (rights[0] == 'r' ? PROT_READ : 0u) | (rights[1] == 'w' ? PROT_WRITE : 0u) |
                       (rights[2] == 'x' ? PROT_EXEC : 0u);
    range.shared = rights[3] == 's';
    range.device = makedev(major, minor);
    const std::string_view path = reader.rest();
    range.path = path.substr(std::min(path.find_first_not_of(' '), path.size()));
    list.push_back(std::move(range));
  }
  return list;
}

Result<std::vector<MappedRange>> read_memory_map(const std::string& directory) {
  FRIDAY_TRY(text, read_file(directory + "/maps"));
  return parse_memory_map(text);
}

}  // namespace friday
