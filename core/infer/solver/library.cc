#include "core/infer/solver/library.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "core/infer/solver/path.h"

namespace friday::infer {
namespace {

constexpr uint64_t kMostBytes = 64ull << 20;  // that one call may handle
constexpr uint64_t kEndless = ~0ull;
constexpr unsigned kRax = 0, kRcx = 1, kRdx = 2, kRsp = 4, kRsi = 6, kRdi = 7, kR8 = 8, kR11 = 11;

class LibraryFunction {
 public:
  explicit LibraryFunction(Symbolic& symbolic)
      : s_(symbolic),
        x_(symbolic.expressions()),
        memory_(symbolic.machine().memory),
        address_(symbolic.machine().state.guest_RIP) {}

  LibraryResult call(Function function) {
    execute(function);
    if (result_ == LibraryResult::done) leave();
    return result_;
  }

 private:
  void execute(Function function) {
    switch (function) {
      case Function::memcpy:
      case Function::memmove: copy(pointer(kRdi), pointer(kRsi), length(kRdx)), give(pointer(kRdi)); break;
      case Function::mempcpy:
        copy(pointer(kRdi), pointer(kRsi), length(kRdx)), give(pointer(kRdi) + length(kRdx));
        break;
      case Function::memset: fill(pointer(kRdi), byte_argument(kRsi), length(kRdx)), give(pointer(kRdi)); break;
      case Function::memcmp:
      case Function::bcmp: compare(length(kRdx), false, false); break;
      case Function::strcmp: compare(kEndless, true, false); break;
      case Function::strncmp: compare(length(kRdx), true, false); break;
      case Function::strcasecmp: compare(kEndless, true, true); break;
      case Function::strncasecmp: compare(length(kRdx), true, true); break;
      case Function::memchr: find_byte(length(kRdx)); break;
      case Function::rawmemchr: find_byte(kEndless); break;
      case Function::memrchr: find_last(pointer(kRdi), length(kRdx)); break;
      case Function::strlen: give(length_of(pointer(kRdi), kEndless)); break;
      case Function::strnlen: give(length_of(pointer(kRdi), length(kRsi))); break;
      case Function::strchr: find_in_string(true); break;
      case Function::strchrnul: find_in_string(false); break;
      case Function::strrchr: find_last(pointer(kRdi), length_of(pointer(kRdi), kEndless) + 1); break;
      case Function::strcpy: copy_string(pointer(kRdi), false); break;
      case Function::stpcpy: copy_string(pointer(kRdi), true); break;
      case Function::strcat: copy_string(pointer(kRdi) + length_of(pointer(kRdi), kEndless), false); break;
      case Function::strncpy: copy_padded(); break;
      case Function::strspn: give(span(false)); break;
      case Function::strcspn: give(span(true)); break;
      case Function::strpbrk: find_any(); break;
      case Function::memmem: find_bytes(pointer(kRdi), length(kRsi), pointer(kRdx), length(kRcx)); break;
      case Function::strstr:
        find_bytes(pointer(kRdi), length_of(pointer(kRdi), kEndless), pointer(kRsi),
                   length_of(pointer(kRsi), kEndless));
        break;
      default: failed(LibraryResult::too_long);
    }
  }

  Expr argument(unsigned number) { return s_.register_at(offset_of_general(number), 8); }
  uint64_t pointer(unsigned number) { return s_.decide(argument(number), Decision::Kind::assumption, address_); }
  uint64_t length(unsigned number) { return s_.decide(argument(number), Decision::Kind::choice, address_); }
  Expr byte_argument(unsigned number) { return x_.extract(argument(number), 0, 8); }
  Expr number(uint64_t value, int bits) { return x_.constant(value, bits); }
  Expr is(Expr byte, Expr other) { return x_.equal(byte, other); }
  Expr is_nul(Expr byte) { return x_.equal(byte, number(0, 8)); }
  void failed(LibraryResult why) {
    if (result_ == LibraryResult::done) result_ = why;
  }
  bool is_failed() const { return result_ != LibraryResult::done; }
  void give(uint64_t value) { given_ = number(value, 64); }
  void give_expression(Expr value) { given_ = x_.zero_extend(value, 64); }

