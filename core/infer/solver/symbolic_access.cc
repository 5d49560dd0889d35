// Memory that the symbolic half reads and writes, and addresses that depend on symbols. A read through such an address
// gives a table of what is at each possible place; a write changes each possible place under the condition that it is
// the one. Where there are too many places, the address is assumed to be the one that the model gives, or to lie near
// it.
#include <algorithm>
#include <bit>
#include <set>

#include "core/infer/solver/check.h"
#include "core/infer/solver/symbolic.h"

namespace friday::infer {
namespace {

constexpr uint64_t kMostPlacesWritten = 64;
constexpr size_t kMostTriedOut = 256;  // values of one symbol
constexpr size_t kMostNodes = 400;     // of an expression whose form is looked at

}  // namespace

// At most 8 bytes of memory as a word with zeros above.
Expr Symbolic::load_word(uint64_t address, int bytes, bool* exists) {
  Shadow shadows[8];
  uint8_t plain[8];
  *exists = memory_.read(address, {plain, static_cast<size_t>(bytes)});
  if (!*exists) return kNone;
  for (int i = 0; i < bytes; ++i) shadows[i] = memory_.shadow_at(address + static_cast<uint64_t>(i));
  return gathered(shadows, plain, bytes);
}

bool Symbolic::load_words(uint64_t address, uint64_t* to, int bytes) {
  for (int w = 0; 8 * w < bytes; ++w) {
    bool exists = false;
    const uint64_t from = address + 8 * static_cast<uint64_t>(w);
    const int count = std::min(8, bytes - 8 * w);
    const Expr value = load_word(from, count, &exists);
    if (!exists) return false;
    to[w] = 0;
    if (value != kNone) {
      set_word(to + w, value);
    } else {
      memory_.read(from, {reinterpret_cast<uint8_t*>(to + w), static_cast<size_t>(count)});
    }
  }
  return true;
}

bool Symbolic::store_words(uint64_t address, const uint64_t* from, int bytes) {
  if (!memory_.write(address, {reinterpret_cast<const uint8_t*>(from), static_cast<size_t>(bytes)})) return false;
  for (int i = 0; i < bytes; ++i) {
    const Expr value = temporary(from + i / 8);
    if (value == kNone) continue;
    if (const Shadow shadow = shadow_of_byte(value, i % 8))
      memory_.set_shadow(address + static_cast<uint64_t>(i), shadow);
  }
  return true;
}

const Step* Symbolic::load(const Step& step, int bytes) {
  if (shadowed(step.from[0], 1)) {
    touch(step);
    if (read_through(word(step.from[0]), step.to, bytes)) return &step + 1;
    return machine_.stop(step, Left::no_memory, *step.from[0]);
  }
  const uint64_t address = *step.from[0];
  if (!memory_.shadowed(address, static_cast<uint64_t>(bytes))) return step.execute(step, machine_);
  touch(step);
  return load_words(address, step.to, bytes) ? &step + 1 : machine_.stop(step, Left::no_memory, address);
}

const Step* Symbolic::store(const Step& step, int bytes) {
  if (shadowed(step.from[0], 1)) {
    touch(step);
    if (write_through(word(step.from[0]), step.from[1], bytes)) return &step + 1;
    return machine_.stop(step, Left::no_memory, *step.from[0]);
  }
  if (!shadowed(step.from[1], step.words)) return step.execute(step, machine_);
  touch(step);
  return store_words(*step.from[0], step.from[1], bytes) ? &step + 1
                                                         : machine_.stop(step, Left::no_memory, *step.from[0]);
}

const Step* Symbolic::load_if(const Step& step) {
  const auto& how = *static_cast<const GuardedLoad*>(step.extra);
  if (shadowed(step.from[2], 1)) {
    touch(step);
    branch(x_.extract(word(step.from[2]), 0, 1), address_);
  }
  if (*step.from[2] == 0) {
    for (int w = 0; w < step.words; ++w) set_word(step.to + w, word(step.from[1] + w));
    return &step + 1;
  }
  if (load(step, how.bytes) == nullptr) return nullptr;
  if (temporary(step.to) == kNone) {
    if (how.is_signed) *step.to = static_cast<uint64_t>(signed_value(*step.to, 8 * how.bytes)) & mask_of(how.to_bits);
  } else if (how.is_signed) {
    const Expr narrow = x_.extract(word(step.to), 0, 8 * how.bytes);
    set_word(step.to, x_.zero_extend(x_.sign_extend(narrow, how.to_bits), 64));
  }
  return &step + 1;
}

// Whether memory is swapped is decided; what is found there stays an expression.
const Step* Symbolic::compare_swap(const Step& step) {
  const auto& swap = *static_cast<const CompareSwap*>(step.extra);
  assume(swap.address, 1);
  const uint64_t address = *swap.address;
  const int halves = swap.expected[1] != nullptr ? 2 : 1;
  const auto bytes = static_cast<uint64_t>(swap.bytes);
  bool any = memory_.shadowed(address, static_cast<uint64_t>(halves) * bytes);
  for (int half = 0; half < halves; ++half)
    any = any || shadowed(swap.expected[half], 1) || shadowed(swap.data[half], 1);
  if (!any) return step.execute(step, machine_);
  touch(step);
  Expr same = x_.constant(1, 1);
  for (int half = 0; half < halves; ++half) {
    if (!load_words(address + static_cast<uint64_t>(half) * bytes, swap.old[half], swap.bytes))
      return machine_.stop(step, Left::no_memory, address);
    same = x_.both(same, x_.equal(word(swap.old[half]), word(swap.expected[half])));
  }
  if (!branch(same, address_)) return &step + 1;
  for (int half = 0; half < halves; ++half)
    store_words(address + static_cast<uint64_t>(half) * bytes, swap.data[half], swap.bytes);
  return &step + 1;
}

Expr Symbolic::byte_at(uint64_t address) {
  uint8_t plain = 0;
  if (!memory_.read(address, {&plain, 1})) return kNone;
  const Shadow shadow = memory_.shadow_at(address);
  return shadow == 0 ? x_.constant(plain, 8) : x_.extract(expression_of(shadow), 8 * byte_of(shadow), 8);
}

bool Symbolic::set_byte(uint64_t address, Expr value) {
  const auto plain = static_cast<uint8_t>(x_.value(value));
  if (!memory_.write(address, {&plain, 1})) return false;
  if (const Shadow shadow = shadow_of_byte(value, 0)) memory_.set_shadow(address, shadow);
  return true;
}

bool Symbolic::copy_byte(uint64_t from, uint64_t to) {
  uint8_t plain = 0;
  if (!memory_.read(from, {&plain, 1})) return false;
  const Shadow shadow = memory_.shadow_at(from);
  if (!memory_.write(to, {&plain, 1})) return false;
  if (shadow != 0) memory_.set_shadow(to, shadow);
  return true;
}

// What an expression of one symbol gives for each value of it.
std::set<uint64_t> Symbolic::values_by_trying(Expr expression, std::span<const Expr> nodes) {
  std::set<uint64_t> found;
  std::unordered_map<Expr, uint64_t> values;
  const auto value = [&](Expr operand) { return operand == kNone ? 0 : values.at(operand); };
  for (size_t symbol = 0; symbol < kMostTriedOut; ++symbol) {
    for (const Expr each : nodes) {
      const Node& node = x_.node(each);
      if (node.op == Op::symbol) {
        values[each] = symbol;
      } else if (node.op == Op::select) {
        const Table& table = x_.table(node.number);
        values[each] = value(table.entries[table.place(value(node.a))]);
      } else {
        values[each] = x_.apply(node, value(node.a), value(node.b), value(node.c));
      }
    }
    found.insert(values.at(expression));
  }
  return found;
}

// What a node gives for all values of its operands; empty if these are not known or too many. It may be more than can
// occur.
std::set<uint64_t> Symbolic::values_of_node(const Node& node, std::unordered_map<Expr, std::set<uint64_t>>& known,
                                            size_t most) {
  std::set<uint64_t> values;
  if (node.op == Op::constant) {
    values.insert(node.number);
  } else if (node.op == Op::choose) {
    if (!known[node.b].empty() && !known[node.c].empty()) {
      values = known[node.b];
      values.insert(known[node.c].begin(), known[node.c].end());
    }
  } else if (node.op == Op::select) {
    const Table& table = x_.table(node.number);
    const bool all = std::ranges::all_of(table.entries, [&](Expr entry) { return !known[entry].empty(); });
    for (size_t i = 0; all && i < table.entries.size(); ++i) {
      values.insert(known[table.entries[i]].begin(), known[table.entries[i]].end());
    }
  } else if (node.b != kNone && node.c == kNone && known[node.a].size() * known[node.b].size() <= 4 * most) {
    for (const uint64_t a : known[node.a]) {
      for (const uint64_t b : known[node.b]) values.insert(x_.apply(node, a, b, 0));
    }
  } else if (node.a != kNone && node.b == kNone) {
    for (const uint64_t a : known[node.a]) values.insert(x_.apply(node, a, 0, 0));
  }
  if (values.empty() && node.bits <= 8) {
    for (uint64_t value = 0; value <= mask_of(node.bits); ++value) values.insert(value);
  }
  if (values.size() > most) values.clear();
  return values;
}

// All values that an expression may have, if they are few: one of a single symbol is tried out, of others the form
// tells.
std::optional<std::vector<uint64_t>> Symbolic::values_of(Expr expression, size_t most) {
  const std::vector<Expr> nodes = x_.nodes_of(std::span(&expression, 1));
  const auto symbols = std::ranges::count_if(nodes, [&](Expr each) { return x_.node(each).op == Op::symbol; });
  std::set<uint64_t> found;
  if (symbols == 1) {
    found = values_by_trying(expression, nodes);
  } else if (nodes.size() <= kMostNodes) {
    std::unordered_map<Expr, std::set<uint64_t>> known;
    for (const Expr each : nodes) {
      std::set<uint64_t> values = values_of_node(x_.node(each), known, most);
      known[each] = std::move(values);
    }
    found = known[expression];
  }
  if (found.empty() || found.size() > most) return std::nullopt;
  return std::vector<uint64_t>(found.begin(), found.end());
}

// Addresses near the one that the model gives, if the address can be shown to lie there; if not, it is assumed to.
std::optional<Symbolic::Places> Symbolic::window_around(Expr address, uint64_t most) {
  const uint64_t now = x_.value(address);
  const auto offset = [&](uint64_t from) { return x_.sub(address, x_.constant(from, 64)); };
  // Of the addresses before and behind, as few as can be shown to suffice; most structures are accessed from their
  // beginning on.
  uint64_t before = most / 4, behind = most - most / 4;
  const auto outside = [&](uint64_t low, uint64_t high) {
    return x_.negated(x_.unsigned_less(offset(now - low), x_.constant(low + high, 64)));
  };
  const Expr everywhere = outside(before, behind);
  if (may_hold(everywhere)) {
    note(x_.negated(everywhere), Decision::Kind::assumption, address_);
  } else {
    while (before > 1 && !may_hold(outside(before / 2, behind))) before /= 2;
    while (behind > 1 && !may_hold(outside(before, behind / 2))) behind /= 2;
  }
  if (before == 1 && !may_hold(outside(0, behind))) before = 0;
  Places places;
  places.first = now - before;
  uint64_t count = before + behind;
  // Addresses that are a constant and a multiple of a power of two.
  Expr relative = offset(places.first);
  while (places.stride < 4096) {
    const Expr bit = x_.extract(relative, std::countr_zero(places.stride), 1);
    if (!x_.is_constant(bit)) break;
    if (x_.is_constant(bit, 1)) {
      places.first += places.stride;
      count -= std::min(count, places.stride);
      relative = offset(places.first);
      if (!x_.is_constant(x_.extract(relative, std::countr_zero(places.stride), 1), 0)) break;
    }
    places.stride *= 2;
  }
  const int shift = std::countr_zero(places.stride);
  count = (count + places.stride - 1) / places.stride;
  places.key_bits = std::max(1, static_cast<int>(std::bit_width(count)));
  places.key = x_.extract(relative, shift, std::min(places.key_bits, 64 - shift));
  for (uint64_t key = 0; key < count; ++key) places.keys.push_back(key);
  return places;
}

std::optional<Symbolic::Places> Symbolic::places_of(Expr address, uint64_t most) {
  const auto values = values_of(address, static_cast<size_t>(most));
  if (!values || values->back() - values->front() >= most * 8) return window_around(address, most);
  Places places;
  places.first = values->front();
  uint64_t differences = 0;
  for (const uint64_t each : *values) differences |= each - places.first;
  if (differences == 0) differences = 1;
  const int shift = std::countr_zero(differences);
  places.stride = 1ull << shift;
  places.key_bits = std::max(1, static_cast<int>(std::bit_width(differences >> shift)));
  places.key = x_.extract(x_.sub(address, x_.constant(places.first, 64)), shift, places.key_bits);
  for (const uint64_t each : *values) places.keys.push_back((each - places.first) >> shift);
  return places;
}

// An access to memory that does not exist is a fault, which there was none of.
void Symbolic::leave_out_missing(Places* places, int bytes) {
  Table exists{static_cast<uint8_t>(places->key_bits), 1, places->keys, {}};
  std::vector<uint64_t> left;
  for (const uint64_t key : places->keys) {
    const uint64_t low = places->first + key * places->stride, high = low + static_cast<uint64_t>(bytes) - 1;
    const bool there = memory_.exists(low) && memory_.exists(high);
    exists.entries.push_back(x_.constant(there, 1));
    if (there) left.push_back(key);
  }
  if (left.size() == places->keys.size() || left.empty()) return;
  note(x_.select(std::move(exists), places->key), Decision::Kind::branch, address_);
  places->keys = std::move(left);
}

bool Symbolic::read_through(Expr address, uint64_t* to, int bytes) {
  const uint64_t now = x_.value(address);
  if (!memory_.exists(now) || !memory_.exists(now + static_cast<uint64_t>(bytes) - 1)) return false;
  auto places = places_of(address, std::max<uint64_t>(largest_table / static_cast<uint64_t>(std::min(bytes, 8)), 1));
  leave_out_missing(&*places, bytes);
  for (int w = 0; 8 * w < bytes; ++w) {
    const int count = std::min(8, bytes - 8 * w);
    Table table{static_cast<uint8_t>(places->key_bits), static_cast<uint8_t>(8 * count), places->keys, {}};
    for (const uint64_t key : places->keys) {
      const uint64_t from = places->first + key * places->stride + 8 * static_cast<uint64_t>(w);
      bool exists = false;
      Expr entry = load_word(from, count, &exists);
      if (entry == kNone) {
        uint64_t plain = 0;
        memory_.read(from, {reinterpret_cast<uint8_t*>(&plain), static_cast<size_t>(count)});
        entry = x_.constant(plain, 64);
      }
      table.entries.push_back(x_.extract(entry, 0, 8 * count));
    }
    set_word(to + w, x_.zero_extend(x_.select(std::move(table), places->key), 64));
  }
  return true;
}

bool Symbolic::write_through(Expr address, const uint64_t* from, int bytes) {
  const uint64_t now = x_.value(address);
  if (!memory_.exists(now) || !memory_.exists(now + static_cast<uint64_t>(bytes) - 1)) return false;
  const auto values = values_of(address, kMostPlacesWritten);
  if (!values) {
    decide(address, Decision::Kind::assumption, address_);
    return store_words(now, from, bytes);
  }
  const auto there = [&](uint64_t place) {
    return memory_.exists(place) && memory_.exists(place + static_cast<uint64_t>(bytes) - 1);
  };
  if (!std::all_of(values->begin(), values->end(), there)) {
    decide(address, Decision::Kind::assumption, address_);
    return store_words(now, from, bytes);
  }
  for (const uint64_t place : *values) {
    const Expr chosen = x_.equal(address, x_.constant(place, 64));
    for (int i = 0; i < bytes; ++i) {
      const uint64_t to = place + static_cast<uint64_t>(i);
      const Expr data = x_.extract(word(from + i / 8), i % 8 * 8, 8);
      if (!set_byte(to, x_.choose(chosen, data, byte_at(to)))) return false;
    }
  }
  return true;
}

}  // namespace friday::infer
