#include "core/stop/steps.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

namespace friday {

namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostItems = 1'000'000;    // that a search looks at
constexpr unsigned kDeepest = 128;            // a balanced tree of 2^64 nodes has less than twice 64 levels
constexpr uint64_t kLongestText = 16u << 20;  // bytes that are compared
constexpr uint64_t kLargestNode = 4096;       // bytes of a node, up to the end of the key

PlanStep::Text parse_text(const Json& json) {
  PlanStep::Text text;
  text.data = json.at("data"), text.length = json.at("length"), text.size = json.at("size");
  if (json.contains("long_bit")) text.long_bit = json.at("long_bit").get<uint8_t>();
  text.short_data = json.value("short_data", uint64_t{0});
  const uint64_t end = std::max({text.data + 8, text.length + 8, text.short_data});
  if (end < 8 || end > text.size || text.size > kLargestNode) throw std::runtime_error("a text outside of its object");
  return text;
}

PlanStep::Found parse_found(const Json& json) {
  PlanStep::Found found;
  const std::string in = json.at("in");
  if (in != "tree" && in != "hash") throw std::runtime_error("a search in something unknown");
  found.in = in == "tree" ? PlanStep::Found::In::tree : PlanStep::Found::In::hash;
  const Json& key = json.at("key");
  if (key.contains("text")) found.key.text = parse_text(key.at("text"));
  else found.key.size = key.at("size"), found.key.is_signed = key.at("signed");
  if (!found.key.text && (found.key.size == 0 || found.key.size > 8)) throw std::runtime_error("a key of that size");
  found.first = json.at("first"), found.item = json.at("item");
  found.left = json.value("left", uint64_t{0}), found.right = json.value("right", uint64_t{0});
  found.buckets = json.value("buckets", uint64_t{0}), found.bucket_count = json.value("bucket_count", uint64_t{0});
  found.by_value = json.value("by_value", false), found.descending = json.value("descending", false);
  found.repeated = json.value("repeated", false), found.counts = json.value("counts", false);
  if (std::max({found.left, found.right, found.item}) > kLargestNode / 2) throw std::runtime_error("a node too large");
  return found;
}

Result<uint64_t> read_word(MemoryReader& memory, uint64_t address) {
  uint64_t word = 0;
  FRIDAY_TRY_VOID(memory.read(Addr{address}, std::as_writable_bytes(std::span(&word, 1))));
  return word;
}

template <typename... Args>
std::unexpected<Error> no_value(fmt::format_string<Args...> format, Args&&... args) {
  return fail(ErrorCode::bad_address, format, std::forward<Args>(args)...);
}

constexpr std::string_view kInconsistent = "inconsistent";

// For objects that the program may be about to change: a container that grows is not consistent for some instructions.
template <typename... Args>
std::unexpected<Error> damaged(fmt::format_string<Args...> format, Args&&... args) {
  auto error = no_value(format, std::forward<Args>(args)...);
  error.error().message += ": it is not constructed yet, already destroyed, or damaged";
  error.error().how = kInconsistent;
  return error;
}

std::unexpected<Error> leads_nowhere(const std::string& of, const Error& error) {
  return damaged("{} leads to memory that cannot be read ({})", of, error.message);
}

// Bytes of a text in the node's memory.
Result<std::string> read_text(MemoryReader& memory, const std::string& of, uint64_t address, uint64_t length) {
  if (length > kLongestText) return damaged("{} has {} characters", of, length);
  std::string text(length, '\0');
  if (length == 0) return text;
  if (auto read = memory.read(Addr{address}, std::as_writable_bytes(std::span(text))); !read)
    return leads_nowhere(of, read.error());
  return text;
}

// Reads a NUL-terminated text and returns its length. The pieces do not cross a page, since the next may be unmapped.
Result<uint64_t> measure(MemoryReader& memory, const std::string& of, uint64_t address) {
  std::array<char, 64> piece{};
  uint64_t length = 0;
  while (length < kLongestText) {
    const uint64_t now = address + length, size = std::min<uint64_t>(piece.size(), 4096 - (now & 4095));
    if (auto read = memory.read(Addr{now}, std::as_writable_bytes(std::span(piece)).first(size)); !read)
      return leads_nowhere(of, read.error());
    if (const void* end = memchr(piece.data(), 0, size))
      return length + static_cast<uint64_t>(static_cast<const char*>(end) - piece.data());
    length += size;
  }
  return no_value("{} has no end within {} bytes", of, kLongestText);
}

int sign_of(int order) { return (order > 0) - (order < 0); }

// Looks for a key in a tree or a hash table.
class Search {
 public:
  Search(const PlanStep& step, uint64_t object, MemoryReader& memory)
      : step_(step), found_(step.found), object_(object), memory_(memory) {
    const uint64_t key = found_.key.text ? found_.key.text->size : found_.key.size;
    const uint64_t links = found_.in == PlanStep::Found::In::tree ? std::max(found_.left, found_.right) + 8 : 8;
    node_.resize(std::max(found_.item + key, links));
  }

