#include "core/stop/breakpoints.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/stop/pad.h"

namespace friday {

namespace {

constexpr uint64_t reach = 0x7ff00000;  // the range of a 32-bit displacement, minus a margin for the code of one pad

uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// Reads as many bytes at `address` as are readable: an instruction may end at the end of its mapping.
Result<size_t> read_code(NodeControl& node, Addr address, std::span<std::byte> out) {
  if (auto all = node.read_raw(address, out); all) return out.size();
  size_t to_page_end = 4096 - address.value % 4096;
  if (to_page_end >= out.size()) return fail(ErrorCode::bad_address, "cannot read the code at {}", address);
  FRIDAY_TRY_VOID(node.read_raw(address, out.first(to_page_end)));
  return to_page_end;
}

}  // namespace

void Breakpoints::add_pad_area(PadArea area) {
  uint64_t base = (area.base.value + pad_size - 1) / pad_size * pad_size;
  uint64_t lost = base - area.base.value;
  if (area.size < lost + pad_size) return;
  areas_.push_back({.area = {Addr{base}, area.size - lost}, .used = 0, .data = {}});
}

bool Breakpoints::in_pad_area(Addr address) const {
  return std::ranges::any_of(areas_, [&](const Area& each) {
    const uint64_t high = (each.data ? each.data->value + 4096 : each.area.base.value + each.area.size);
    return address.value >= each.area.base.value && address.value < high;
  });
}

// The nearest area with `size` free bytes.
Breakpoints::Area* Breakpoints::area_near(uint64_t address, size_t size) {
  Area* best = nullptr;
  for (Area& each : areas_) {
    if (each.used + size > each.area.size) continue;
    if (!best || distance(each.area.base.value, address) < distance(best->area.base.value, address)) best = &each;
  }
  return best;
}

Result<void> Breakpoints::make_data_page(Area& area) {
  const uint64_t page = (area.area.base.value + area.area.size) / 4096 * 4096 - 4096;
  if (page < area.area.base.value + area.used)
    return fail(ErrorCode::unsupported, "the area for pads at {} is full", area.area.base);
  const uint64_t arguments[] = {page, 4096, PROT_READ | PROT_WRITE};
  FRIDAY_TRY(done, node_.inject(SYS_mprotect, arguments));
  if (done < 0)
    return fail(ErrorCode::io, "cannot make a page of the area for pads writable: {}",
                strerror(static_cast<int>(-done)));
  area.area.size = page - area.area.base.value;
  area.data = Addr{page};
  return {};
}

Breakpoints::Area* Breakpoints::area_for_code(Addr near_to, size_t size) {
  return area_near(near_to.value, (size + pad_size - 1) / pad_size * pad_size + 4096);
}

std::optional<Addr> Breakpoints::data_page_near(Addr near_to, size_t size) {
  const Area* area = area_for_code(near_to, size);
  return area ? area->data : std::nullopt;
}

Result<std::optional<Addr>> Breakpoints::place_code(Addr near_to, size_t size,
                                                    const std::function<std::optional<PadCode>(Addr, Addr)>& build) {
  Area* area = area_for_code(near_to, size);
  if (!area || distance(area->area.base.value + area->used, near_to.value) > reach) return std::optional<Addr>{};
  if (!area->data) FRIDAY_TRY_VOID(make_data_page(*area));
  const Addr place{area->area.base.value + area->used};
  auto code = build(place, *area->data);
  if (!code) return std::optional<Addr>{};
  FRIDAY_CHECK(code->code.size() <= size) << code->code.size() << " bytes near " << near_to.value;
  FRIDAY_TRY_VOID(node_.write_raw(place, code->code));
  const uint64_t used = (code->code.size() + pad_size - 1) / pad_size * pad_size;
  area->used += used;
  pads_[place.value] = Pad{.size = used, .meaning = std::move(code->meaning)};
  return std::optional(place);
}

bool Breakpoints::redirect(std::span<const Instruction> window, Addr code, PatchKind kind) {
  constexpr std::byte jmp{0xe9};
  constexpr size_t jump_length = 5;
  const uint64_t low = window.front().address;
  const auto distance = static_cast<int64_t>(code.value - (low + jump_length));
  if (distance != static_cast<int32_t>(distance)) return false;
  const auto displacement = static_cast<int32_t>(distance);
  PatchWindow bytes{low, kind, {}, {}};
  for (const Instruction& each : window)
    bytes.original.insert(bytes.original.end(), each.code().begin(), each.code().end());
  bytes.patched.assign(bytes.original.size(), int3);  // bytes after the jump are never executed
  bytes.patched[0] = jmp;
  std::memcpy(bytes.patched.data() + 1, &displacement, sizeof displacement);
  const std::vector<std::byte> there = bytes.patched;
  const size_t from = contains(Addr{low}) ? 1 : 0;
  if (!patches_.add_window(std::move(bytes))) return false;
  if (node_.write_raw(Addr{low + from}, std::span(there).subspan(from))) return true;
  patches_.remove_window(Addr{low});
  return false;
}

void Breakpoints::take_back(Addr low, PatchKind kind) {
  const PatchWindow* window = patches_.window_at(low);
  if (!window || window->kind != kind || window->low != low.value) return;
  const std::vector<std::byte> original = window->original;
  const size_t from = contains(low) ? 1 : 0;
  patches_.remove_window(low);
  (void)node_.write_raw(low.plus(static_cast<int64_t>(from)), std::span(original).subspan(from));
}

// Removes a patch of Friday that covers `address`.
void Breakpoints::clear_window(Addr address, bool first_byte_too) {
  const PatchWindow* window = patches_.window_at(address);
  if (window && window->kind == PatchKind::passage && window->low != address.value)
    return take_back(Addr{window->low}, PatchKind::passage);
  if (window && window->kind == PatchKind::watch_store && take_away && (first_byte_too || window->low != address.value))
    take_away(Addr{window->low});
}

Result<void> Breakpoints::write_byte(Addr address, std::byte byte) { return node_.write_raw(address, {&byte, 1}); }

// Whether the program may execute what is there; memory that is not shown (NodeControl::mappings()) counts as code.
// What it only reads and writes must not be changed: no thread stops there, but the program's data would be different.
Result<bool> Breakpoints::is_code(Addr address, bool* is_stack) {
  FRIDAY_TRY(mappings, node_.mappings());
  const auto here = std::ranges::find_if(
      mappings, [&](const Mapping& each) { return each.low <= address.value && address.value < each.high; });
  *is_stack = here != mappings.end() && here->stack;
  return here == mappings.end() || (here->protection & PROT_EXEC) != 0;
}

Result<void> Breakpoints::insert(Addr address, BreakpointOwner owner) {
  if (!contains(address)) {
    bool is_stack = false;
    FRIDAY_TRY(code, is_code(address, &is_stack));
    // A function that gdb calls returns to an address on the stack. That faults by itself, and gdb takes it for the
    // stop.
    if (!code && is_stack && owner.kind == BreakpointOwner::Kind::rsp_client) return {};
    if (!code)
      return fail(ErrorCode::bad_address,
                  "cannot set a breakpoint at {}: the program does not execute what is there. If a function shall "
                  "return to this address, it is not known who has called it",
                  address);
  }
  FRIDAY_TRY_VOID(insert_at(patches_.executed_at(address), owner));
  const auto other = patches_.also_executed_at(address);
  return other ? insert_at(*other, owner) : Result<void>{};
}

Result<void> Breakpoints::insert_at(Addr address, BreakpointOwner owner) {
  if (auto it = sites_.find(address.value); it != sites_.end()) {
    auto& owners = it->second;
    if (std::ranges::find(owners, owner) == owners.end()) owners.push_back(owner);
    return {};
  }
  if (in_pad(address))
    return fail(ErrorCode::unsupported, "cannot set a breakpoint at {}: Friday's own code stands there", address);
  clear_window(address, false);
  std::byte under;
  if (auto read = node_.read_raw(address, {&under, 1}); !read)
    return fail(ErrorCode::bad_address, "cannot set a breakpoint at {}: no code is mapped there", address);
  FRIDAY_TRY_VOID(patches_.add_breakpoint(address, under));
  if (auto written = write_byte(address, int3); !written) {
    patches_.remove_breakpoint(address);
    return fail(ErrorCode::bad_address, "cannot set a breakpoint at {}: {}", address, written.error().message);
  }
  sites_[address.value].push_back(owner);
  passages_[address.value] = {.since = node_.events_done()};
  return {};
}

Result<void> Breakpoints::remove(Addr address, BreakpointOwner owner) {
  auto removed = remove_at(patches_.executed_at(address), owner);
  const auto other = patches_.also_executed_at(address);
  return other && removed ? remove_at(*other, owner) : removed;
}

Result<void> Breakpoints::remove_at(Addr address, BreakpointOwner owner) {
  auto it = sites_.find(address.value);
  if (it == sites_.end()) return {};
  std::erase(it->second, owner);
  if (!it->second.empty()) return {};
  std::byte under = patches_.under_breakpoint(address);
  sites_.erase(it);
  passages_.erase(address.value);
  patches_.remove_breakpoint(address);
  return write_byte(address, under);
}

Result<void> Breakpoints::remove_all(BreakpointOwner owner) {
  std::vector<uint64_t> addresses;
  for (const auto& [address, owners] : sites_)
    if (std::ranges::find(owners, owner) != owners.end()) addresses.push_back(address);
  for (uint64_t address : addresses) FRIDAY_TRY_VOID(remove_at(Addr{address}, owner));
  return {};
}

Result<void> Breakpoints::clear() {
  passages_.clear();
  for (const auto& [address, owners] : std::exchange(sites_, {})) {
    const std::byte under = patches_.under_breakpoint(Addr{address});
    patches_.remove_breakpoint(Addr{address});
    FRIDAY_TRY_VOID(write_byte(Addr{address}, under));
  }
  return {};
}

std::optional<std::span<const BreakpointOwner>> Breakpoints::hit(user_regs_struct& registers) const {
  auto it = sites_.find(registers.rip - 1);
  if (it == sites_.end()) return std::nullopt;
  registers.rip -= 1;
  return it->second;
}

// Reads the instruction at the breakpoint again (less than a microsecond). If it is not the one that the way was chosen
// for, chooses anew: generated code, or code that a user overwrites, changes under a breakpoint.
Result<void> Breakpoints::refresh(Addr address, Code& code) {
  std::array<std::byte, 16> buffer;
  bool decided = code.way != Way::undecided;
  std::span<std::byte> bytes(buffer.data(), decided ? size_t{code.instruction.decoded.length} : buffer.size());
  FRIDAY_TRY(got, read_code(node_, address, bytes));
  bytes = bytes.first(got);
  patches_.hide_breakpoints(address, bytes);
  if (decided && std::ranges::equal(bytes, code.instruction.code())) return {};
  if (decided) {
    code.way = Way::undecided;
    return refresh(address, code);
  }
  auto instruction = decode_instruction(address, bytes);
  if (!instruction) {  // let the processor raise the fault
    code.way = Way::in_place;
    return {};
  }
  code.instruction = *instruction;
  return choose_way(code);
}

Result<void> Breakpoints::choose_way(Code& code) {
  const Instruction& instruction = code.instruction;
  bool near_immediate = instruction.decoded.operand_width != 16 &&
                        instruction.operand(0).type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
                        instruction.operand(0).imm.is_relative;
  if (near_immediate && instruction.decoded.mnemonic == ZYDIS_MNEMONIC_JMP) {
    code.way = Way::jump;
  } else if (near_immediate && branch_taken(instruction, 0)) {
    code.way = Way::branch;
  } else {
    FRIDAY_TRY(made, make_pad(code));
    code.way = made ? Way::pad : Way::in_place;
  }
  return {};
}

// Builds the pad in the nearest area with room. Returns false if the instruction cannot run there.
Result<bool> Breakpoints::make_pad(Code& code) {
  const ZydisDecodedOperand* relative = rip_operand(code.instruction);
  uint64_t near_to =
      relative ? effective_address(code.instruction, *relative, user_regs_struct{}) : code.instruction.address;
  Area* best = area_near(near_to, pad_size);
  if (!best || (relative && distance(best->area.base.value + best->used, near_to) > reach)) return false;
  uint64_t base = best->area.base.value + best->used;
  auto pad = build_pad(code.instruction, Addr{base});
  if (!pad) return false;
  FRIDAY_CHECK(pad->code.size() <= pad_size) << pad->code.size() << " bytes for " << code.instruction.address;
  if (auto written = node_.write_raw(Addr{base}, pad->code); !written) return false;
  best->used += pad_size;
  pads_[base] = Pad{.size = pad_size, .meaning = std::move(pad->meaning)};
  code.pad = base;
  return true;
}

std::optional<uint64_t> Breakpoints::passage(Addr address) const {
  const auto counted = passages_.find(patches_.executed_at(address).value);
  const uint64_t now = node_.events_done();
  if (counted == passages_.end() || counted->second.since >= now) return std::nullopt;
  return (counted->second.event == now ? counted->second.count : 0) + 1;
}

// Call when a thread goes on from a breakpoint.
void Breakpoints::count_passage(uint64_t address) {
  const auto counted = passages_.find(address);
  if (!counts_passages_ || counted == passages_.end()) return;
  auto& [since, event, count] = counted->second;
  if (const uint64_t now = node_.events_done(); event != now) event = now, count = 0;
  count++;
}

void Breakpoints::uncount_passage(Addr address) {
  const auto counted = passages_.find(address.value);
  if (!counts_passages_ || counted == passages_.end()) return;
  auto& [since, event, count] = counted->second;
  if (event == node_.events_done() && count > 0) count--;
}

Result<StepOver> Breakpoints::step_over(ThreadId thread, user_regs_struct& registers) {
  if (!sites_.contains(registers.rip)) return StepOver::in_registers;
  count_passage(registers.rip);
  Code& code = codes_[registers.rip];
  FRIDAY_TRY_VOID(refresh(Addr{registers.rip}, code));
  switch (code.way) {
    case Way::pad: registers.rip = code.pad; return StepOver::in_registers;
    case Way::jump:
    case Way::branch: {
      bool taken = branch_taken(code.instruction, registers.eflags).value_or(true);
      uint64_t offset = taken ? static_cast<uint64_t>(code.instruction.operand(0).imm.value.s) : 0;
      registers.rip = code.instruction.next() + offset;
      return StepOver::in_registers;
    }
    case Way::in_place:
    case Way::undecided: break;
  }
  FRIDAY_TRY_VOID(node_.set_registers(thread, registers));
  for (;;) {
    user_regs_struct before = registers;
    FRIDAY_TRY(now, node_.registers(thread));
    FRIDAY_TRY_VOID(step_in_place(thread, now));
    FRIDAY_TRY(after, node_.registers(thread));
    registers = after;
    registers.rip = patches_.executed_at(Addr{after.rip}).value;
    // A rep instruction traps after each iteration. If it faults instead, rip and rcx stay as they were.
    bool more = repeats(code.instruction) && registers.rip == before.rip && after.rcx != before.rcx;
    if (!more) return StepOver::stepped;
  }
}

Result<void> Breakpoints::step_one(ThreadId thread) {
  FRIDAY_TRY(registers, node_.registers(thread));
  count_passage(patches_.executed_at(Addr{registers.rip}).value);
  return step_in_place(thread, registers);
}

// step_one(), uncounted, of a thread with these registers.
Result<void> Breakpoints::step_in_place(ThreadId thread, const user_regs_struct& registers) {
  const Addr address = patches_.executed_at(Addr{registers.rip});
  clear_window(address, true);
  if (!contains(address)) return step_clean(thread, registers);
  FRIDAY_TRY_VOID(write_byte(address, patches_.under_breakpoint(address)));
  auto stepped = step_clean(thread, registers);
  auto written = write_byte(address, int3);
  return stepped ? written : stepped;
}

// A single step is visible to the program in two ways (Linux 6.18): pushf stores the trap flag, and popf leaves it set
// in eflags, so that the thread would trap after it is continued. Both effects are undone.
Result<void> Breakpoints::step_clean(ThreadId thread, const user_regs_struct& before) {
  constexpr uint64_t trap_flag = 0x100;
  std::array<std::byte, 2> code{};
  FRIDAY_TRY_VOID(read_code(node_, patches_.executed_at(Addr{before.rip}), code));
  FRIDAY_TRY_VOID(node_.single_step(thread));
  FRIDAY_TRY(after, node_.registers(thread));
  if (before.eflags & trap_flag) return {};  // the program itself had set the trap flag
  constexpr std::byte pushf{0x9c}, operand_16{0x66};
  bool pushed = code[0] == pushf || (code[0] == operand_16 && code[1] == pushf);
  if (pushed && after.rip != before.rip) {
    Addr high_byte = Addr{after.rsp}.plus(1);
    std::byte flags;
    FRIDAY_TRY_VOID(node_.read_raw(high_byte, {&flags, 1}));
    FRIDAY_TRY_VOID(write_byte(high_byte, flags & ~std::byte{trap_flag >> 8}));
  }
  if (!(after.eflags & trap_flag)) return {};
  after.eflags &= ~trap_flag;
  return node_.set_registers(thread, after);
}

Result<void> Breakpoints::remove_pad_areas() {
  for (const Area& area : std::exchange(areas_, {})) {
    const uint64_t empty[] = {area.area.base.value, area.area.size, MADV_DONTNEED};
    const uint64_t closed[] = {area.area.base.value, area.area.size, PROT_NONE};
    FRIDAY_TRY_VOID(node_.inject(SYS_madvise, empty));
    FRIDAY_TRY_VOID(node_.inject(SYS_mprotect, closed));
  }
  pads_.clear();
  codes_.clear();
  return {};
}

std::map<uint64_t, Breakpoints::Pad>::const_iterator Breakpoints::pad_of(uint64_t pc) const {
  auto it = pads_.upper_bound(pc);
  if (it == pads_.begin()) return pads_.end();
  --it;
  return pc < it->first + it->second.size ? it : pads_.end();
}

bool Breakpoints::in_pad(Addr pc) const { return pad_of(pc.value) != pads_.end(); }

std::optional<Addr> Breakpoints::program_address(Addr pc) const {
  auto it = pad_of(pc.value);
  if (it == pads_.end()) return patches_.program_address(pc);
  for (auto [offset, meaning] : it->second.meaning)
    if (it->first + offset == pc.value) return patches_.program_address(Addr{meaning});
  return std::nullopt;
}

Result<void> Breakpoints::leave_pad(ThreadId thread) {
  for (;;) {
    FRIDAY_TRY(registers, node_.registers(thread));
    if (auto address = program_address(Addr{registers.rip})) {
      clear_window(*address, false);  // the displaced instructions are in their original place again
      if (address->value == registers.rip) return {};
      registers.rip = address->value;
      return node_.set_registers(thread, registers);
    }
    uint64_t before = registers.rip;
    FRIDAY_TRY_VOID(step_clean(thread, registers));
    FRIDAY_TRY(after, node_.registers(thread));
    if (after.rip == before)
      return fail(ErrorCode::unsupported, "thread {} faulted in the middle of a call that a breakpoint displaced",
                  thread.value);
  }
}

std::vector<Addr> Breakpoints::places_of(BreakpointOwner owner) const {
  std::vector<Addr> places;
  for (const auto& [address, owners] : sites_)
    if (std::ranges::find(owners, owner) != owners.end()) places.push_back(patches_.program_address(Addr{address}));
  return places;
}

void Breakpoints::forget_gone(Addr low, Addr high) {
  const auto is_intact = [&](const PatchWindow& window) {
    std::vector<std::byte> there(window.patched.size());
    const bool read = node_.read_raw(Addr{window.low}, there).has_value();
    patches_.hide_breakpoints(Addr{window.low}, there);
    return read && there == window.patched;
  };
  for (auto it = sites_.begin(); it != sites_.end();) {
    std::byte there{};
    const Addr meant = patches_.program_address(Addr{it->first});
    const bool concerned = meant.value >= low.value && meant.value < high.value;
    const PatchWindow* moved_by = concerned && meant.value != it->first ? patches_.window_at(meant) : nullptr;
    const bool stays =
        !concerned || (moved_by ? is_intact(*moved_by) : node_.read_raw(Addr{it->first}, {&there, 1}) && there == int3);
    if (stays) {
      ++it;
      continue;
    }
    patches_.remove_breakpoint(Addr{it->first});
    passages_.erase(it->first);
    it = sites_.erase(it);
  }
  for (const PatchWindow& window : patches_.windows_between(low, high))
    if (!is_intact(window)) patches_.remove_window(Addr{window.low});
  std::erase_if(codes_, [&](const auto& each) { return each.first >= low.value && each.first < high.value; });
}

std::pair<uint64_t, uint64_t> Breakpoints::bounds() const {
  uint64_t low = ~uint64_t{0}, high = 0;
  for (const auto& [address, owners] : sites_) {
    const bool own =
        std::ranges::all_of(owners, [](const BreakpointOwner& o) { return o.kind == BreakpointOwner::Kind::internal; });
    const uint64_t meant = patches_.program_address(Addr{address}).value;
    if (!own) low = std::min(low, meant), high = std::max(high, meant + 1);
  }
  return high ? std::pair{low, high} : std::pair{uint64_t{0}, uint64_t{0}};
}

void Breakpoints::copy_from(const Breakpoints& parent) {
  patches_.copy_from(parent.patches_);
  sites_ = parent.sites_;
  passages_.clear();
  for (const auto& [address, owners] : sites_) passages_[address] = {.since = node_.events_done()};
  codes_ = parent.codes_;
  pads_ = parent.pads_;
  areas_ = parent.areas_;
}

}  // namespace friday
