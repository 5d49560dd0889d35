#include "core/cut/bitcode/show.h"

#include <string_view>

#include <fmt/format.h>

namespace friday::cut {
namespace {

const char* name_of(Linkage linkage) {
  switch (linkage) {
    case Linkage::internal: return "internal";
    case Linkage::strong: return "strong";
    case Linkage::weak: return "weak";
    case Linkage::declared: return "declared";
  }
  return "?";
}

const char* name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::global: return "global";
    case ObjectKind::stack: return "stack";
    case ObjectKind::heap: return "heap";
    case ObjectKind::function: return "function";
  }
  return "?";
}

std::string offset_text(int64_t offset) {
  return offset == kAnyOffset ? " + any" : offset == 0 ? "" : fmt::format(" + {}", offset);
}

class FactsText {
 public:
  explicit FactsText(const Facts& facts) : facts_(facts) {}

  std::string run() {
    line("module {} {}: {} pointers, {} lengths, {} blocks", facts_.module, facts_.fingerprint, facts_.pointers,
         facts_.lengths, facts_.blocks.size());
    for (size_t i = 0; i < facts_.functions.size(); i++) function(i, facts_.functions[i]);
    for (size_t i = 0; i < facts_.objects.size(); i++) object(i, facts_.objects[i]);
    for (const Flow& each : facts_.flows) flow(each);
    for (const Call& each : facts_.calls) call(each);
    for (const Access& each : facts_.accesses)
      line("access {} block {} line {}: {}{} *p{} {}", owner(each.function), each.block, each.line,
           each.reads ? "r" : "", each.writes ? "w" : "", each.pointer,
           each.length == kNone ? fmt::format("{} bytes", each.bytes) : fmt::format("length {}", each.length));
    for (const Unseen& each : facts_.unseen) line("unseen {} line {}: {}", owner(each.function), each.line, each.what);
    for (const Alias& each : facts_.aliases)
      line("alias {} {} of {}", each.name, name_of(each.linkage),
           each.function != kNone ? owner(each.function) : object_name(each.object));
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string owner(Id function) const { return function == kNone ? "-" : facts_.functions[function].name; }
  std::string object_name(Id object) const {
    const Object& each = facts_.objects[object];
    const std::string name = each.name.empty() ? fmt::format("#{}", object) : each.name;
    return each.kind == ObjectKind::stack ? owner(each.function) + "." + name : name;
  }
  static std::string handed_text(const Handed& handed) {
    std::string text = handed.pointer == kNone ? "-" : fmt::format("p{}", handed.pointer);
    text += fmt::format(":{}", handed.bytes);
    if (handed.constant != kAnyOffset) text += fmt::format("={}", handed.constant);
    if (handed.length != kNone) text += fmt::format("#{}", handed.length);
    return text;
  }
  static std::string list_text(const std::vector<Handed>& list) {
    std::string text;
    for (const Handed& each : list) text += (text.empty() ? "" : ", ") + handed_text(each);
    return text;
  }

  void function(size_t id, const Function& f) {
    line("function {} {} {} ({}{}) -> {}{}{}{} {}:{}", id, f.name, name_of(f.linkage), list_text(f.parameters),
         f.variadic ? ", ..." : "", handed_text(f.result), f.address_taken ? " taken" : "", f.started ? " started" : "",
         f.variable_arguments == kNone ? "" : fmt::format(" ...=p{}", f.variable_arguments), f.place.file,
         f.place.line);
  }

  void object(size_t id, const Object& o) {
    line("object {} {} {} {} {} bytes{}{} {}:{}", id, name_of(o.kind), object_name(static_cast<Id>(id)),
         name_of(o.linkage), o.size, o.constant ? " constant" : "", o.thread_local_ ? " thread" : "", o.place.file,
         o.place.line);
  }

  void flow(const Flow& f) {
    const std::string where = owner(f.function);
    switch (f.kind) {
      case FlowKind::address:
        return line("flow {}: p{} = &{}{}", where, f.to, object_name(f.object), offset_text(f.offset));
      case FlowKind::copy:
        return line("flow {}: p{} = p{}{}{}", where, f.to, f.from, offset_text(f.offset),
                    f.stride ? fmt::format(" (stride {}, span {})", f.stride, f.span) : "");
      case FlowKind::load: return line("flow {}: p{} = *p{}{}", where, f.to, f.from, offset_text(f.offset));
      case FlowKind::store: return line("flow {}: *p{} = p{}", where, f.to, f.from);
      case FlowKind::move:
        return line("flow {}: *p{} = *p{}, {}", where, f.to, f.from,
                    f.offset == kAnyOffset ? "any length" : fmt::format("{} bytes", f.offset));
      case FlowKind::initial:
        return line("flow {}: *({}{}) = p{} at the start", where, object_name(f.object), offset_text(f.offset), f.from);
    }
  }

  void call(const Call& c) {
    line("call {} block {} line {}: {}({}) -> {}", owner(c.function), c.block, c.line,
         c.callee != kNone ? owner(c.callee) : fmt::format("*p{}{}", c.target, c.shape ? "" : " of any shape"),
         list_text(c.arguments), handed_text(c.result));
  }

  const Facts& facts_;
  std::string text_;
};

}  // namespace

std::string facts_text(const Facts& facts) { return FactsText(facts).run(); }

}  // namespace friday::cut