  Result<uint64_t> run(std::span<const uint64_t> key) {
    if (step_.left) {
      text_ = *step_.left;
    } else if (found_.key.text) {
      FRIDAY_TRY(text, read_text(memory_, "the key", key[0], key[1]));
      text_ = std::move(text);
    } else {
      number_ = extended(key[0]);
    }
    return found_.in == PlanStep::Found::In::tree ? in_tree() : in_hash_table();
  }

 private:
  Result<void> read_node(uint64_t address) {
    if (auto read = memory_.read(Addr{address}, node_); !read) return leads_nowhere(step_.of, read.error());
    at_ = address;
    return {};
  }

  uint64_t word_in_node(uint64_t offset) const {
    uint64_t word = 0;
    std::memcpy(&word, node_.data() + offset, sizeof word);
    return word;
  }

  // A number as the key's type has it, extended to 64 bits.
  uint64_t extended(uint64_t value) const {
    const unsigned unused = 64 - 8 * static_cast<unsigned>(found_.key.size);
    const uint64_t shifted = value << unused;
    return found_.key.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(shifted) >> unused) : shifted >> unused;
  }

  // How the node's key is related to the one that is looked for: negative, 0 or positive.
  Result<int> order() {
    if (found_.key.text) {
      FRIDAY_TRY(text, text_in_node(*found_.key.text));
      return sign_of(text.compare(text_)) * (found_.descending ? -1 : 1);
    }
    uint64_t value = 0;
    std::memcpy(&value, node_.data() + found_.item, found_.key.size);
    value = extended(value);
    const bool less =
        found_.key.is_signed ? static_cast<int64_t>(value) < static_cast<int64_t>(number_) : value < number_;
    const int order = value == number_ ? 0 : less ? -1 : 1;
    return found_.descending ? -order : order;
  }

  Result<std::string> text_in_node(const PlanStep::Text& text) {
    uint64_t data = word_in_node(found_.item + text.data), length = word_in_node(found_.item + text.length);
    if (text.long_bit) {
      const auto first = static_cast<uint8_t>(node_[found_.item]);
      if (!(first & *text.long_bit)) {
        data = at_ + found_.item + text.short_data;
        length = *text.long_bit == 1 ? first >> 1 : first;
      }
    }
    const uint64_t inside = data - at_;
    if (inside < node_.size() && length <= node_.size() - inside)  // a short text is in the object itself
      return std::string(reinterpret_cast<const char*>(node_.data()) + inside, length);
    return read_text(memory_, "a key of " + step_.of, data, length);
  }

