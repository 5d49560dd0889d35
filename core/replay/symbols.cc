#include "core/replay/symbols.h"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "core/base/memory_map.h"
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

class Symbols {
 public:
  Symbols(ReplayNode& node, ThreadId thread) : node_(node), thread_(thread), dwfl_(dwfl_begin(&kCallbacks)) {
    report_modules();
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
    auto r = node_.registers(thread_);
    if (!r) return places;
    registers_ = *r;
    if (site) places.push_back(place(site, site));
    else places.push_back(place(r->rip, r->rip));
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

  // Tells libdw which files are mapped where. The processes map file copies, which are named by their hash; the trace
  // has the names that the program used.
  void report_modules() {
    if (!dwfl_) return;
    std::map<std::string, std::string> names;
    for (const ReplayNode* node = &node_; node; node = node->parent())
      for (RecordCursor cursor = node->reader().records(); cursor.next();)
        if (const auto* module = cursor.record().module()) {
          Uuid file;
          memcpy(file.data(), module->file, file.size());
          names.try_emplace(hex_text(file), base_name(bounded_text(module->path, sizeof module->path)));
        }
    const auto maps = read_memory_map(memory_directory(node_.process().pid()));
    if (!maps) return;
    dwfl_report_begin(dwfl_.get());
    std::string last;
    for (const auto& [low, high, protection, shared, offset, device, inode, path] : *maps) {
      if (!path.starts_with('/') || offset != 0) continue;
      auto name = names.find(base_name(path));
      if (name == names.end() || path == last) continue;
      last = path;
      dwfl_report_elf(dwfl_.get(), name->second.c_str(), path.c_str(), -1, low, false);
    }
    dwfl_report_end(dwfl_.get(), nullptr, nullptr);
  }

  static pid_t next_thread(Dwfl*, void* argument, void** thread) {
    if (*thread) return 0;
    *thread = argument;
    return kPid;
  }
  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* argument) {
    auto& self = *static_cast<Symbols*>(argument);
    return self.node_.read(Addr{address}, std::as_writable_bytes(std::span(word, 1))).has_value();
  }
  static bool set_registers(Dwfl_Thread* thread, void* argument) {
    const user_regs_struct& r = static_cast<Symbols*>(argument)->registers_;
    // In the order of DWARF register numbers (System V ABI, AMD64 supplement, figure 3.36).
    const Dwarf_Word words[17] = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
    return dwfl_thread_state_registers(thread, 0, 17, words);
  }

  ReplayNode& node_;
  ThreadId thread_;
  user_regs_struct registers_{};
  std::unique_ptr<Dwfl, End> dwfl_;
};

}  // namespace

std::string text(const CodePlace& place) {
  if (place.module.empty()) return fmt::format("{:#x}", place.address);
  std::string text = place.function.empty() ? fmt::format("{}+{:#x}", place.module, place.module_offset)
                                            : fmt::format("{}+{:#x} in {}", place.function, place.offset, place.module);
  if (!place.file.empty()) text += fmt::format(", {}:{}", place.file, place.line);
  return text;
}

std::vector<CodePlace> call_chain(ReplayNode& node, ThreadId thread, uint64_t site, size_t most) {
  return Symbols(node, thread).chain(site, most);
}

}  // namespace friday