  // Back to the caller. The registers that the calling convention leaves to the function hold nothing any more.
  void leave() {
    for (unsigned i = kRcx; i <= kR11; ++i) {
      if (i == kRcx || i == kRdx || i == kRsi || i == kRdi || i >= kR8) s_.forget_register(offset_of_general(i), 8);
    }
    for (unsigned i = 0; i < 16; ++i) s_.forget_register(offset_of_vector(i), 32);
    s_.forget_register(offsetof(GuestState, guest_CC_OP), 32);  // the four words of the thunk
    s_.set_register(offset_of_general(kRax), given_);
    GuestState& state = s_.machine().state;
    const uint64_t stack = s_.decide(argument(kRsp), Decision::Kind::assumption, address_);
    Expr target = number(0, 1);
    for (uint64_t i = 0; i < 8; ++i) {
      const Expr byte = s_.byte_at(stack + i);
      if (byte == kNone) return failed(LibraryResult::no_memory);
      target = i == 0 ? byte : x_.concat(byte, target);
    }
    state.guest_RIP = s_.decide(target, Decision::Kind::choice, address_);
    s_.set_register(offset_of_general(kRsp), number(stack + 8, 64));
  }

  Expr byte(uint64_t at) {
    const Expr found = s_.byte_at(at);
    if (found != kNone) return found;
    failed(LibraryResult::no_memory);
    return number(0, 8);
  }

  void copy(uint64_t to, uint64_t from, uint64_t count) {
    if (count == 0) return;
    if (count > kMostBytes) return failed(LibraryResult::too_long);
    std::vector<uint8_t> bytes(count);
    if (!memory_.read(from, bytes)) return failed(LibraryResult::no_memory);
    std::vector<Shadow> shadows;
    if (memory_.shadowed(from, count)) {
      for (uint64_t i = 0; i < count; ++i) shadows.push_back(memory_.shadow_at(from + i));
    }
    if (!memory_.write(to, bytes)) return failed(LibraryResult::no_memory);
    for (uint64_t i = 0; i < shadows.size(); ++i) {
      if (shadows[i] != 0) memory_.set_shadow(to + i, shadows[i]);
    }
  }

  void fill(uint64_t to, Expr value, uint64_t count) {
    if (count > kMostBytes) return failed(LibraryResult::too_long);
    const std::vector<uint8_t> bytes(count, static_cast<uint8_t>(s_.value(value)));
    if (!memory_.write(to, bytes)) return failed(LibraryResult::no_memory);
    for (uint64_t i = 0; i < count && !x_.is_constant(value); ++i) s_.set_byte(to + i, value);
  }

  // Where the first byte is for which the condition (of 1 bit) holds, at most `most`: then there is none before.
  uint64_t find(uint64_t from, uint64_t most, bool backwards, const std::function<Expr(Expr)>& condition) {
    Expr none_before = number(1, 1);
    uint64_t i = 0;
    for (; i < most && !is_failed(); ++i) {
      if (i == kMostBytes) return failed(LibraryResult::too_long), i;
      const Expr here = condition(byte(backwards ? from + most - 1 - i : from + i));
      if (is_failed()) return i;
      if (s_.value(here) != 0) {
        s_.note(x_.both(none_before, here), Decision::Kind::choice, address_);
        return i;
      }
      none_before = x_.both(none_before, x_.negated(here));
    }
    s_.note(none_before, Decision::Kind::choice, address_);
    return i;
  }
  uint64_t length_of(uint64_t string, uint64_t most) {
    return find(string, most, false, [&](Expr each) { return is_nul(each); });
  }

  void find_byte(uint64_t most) {
    const Expr wanted = byte_argument(kRsi);
    const uint64_t from = pointer(kRdi);
    const uint64_t place = find(from, most, false, [&](Expr each) { return is(each, wanted); });
    give(place == most ? 0 : from + place);
  }
  void find_last(uint64_t from, uint64_t count) {
    if (is_failed()) return;
    const Expr wanted = byte_argument(kRsi);
    const uint64_t place = find(from, count, true, [&](Expr each) { return is(each, wanted); });
    give(place == count ? 0 : from + count - 1 - place);
  }
  void find_in_string(bool null_if_none) {
    const Expr wanted = byte_argument(kRsi);
    const uint64_t from = pointer(kRdi);
    const uint64_t at =
        from + find(from, kEndless, false, [&](Expr each) { return x_.either(is(each, wanted), is_nul(each)); });
    if (is_failed()) return;
    const bool found = !null_if_none || s_.branch(is(byte(at), wanted), address_);
    give(found ? at : 0);
  }

  void copy_string(uint64_t to, bool give_end) {
    if (is_failed()) return;
    const uint64_t from = pointer(kRsi), count = length_of(from, kEndless);
    if (is_failed()) return;
    copy(to, from, count + 1);
    give(give_end ? to + count : pointer(kRdi));
  }
  void copy_padded() {
    const uint64_t to = pointer(kRdi), from = pointer(kRsi), most = length(kRdx), count = length_of(from, most);
    if (is_failed()) return;
    copy(to, from, count);
    fill(to + count, number(0, 8), most - count);
    give(to);
  }

