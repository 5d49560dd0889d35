// The file of facts. Writer and reader are given the same description of each structure (the functions code_fields()),
// so that they cannot disagree. docs/cut.md has the form for people.
#include "core/cut/facts.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>
#include <unordered_map>

#include "core/base/beneath.h"
#include "core/base/files.h"
#include "core/base/leb128.h"
#include "core/cut/facts_check.h"

namespace friday::cut {
namespace {

static_assert(std::endian::native == std::endian::little);

struct FactsHeader {
  char magic[8];
  uint32_t version;
  uint32_t reserved;  // 0
  uint64_t size;      // of what follows, in bytes
  uint64_t hash;      // its XXH3-64
};
static_assert(sizeof(FactsHeader) == 32);
constexpr char kFactsMagic[8] = {'F', 'R', 'I', 'D', 'C', 'U', 'T', 'F'};
constexpr uint32_t kFactsVersion = 1;
constexpr uint64_t kMostFactsFile = uint64_t{4} << 30;  // bytes
// All texts of the facts together may be that much longer than the file, in which each stands once: a path of a source
// is in each of its functions and variables.
constexpr uint64_t kMostTextGrowth = 64;

// The coder of a writer. Texts stand in a table in front of everything else, each once.
class FactsWriter {
 public:
  static constexpr bool kReads = false;

  void text(const std::string& text) {
    const auto [known, is_new] = text_of_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(&known->first);
    wide(known->second);
  }
  void wide(uint64_t number) { put_leb128(body_, number); }
  void number(uint32_t number) { wide(number); }
  void id(Id id) { wide(id == kNone ? 0 : uint64_t{id} + 1); }
  void offset(int64_t offset) { wide(zigzag(static_cast<uint64_t>(offset))); }
  template <typename... Flags>
  void flags(const Flags&... flags) {
    uint64_t bits = 0, bit = 1;
    ((bits |= flags ? bit : 0, bit <<= 1), ...);
    wide(bits);
  }
  template <typename Choice>
  void choice(Choice value, Choice /*last*/) {
    wide(static_cast<uint64_t>(value));
  }
  template <typename Item, typename Code>
  void list(const std::vector<Item>& items, Code code) {
    wide(items.size());
    for (const Item& each : items) code(*this, each);
  }

  std::string file() const {
    std::vector<std::byte> content;
    put_leb128(content, texts_.size());
    for (const std::string* text : texts_) {
      put_leb128(content, text->size());
      const auto* bytes = reinterpret_cast<const std::byte*>(text->data());
      content.insert(content.end(), bytes, bytes + text->size());
    }
    content.insert(content.end(), body_.begin(), body_.end());
    FactsHeader header{};
    std::memcpy(header.magic, kFactsMagic, sizeof header.magic);
    header.version = kFactsVersion;
    header.size = content.size();
    header.hash = XXH3_64bits(content.data(), content.size());
    std::string file(sizeof header + content.size(), '\0');
    std::memcpy(file.data(), &header, sizeof header);
    if (!content.empty()) std::memcpy(file.data() + sizeof header, content.data(), content.size());
    return file;
  }

 private:
  std::unordered_map<std::string, size_t> text_of_;
  std::vector<const std::string*> texts_;
  std::vector<std::byte> body_;
};

// The coder of a reader. After the first thing that cannot be, it reads zeros and empty lists. What it allocates is
// bounded by the size of the file: no list is longer than the bytes that are left, since each item takes one at least.
class FactsReader {
 public:
  static constexpr bool kReads = true;

  explicit FactsReader(std::span<const std::byte> content) : left_(content), size_(content.size()) {
    const uint64_t count = length();
    for (uint64_t i = 0; i < count && !broken_; i++) {
      const uint64_t size = length();
      texts_.emplace_back(reinterpret_cast<const char*>(left_.data()), size);
      left_ = left_.subspan(size);
    }
  }

