// Places in the code of a program: where a breakpoint stands, what line an instruction belongs to. Asked once a
// program, of whichever gdb knows it, and valid for all nodes of it.
#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "core/debug/debugger.h"
#include "core/mi/value.h"
#include "core/rsp/libraries.h"

namespace friday {
namespace {

// "function at file:line" of an entry of -friday-locate or -friday-source.
std::string text_of(const nlohmann::json& entry) {
  std::string text = entry["function"].is_string() ? entry["function"].get<std::string>() : "";
  if (entry["file"].is_string() && entry["line"].is_number()) {
    const std::string file = entry["file"];
    text +=
        fmt::format("{}{}:{}", text.empty() ? "" : " at ", file.substr(file.rfind('/') + 1), entry["line"].get<int>());
  }
  return text;
}

// Whether a location means the same wherever gdb stands: not an address, nor a line of the file that was shown last.
bool stands_alone(const std::string& location) {
  return !location.empty() && (isalpha(static_cast<unsigned char>(location[0])) || location[0] == '_' ||
                               location[0] == ':' || location[0] == '/');
}

// The files of the libraries that the loader has loaded, in its order; empty when it says nothing. One without a file,
// as the kernel's own (vdso(7)), is told by its name: where it lies differs between the nodes of one program.
std::string libraries_of(ReplayNode& node, const Layout& layout) {
  std::string list;
  auto loaded = loaded_libraries(node);
  if (!loaded) return list;
  for (const LoadedLibrary& each : loaded->libraries) {
    const auto place = layout.place(each.dynamic);
    list += place ? fmt::format("{} ", place->first) : each.name + " ";
  }
  return list;
}

}  // namespace

// The node's context with layout and program as of now.
Result<Debugger::NodeContext*> Debugger::placed(NodeId id) {
  FRIDAY_TRY(node, session_->readable(id));
  NodeContext& s = state(id);
  if (s.program && s.layout_epoch == focus_.epoch()) return &s;
  FRIDAY_TRY(layout, Layout::of(node->process().pid()));
  s.layout_epoch = focus_.epoch();
  if (s.program && layout.key() == s.layout.key() && (!s.loading || s.program == &s.unshared)) return &s;
  s.forget_code();
  s.layout = std::move(layout);
  if (s.loading) {
    s.unshared = Program();
    s.program = &s.unshared;
  } else {
    // The order decides which one of two variables of one name gdb means.
    s.program = &programs_[fmt::format("{}\n{}", s.layout.key(), libraries_of(*node, s.layout))];
  }
  return &s;
}

// A gdb that knows the node's program, if possible one that is connected already, and where the program stands there.
Result<std::pair<GdbLink*, const Layout*>> Debugger::knowing_link(NodeId id) {
  FRIDAY_TRY(own, placed(id));
  // While a node starts no other is served.
  if (!gdbs_.serves_only() && !gdbs_.is_connected(id))
    for (auto& [other, s] : states_) {
      if (!gdbs_.is_connected(other) || s.program != own->program || !placed(other) || s.program != own->program)
        continue;
      FRIDAY_TRY(l, gdbs_.connect(other));
      return std::pair{l, &s.layout};
    }
  FRIDAY_TRY(l, gdbs_.connect(id));
  return std::pair{l, &own->layout};
}

// `anywhere`: whichever gdb knows the program may be asked.
Result<std::vector<CodeLocation>> Debugger::ask_locations(NodeId id, const std::string& command, bool anywhere) {
  std::pair<GdbLink*, const Layout*> asked;
  if (anywhere) {
    FRIDAY_TRY(found, knowing_link(id));
    asked = found;
  } else {
    FRIDAY_TRY(own, placed(id));
    FRIDAY_TRY(l, gdbs_.connect(id));
    asked = {l, &own->layout};
  }
  FRIDAY_TRY(answer, asked.first->ask("-friday-locate " + command, gdbs_));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded() || json.empty())
    return fail(ErrorCode::not_found, "node {}: no location for {}", id, command);
  std::vector<CodeLocation> list;
  for (const auto& entry : json) {
    if (!entry["address"].is_number()) continue;
    const uint64_t address = entry["address"];
    list.push_back({asked.second->place(address), address, text_of(entry)});
  }
  return list;
}

// Where a breakpoint at a location stands.
Result<std::vector<CodeLocation>> Debugger::locate(NodeId id, const std::string& location) {
  return stands_alone(location) ? locate_once(id, mi_quote(location)) : ask_locations(id, mi_quote(location), false);
}

// Where a variable of a function comes into being; `variable` is the beginning of an expression.
Result<std::vector<CodeLocation>> Debugger::locate_local(NodeId id, const std::string& function,
                                                         const std::string& variable) {
  const auto end = std::ranges::find_if_not(variable, [](unsigned char c) { return isalnum(c) || c == '_'; });
  return locate_once(id, fmt::format("-local {} {}", mi_quote(function), mi_quote(std::string(variable.begin(), end))));
}

Result<std::vector<CodeLocation>> Debugger::locate_once(NodeId id, const std::string& command) {
  FRIDAY_TRY(s, placed(id));
  Program& program = *s->program;
  if (auto known = program.locations.find(command); known != program.locations.end()) return known->second;
  auto asked = ask_locations(id, command, true);
  // What gdb refused is refused for all; that it died, or was interrupted, says nothing of the location.
  const bool keep = asked ? std::all_of(asked->begin(), asked->end(), [](const auto& l) { return l.place.has_value(); })
                          : asked.error().code == ErrorCode::bad_input || asked.error().code == ErrorCode::not_found;
  if (keep) program.locations.insert_or_assign(command, asked);
  return asked;
}

Result<std::string> Debugger::ask_source(NodeId id, uint64_t pc) {
  FRIDAY_TRY(own, placed(id));
  const auto place = own->layout.place(pc);
  if (place)
    if (auto known = own->program->sources.find(*place); known != own->program->sources.end()) return known->second;
  FRIDAY_TRY(asked, knowing_link(id));
  FRIDAY_TRY(answer,
             asked.first->ask(fmt::format("-friday-source {:#x}", place ? asked.second->address(*place) : pc), gdbs_));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded() || json.empty()) return std::string();
  std::string text = text_of(json[0]);
  if (place) own->program->sources[*place] = text;
  return text;
}

std::string Debugger::location(NodeId id, uint64_t pc) {
  auto text = ask_source(id, pc);
  return text && !text->empty() ? *text : fmt::format("{:#x}", pc);
}

}  // namespace friday
