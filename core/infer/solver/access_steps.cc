// The steps that touch registers, memory and control.
#include <algorithm>

#include "core/infer/solver/check.h"
#include "core/infer/solver/machine.h"

namespace friday::infer {
namespace {

template <typename T>
const Step* get_step(const Step& step, Machine&) {
  T value;
  std::memcpy(&value, step.from[0], sizeof(T));
  *step.to = value;
  return &step + 1;
}
template <typename T>
const Step* put_step(const Step& step, Machine&) {
  const auto value = static_cast<T>(*step.from[0]);
  std::memcpy(step.to, &value, sizeof(T));
  return &step + 1;
}
template <int kWords>
const Step* copy_words_step(const Step& step, Machine&) {
  uint64_t words[kWords];
  std::memcpy(words, step.from[0], sizeof(words));
  std::memcpy(step.to, words, sizeof(words));
  return &step + 1;
}

template <typename T>
const Step* load_step(const Step& step, Machine& machine) {
  const uint64_t address = *step.from[0];
  if (const uint8_t* bytes = machine.memory.readable<T>(address)) [[likely]] {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    *step.to = value;
    return &step + 1;
  }
  return machine.load_slowly(step, address, step.to, sizeof(T));
}
template <typename T>
const Step* store_step(const Step& step, Machine& machine) {
  const uint64_t address = *step.from[0];
  if (uint8_t* bytes = machine.memory.writable<T>(address)) [[likely]] {
    std::memcpy(bytes, step.from[1], sizeof(T));
    return &step + 1;
  }
  return machine.store_slowly(step, address, step.from[1], sizeof(T));
}
template <int kWords>
const Step* load_words_step(const Step& step, Machine& machine) {
  const uint64_t address = *step.from[0];
  if (const uint8_t* bytes = machine.memory.readable<uint64_t[kWords]>(address)) [[likely]] {
    std::memcpy(step.to, bytes, 8 * kWords);
    return &step + 1;
  }
  return machine.load_slowly(step, address, step.to, 8 * kWords);
}
template <int kWords>
const Step* store_words_step(const Step& step, Machine& machine) {
  const uint64_t address = *step.from[0];
  if (uint8_t* bytes = machine.memory.writable<uint64_t[kWords]>(address)) [[likely]] {
    std::memcpy(bytes, step.from[1], 8 * kWords);
    return &step + 1;
  }
  return machine.store_slowly(step, address, step.from[1], 8 * kWords);
}

const Step* choose_step(const Step& step, Machine&) {
  const uint64_t* from = *step.from[0] != 0 ? step.from[1] : step.from[2];
  if (step.words == 1) {
    *step.to = *from;
  } else {
    std::memcpy(step.to, from, 8u * step.words);
  }
  return &step + 1;
}

const Step* get_indexed_step(const Step& step, Machine& machine) {
  const auto& array = *static_cast<const Indexed*>(step.extra);
  *step.to = 0;
  std::memcpy(step.to, machine.element(array, *step.from[0]), static_cast<size_t>(array.element));
  return &step + 1;
}
const Step* put_indexed_step(const Step& step, Machine& machine) {
  const auto& array = *static_cast<const Indexed*>(step.extra);
  std::memcpy(machine.element(array, *step.from[0]), step.from[1], static_cast<size_t>(array.element));
  return &step + 1;
}

const Step* load_if_step(const Step& step, Machine& machine) {
  const auto& how = *static_cast<const GuardedLoad*>(step.extra);
  if (*step.from[2] == 0) {
    std::memmove(step.to, step.from[1], 8u * step.words);
    return &step + 1;
  }
  if (machine.load_slowly(step, *step.from[0], step.to, how.bytes) == nullptr) return nullptr;
  if (how.is_signed) *step.to = static_cast<uint64_t>(signed_value(*step.to, 8 * how.bytes)) & mask_of(how.to_bits);
  return &step + 1;
}
const Step* store_if_step(const Step& step, Machine& machine) {
  if (*step.from[2] == 0) return &step + 1;
  return machine.store_slowly(step, *step.from[0], step.from[1], step.number);
}

const Step* compare_swap_step(const Step& step, Machine& machine) { return machine.compare_swap(step); }
const Step* helper_step(const Step& step, Machine& machine) { return machine.call_helper(step); }

const Step* leave_if_step(const Step& step, Machine& machine) {
  if (*step.from[0] == 0) return &step + 1;
  const auto& exit = *static_cast<const Exit*>(step.extra);
  machine.state.guest_RIP = exit.target;
  machine.kind = exit.kind;
  machine.exit = &step;
  return nullptr;
}
const Step* leave_step(const Step& step, Machine& machine) {
  machine.state.guest_RIP = *step.from[0];
  machine.kind = static_cast<const Exit*>(step.extra)->kind;
  machine.exit = &step;
  return nullptr;
}

// Helpers take integers and pointers only, and give 64 bits or nothing.
uint64_t call_of(const void* function, const uint64_t* a, size_t count) {
  using Helper = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  uint64_t all[8] = {};
  std::copy(a, a + count, all);
  return reinterpret_cast<Helper>(const_cast<void*>(function))(all[0], all[1], all[2], all[3], all[4], all[5], all[6],
                                                               all[7]);
}

}  // namespace

Execute function_of_get(int bytes) {
  switch (bytes) {
    case 1: return get_step<uint8_t>;
    case 2: return get_step<uint16_t>;
    case 4: return get_step<uint32_t>;
    case 8: return get_step<uint64_t>;
    case 16: return copy_words_step<2>;
    default: return copy_words_step<4>;
  }
}

Execute function_of_put(int bytes) {
  switch (bytes) {
    case 1: return put_step<uint8_t>;
    case 2: return put_step<uint16_t>;
    case 4: return put_step<uint32_t>;
    case 8: return put_step<uint64_t>;
    case 16: return copy_words_step<2>;
    default: return copy_words_step<4>;
  }
}

Execute function_of_load(int bytes) {
  switch (bytes) {
    case 1: return load_step<uint8_t>;
    case 2: return load_step<uint16_t>;
    case 4: return load_step<uint32_t>;
    case 8: return load_step<uint64_t>;
    case 16: return load_words_step<2>;
    default: return load_words_step<4>;
  }
}

Execute function_of_store(int bytes) {
  switch (bytes) {
    case 1: return store_step<uint8_t>;
    case 2: return store_step<uint16_t>;
    case 4: return store_step<uint32_t>;
    case 8: return store_step<uint64_t>;
    case 16: return store_words_step<2>;
    default: return store_words_step<4>;
  }
}

Execute function_of(Does does) {
  switch (does) {
    case Does::choose: return choose_step;
    case Does::get_indexed: return get_indexed_step;
    case Does::put_indexed: return put_indexed_step;
    case Does::load_if: return load_if_step;
    case Does::store_if: return store_if_step;
    case Does::compare_swap: return compare_swap_step;
    case Does::call:
    case Does::dirty: return helper_step;
    case Does::leave_if: return leave_if_step;
    case Does::leave: return leave_step;
    default: return nullptr;
  }
}

const Step* Machine::load_slowly(const Step& step, uint64_t address, uint64_t* to, int bytes) {
  if (memory.shadowed(address, static_cast<uint64_t>(bytes))) return stop(step, Left::shadows);
  *to = 0;
  if (!memory.read(address, {reinterpret_cast<uint8_t*>(to), static_cast<size_t>(bytes)}))
    return stop(step, Left::no_memory, address);
  return &step + 1;
}

const Step* Machine::store_slowly(const Step& step, uint64_t address, const uint64_t* from, int bytes) {
  if (!memory.write(address, {reinterpret_cast<const uint8_t*>(from), static_cast<size_t>(bytes)}))
    return stop(step, Left::no_memory, address);
  return &step + 1;
}

const Step* Machine::compare_swap(const Step& step) {
  const auto& swap = *static_cast<const CompareSwap*>(step.extra);
  const auto bytes = static_cast<size_t>(swap.bytes);
  const size_t halves = swap.expected[1] != nullptr ? 2 : 1;
  const uint64_t address = *swap.address;
  if (memory.shadowed(address, halves * bytes)) return stop(step, Left::shadows);
  uint8_t found[16];
  if (!memory.read(address, {found, halves * bytes})) return stop(step, Left::no_memory, address);
  bool same = true;
  uint8_t replaced[16];
  for (size_t half = 0; half < halves; ++half) {
    uint64_t old = 0;
    std::memcpy(&old, found + half * bytes, bytes);
    same = same && old == *swap.expected[half];
    std::memcpy(replaced + half * bytes, swap.data[half], bytes);
    *swap.old[half] = old;
  }
  if (same) memory.write(address, {replaced, halves * bytes});
  return &step + 1;
}

const Step* Machine::call_helper(const Step& step) {
  const auto& call = *static_cast<const Call*>(step.extra);
  const size_t words = static_cast<size_t>(std::max(1, call.result_bits / 64));
  if (call.guard != nullptr && *call.guard == 0) {
    if (call.to != nullptr)
      std::fill_n(call.to, words, 0x5555555555555555ull & mask_of(std::min(call.result_bits, 64)));
    return &step + 1;
  }
  alignas(32) uint8_t scratch[1024] = {};
  require(call.bytes <= static_cast<int>(sizeof(scratch)), "a helper uses more memory than foreseen");
  const std::span<uint8_t> copy(scratch, static_cast<size_t>(call.bytes));
  const uint64_t address = call.address != nullptr ? *call.address : 0;
  if (call.address != nullptr) {
    if (memory.shadowed(address, copy.size())) return stop(step, Left::shadows);
    if (!memory.read(address, copy)) return stop(step, Left::no_memory, address);
  }
  uint64_t arguments[8] = {};
  alignas(32) uint64_t result[4] = {};
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const auto& [kind, value] = call.arguments[i];
    const bool points_to_memory = kind == Call::Argument::value && call.address != nullptr && *value == address;
    if (kind == Call::Argument::state) arguments[i] = reinterpret_cast<uint64_t>(&state);
    else if (kind == Call::Argument::result) arguments[i] = reinterpret_cast<uint64_t>(result);
    else arguments[i] = points_to_memory ? reinterpret_cast<uint64_t>(scratch) : *value;
  }
  const uint64_t returned = call_of(call.function, arguments, call.arguments.size());
  if (call.to != nullptr) {
    if (words == 1) *call.to = returned & mask_of(call.result_bits);
    else std::copy_n(result, words, call.to);
  }
  if (call.writes_memory) memory.write(address, copy);
  return &step + 1;
}

}  // namespace friday::infer