  // How many bytes there are until one is in the set, or is not.
  uint64_t span(bool until_in_set) {
    const uint64_t set = pointer(kRsi), count = length_of(set, kEndless);
    std::vector<Expr> members;
    for (uint64_t i = 0; i < count && !is_failed(); ++i) members.push_back(byte(set + i));
    if (is_failed()) return 0;
    return find(pointer(kRdi), kEndless, false, [&](Expr each) {
      Expr is_member = number(0, 1);
      for (const Expr member : members) is_member = x_.either(is_member, is(each, member));
      return until_in_set ? x_.either(is_member, is_nul(each)) : x_.negated(is_member);
    });
  }
  void find_any() {
    const uint64_t at = pointer(kRdi) + span(true);
    if (is_failed()) return;
    give(s_.branch(is_nul(byte(at)), address_) ? 0 : at);
  }

  void find_bytes(uint64_t from, uint64_t count, uint64_t wanted, uint64_t wanted_count) {
    if (is_failed()) return;
    if (wanted_count > count) return give(0);
    Expr none_before = number(1, 1);
    for (uint64_t i = 0; i + wanted_count <= count; ++i) {
      if (i == kMostBytes) return failed(LibraryResult::too_long);
      Expr here = number(1, 1);
      for (uint64_t j = 0; j < wanted_count && !is_failed() && !x_.is_constant(here, 0); ++j) {
        here = x_.both(here, is(byte(from + i + j), byte(wanted + j)));
      }
      if (is_failed()) return;
      if (s_.value(here) != 0) {
        s_.note(x_.both(none_before, here), Decision::Kind::choice, address_);
        return give(from + i);
      }
      none_before = x_.both(none_before, x_.negated(here));
    }
    s_.note(none_before, Decision::Kind::choice, address_);
    give(0);
  }

  // As in the "C" locale, and in those whose encoding is UTF-8.
  Expr lower(Expr each) {
    const Expr is_upper = x_.unsigned_less(x_.sub(each, number('A', 8)), number(26, 8));
    return x_.choose(is_upper, x_.add(each, number('a' - 'A', 8)), each);
  }
  // The difference of the first two bytes that differ, or 0: an expression of all bytes that may be compared. Bytes are
  // looked at until two differ, or strings end, whatever the symbols are.
  void compare(uint64_t most, bool strings, bool fold_case) {
    const uint64_t left = pointer(kRdi), right = pointer(kRsi);
    std::vector<std::pair<Expr, Expr>> pairs;
    bool ends_before = false;  // under the model
    Expr goes_on = number(1, 1);
    for (uint64_t i = 0; i < most; ++i) {
      if (i == kMostBytes) return failed(LibraryResult::too_long);
      Expr a = s_.byte_at(left + i), b = s_.byte_at(right + i);
      // Where memory ends, or the expression becomes too large, it is decided that bytes before differ, if they do.
      if (a == kNone || b == kNone || pairs.size() == s_.largest_table) {
        if (ends_before) {
          s_.note(x_.negated(goes_on), Decision::Kind::branch, address_);
          break;
        }
        if (a == kNone || b == kNone) return failed(LibraryResult::no_memory);
      }
      if (fold_case) a = lower(a), b = lower(b);
      const Expr same = is(a, b);
      const Expr more = strings ? x_.both(same, x_.negated(is_nul(a))) : same;
      if (x_.is_constant(more, 1)) continue;
      pairs.emplace_back(a, b);
      if (x_.is_constant(more, 0)) break;
      ends_before = ends_before || s_.value(more) == 0;
      goes_on = x_.both(goes_on, more);
    }
    Expr difference = number(0, 32);
    for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
      const auto [a, b] = *pair;
      const Expr here = x_.sub(x_.zero_extend(a, 32), x_.zero_extend(b, 32));
      const Expr more = strings ? x_.both(is(a, b), x_.negated(is_nul(a))) : is(a, b);
      difference = x_.choose(more, difference, here);
    }
    give_expression(difference);
  }

  Symbolic& s_;
  Expressions& x_;
  Memory& memory_;
  uint64_t address_;
  Expr given_ = kNone;
  LibraryResult result_ = LibraryResult::done;
};

}  // namespace

LibraryResult call_library_function(Symbolic& symbolic, Function function) {
  return LibraryFunction(symbolic).call(function);
}

}  // namespace friday::infer
