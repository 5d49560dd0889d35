#include "core/debug/types.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

namespace friday {
namespace {

using nlohmann::json;

const char* kind_of(const PlanType& type) {
  switch (type.kind) {
    case TypeKind::integer: return type.character ? "char" : "int";
    case TypeKind::boolean: return "bool";
    case TypeKind::enumeration: return "enum";
    case TypeKind::floating: return "float";
    case TypeKind::pointer: return "pointer";
    case TypeKind::reference: return "reference";
    case TypeKind::array: return "array";
    case TypeKind::structure: return "struct";
    case TypeKind::union_: return "union";
    case TypeKind::function: return "function";
    case TypeKind::void_: return "void";
    case TypeKind::other: return "other";
  }
  return "other";
}

const char* format_of(PlanType::Float format) {
  switch (format) {
    case PlanType::Float::none: break;
    case PlanType::Float::ieee32: return "ieee32";
    case PlanType::Float::ieee64: return "ieee64";
    case PlanType::Float::ieee128: return "ieee128";
    case PlanType::Float::x87: return "x87";
  }
  return "none";
}

}  // namespace

uint32_t TypeRegistry::intern(std::string text, std::vector<uint32_t> refers, uint64_t size, std::string name,
                              Truth truth) {
  auto [it, fresh] = ids_.try_emplace(text, static_cast<uint32_t>(entries_.size() + 1));
  if (fresh) entries_.push_back(Entry{std::move(text), std::move(refers), size, std::move(name), truth});
  return it->second;
}

TypeRegistry::Truth TypeRegistry::truth_in(const PlanType& type) {
  switch (type.kind) {
    case TypeKind::integer:
    case TypeKind::boolean:
    case TypeKind::enumeration:
    case TypeKind::pointer:
    case TypeKind::reference: return Truth::bytes;
    case TypeKind::floating:
      switch (type.format) {
        case PlanType::Float::ieee32: return Truth::ieee32;
        case PlanType::Float::ieee64: return Truth::ieee64;
        case PlanType::Float::ieee128: return Truth::ieee128;
        case PlanType::Float::x87: return Truth::x87;
        default: return Truth::none;
      }
    case TypeKind::array:
    case TypeKind::function: return Truth::always;  // converted to its address
    case TypeKind::structure: return type.standard == "atomic" && type.size <= 8 ? Truth::bytes : Truth::none;
    default: return Truth::none;
  }
}

std::optional<bool> TypeRegistry::truth_of(uint32_t id, std::span<const std::byte> value) const {
  // A floating-point number is 0 whatever its sign, the highest bit. Of the 16 bytes of an x87 number, 10 are used.
  const auto number = [&](size_t bytes) {
    bytes = std::min(bytes, value.size());
    for (size_t i = 0; i < bytes; i++)
      if ((value[i] & (i + 1 == bytes ? std::byte{0x7f} : std::byte{0xff})) != std::byte{0}) return true;
    return false;
  };
  switch (entries_.at(id - 1).truth) {
    case Truth::none: return std::nullopt;
    case Truth::always: return true;
    case Truth::bytes: return std::ranges::any_of(value, [](std::byte b) { return b != std::byte{0}; });
    case Truth::ieee32: return number(4);
    case Truth::ieee64: return number(8);
    case Truth::ieee128: return number(16);
    case Truth::x87: return number(10);
  }
  return std::nullopt;
}

uint32_t TypeRegistry::add_forward(const ExpressionPlan& plan, const PlanType& type) {
  json layout = json::array();
  for (const auto& field : type.fields)
    if (field.offset)
      layout.push_back({field.name, *field.offset, plan.types.at(field.type).name, plan.types.at(field.type).size});
  json entry = {{"kind", "forward"}, {"name", type.name}, {"size", type.size}, {"layout", std::move(layout)}};
  return intern(entry.dump(-1, ' ', false, json::error_handler_t::replace), {}, type.size);
}

uint32_t TypeRegistry::add(Walk& walk, uint32_t index) {
  if (auto known = walk.done.find(index); known != walk.done.end()) return known->second;
  const PlanType& type = walk.plan.types.at(index);
  if (!walk.open.insert(index).second) return add_forward(walk.plan, type);
  json entry = {{"kind", kind_of(type)}, {"name", type.name}, {"size", type.size}};
  if (type.plain != type.name) entry["plain"] = type.plain;
  std::vector<uint32_t> refers;
  auto refer = [&](uint32_t id) {
    refers.push_back(id);
    return id;
  };
  switch (type.kind) {
    case TypeKind::integer:
    case TypeKind::enumeration:
      entry["signed"] = type.is_signed;
      if (type.kind == TypeKind::enumeration) {
        entry["values"] = json::array();
        for (const auto& [name, value] : type.enumerators) entry["values"].push_back({name, value});
      }
      break;
    case TypeKind::pointer:
    case TypeKind::reference: {
      // Only the name and size of the target, and whether it is character data, are known. That suffices to read text
      // through a char*.
      json target = {{"kind", type.character ? "char" : "void"},
                     {"name", type.target},
                     {"size", type.character ? type.target_size : 0}};
      entry["target"] = refer(intern(target.dump(), {}, type.target_size));
      break;
    }
    case TypeKind::floating: entry["format"] = format_of(type.format); break;
    case TypeKind::array:
      entry["element"] = refer(add(walk, type.element));
      entry["count"] = type.count;
      break;
    case TypeKind::structure:
    case TypeKind::union_:
      entry["fields"] = json::array();
      for (const auto& field : type.fields) {
        if (!field.offset) continue;  // a virtual base class, which only gdb can find
        json f = {{"name", field.name}, {"type", refer(add(walk, field.type))}, {"offset", *field.offset}};
        if (field.bits) f["bit_offset"] = field.bit, f["bit_size"] = field.bits;
        if (field.base_class) f["base"] = true;
        entry["fields"].push_back(std::move(f));
      }
      if (!type.standard.empty()) entry["standard"] = type.standard;
      if (type.item) entry["item"] = refer(add(walk, *type.item));
      if (type.shift) entry["shift"] = *type.shift;
      break;
    default: break;
  }
  const uint32_t id = intern(entry.dump(-1, ' ', false, json::error_handler_t::replace), std::move(refers), type.size,
                             type.name, truth_in(type));
  walk.open.erase(index);
  walk.done[index] = id;
  return id;
}

std::string TypeRegistry::table(uint32_t id) const {
  if (id == 0 || id > entries_.size()) return {};
  std::set<uint32_t> wanted{id};
  std::vector<uint32_t> work{id};
  std::string text = "{\"types\":{";
  bool first = true;
  while (!work.empty()) {
    const uint32_t now = work.back();
    work.pop_back();
    text += fmt::format("{}\"{}\":{}", first ? "" : ",", now, entries_[now - 1].json);
    first = false;
    for (uint32_t next : entries_[now - 1].refers)
      if (wanted.insert(next).second) work.push_back(next);
  }
  return text + "}}";
}

}  // namespace friday
