#include "core/cut/annotations.h"

#include <algorithm>
#include <array>
#include <optional>

#include <toml++/toml.h>

#include "core/base/files.h"
#include "core/base/nearest.h"
#include "core/base/numbers.h"

namespace friday::cut {
namespace {

constexpr uint32_t kMostArguments = 64;

constexpr std::array<std::string_view, 10> kVerbs = {"deterministic", "synchronises", "reads", "writes", "moves",
                                                     "returns",       "stores",       "keeps", "frees",  "calls"};

// Reads one phrase, such as "moves arg 1 to arg 0: arg 2", into an annotation.
class Phrase {
 public:
  explicit Phrase(std::string_view text) : text_(text) { split(); }

  // None if all is right; else what is wrong.
  std::optional<std::string> read(Annotation& into) {
    verb_ = next();
    if (verb_ == "deterministic") into.deterministic = true;
    else if (verb_ == "synchronises") into.deterministic = into.synchronises = true;
    else if (verb_ == "reads" || verb_ == "writes") touch(verb_ == "reads" ? into.reads : into.writes);
    else if (verb_ == "moves") move(into);
    else if (verb_ == "returns") returns(into);
    else if (verb_ == "stores") stores(into);
    else if (verb_ == "keeps") keeps(into);
    else if (verb_ == "frees") into.frees.push_back(value());
    else if (verb_ == "calls") calls(into);
    else
      wrong(
          fmt::format("it must begin with deterministic, synchronises, reads, writes, moves, returns, stores, "
                      "keeps, frees or calls{}",
                      nearest_text(verb_, kVerbs)));
    if (wrong_.empty() && at_ < words_.size()) wrong(fmt::format("\"{}\" cannot stand there", words_[at_]));
    if (wrong_.empty()) return std::nullopt;
    return fmt::format("\"{}\": {}", text_, wrong_);
  }

  // The same of a phrase that is a value alone.
  std::optional<std::string> read(AnnotatedValue& into) {
    into = value();
    if (wrong_.empty() && at_ < words_.size()) wrong(fmt::format("\"{}\" cannot stand there", words_[at_]));
    if (wrong_.empty()) return std::nullopt;
    return fmt::format("\"{}\": {}", text_, wrong_);
  }

 private:
  void split() {
    constexpr std::string_view kSigns = ",:*";
    for (size_t i = 0; i < text_.size();) {
      if (text_[i] == ' ') {
        i++;
        continue;
      }
      size_t end = i + 1;
      if (kSigns.find(text_[i]) == std::string_view::npos)
        while (end < text_.size() && text_[end] != ' ' && kSigns.find(text_[end]) == std::string_view::npos) end++;
      words_.push_back(text_.substr(i, end - i));
      i = end;
    }
  }

  void wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  std::string_view next() { return at_ < words_.size() ? words_[at_++] : std::string_view(); }
  bool take(std::string_view word) {
    const bool there = at_ < words_.size() && words_[at_] == word;
    at_ += there ? 1 : 0;
    return there;
  }
  void expect(std::string_view word) {
    if (!take(word)) wrong(fmt::format("\"{}\" is missing behind \"{}\"", word, at_ == 0 ? "" : words_[at_ - 1]));
  }
  std::string name(const char* of) {
    const std::string_view word = next();
    if (word.empty()) wrong(fmt::format("the name of what is {} is missing", of));
    return std::string(word);
  }
  uint32_t argument(std::string_view word) {
    const auto number = canonical_number(word);
    if (!number || *number >= kMostArguments)
      wrong(fmt::format("behind \"arg\" must be the number of an argument, from 0 to {}, and not \"{}\"",
                        kMostArguments - 1, word));
    return static_cast<uint32_t>(number.value_or(0));
  }

  AnnotatedValue value() {
    AnnotatedValue value;
    if (take("below")) {
      value.depth = AnnotatedValue::Depth::below;
    } else if (take("all")) {
      expect("of");
      value.depth = AnnotatedValue::Depth::all;
    }
    using Kind = AnnotatedValue::Kind;
    if (take("arg")) {
      std::string_view number = next();
      value.onwards = number.ends_with("...");
      if (value.onwards) number.remove_suffix(3);
      value.argument = argument(number);
    } else if (take("result")) {
      value.kind = Kind::result;
    } else if (take("new") || take("shared") || take("symbols")) {
      const std::string_view kind = words_[at_ - 1];
      value.kind = kind == "new" ? Kind::fresh : kind == "shared" ? Kind::shared : Kind::symbols;
    } else if (take("own") || take("constant") || take("kept")) {
      const std::string_view kind = words_[at_ - 1];
      value.kind = kind == "own" ? Kind::own : kind == "kept" ? Kind::kept : Kind::constant;
      value.name = name(kind == "kept" ? "kept" : "of the library");
    } else {
      wrong(
          fmt::format("behind \"{}\" must be a value: arg N, arg N..., result, own NAME, constant NAME, kept NAME, "
                      "new, shared or symbols, perhaps with \"below\" or \"all of\" before it",
                      at_ == 0 ? "" : words_[at_ - 1]));
    }
    return value;
  }

