#include "core/rsp/libraries.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#include "core/rsp/text.h"

namespace friday {
namespace {

constexpr size_t kLongestPath = 4096;

}  // namespace

std::string read_text(NodeControl& node, uint64_t address, size_t most) {
  std::string text;
  char piece[64];
  while (text.size() < most) {
    const size_t size = sizeof piece - (address + text.size()) % sizeof piece;  // up to the end of the page
    if (!node.read(Addr{address + text.size()}, std::as_writable_bytes(std::span(piece, size)))) return text;
    const std::string_view here(piece, size);
    const size_t end = here.find('\0');
    text += here.substr(0, end);
    if (end != std::string_view::npos) break;
  }
  return text;
}

Result<uint64_t> find_r_debug(NodeControl& node) {
  FRIDAY_TRY(auxv, node.auxv());
  uint64_t headers = 0, count = 0;
  for (size_t i = 0; i + sizeof(Elf64_auxv_t) <= auxv.size(); i += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    memcpy(&entry, &auxv[i], sizeof entry);
    if (entry.a_type == AT_PHDR) headers = entry.a_un.a_val;
    if (entry.a_type == AT_PHNUM) count = entry.a_un.a_val;
  }
  std::optional<uint64_t> base, dynamic;
  for (uint64_t i = 0; i < std::min<uint64_t>(count, 64); ++i) {
    FRIDAY_TRY(header, read_value<Elf64_Phdr>(node, headers + i * sizeof(Elf64_Phdr)));
    if (header.p_type == PT_PHDR) base = headers - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = header.p_vaddr;
  }
  if (!dynamic) return fail(ErrorCode::not_found, "node {}: the program has no dynamic section", node.id());
  for (uint64_t at = base.value_or(0) + *dynamic;; at += sizeof(Elf64_Dyn)) {
    FRIDAY_TRY(entry, read_value<Elf64_Dyn>(node, at));
    if (entry.d_tag == DT_DEBUG && entry.d_un.d_ptr) return entry.d_un.d_ptr;
    if (entry.d_tag == DT_NULL) return fail(ErrorCode::not_found, "node {}: the loader has set no r_debug", node.id());
  }
}

Result<LoadedLibraries> loaded_libraries(NodeControl& node) {
  FRIDAY_TRY(first, find_r_debug(node));
  LoadedLibraries all;
  size_t count = 0;
  // Each namespace has one r_debug; the program is first in the list of the first one.
  for (uint64_t space = first; space && count < kMostLibraries;) {
    FRIDAY_TRY(loader, read_value<r_debug_extended>(node, space));
    for (auto place = reinterpret_cast<uint64_t>(loader.base.r_map); place && count < kMostLibraries; count++) {
      FRIDAY_TRY(library, read_value<link_map>(node, place));
      const auto dynamic = reinterpret_cast<uint64_t>(library.l_ld);
      std::string name = read_text(node, reinterpret_cast<uint64_t>(library.l_name), kLongestPath);
      if (space == first && !library.l_prev) all.program = place;
      else if (!name.empty() && !node.is_fridays(Addr{dynamic}))
        all.libraries.push_back({std::move(name), place, library.l_addr, dynamic, space});
      place = reinterpret_cast<uint64_t>(library.l_next);
    }
    space = loader.base.r_version > 1 ? reinterpret_cast<uint64_t>(loader.r_next) : 0;
  }
  return all;
}

Result<std::string> library_list(NodeControl& node) {
  FRIDAY_TRY(all, loaded_libraries(node));
  std::string list;
  for (const LoadedLibrary& each : all.libraries)
    list += fmt::format("<library name=\"{}\" lm=\"{:#x}\" l_addr=\"{:#x}\" l_ld=\"{:#x}\" lmid=\"{:#x}\"/>",
                        escape_xml(each.name), each.link_map, each.base, each.dynamic, each.space);
  return fmt::format("<library-list-svr4 version=\"1.0\" main-lm=\"{:#x}\">{}</library-list-svr4>", all.program, list);
}

}  // namespace friday
