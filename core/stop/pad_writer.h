// Writes machine code for one address, byte by byte, and notes which positions correspond to program addresses.
#pragma once

#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

#include "core/stop/pad.h"

namespace friday {

class PadWriter {
 public:
  explicit PadWriter(uint64_t base) : base_(base) {}

  uint64_t here() const { return base_ + pad_.code.size(); }
  void means(uint64_t program) { pad_.meaning.emplace_back(pad_.code.size(), program); }
  void bytes(std::span<const std::byte> data) { pad_.code.insert(pad_.code.end(), data.begin(), data.end()); }
  void bytes(std::initializer_list<uint8_t> data) {
    for (uint8_t byte : data) pad_.code.push_back(std::byte{byte});
  }
  template <typename T>
  void number(T value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  // jmp *0(%rip), followed by the target: reaches any address and changes no register.
  void jump(uint64_t target) {
    means(target);
    jump_here(target);
  }
  // The same, for use inside an instruction whose program address was already noted.
  void jump_here(uint64_t target) {
    bytes({0xff, 0x25, 0, 0, 0, 0});
    number(target);
  }
  // Copies the instruction and adjusts its rip-relative displacement. Returns false if the operand is out of range.
  bool relocated(const Instruction& instruction) {
    size_t at = pad_.code.size();
    int64_t moved = static_cast<int64_t>(instruction.address - here());
    bytes(instruction.code());
    const ZydisDecodedOperand* operand = rip_operand(instruction);
    return !operand || set_displacement(at + instruction.decoded.raw.disp.offset, operand->mem.disp.value + moved);
  }
  bool set_displacement(size_t at, int64_t value) {
    if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) return false;
    auto narrow = static_cast<int32_t>(value);
    std::memcpy(pad_.code.data() + at, &narrow, sizeof narrow);
    return true;
  }
  void flip(size_t at, std::byte bits) { pad_.code[at] ^= bits; }
  void set_byte(size_t at, uint8_t value) { pad_.code[at] = std::byte{value}; }
  size_t size() const { return pad_.code.size(); }
  PadCode finish() { return std::move(pad_); }

 private:
  uint64_t base_;
  PadCode pad_;
};

}  // namespace friday
