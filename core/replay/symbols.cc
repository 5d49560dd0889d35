#include "core/replay/symbols.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "core/base/memory_map.h"
#include "core/replay/confined_work.h"
#include "core/replay/node.h"

namespace friday {
namespace {

struct End {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

std::string base_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// libdw's standard callback may ask a debuginfod server on the network, which a report must not do.
int find_local_debug_information(Dwfl_Module* module, void** user, const char* name, Dwarf_Addr base, const char* file,
                                 const char* link, GElf_Word crc, char** found) {
  return dwfl_build_id_find_debuginfo(module, user, name, base, file, link, crc, found);
}

const Dwfl_Callbacks kCallbacks = {dwfl_build_id_find_elf, find_local_debug_information, dwfl_offline_section_address,
                                   nullptr};

// What is known of a thread and of the files that are mapped in its process, before any of these files is read.
struct Facts {
  struct Module {
    std::string name, path;
    uint64_t low = 0;
  };
  std::vector<Module> modules;
  user_regs_struct registers{};
};

// Looks up symbols and unwinds, in a process that is confined: the files are a stranger's.
class Symbols {
 public:
  Symbols(const Facts& facts, const Ask& ask) : facts_(facts), ask_(ask), dwfl_(dwfl_begin(&kCallbacks)) {
    if (!dwfl_) return;
    dwfl_report_begin(dwfl_.get());
    for (const Facts::Module& each : facts.modules)
      dwfl_report_elf(dwfl_.get(), each.name.c_str(), each.path.c_str(), -1, each.low, false);
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
  }

  CodePlace place(uint64_t address, uint64_t look_up) {
    CodePlace found;
    found.address = address;
    Dwfl_Module* module = dwfl_ ? dwfl_addrmodule(dwfl_.get(), look_up) : nullptr;
    if (!module) return found;
    found.module = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    Dwarf_Addr bias = 0;
    if (dwfl_module_getelf(module, &bias)) found.module_offset = address - bias;
    GElf_Off offset = 0;
    GElf_Sym symbol;
    if (const char* name = dwfl_module_addrinfo(module, look_up, &offset, &symbol, nullptr, nullptr, nullptr)) {
      found.function = demangled(name);
      found.offset = offset + (address - look_up);
    }
    if (Dwfl_Line* line = dwfl_module_getsrc(module, look_up))
      if (const char* file = dwfl_lineinfo(line, nullptr, &found.line, nullptr, nullptr, nullptr)) found.file = file;
    return found;
  }

  std::vector<CodePlace> chain(uint64_t site, size_t most) {
    std::vector<CodePlace> places;
    const uint64_t innermost = site ? site : facts_.registers.rip;
    places.push_back(place(innermost, innermost));
    if (!dwfl_) return places;
    static constexpr Dwfl_Thread_Callbacks kThread = {next_thread,   nullptr, read_memory,
                                                      set_registers, nullptr, nullptr};
    if (!dwfl_attach_state(dwfl_.get(), nullptr, kPid, &kThread, this)) return places;
    struct Collect {
      Symbols& symbols;
      std::vector<CodePlace>& places;
      size_t most;
      bool first = true;
    } collect{*this, places, most};
    dwfl_getthread_frames(
        dwfl_.get(), kPid,
        [](Dwfl_Frame* frame, void* argument) {
          auto& c = *static_cast<Collect*>(argument);
          Dwarf_Addr pc = 0;
          bool activation = false;
          if (!dwfl_frame_pc(frame, &pc, &activation) || c.places.size() >= c.most)
            return static_cast<int>(DWARF_CB_ABORT);
          if (!std::exchange(c.first, false) && pc) c.places.push_back(c.symbols.place(pc, activation ? pc : pc - 1));
          return static_cast<int>(DWARF_CB_OK);
        },
        &collect);
    return places;
  }

 private:
  static constexpr pid_t kPid = 1;  // any number: libdw only passes it back

  static std::string demangled(const char* name) {
    int status = 0;
    std::unique_ptr<char, decltype(&free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), free);
    return status == 0 && text ? text.get() : name;
  }