  void text(std::string& text) {
    const uint64_t number = take();
    if (number >= texts_.size()) return break_here("a text that is not in the table");
    text_bytes_ += texts_[number].size();
    if (text_bytes_ > kMostTextGrowth * size_) return break_here("too long a text too often");
    text = texts_[number];
  }
  void wide(uint64_t& number) { number = take(); }
  void number(uint32_t& number) { number = take_at_most(~uint32_t{0}); }
  void id(Id& id) {
    const uint64_t code = take();
    if (code > kNone) break_here("an id of more than 32 bits");
    id = broken_ ? kNone : static_cast<Id>(code) - 1;  // 0 is kNone
  }
  void offset(int64_t& offset) { offset = static_cast<int64_t>(unzigzag(take())); }
  template <typename... Flags>
  void flags(Flags&... flags) {
    uint64_t bits = take_at_most((uint32_t{1} << sizeof...(flags)) - 1);
    ((flags = (bits & 1) != 0, bits >>= 1), ...);
  }
  template <typename Choice>
  void choice(Choice& value, Choice last) {
    value = static_cast<Choice>(take_at_most(static_cast<uint32_t>(last)));
  }
  template <typename Item, typename Code>
  void list(std::vector<Item>& items, Code code) {
    const uint64_t count = length();
    for (uint64_t i = 0; i < count && !broken_; i++) code(*this, items.emplace_back());
  }

  // What is wrong, and where in the content; none if nothing is, and all was read.
  std::optional<std::string> wrong() {
    if (!broken_ && !left_.empty()) break_here("bytes behind the last list");
    if (!broken_) return std::nullopt;
    return fmt::format("{} at byte {}", what_, sizeof(FactsHeader) + at_);
  }
  // Of the pointers and lengths, which are counted but not listed: each is named somewhere, by one byte at least.
  void limit(uint32_t count) {
    if (count > size_) break_here("more pointers or lengths than bytes");
  }

 private:
  uint64_t take() {
    if (broken_) return 0;
    const auto number = take_leb128(left_);
    if (!number) break_here("no number");
    return number.value_or(0);
  }
  uint32_t take_at_most(uint32_t most) {
    const uint64_t number = take();
    if (number > most) break_here("a number that is too large");
    return broken_ ? 0 : static_cast<uint32_t>(number);
  }
  // Of a list or a text.
  uint64_t length() {
    const uint64_t length = take();
    if (length > left_.size()) break_here("a list or a text that is longer than the file");
    return broken_ ? 0 : length;
  }
  void break_here(const char* what) {
    if (broken_) return;
    broken_ = true;
    what_ = what;
    at_ = size_ - left_.size();
  }

  std::span<const std::byte> left_;
  size_t size_;
  std::vector<std::string> texts_;
  uint64_t text_bytes_ = 0;  // of all texts that were read, each time
  bool broken_ = false;
  const char* what_ = "";
  size_t at_ = 0;
};

// `Of<T>` is T for a reader and const T for a writer.
template <typename Coder, typename T>
using Of = std::conditional_t<Coder::kReads, T, const T>;

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Place>& place) {
  coder.text(place.file);
  coder.number(place.line);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Handed>& handed) {
  coder.id(handed.pointer);
  coder.number(handed.bytes);
  coder.id(handed.length);
  coder.offset(handed.constant);
}

constexpr auto kCodeHanded = [](auto& coder, auto& handed) { code_fields(coder, handed); };

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Function>& function) {
  coder.text(function.name);
  coder.choice(function.linkage, Linkage::declared);
  code_fields(coder, function.place);
  coder.flags(function.variadic, function.address_taken, function.started);
  coder.wide(function.shape);
  coder.list(function.parameters, kCodeHanded);
  code_fields(coder, function.result);
  coder.id(function.variable_arguments);
  coder.id(function.object);
  coder.id(function.first_block);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Object>& object) {
  coder.choice(object.kind, ObjectKind::function);
  coder.text(object.name);
  coder.choice(object.linkage, Linkage::declared);
  coder.id(object.function);
  coder.id(object.call);
  coder.wide(object.size);
  coder.flags(object.constant, object.thread_local_);
  code_fields(coder, object.place);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Flow>& flow) {
  coder.choice(flow.kind, FlowKind::initial);
  coder.id(flow.to);
  coder.id(flow.from);
  coder.id(flow.object);
  coder.offset(flow.offset);
  coder.id(flow.function);
  coder.number(flow.stride);
  coder.number(flow.span);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Block>& block) {
  coder.id(block.function);
  coder.number(block.line);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Call>& call) {
  coder.id(call.function);
  coder.id(call.block);
  coder.id(call.callee);
  coder.id(call.target);
  coder.wide(call.shape);
  coder.number(call.line);
  coder.list(call.arguments, kCodeHanded);
  code_fields(coder, call.result);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Access>& access) {
  coder.id(access.function);
  coder.id(access.block);
  coder.id(access.pointer);
  coder.flags(access.reads, access.writes);
  coder.number(access.bytes);
  coder.id(access.length);
  coder.number(access.line);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Unseen>& unseen) {
  coder.id(unseen.function);
  coder.number(unseen.line);
  coder.text(unseen.what);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Alias>& alias) {
  coder.text(alias.name);
  coder.choice(alias.linkage, Linkage::declared);
  coder.id(alias.function);
  coder.id(alias.object);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Facts::Module>& module) {
  coder.text(module.name);
  coder.text(module.fingerprint);
  coder.number(module.first_function);
  coder.number(module.first_block);
  coder.number(module.first_length);
}