  AnnotatedBytes bytes() {
    AnnotatedBytes bytes;
    if (!take(":")) return bytes;
    if (take("object")) return bytes;
    if (take("string")) {
      bytes.kind = AnnotatedBytes::Kind::string;
      return bytes;
    }
    bytes.kind = AnnotatedBytes::Kind::product;
    do {
      if (take("arg")) bytes.values.push_back(argument(next()));
      else if (take("result")) bytes.values.push_back(AnnotatedBytes::kResult);
      else if (const auto number = canonical_number(next()); number && *number < uint64_t{1} << 32)
        bytes.factor *= *number;
      else
        wrong("behind \":\" must be a number of bytes: a number, arg N, result, products of these, string or object");
      if (bytes.values.size() > 4 || bytes.factor >= uint64_t{1} << 32) wrong("the product of bytes is too large");
    } while (wrong_.empty() && take("*"));
    return bytes;
  }

  void touch(std::vector<Annotation::Touch>& into) {
    const AnnotatedValue memory = value();
    into.push_back({memory, bytes()});
  }
  void move(Annotation& into) {
    const AnnotatedValue from = value();
    expect("to");
    const AnnotatedValue to = value();
    into.moves.push_back({from, to, bytes()});
  }
  void returns(Annotation& into) {
    const AnnotatedValue returned = value();
    into.returns.push_back({returned, bytes()});
  }
  void stores(Annotation& into) {
    const AnnotatedValue stored = value();
    expect("at");
    const AnnotatedValue at = value();
    into.stores.push_back({stored, at, bytes()});
  }
  void keeps(Annotation& into) {
    const AnnotatedValue kept = value();
    expect("in");
    into.keeps.push_back({kept, name("kept")});
  }
  void calls(Annotation& into) {
    Annotation::Callback callback{value(), {}, {}};
    if (take("with")) do
        callback.arguments.push_back(value());
      while (wrong_.empty() && take(","));
    if (take("keeping")) {
      expect("result");
      expect("in");
      callback.result_kept = name("kept");
    }
    into.calls.push_back(std::move(callback));
  }