  static pid_t next_thread(Dwfl*, void* argument, void** thread) {
    if (*thread) return 0;
    *thread = argument;
    return kPid;
  }
  // The process cannot read the node's memory, so it asks.
  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* argument) {
    const std::string answer =
        static_cast<Symbols*>(argument)->ask_({reinterpret_cast<const char*>(&address), sizeof address});
    if (answer.size() != sizeof *word) return false;
    memcpy(word, answer.data(), sizeof *word);
    return true;
  }
  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const user_regs_struct& r = static_cast<Symbols*>(argument)->facts_.registers;
    // In the order of DWARF register numbers (System V ABI, AMD64 supplement, figure 3.36).
    const Dwarf_Word words[17] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    return dwfl_thread_state_registers(thread, 0, 17, words);
  }

  const Facts& facts_;
  const Ask& ask_;
  std::unique_ptr<Dwfl, End> dwfl_;
};

// The files that are mapped in the node's process. They are copies that are named by their hash; the trace has the
// names that the program used.
std::vector<Facts::Module> modules_of(ReplayNode& node) {
  std::map<std::string, std::string> names;
  for (const ReplayNode* each = &node; each; each = each->parent())
    for (RecordCursor cursor = each->reader().records(); cursor.next();)
      if (const auto* module = cursor.record().module()) {
        Uuid file;
        memcpy(file.data(), module->file, file.size());
        names.try_emplace(hex_text(file), base_name(bounded_text(module->path, sizeof module->path)));
      }
  std::vector<Facts::Module> modules;
  const auto maps = read_memory_map(memory_directory(node.process().pid()));
  if (!maps) return modules;
  for (const auto& [low, high, protection, shared, offset, device, inode, path] : *maps) {
    if (!path.starts_with('/') || offset != 0) continue;
    const auto name = names.find(base_name(path));
    if (name == names.end() || (!modules.empty() && path == modules.back().path)) continue;
    modules.push_back({name->second, path, low});
  }
  return modules;
}

// Bytes of a name that are kept: those of a stranger's file may be of any length.
constexpr size_t kLongestName = 2048;

nlohmann::json to_json(const CodePlace& place) {
  return {
      place.address,       place.function.substr(0, kLongestName), place.offset, place.module.substr(0, kLongestName),
      place.module_offset, place.file.substr(0, kLongestName),     place.line};
}

// What the process has told, which may be anything. Empty if it is no list of places.
std::vector<CodePlace> places_in(const std::string& text) {
  const auto told = nlohmann::json::parse(text, nullptr, false);
  try {
    std::vector<CodePlace> places;
    for (const auto& each : told)
      places.push_back({each.at(0).get<uint64_t>(), each.at(1), each.at(2).get<uint64_t>(), each.at(3),
                        each.at(4).get<uint64_t>(), each.at(5), each.at(6).get<int>()});
    return places;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace

std::string text(const CodePlace& place) {
  if (place.module.empty()) return fmt::format("{:#x}", place.address);
  std::string text = place.function.empty() ? fmt::format("{}+{:#x}", place.module, place.module_offset)
                                            : fmt::format("{}+{:#x} in {}", place.function, place.offset, place.module);
  if (!place.file.empty()) text += fmt::format(", {}:{}", place.file, place.line);
  return text;
}

std::vector<CodePlace> call_chain(ReplayNode& node, ThreadId thread, uint64_t site, size_t most) {
  constexpr std::chrono::seconds kLongest{30};  // large programs take seconds
  const auto registers = node.registers(thread);
  if (!registers) return {};
  const Facts facts{modules_of(node), *registers};
  const auto work = [&](const Ask& ask) {
    nlohmann::json places = nlohmann::json::array();
    for (const CodePlace& place : Symbols(facts, ask).chain(site, most)) places.push_back(to_json(place));
    return places.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto read = [&](std::string_view question) {
    uint64_t address = 0, word = 0;
    if (question.size() != sizeof address) return std::string();
    memcpy(&address, question.data(), sizeof address);
    if (!node.read(Addr{address}, std::as_writable_bytes(std::span(&word, 1)))) return std::string();
    return std::string(reinterpret_cast<const char*>(&word), sizeof word);
  };
  if (auto told = run_confined(work, read, kLongest))
    if (auto places = places_in(*told); !places.empty()) return places;
  CodePlace alone;  // of files that cannot be read, or of a damaged one
  alone.address = site ? site : registers->rip;
  return {alone};
}

}  // namespace friday