  Result<uint64_t> in_tree() {
    FRIDAY_TRY(root, read_word(memory_, object_ + found_.first));
    if (found_.counts && found_.repeated) return count_in_tree(root);
    uint64_t node = root, item = 0;
    for (unsigned depth = 0; node; depth++) {
      if (depth == kDeepest) return damaged("{} is deeper than a balanced tree is", step_.of);
      FRIDAY_TRY_VOID(read_node(node));
      FRIDAY_TRY(related, order());
      if (related == 0) item = node + found_.item;
      if (related == 0 && !found_.repeated) break;
      node = word_in_node(related < 0 ? found_.right : found_.left);
    }
    return found_.counts ? item != 0 : item;
  }

  Result<uint64_t> count_in_tree(uint64_t root) {
    std::vector<uint64_t> left{root};
    uint64_t count = 0, seen = 0;
    while (!left.empty()) {
      const uint64_t node = left.back();
      left.pop_back();
      if (!node) continue;
      if (++seen > kMostItems) return too_many();
      FRIDAY_TRY_VOID(read_node(node));
      FRIDAY_TRY(related, order());
      if (related == 0) count++;
      if (related >= 0) left.push_back(word_in_node(found_.left));
      if (related <= 0) left.push_back(word_in_node(found_.right));
    }
    return count;
  }

  Result<uint64_t> in_hash_table() {
    uint64_t buckets = 0;
    FRIDAY_TRY(first, first_node(buckets));
    uint64_t node = first, count = 0;
    for (uint64_t seen = 0; node; seen++) {
      if (seen == kMostItems) return too_many();
      FRIDAY_TRY_VOID(read_node(node));
      FRIDAY_TRY(related, order());
      if (related == 0 && !found_.counts) return node + found_.item;
      count += related == 0;
      if (related == 0 && !found_.repeated) break;
      if (related != 0 && count) break;  // equal keys are neighbours
      if (buckets && related != 0 && number_in_node() % buckets != number_ % buckets) break;  // the bucket ends here
      node = word_in_node(0);
    }
    return count;
  }

  uint64_t number_in_node() const {
    uint64_t value = 0;
    std::memcpy(&value, node_.data() + found_.item, found_.key.size);
    return extended(value);
  }

  // The first node of the key's bucket if its hash is known, which sets the number of buckets, or of all items.
  Result<uint64_t> first_node(uint64_t& buckets) {
    if (!found_.by_value) return read_word(memory_, object_ + found_.first);
    FRIDAY_TRY(count, read_word(memory_, object_ + found_.bucket_count));
    FRIDAY_TRY(table, read_word(memory_, object_ + found_.buckets));
    if (count == 0) return 0;
    buckets = count;
    auto before = read_word(memory_, table + 8 * (number_ % count));  // the node before the first one of the bucket
    if (!before) return leads_nowhere(step_.of, before.error());
    if (!*before) return 0;
    auto first = read_word(memory_, *before);
    if (!first) return leads_nowhere(step_.of, first.error());
    return *first;
  }

  std::unexpected<Error> too_many() const {
    return damaged("{} does not end after {} items, which is as far as is searched", step_.of, kMostItems);
  }

  const PlanStep& step_;
  const PlanStep::Found& found_;
  uint64_t object_, number_ = 0, at_ = 0;
  std::string text_;
  std::vector<std::byte> node_;  // the node at at_
  MemoryReader& memory_;
};

Result<int64_t> compare(const PlanStep& step, std::span<const uint64_t> inputs, MemoryReader& memory) {
  std::array<std::string, 2> texts;
  const std::array<const std::optional<std::string>*, 2> literals{&step.left, &step.right};
  std::array<uint64_t, 2> lengths{};
  size_t at = 0;
  std::array<std::span<const uint64_t>, 2> places;
  for (size_t side = 0; side < 2; side++) {
    if (!*literals[side]) places[side] = inputs.subspan(at, 2), at += 2;
    lengths[side] = *literals[side] ? (*literals[side])->size() : places[side][1];
  }
  if (step.only_equal && lengths[0] != lengths[1]) return 1;
  for (size_t side = 0; side < 2; side++) {
    if (*literals[side]) {
      texts[side] = **literals[side];
      continue;
    }
    FRIDAY_TRY(text, read_text(memory, step.of, places[side][0], places[side][1]));
    texts[side] = std::move(text);
  }
  return sign_of(texts[0].compare(texts[1]));
}

}  // namespace

