#include "core/stop/patched_bytes.h"

#include <algorithm>

#include "core/base/check.h"

namespace friday {

namespace {

// Calls visit(window byte index, bytes index) for every byte of the window inside [low, low + size).
template <typename Visit>
void for_overlap(const PatchWindow& window, uint64_t low, size_t size, Visit visit) {
  uint64_t from = std::max(window.low, low), to = std::min(window.high(), low + size);
  for (uint64_t at = from; at < to; ++at) visit(at - window.low, at - low);
}

// The first window that can contain `low`. Windows do not overlap, so only the one before lower_bound can.
template <typename Map>
auto first_window(Map& windows, uint64_t low) {
  auto it = windows.upper_bound(low);
  if (it != windows.begin() && std::prev(it)->second.high() > low) --it;
  return it;
}

}  // namespace

Result<void> PatchedBytes::add_window(PatchWindow window) {
  FRIDAY_CHECK(!window.original.empty() && window.original.size() == window.patched.size())
      << "window at " << window.low;
  auto it = first_window(windows_, window.low);
  if (it != windows_.end() && it->second.low < window.high()) {
    const PatchWindow& other = it->second;
    if (other.low == window.low && other.original == window.original && other.patched == window.patched) return {};
    return fail(ErrorCode::unsupported, "cannot patch {} bytes at {:#x}: the patch at {:#x} stands there",
                window.original.size(), window.low, other.low);
  }
  auto breakpoint = breakpoints_.upper_bound(window.low);
  if (breakpoint != breakpoints_.end() && breakpoint->first < window.high())
    return fail(ErrorCode::unsupported, "cannot patch {} bytes at {:#x}: a breakpoint stands at {:#x}; remove it first",
                window.original.size(), window.low, breakpoint->first);
  // A breakpoint on the first byte stays on top of the new window.
  if (auto own = breakpoints_.find(window.low); own != breakpoints_.end()) own->second = window.patched[0];
  if (window.copy) copies_[window.copy] = window.low;
  windows_.emplace(window.low, std::move(window));
  return {};
}

void PatchedBytes::remove_window(Addr low) {
  auto it = windows_.find(low.value);
  if (it == windows_.end()) return;
  if (auto own = breakpoints_.find(low.value); own != breakpoints_.end()) own->second = it->second.original[0];
  copies_.erase(it->second.copy);
  windows_.erase(it);
}

const PatchWindow* PatchedBytes::window_at(Addr address) const {
  auto it = first_window(windows_, address.value);
  return it != windows_.end() && it->second.low <= address.value ? &it->second : nullptr;
}

Addr PatchedBytes::executed_at(Addr address) const {
  const PatchWindow* window = window_at(address);
  if (!window || !window->copy) return address;
  const uint64_t offset = address.value - window->low;
  if (offset < window->copied || (offset == 0 && window->has_prologue)) return address;
  return Addr{window->copy + offset - window->copied};
}

std::optional<Addr> PatchedBytes::also_executed_at(Addr address) const {
  const PatchWindow* before = window_at(Addr{address.value - 1});
  if (!before || !before->copy || !before->continues || before->high() != address.value) return std::nullopt;
  return Addr{before->copy + before->original.size() - before->copied};
}

const PatchWindow* PatchedBytes::copy_of(Addr executed) const {
  auto it = copies_.upper_bound(executed.value);
  if (it == copies_.begin()) return nullptr;
  const PatchWindow& window = windows_.at(std::prev(it)->second);
  return executed.value - window.copy <= window.original.size() - window.copied ? &window : nullptr;
}

Addr PatchedBytes::program_address(Addr executed) const {
  const PatchWindow* window = copy_of(executed);
  return window ? Addr{window->low + window->copied + (executed.value - window->copy)} : executed;
}

bool PatchedBytes::ends_copy(Addr executed) const {
  const PatchWindow* window = copy_of(executed);
  return window && executed.value - window->copy == window->original.size() - window->copied;
}

Result<void> PatchedBytes::add_breakpoint(Addr address, std::byte under) {
  const PatchWindow* window = window_at(address);
  if (window && window->low != address.value)
    return fail(
        ErrorCode::unsupported,
        "cannot set a breakpoint at {}: it is inside the instruction at {:#x}, which Friday has replaced; set it "
        "there, or at the next instruction",
        address, window->low);
  breakpoints_.emplace(address.value, under);
  return {};
}

void PatchedBytes::show_original(Addr address, std::span<std::byte> bytes) const {
  uint64_t high = address.value + bytes.size();
  hide_breakpoints(address, bytes);
  for (auto it = first_window(windows_, address.value); it != windows_.end() && it->first < high; ++it)
    for_overlap(it->second, address.value, bytes.size(),
                [&](size_t of_window, size_t of_bytes) { bytes[of_bytes] = it->second.original[of_window]; });
}

void PatchedBytes::hide_breakpoints(Addr address, std::span<std::byte> bytes) const {
  uint64_t high = address.value + bytes.size();
  for (auto it = breakpoints_.lower_bound(address.value); it != breakpoints_.end() && it->first < high; ++it)
    bytes[it->first - address.value] = it->second;
}

void PatchedBytes::keep_patches(Addr address, std::span<std::byte> bytes) {
  uint64_t high = address.value + bytes.size();
  for (auto it = first_window(windows_, address.value); it != windows_.end() && it->first < high; ++it)
    for_overlap(it->second, address.value, bytes.size(), [&](size_t of_window, size_t of_bytes) {
      it->second.original[of_window] = bytes[of_bytes];
      bytes[of_bytes] = it->second.patched[of_window];
    });
  for (auto it = breakpoints_.lower_bound(address.value); it != breakpoints_.end() && it->first < high; ++it) {
    std::byte& byte = bytes[it->first - address.value];
    it->second = byte;
    byte = int3;
  }
}

void PatchedBytes::copy_from(const PatchedBytes& parent) {
  for (const auto& [low, window] : parent.windows_)
    if (window.kind != PatchKind::call_site) windows_[low] = window;
  breakpoints_ = parent.breakpoints_;
  for (const auto& [address, under] : breakpoints_)
    if (auto window = windows_.find(address); window != windows_.end()) window->second.patched[0] = under;
}

std::vector<PatchWindow> PatchedBytes::windows_between(Addr low, Addr high) const {
  std::vector<PatchWindow> found;
  for (auto it = first_window(windows_, low.value); it != windows_.end() && it->first < high.value; ++it)
    found.push_back(it->second);
  return found;
}

}  // namespace friday
