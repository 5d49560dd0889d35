#include "core/cut/bitcode/link_inputs.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <optional>

namespace friday::cut {
namespace {

constexpr std::string_view kArchive = "!<arch>\n", kThinArchive = "!<thin>\n", kBitcode = "BC\xC0\xDE",
                           kWrappedBitcode = "\xDE\xC0\x17\x0B";

// Whether an ELF file has the section. Nothing outside of the file is read, whatever its headers say.
bool has_section(std::string_view file, const Elf64_Ehdr& head) {
  if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shoff > file.size() - sizeof(Elf64_Shdr)) return false;
  const auto section = [&](uint64_t index) {
    std::optional<Elf64_Shdr> found;
    const uint64_t most = (file.size() - head.e_shoff) / sizeof(Elf64_Shdr);
    if (index < most)
      memcpy(&found.emplace(), file.data() + head.e_shoff + index * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
    return found;
  };
  // Of a file with more than 65,279 sections, the first header has their number and the index of their names.
  const auto first = section(0);
  const uint64_t count = head.e_shnum ? head.e_shnum : first ? first->sh_size : 0;
  const auto names = section(head.e_shstrndx == SHN_XINDEX && first ? first->sh_link : head.e_shstrndx);
  if (!names || names->sh_offset > file.size()) return false;
  const std::string_view all_names = file.substr(names->sh_offset, names->sh_size);
  const std::string name = std::string(kSection) + '\0';
  for (uint64_t index = 1; index < count; index++) {
    const auto each = section(index);
    if (!each) return false;
    if (each->sh_name < all_names.size() && all_names.substr(each->sh_name).starts_with(name)) return true;
  }
  return false;
}

// A file's bytes, for as long as the object lives.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      size_ = static_cast<size_t>(status.st_size);
      bytes_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) close(fd);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (bytes_ != MAP_FAILED) munmap(bytes_, size_);
  }
  std::string_view text() const {
    return bytes_ == MAP_FAILED ? std::string_view() : std::string_view(static_cast<const char*>(bytes_), size_);
  }

 private:
  void* bytes_ = MAP_FAILED;
  size_t size_ = 0;
};

std::string below(const std::string& directory, const std::string& path) {
  return directory.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

// Follows a command as ld reads it: where it searches for -l, and whether for shared objects too.
class CommandReader {
 public:
  CommandReader(const std::vector<std::string>& arguments, const std::string& directory)
      : arguments_(arguments), directory_(directory) {
    for (size_t at = 1; at < arguments.size();
         at++)  // ld looks in all directories, also for libraries that stand before
      if (const auto value = value_of(at, {"-L", "--library-path="}, {"-L", "--library-path"}))
        searched_.push_back(*value);
  }

  std::vector<LinkInput> inputs() {
    for (size_t at = 1; at < arguments_.size(); at++) read(at);
    return std::move(found_);
  }

 private:
  // The value of an option, in the same argument or in the next one, which is skipped then.
  std::optional<std::string> value_of(size_t& at, std::initializer_list<std::string_view> joined,
                                      std::initializer_list<std::string_view> apart) const {
    const std::string& each = arguments_[at];
    for (const std::string_view option : apart)
      if (each == option) return at + 1 < arguments_.size() ? arguments_[++at] : std::string();
    for (const std::string_view option : joined)
      if (each.starts_with(option)) return each.substr(option.size());
    return std::nullopt;
  }

  void read(size_t& at) {
    const size_t start = at;
    const std::string& each = arguments_[at];
    if (each == "-Bstatic" || each == "-static" || each == "-dn" || each == "-non_shared") takes_shared_ = false;
    if (each == "-Bdynamic" || each == "-dy" || each == "-call_shared") takes_shared_ = true;
    if (each == "-o" || each == "--output" || each == "-plugin" || each == "-dynamic-linker" || each == "-L" ||
        each == "--library-path")
      ++at;
    else if (const auto library = value_of(at, {"-l", "--library="}, {"-l", "--library"}))
      add(start, library_file(*library));
    else if (!each.starts_with('-')) add(start, each);
  }

  void add(size_t argument, const std::string& path) {
    if (path.empty()) return;
    const InputKind kind = kind_of(Mapping(below(directory_, path)).text());
    if (kind != InputKind::other) found_.push_back({argument, path, kind});
  }

  std::string library_file(const std::string& name) const {
    const auto exists = [&](const std::string& path) { return access(below(directory_, path).c_str(), R_OK) == 0; };
    for (const std::string& searched : searched_) {
      if (name.starts_with(':') && exists(searched + "/" + name.substr(1))) return searched + "/" + name.substr(1);
      const std::string stem = searched + "/lib" + name;
      if (takes_shared_ && exists(stem + ".so")) return stem + ".so";
      if (exists(stem + ".a")) return stem + ".a";
    }
    return "";
  }

  const std::vector<std::string>& arguments_;
  const std::string& directory_;
  std::vector<std::string> searched_;
  bool takes_shared_ = true;
  std::vector<LinkInput> found_;
};

void put(std::string& text, const std::string& bytes) {
  const uint64_t size = bytes.size();
  text.append(reinterpret_cast<const char*>(&size), sizeof size).append(bytes);
}

std::optional<std::string> take(std::string_view& text) {
  uint64_t size;
  if (text.size() < sizeof size) return std::nullopt;
  memcpy(&size, text.data(), sizeof size);
  text.remove_prefix(sizeof size);
  if (size > text.size()) return std::nullopt;
  std::string bytes(text.substr(0, size));
  text.remove_prefix(size);
  return bytes;
}

}  // namespace

InputKind kind_of(std::string_view file) {
  if (file.starts_with(kArchive) || file.starts_with(kThinArchive)) return InputKind::archive;
  if (file.starts_with(kBitcode) || file.starts_with(kWrappedBitcode)) return InputKind::recorded;
  Elf64_Ehdr head;
  if (file.size() < sizeof head || !file.starts_with(ELFMAG)) return InputKind::other;
  memcpy(&head, file.data(), sizeof head);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_type != ET_REL) return InputKind::other;
  return has_section(file, head) ? InputKind::recorded : InputKind::object;
}

std::vector<LinkInput> inputs_of(const std::vector<std::string>& arguments, const std::string& directory) {
  return CommandReader(arguments, directory).inputs();
}

std::string output_of(const std::vector<std::string>& arguments) {
  std::string output = "a.out";
  for (size_t at = 1; at < arguments.size(); at++) {
    const std::string& each = arguments[at];
    if ((each == "-o" || each == "--output") && at + 1 < arguments.size()) output = arguments[++at];
    else if (each.starts_with("--output=")) output = each.substr(strlen("--output="));
    else if (each.starts_with("-o") && each.size() > 2 && !each.starts_with("-oformat")) output = each.substr(2);
  }
  return output;
}

std::string encode_inputs(const std::vector<KeptInput>& inputs) {
  std::string text;
  for (const KeptInput& each : inputs) {
    put(text, each.path);
    put(text, each.has_records ? "" : each.bytes);
  }
  return text;
}

std::vector<KeptInput> decode_inputs(std::string_view text) {
  std::vector<KeptInput> inputs;
  while (!text.empty()) {
    auto path = take(text), bytes = take(text);
    if (!path || !bytes) return {};
    const bool has_records = bytes->empty();
    inputs.push_back({std::move(*path), has_records, std::move(*bytes)});
  }
  return inputs;
}

}  // namespace friday::cut