  std::string_view text_;
  std::vector<std::string_view> words_;
  size_t at_ = 0;
  std::string_view verb_;
  std::string wrong_;
};

std::string annotated_at(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

Result<Annotation> read_phrases(const std::string& path, std::string_view name, const toml::array& list) {
  Annotation annotation;
  for (const toml::node& each : list) {
    const auto text = each.value<std::string>();
    if (!text)
      return fail(ErrorCode::bad_input,
                  "{}: {} must be a list of phrases, such as [\"deterministic\", \"reads arg 0: "
                  "string\"]",
                  annotated_at(path, each), name);
    if (const auto wrong = Phrase(*text).read(annotation))
      return fail(ErrorCode::bad_input, "{}: {}: {}. docs/cut.md has the phrases", annotated_at(path, each), name,
                  *wrong);
  }
  return annotation;
}

// The table's entries; empty if it is missing.
Result<const toml::table*> table_of(const toml::table& document, const std::string& path, std::string_view name) {
  static const toml::table kNothing;
  const toml::node* node = document.get(name);
  if (node == nullptr) return &kNothing;
  if (node->is_table()) return node->as_table();
  return fail(ErrorCode::bad_input, "{}: {} must be a table: [{}]", annotated_at(path, *node), name, name);
}

}  // namespace

bool Annotation::allocates() const {
  using Kind = AnnotatedValue::Kind;
  const auto is_new = [](const auto& each) {
    return each.value.kind == Kind::fresh || each.value.kind == Kind::shared;
  };
  return std::ranges::any_of(returns, is_new) || std::ranges::any_of(stores, is_new);
}

Result<Annotations> Annotations::standard() {
  Annotations annotations;
  FRIDAY_TRY_VOID(annotations.add(standard_annotations(), "annotations.toml"));
  return annotations;
}

Result<void> Annotations::add_file(const std::string& path) {
  FRIDAY_TRY(text, read_file(path));
  return add(text, path);
}

Result<void> Annotations::add(std::string_view text, const std::string& path) {
  toml::table document;
  try {
    document = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::bad_input, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  static constexpr std::array<std::string_view, 3> kTables = {"functions", "variables", "libraries"};
  for (const auto& [key, node] : document)
    if (std::ranges::find(kTables, key.str()) == kTables.end())
      return fail(ErrorCode::bad_input,
                  "{}: {} is unknown: annotations have the tables [functions], [variables] and "
                  "[libraries]{}",
                  annotated_at(path, node), key.str(), nearest_text(key.str(), kTables));
  FRIDAY_TRY(functions, table_of(document, path, "functions"));
  FRIDAY_TRY(variables, table_of(document, path, "variables"));
  FRIDAY_TRY(libraries, table_of(document, path, "libraries"));
  FRIDAY_TRY_VOID(add_functions(*functions, path));
  FRIDAY_TRY_VOID(add_variables(*variables, path));
  return add_libraries(*libraries, path);
}

Result<void> Annotations::add_functions(const toml::table& table, const std::string& path) {
  for (const auto& [key, node] : table)
    if (const auto* list = node.as_array()) {
      FRIDAY_TRY(annotation, read_phrases(path, key.str(), *list));
      functions_.insert_or_assign(std::string(key.str()), std::move(annotation));
    }
  // What is "like" another function comes behind all others, so that the order in the file does not matter.
  for (const auto& [key, node] : table) {
    if (node.is_array()) continue;
    const Annotation* model = like(table, node);
    if (model == nullptr)
      return fail(ErrorCode::bad_input,
                  "{}: {} must be a list of phrases, or \"like NAME\" with the name of a function "
                  "that has one",
                  annotated_at(path, node), key.str());
    functions_.insert_or_assign(std::string(key.str()), Annotation(*model));
  }
  return {};
}

// The description that an entry "like NAME" means, perhaps by way of others; null if there is none, or they go round.
const Annotation* Annotations::like(const toml::table& table, const toml::node& entry) const {
  const toml::node* node = &entry;
  for (size_t step = 0; step <= table.size(); step++) {
    const auto text = node->value<std::string>();
    if (!text || !text->starts_with("like ")) return nullptr;
    const std::string name = text->substr(5);
    node = table.get(name);
    if (node == nullptr || node->is_array()) return function(name);
  }
  return nullptr;
}

Result<void> Annotations::add_variables(const toml::table& table, const std::string& path) {
  using Kind = AnnotatedValue::Kind;
  for (const auto& [key, node] : table) {
    const auto phrase = node.value<std::string>();
    AnnotatedValue value;
    const auto wrong = phrase ? Phrase(*phrase).read(value) : std::optional<std::string>("it must be a text");
    const bool of_library = value.kind == Kind::own || value.kind == Kind::constant || value.kind == Kind::kept;
    if (wrong || !of_library || value.depth != AnnotatedValue::Depth::itself)
      return fail(ErrorCode::bad_input,
                  "{}: the variable {} must be \"own NAME\", \"constant NAME\" or \"kept NAME\", "
                  "which says what it points to{}{}",
                  annotated_at(path, node), key.str(), wrong ? ": " : "", wrong.value_or(""));
    variables_.insert_or_assign(std::string(key.str()), std::move(value));
  }
  return {};
}

Result<void> Annotations::add_libraries(const toml::table& table, const std::string& path) {
  for (const auto& [key, node] : table) {
    const auto* names = node.as_array();
    if (names == nullptr || !names->is_homogeneous<std::string>())
      return fail(ErrorCode::bad_input,
                  "{}: the library {} must be a list of names and of beginnings of names: "
                  "[\"deflate*\", \"crc32\"]",
                  annotated_at(path, node), key.str());
    for (const toml::node& each : *names)
      libraries_.insert_or_assign(each.value_or(std::string()), std::string(key.str()));
  }
  return {};
}

const Annotation* Annotations::function(std::string_view name) const {
  const auto known = functions_.find(name);
  return known == functions_.end() ? nullptr : &known->second;
}

const AnnotatedValue* Annotations::variable(std::string_view name) const {
  const auto known = variables_.find(name);
  return known == variables_.end() ? nullptr : &known->second;
}

std::string Annotations::library(std::string_view name) const {
  if (const auto known = libraries_.find(name); known != libraries_.end()) return known->second;
  for (size_t length = name.size(); length > 0; length--)  // the longest beginning decides
    if (const auto known = libraries_.find(std::string(name.substr(0, length)) + "*"); known != libraries_.end())
      return known->second;
  return {};
}

}  // namespace friday::cut