bool is_inconsistent(const Error& error) { return error.code == ErrorCode::bad_address && error.how == kInconsistent; }

unsigned PlanStep::inputs() const {
  switch (kind) {
    case Kind::span:
    case Kind::bounds: return 2;
    case Kind::sane:
    case Kind::require:
    case Kind::length: return 1;
    case Kind::compare: return (left ? 0 : 2) + (right ? 0 : 2);
    case Kind::find: return left ? 1 : found.key.text ? 3 : 2;
  }
  return 0;
}

PlanStep parse_step(const Json& json) {
  static const std::map<std::string, PlanStep::Kind> kinds = {
      {"span", PlanStep::Kind::span},       {"sane", PlanStep::Kind::sane},     {"bounds", PlanStep::Kind::bounds},
      {"require", PlanStep::Kind::require}, {"length", PlanStep::Kind::length}, {"compare", PlanStep::Kind::compare},
      {"find", PlanStep::Kind::find}};
  PlanStep step;
  const auto kind = kinds.find(json.at("step").get<std::string>());
  if (kind == kinds.end()) throw std::runtime_error("an unknown step");
  step.kind = kind->second;
  step.of = json.at("of");
  step.size = json.value("size", uint64_t{1});
  step.most = json.value("most", uint64_t{0});
  step.end = json.value("end", false), step.only_equal = json.value("only_equal", false);
  if (step.size == 0) throw std::runtime_error("items of no size");
  // Literals are given as hexadecimal digits, since they need not be UTF-8.
  for (const auto& [name, literal] : {std::pair{"left", &step.left}, std::pair{"right", &step.right}}) {
    if (!json.contains(name)) continue;
    const std::string hex = json.at(name);
    literal->emplace();
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
      literal->value().push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  if (step.kind == PlanStep::Kind::find) step.found = parse_found(json.at("found"));
  if (step.kind == PlanStep::Kind::find && step.left && !step.found.key.text) throw std::runtime_error("a text as key");
  return step;
}

Result<std::optional<uint64_t>> take_step(const PlanStep& step, std::span<const uint64_t> inputs,
                                          MemoryReader& memory) {
  switch (step.kind) {
    case PlanStep::Kind::span: {
      const uint64_t end = inputs[0], start = inputs[1];
      if (start > end || (end - start) % step.size != 0)
        return damaged("{} starts at {:#x} and ends at {:#x}", step.of, start, end);
      return (end - start) / step.size;
    }
    case PlanStep::Kind::sane:
      if (inputs[0] > step.most) return damaged("{} holds {} items", step.of, inputs[0]);
      return inputs[0];
    case PlanStep::Kind::bounds: {
      const uint64_t index = inputs[0], count = inputs[1];
      if (index < count || (step.end && index == count)) return index;
      if (count == 0) return no_value("{} is empty", step.of);
      return no_value("index {} is outside of {}, which holds {} item{}", static_cast<int64_t>(index), step.of, count,
                      count == 1 ? "" : "s");
    }
    case PlanStep::Kind::require:
      if (inputs[0] == 0) return no_value("{}", step.of);
      return std::nullopt;
    case PlanStep::Kind::length: {
      FRIDAY_TRY(length, measure(memory, step.of, inputs[0]));
      return length;
    }
    case PlanStep::Kind::compare: {
      FRIDAY_TRY(order, compare(step, inputs, memory));
      return static_cast<uint64_t>(order);
    }
    case PlanStep::Kind::find: {
      FRIDAY_TRY(found, Search(step, inputs[0], memory).run(inputs.subspan(1)));
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace friday