template <typename Coder>
void code_fields(Coder& coder, Of<Coder, Facts>& facts) {
  const auto each = [](auto& with, auto& item) { code_fields(with, item); };
  coder.text(facts.module);
  coder.text(facts.fingerprint);
  coder.number(facts.pointers);
  coder.number(facts.lengths);
  coder.list(facts.functions, each);
  coder.list(facts.objects, each);
  coder.list(facts.flows, each);
  coder.list(facts.blocks, each);
  coder.list(facts.calls, each);
  coder.list(facts.accesses, each);
  coder.list(facts.unseen, each);
  coder.list(facts.aliases, each);
  coder.list(facts.modules, each);
}

}  // namespace

std::expected<void, Error> write_facts(const Facts& facts, const std::filesystem::path& path) {
  FRIDAY_TRY_VOID(check_facts(facts));
  FactsWriter writer;
  code_fields(writer, facts);
  return write_file_atomically(path.string(), writer.file());
}

std::expected<Facts, Error> read_facts(const std::filesystem::path& path) {
  FRIDAY_TRY(text, read_beneath(Beneath(path.string()), kMostFactsFile));
  FactsHeader header{};
  if (text.size() >= sizeof header) std::memcpy(&header, text.data(), sizeof header);
  if (text.size() < sizeof header || std::memcmp(header.magic, kFactsMagic, sizeof kFactsMagic) != 0)
    return fail(ErrorCode::bad_input,
                "{} is no file of facts: it does not begin with {}. `friday cc` writes one beside "
                "each object file",
                path.string(), std::string_view(kFactsMagic, sizeof kFactsMagic));
  if (header.version != kFactsVersion)
    return fail(ErrorCode::bad_input,
                "{} has facts of version {}, and this Friday reads version {}: compile its source "
                "again",
                path.string(), header.version, kFactsVersion);
  const std::span content(reinterpret_cast<const std::byte*>(text.data()) + sizeof header, text.size() - sizeof header);
  if (header.size != content.size() || header.hash != XXH3_64bits(content.data(), content.size()))
    return fail(ErrorCode::bad_input,
                "{} is damaged: it should have {} bytes behind its header and has {}, or they have "
                "changed. Compile its source again",
                path.string(), header.size, content.size());
  FactsReader reader(content);
  Facts facts;
  code_fields(reader, facts);
  reader.limit(facts.pointers);
  reader.limit(facts.lengths);
  if (const auto wrong = reader.wrong())
    return fail(ErrorCode::bad_input, "{} is damaged: there is {}. Compile its source again", path.string(), *wrong);
  if (auto checked = check_facts(facts); !checked)
    return fail(ErrorCode::bad_input, "{} cannot be used: {}", path.string(), checked.error().message);
  return facts;
}

}  // namespace friday::cut
