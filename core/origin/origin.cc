#include "core/origin/origin.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <span>
#include <tuple>
#include <utility>

#include "core/stop/registers.h"
#include "core/stop/vector_store.h"
#include "core/trace/calls.h"
#include "core/trace/pack.h"

namespace friday {
namespace {

using How = Hop::How;

constexpr StopPointId kOriginId{~1u};  // of the watch of the bytes that are followed

constexpr int kMostOmitted = 16;  // writes of a few bytes that are passed over for the sake of the others

constexpr uint64_t kMostInstructions = 200'000;  // for one answer; each takes some 30 us
constexpr size_t kCopySteps = 200;               // that are looked at, at least, for the other moves of a copy
constexpr uint64_t kMostBytes = 4096;            // that are followed together

// The bytes of a register.
Result<std::vector<std::byte>> register_bytes(ReplayNode& node, ThreadId thread, const user_regs_struct& registers,
                                              const Bytes& bytes) {
  std::vector<std::byte> value(bytes.size);
  if (bytes.in == Bytes::In::general) {
    const uint64_t whole = general_register(registers, static_cast<unsigned>(bytes.low / 8));
    std::memcpy(value.data(), reinterpret_cast<const char*>(&whole) + bytes.low % 8, bytes.size);
    return value;
  }
  std::array<std::byte, 64> whole{};
  FRIDAY_TRY(state, node.extended_state(thread));
  const uint64_t first = bytes.low % 64;
  if (!vector_register(state, static_cast<unsigned>(bytes.low / 64), first + bytes.size, whole))
    return fail(ErrorCode::unsupported, "this processor does not show {}", text_of(bytes));
  std::copy_n(whole.begin() + static_cast<ptrdiff_t>(first), bytes.size, value.begin());
  return value;
}

}  // namespace

const char* name_of(Hop::How how) {
  switch (how) {
    case How::copied: return "copied";
    case How::computed: return "computed";
    case How::constant: return "constant";
    case How::received: return "received";
    case How::sent: return "sent";
    case How::forked: return "forked";
    case How::outside: return "outside";
    case How::begin: return "begin";
    case How::lost: break;
  }
  return "lost";
}

Origin::Origin(Debugger& debugger) : debugger_(debugger), backward_(debugger.backward()) {}

// ---- The way

Result<std::vector<Hop>> Origin::follow(NodeId id, const Bytes& bytes, size_t most, const Bits& bits,
                                        const std::function<void(const Hop&)>& found) {
  FRIDAY_TRY(node, debugger_.focus().started_node(id));
  if (bytes.size == 0 || bytes.size > kMostBytes)
    return fail(ErrorCode::usage, "{} bytes cannot be followed together: 1 to {} can", bytes.size, kMostBytes);
  if (bits.first + uint64_t{bits.count} > 8 * bytes.size)
    return fail(ErrorCode::usage, "{} bytes have no bit {}", bytes.size, bits.first + bits.count - 1);
  FRIDAY_TRY(thread, debugger_.focus().current_thread(id));
  node_ = id;
  thread_ = thread;
  wanted_ = bytes;
  hops_.clear();
  bits_.clear();
  part_at_ = 0;
  part_of_ = bytes.size;
  swapped_ = false;
  mask_.assign(bits.count ? bytes.size : 0, std::byte{});
  for (unsigned bit = bits.first; bit < bits.first + bits.count; bit++) mask_[bit / 8] |= std::byte{1} << bit % 8;
  if (bits.count) bits_ = fmt::format("bits {} to {} of {}: ", bits.first, bits.first + bits.count - 1, 8 * bytes.size);
  left_out_ = 0;
  others_.clear();
  instructions_ = 0;
  found_ = &found;
  FRIDAY_TRY(value, read(bytes));
  value_ = std::move(value);
  for (size_t i = 0; i < mask_.size(); i++) value_[i] &= mask_[i];
  if (bytes.in != Bytes::In::memory && node->state() == NodeState::ended)
    return fail(ErrorCode::node_ended, "node {} has ended, and its registers are followed only while it runs", id);
  for (bool goes_on = true; goes_on && hops_.size() < most;) {
    FRIDAY_TRY(next, go_on());
    goes_on = next;
  }
  return std::move(hops_);
}

Result<bool> Origin::go_on() { return wanted_.in == Bytes::In::memory ? from_memory() : from_register(); }

// Adds a hop at the place where the group stands.
Result<Hop*> Origin::add(How how, Addr pc, const std::string& text) {
  FRIDAY_TRY(mark, backward_.position());
  hops_.push_back({.how = how,
                   .node = node_,
                   .thread = thread_,
                   .mark = mark,
                   .pc = pc,
                   .bytes = wanted_,
                   .value = value_,
                   .part_at = part_at_,
                   .part_of = value_.size() == part_of_ ? 0 : part_of_,
                   .swapped = std::exchange(swapped_, false),
                   .text = std::exchange(bits_, {}) + text,
                   .inputs = std::exchange(others_, {})});
  part_at_ = 0;
  part_of_ = value_.size();
  left_out_ = 0;
  (*found_)(hops_.back());
  return &hops_.back();
}

Result<bool> Origin::end(How how, Addr pc, const std::string& text) {
  FRIDAY_TRY_VOID(add(how, pc, text));
  return false;
}

Result<std::vector<std::byte>> Origin::read(const Bytes& bytes) {
  if (bytes.in != Bytes::In::memory) {
    FRIDAY_TRY(registers, node().registers(thread_));
    return register_bytes(node(), thread_, registers, bytes);
  }
  std::vector<std::byte> value(bytes.size);
  FRIDAY_TRY_VOID(node().read(Addr{bytes.low}, value));
  return value;
}

// Whether these are the bytes that are followed, and no others.
bool Origin::are_followed(std::span<const std::byte> bytes) const {
  if (bytes.size() != value_.size()) return false;
  for (size_t i = 0; i < bytes.size(); i++)
    if ((mask_.empty() ? bytes[i] : bytes[i] & mask_[i]) != value_[i]) return false;
  return true;
}

// Whether the bytes that are followed are those that are there. If not, the way ends.
Result<bool> Origin::check_source() {
  const auto there = read(wanted_);
  if (there && are_followed(*there)) return true;
  return end(How::lost, Addr{},
             fmt::format("not followed further: {} does not hold these bytes here", text_of(wanted_)));
}

// ---- From memory

// Whether a write has changed bits that are followed.
bool Origin::changes_bits(const WatchHit& hit) const {
  if (mask_.empty() || hit.old_bytes.size() != mask_.size() || hit.new_bytes.size() != mask_.size()) return true;
  for (size_t i = 0; i < mask_.size(); i++)
    if (((hit.old_bytes[i] ^ hit.new_bytes[i]) & mask_[i]) != std::byte{}) return true;
  return false;
}

Result<std::optional<DebugStop>> Origin::run_to_write() {
  const NodeId id = node_;
  const WatchRange range{kOriginId, 0, Addr{wanted_.low}, wanted_.size, mask_.empty()};
  Result<void> armed;
  const auto arm = [&](ReplayNode& node) {
    if (node.id() != id) return;
    auto done = node.watches().arm(range, false, true);
    if (!done && done.error().code == ErrorCode::unsupported) done = node.watches().arm(range, true, true);
    if (!done) armed = std::move(done);
  };
  const PastRuns::Wanted writes{[&](const Stop& stop) {
                                  return stop.node == id && stop.kind == Stop::Kind::watch &&
                                         std::ranges::any_of(stop.hits, [&](const WatchHit& hit) {
                                           return hit.id == kOriginId && changes_bits(hit);
                                         });
                                },
                                arm};
  auto found = backward_.run_to_wanted(writes);
  if (!armed) return std::unexpected(armed.error());
  if (found && *found && (*found)->kind == Stop::Kind::interrupt)
    return fail(ErrorCode::interrupted, "the search was interrupted");
  return found;
}

Result<bool> Origin::from_memory() {
  FRIDAY_TRY(write, run_to_write());
  if (!write) return from_start();
  const NodeId writer = write->writer ? write->writer->node : write->node;
  const ThreadId thread = write->writer ? write->writer->thread : write->thread;
  ReplayNode& node = *debugger_.session().find(writer);
  return node.call_site(thread) ? from_call(writer, thread) : from_store(writer, thread);
}

// The address of the followed bytes in another node, which has just stored to them through its own mapping of the
// memory that they share: the pages are the same, so the address differs by whole pages.
static std::optional<uint64_t> address_in_writer(const Instruction& store, const user_regs_struct& before,
                                                 const Bytes& wanted) {
  for (unsigned i = 0; i < store.decoded.operand_count; i++) {
    const auto& operand = store.operand(i);
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
    const uint64_t at = effective_address(store, operand, before);
    const uint64_t page = at & ~uint64_t{4095};
    for (uint64_t low : {page - 4096, page, page + 4096}) {
      const Bytes there{Bytes::In::memory, low + wanted.low % 4096, wanted.size};
      if (there.overlaps({Bytes::In::memory, at, operand.size / 8u})) return there.low;
    }
  }
  return std::nullopt;
}

// The group stands behind an instruction that has written the bytes.
Result<bool> Origin::from_store(NodeId writer, ThreadId thread) {
  FRIDAY_TRY(after, debugger_.session().find(writer)->registers(thread));
  FRIDAY_TRY(stepped, backward_.step(writer, thread));
  const bool is_other = writer != node_;
  node_ = writer;
  thread_ = thread;
  if (!stepped) return end(How::lost, Addr{}, "not followed further: the writing instruction was not found again");
  FRIDAY_TRY(before, node().registers(thread));
  FRIDAY_TRY(instruction, instruction_at(before.rip));
  if (instruction && is_other) {
    const auto address = address_in_writer(*instruction, before, wanted_);
    if (!address)
      return end(How::lost, Addr{before.rip}, "not followed further: where the writer maps this memory is not known");
    wanted_.low = *address;
  }
  const auto pieces = instruction ? pieces_of(*instruction, before, after, wanted_) : std::vector<Piece>{};
  if (pieces.empty())
    return end(How::lost, Addr{before.rip},
               fmt::format("not followed further: written by an instruction that is not understood{}",
                           instruction ? ", " + text_of(*instruction) : ""));
  const bool partly = pieces.size() == 1 && pieces[0].how == Piece::How::copied && pieces[0].part != wanted_;
  if (partly && mask_.empty()) {
    FRIDAY_TRY(followed, from_copy(*instruction, before, after));
    if (followed) return true;
  }
  return take(pieces, *instruction, before);
}

// The group stands before a store of a part of the bytes. If it and the instructions before it have copied more of them
// than it alone, follows these together and returns true.
Result<bool> Origin::from_copy(const Instruction& store, const user_regs_struct& before,
                               const user_regs_struct& after) {
  FRIDAY_TRY(registers, backward_.last_executed(node_, thread_, kCopySteps));
  std::vector<Executed> executed;
  for (const user_regs_struct& each : registers) {
    FRIDAY_TRY(instruction, instruction_at(each.rip));
    executed.push_back({instruction, each});
  }
  executed.push_back({store, before});
  const auto copy = last_copy(executed, after, wanted_);
  if (!copy || what_says_more(copy->part)) return false;
  const auto there = read(copy->source);
  if (!there || !std::ranges::equal(*there, value_of(copy->part))) return false;
  follow_written(copy->part, copy->part);
  FRIDAY_TRY_VOID(add(How::copied, Addr{store.address}, fmt::format("copied from {}", text_of(copy->source))));
  narrow({.part = wanted_, .from = copy->source});
  return true;
}

Result<std::optional<Instruction>> Origin::instruction_at(uint64_t pc) {
  std::array<std::byte, max_instruction_length> code{};
  size_t size = code.size();
  while (size > 0 && !node().read(Addr{pc}, std::span(code).first(size))) size--;  // it may end at the end of its page
  return decode_instruction(Addr{pc}, std::span(code).first(size));
}

// From here on follows where the piece came from.
void Origin::narrow(const Piece& piece) {
  const auto first = static_cast<ptrdiff_t>(piece.part.low - wanted_.low);
  for (auto* bytes : {&value_, &mask_}) {
    if (bytes->empty()) continue;
    *bytes = {bytes->begin() + first, bytes->begin() + first + static_cast<ptrdiff_t>(piece.part.size)};
    if (piece.swapped) std::ranges::reverse(*bytes);
  }
  swapped_ |= piece.swapped;
  wanted_ = piece.from;
}

// From here on follows only this part of the bytes.
void Origin::follow_part(const Bytes& part) {
  part_at_ += part.low - wanted_.low;
  narrow({.part = part, .from = part});
}

// The value of a part of the bytes.
std::span<const std::byte> Origin::value_of(const Bytes& part) const {
  return std::span(value_).subspan(part.low - wanted_.low, part.size);
}

// Whether some of the bits that are followed are in this part of the bytes.
bool Origin::matters(const Bytes& part) const {
  if (mask_.empty()) return true;
  const auto first = mask_.begin() + static_cast<ptrdiff_t>(part.low - wanted_.low);
  return std::any_of(first, first + static_cast<ptrdiff_t>(part.size), [](std::byte b) { return b != std::byte{}; });
}

// Whether a part of the bytes is not all zeros.
bool Origin::carries(const Bytes& part) const {
  return std::ranges::any_of(value_of(part), [](std::byte b) { return b != std::byte{}; });
}

// The bytes below and above those that a write has written.
std::pair<Bytes, Bytes> Origin::around(const Bytes& written) const {
  return {{wanted_.in, wanted_.low, written.low - wanted_.low},
          {wanted_.in, written.high(), wanted_.high() - written.high()}};
}

// The part of the other bytes that is to be followed rather than what a write has written: the one that is not all
// zeros, since that makes the value; if both or none are, the larger one. None if the written part is to be followed.
std::optional<Bytes> Origin::what_says_more(const Bytes& written) const {
  const auto [below, above] = around(written);
  const auto rank = [&](const Bytes& part) { return std::tuple(matters(part), carries(part), part.size); };
  const Bytes& rest = rank(below) >= rank(above) ? below : above;
  if (rest.size == 0 || !matters(rest)) return std::nullopt;
  const bool more = carries(rest) != carries(written) ? carries(rest) : written.size * 2 < wanted_.size;
  return more ? std::optional(rest) : std::nullopt;
}

// Keeps a part that is not followed, for the next hop.
void Origin::set_aside(const Bytes& part, bool written, std::optional<Position> mark) {
  if (part.size == 0 || !matters(part)) return;
  const auto value = value_of(part);
  others_.push_back({.bytes = part,
                     .value = {value.begin(), value.end()},
                     .part_at = part_at_ + part.low - wanted_.low,
                     .part_of = part_of_,
                     .mark = mark,
                     .written = written});
}

// From here on follows only a part of what the write has written, before which the group stands.
void Origin::follow_written(const Bytes& written, const Bytes& part) {
  const auto [below, above] = around(written);
  set_aside(below, false);
  set_aside({wanted_.in, written.low, part.low - written.low}, true);
  set_aside({wanted_.in, part.high(), written.high() - part.high()}, true);
  set_aside(above, false);
  follow_part(part);
}

// If other bytes say more of the value than what the last write has written, follows these from here on. Returns
// whether it does.
Result<bool> Origin::leave_out(const Bytes& written) {
  if (wanted_.in != Bytes::In::memory || left_out_ == kMostOmitted) return false;
  const auto rest = what_says_more(written);
  if (!rest) return false;
  FRIDAY_TRY(mark, backward_.position());
  const auto [below, above] = around(written);
  set_aside(written, true, mark);
  set_aside(*rest == below ? above : below, false, mark);
  follow_part(*rest);
  left_out_++;
  return true;
}

// The group stands before an instruction that writes the bytes, or some of them. Adds the hop.
Result<bool> Origin::take(const std::vector<Piece>& pieces, const Instruction& instruction,
                          const user_regs_struct& before) {
  // The longest piece that is worth following.
  const auto rank = [&](const Piece& piece) {
    return std::tuple(matters(piece.part), carries(piece.part), piece.how != Piece::How::extended, piece.part.size);
  };
  const Piece& piece = *std::ranges::max_element(pieces, {}, rank);
  const Addr pc{instruction.address};
  const bool in_memory = wanted_.in == Bytes::In::memory;
  const Bytes written{wanted_.in, pieces.front().part.low, pieces.back().part.high() - pieces.front().part.low};
  FRIDAY_TRY(left_out, leave_out(written));
  if (left_out) return true;
  if (in_memory) follow_written(written, piece.part);
  else follow_part(piece.part);
  switch (piece.how) {
    case Piece::How::copied: {
      if (in_memory) FRIDAY_TRY_VOID(add(How::copied, pc, fmt::format("copied from {}", text_of(piece.from))));
      narrow(piece);
      if (wanted_.in == Bytes::In::memory && !in_memory && !hops_.empty() && hops_.back().how == How::copied)
        hops_.back().text += fmt::format(", from {}", text_of(wanted_));
      return check_source();
    }
    case Piece::How::computed: {
      FRIDAY_TRY(hop, add(How::computed, pc, fmt::format("computed by {}", text_of(instruction))));
      std::vector<Hop::Input> inputs;
      for (const Bytes& input : inputs_of(instruction, before))
        if (auto value = read(input)) inputs.push_back({input, std::move(*value)});
      hop->inputs.insert(hop->inputs.begin(), inputs.begin(), inputs.end());
      return false;
    }
    case Piece::How::constant: return end(How::constant, pc, fmt::format("the constant of {}", text_of(instruction)));
    case Piece::How::extended:
      return end(How::constant, pc, fmt::format("{} extends a shorter value", text_of(instruction)));
    case Piece::How::recorded:
      return end(How::outside, pc,
                 instruction.decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL
                     ? fmt::format("the result of {}", call_text(static_cast<unsigned>(before.rax)))
                     : fmt::format("the recorded result of {}", text_of(instruction)));
    case Piece::How::unknown: break;
  }
  return end(How::lost, pc, fmt::format("not followed further: what {} writes is not known", text_of(instruction)));
}

// ---- From a register

// The group stands before an instruction of the thread, behind the one that has written the register.
Result<bool> Origin::from_register() {
  for (;;) {
    FRIDAY_TRY(after, node().registers(thread_));
    FRIDAY_TRY(executed, backward_.last_executed(node_, thread_));
    if (executed.empty())
      return end(How::begin, Addr{}, fmt::format("the thread has begun with this in {}", text_of(wanted_)));
    for (size_t i = executed.size(); i-- > 0;) {
      const user_regs_struct& before = executed[i];
      FRIDAY_TRY(instruction, instruction_at(before.rip));
      if (!instruction) {
        FRIDAY_TRY_VOID(backward_.go_to_executed(i));
        return end(How::lost, Addr{before.rip}, "not followed further: an instruction that is not understood");
      }
      const auto pieces = pieces_of(*instruction, before, after, wanted_);
      after = before;
      if (pieces.empty()) continue;
      const bool stays = pieces.size() == 1 && pieces[0].how == Piece::How::copied &&
                         pieces[0].from.in != Bytes::In::memory && pieces[0].part == wanted_;
      if (stays) {
        narrow(pieces[0]);
        continue;
      }
      FRIDAY_TRY_VOID(backward_.go_to_executed(i));
      return take(pieces, *instruction, before);
    }
    instructions_ += executed.size();
    FRIDAY_TRY_VOID(backward_.go_to_executed(0));
    if (instructions_ > kMostInstructions)
      return end(How::lost, Addr{},
                 fmt::format("not followed further: {} was not written in the last {} instructions", text_of(wanted_),
                             instructions_));
  }
}

// ---- From before the node's first write

// Nothing has written the bytes since the node exists.
Result<bool> Origin::from_start() {
  const NodeInfo info = node().info();  // a copy: going elsewhere makes other nodes
  if (info.parent && info.forked && debugger_.session().find(*info.parent)) {
    FRIDAY_TRY(stop, go_to_event(*info.parent, {info.fork_event}));
    node_ = *info.parent;
    thread_ = stop.thread;
    FRIDAY_TRY(holds, check_source());
    if (!holds) return false;
    FRIDAY_TRY_VOID(add(How::forked, stop.pc, "the process had it when it forked"));
    return true;
  }
  FRIDAY_TRY(mappings, node().mappings());
  const auto mapping = std::ranges::find_if(
      mappings, [&](const Mapping& each) { return each.low <= wanted_.low && wanted_.low < each.high; });
  std::string text = "there when the recording of the node began";
  if (mapping != mappings.end() && mapping->stack)
    text += ", on the stack: an argument, a variable of the environment, or written before the first event";
  else if (mapping != mappings.end() && !mapping->path.empty() && is_in_file(*mapping))
    text += fmt::format(", from {} at offset {:#x}", name_of_file(mapping->path),
                        mapping->offset + wanted_.low - mapping->low);
  return end(How::begin, Addr{}, text);
}

// Whether the mapped file has the bytes that are followed. It has other bytes where the loader or the program has
// written before the first event, and none of variables that begin as zero.
bool Origin::is_in_file(const Mapping& mapping) const {
  std::ifstream file(mapping.path, std::ios::binary);
  std::vector<std::byte> bytes(wanted_.size);
  file.seekg(static_cast<std::streamoff>(mapping.offset + wanted_.low - mapping.low));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return file && are_followed(bytes);
}

// The path by which the program knew a mapped file of which the recording has a copy.
std::string Origin::name_of_file(const std::string& path) const {
  const Recording& recording = debugger_.session().recording();
  const std::string copies = recording.files_directory() + "/";
  if (!path.starts_with(copies)) return path;
  const auto names = paths_of_copies(recording);
  const auto known = names.find(path.substr(copies.size()));
  return known == names.end() ? path : known->second;
}

}  // namespace friday
