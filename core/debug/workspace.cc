#include "core/debug/workspace.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>

#include "core/debug/expression_text.h"
#include "core/trace/calls.h"

namespace friday {
namespace {

using shim::kWorkspaceAddress;
constexpr std::string_view kName = "_friday_workspace";

}  // namespace

bool Workspace::is_named_in(const std::string& text) { return find_word(text, kName) != std::string::npos; }

bool Workspace::is_named_at(const std::string& text, size_t position) { return find_word(text, kName) == position; }

bool Workspace::is_needed_by(const std::string& text) {
  return text.find('"') != std::string::npos || is_named_in(text);
}

Result<uint64_t> Workspace::map(ReplayNode& node) {
  Area& area = areas_[node.id()];
  if (area.address) return area.address;
  const uint64_t arguments[] = {
      kWorkspaceAddress, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ull, 0};
  FRIDAY_TRY(mapped, node.inject(SYS_mmap, arguments));
  if (mapped != static_cast<int64_t>(kWorkspaceAddress))
    return fail(ErrorCode::io, "node {}: the workspace cannot be mapped: {}", node.id(),
                errno_text(static_cast<int>(-mapped)));
  area.address = kWorkspaceAddress;
  return area.address;
}

Result<uint64_t> Workspace::stage(NodeId id, std::span<const std::byte> data) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(node->check_goes_on("nothing can be put into its memory"));
  FRIDAY_TRY(base, map(*node));
  Area& area = areas_[id];
  if (area.staged + data.size() + 16 > kSize)
    return fail(ErrorCode::unsupported, "node {}: the arguments of a call need more than the {} KiB of the workspace",
                id, kSize >> 10);
  const uint64_t address = base + kSize + area.staged;
  FRIDAY_TRY_VOID(node->write_raw(Addr{address}, data));
  area.staged += (data.size() + 15) & ~15ull;
  return address;
}

Result<std::string> Workspace::expand(ReplayNode& node, std::string expression) {
  std::string out;
  for (size_t i = 0; i < expression.size(); i++) {
    if (expression[i] == '\'') {
      size_t end = i + 1;
      while (end < expression.size() && expression[end] != '\'') end += expression[end] == '\\' ? 2 : 1;
      out += expression.substr(i, end + 1 - i);
      i = end;
    } else if (expression[i] == '"') {
      size_t end = i + 1;
      while (end < expression.size() && expression[end] != '"') end += expression[end] == '\\' ? 2 : 1;
      std::string text = unescape(std::string_view(expression).substr(i + 1, std::min(end, expression.size()) - i - 1));
      text += '\0';
      FRIDAY_TRY(address, stage(node.id(), std::as_bytes(std::span(text.data(), text.size()))));
      out += fmt::format("((char*){:#x})", address);
      i = end;
    } else {
      out += expression[i];
    }
  }
  if (find_word(out, kName) == std::string::npos) return out;
  FRIDAY_TRY(base, map(node));
  for (size_t at; (at = find_word(out, kName)) != std::string::npos;) {
    // After a cast to a pointer, substitute the address as char*, because gdb cannot compile casts of pointers to
    // arrays to bytecode. Elsewhere the workspace is an array of char.
    const size_t sign = out.find_last_not_of(' ', at - 1);
    const size_t from = at > 0 && sign != std::string::npos && out[sign] == '&' ? sign : at;
    const std::string_view before = std::string_view(out).substr(0, from);
    const size_t end = before.find_last_not_of(' ');
    const bool cast = end != std::string_view::npos && end > 0 && before[end] == ')' &&
                      before[before.find_last_not_of(' ', end - 1)] == '*';
    if (cast) out.replace(from, at + kName.size() - from, fmt::format("((char*){:#x})", base));
    else out.replace(at, kName.size(), fmt::format("(*(char(*)[{}]){:#x})", kSize, base));
  }
  return out;
}

}  // namespace friday
