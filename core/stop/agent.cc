#include "core/stop/agent.h"

#include <array>
#include <cstring>

#include "core/stop/registers.h"

namespace friday {

namespace {

// Opcodes and operand sizes are from the gdb manual, "Bytecode Descriptions"; the numbers are from ax.def of gdb 13.
enum Op : uint8_t {
  op_float = 0x01,
  op_add = 0x02,
  op_sub = 0x03,
  op_mul = 0x04,
  op_div_signed = 0x05,
  op_div_unsigned = 0x06,
  op_rem_signed = 0x07,
  op_rem_unsigned = 0x08,
  op_lsh = 0x09,
  op_rsh_signed = 0x0a,
  op_rsh_unsigned = 0x0b,
  op_trace = 0x0c,
  op_trace_quick = 0x0d,
  op_log_not = 0x0e,
  op_bit_and = 0x0f,
  op_bit_or = 0x10,
  op_bit_xor = 0x11,
  op_bit_not = 0x12,
  op_equal = 0x13,
  op_less_signed = 0x14,
  op_less_unsigned = 0x15,
  op_ext = 0x16,
  op_ref8 = 0x17,
  op_ref16 = 0x18,
  op_ref32 = 0x19,
  op_ref64 = 0x1a,
  op_if_goto = 0x20,
  op_goto = 0x21,
  op_const8 = 0x22,
  op_const16 = 0x23,
  op_const32 = 0x24,
  op_const64 = 0x25,
  op_reg = 0x26,
  op_end = 0x27,
  op_dup = 0x28,
  op_pop = 0x29,
  op_zero_ext = 0x2a,
  op_swap = 0x2b,
  op_getv = 0x2c,
  op_setv = 0x2d,
  op_tracev = 0x2e,
  op_tracenz = 0x2f,
  op_trace16 = 0x30,
  op_pick = 0x32,
  op_rot = 0x33,
  op_printf = 0x34,
  op_step = 0x80,  // Friday's own
};

constexpr size_t stack_limit = 128;

class Machine {
 public:
  Machine(std::span<const std::byte> code, MemoryReader& memory, const user_regs_struct& registers,
          std::span<const PlanStep> steps)
      : code_(code), memory_(memory), registers_(registers), steps_(steps) {}

  Result<AgentResult> run(uint32_t limit) {
    for (uint32_t done = 0; done < limit; ++done) {
      if (pc_ >= code_.size()) return malformed("it has no end");
      auto op = static_cast<uint8_t>(code_[pc_++]);
      if (op == op_end) {
        result_.empty = depth_ == 0;
        result_.value = depth_ == 0 ? 0 : stack_[depth_ - 1];
        return std::move(result_);
      }
      FRIDAY_TRY_VOID(execute(op));
    }
    return fail(ErrorCode::bad_input, "the compiled expression takes more than {} instructions", limit);
  }

 private:
  static std::unexpected<Error> malformed(std::string_view why) {
    return fail(ErrorCode::bad_input, "the compiled expression is not well formed: {}", why);
  }

  // How many values an opcode pops. No opcode pushes more than one value more than it pops.
  static unsigned values_needed(uint8_t op) {
    switch (op) {
      case op_const8:
      case op_const16:
      case op_const32:
      case op_const64:
      case op_reg:
      case op_goto:
      case op_step:  // take_step() looks itself
      case op_pick: return 0;
      case op_log_not:
      case op_bit_not:
      case op_ext:
      case op_zero_ext:
      case op_ref8:
      case op_ref16:
      case op_ref32:
      case op_ref64:
      case op_if_goto:
      case op_dup:
      case op_pop:
      case op_trace_quick:
      case op_trace16: return 1;
      case op_rot: return 3;
      default: return 2;
    }
  }

  Result<void> execute(uint8_t op) {
    if (depth_ < values_needed(op)) return malformed("its stack runs empty");
    if (depth_ + 1 >= stack_limit) return malformed("its stack grows too high");
    switch (op) {
      case op_const8: return constant(1);
      case op_const16: return constant(2);
      case op_const32: return constant(4);
      case op_const64: return constant(8);
      case op_ref8: return reference(1);
      case op_ref16: return reference(2);
      case op_ref32: return reference(4);
      case op_ref64: return reference(8);
      case op_reg: return read_register();
      case op_if_goto: return jump(pop() != 0);
      case op_goto: return jump(true);
      case op_ext: return extend(true);
      case op_zero_ext: return extend(false);
      case op_log_not: top() = top() == 0; return {};
      case op_bit_not: top() = ~top(); return {};
      case op_dup: push(top()); return {};
      case op_pop: pop(); return {};
      case op_pick: return pick();
      case op_step: return step();
      case op_swap: std::swap(stack_[depth_ - 1], stack_[depth_ - 2]); return {};
      case op_rot: return rotate();
      case op_trace:
      case op_tracenz:
      case op_trace_quick:
      case op_trace16: return trace(op);
      case op_float:
      case op_getv:
      case op_setv:
      case op_tracev:
      case op_printf:
        return fail(ErrorCode::unsupported,
                    "the compiled expression uses opcode {:#x}, which only a tracing target has", op);
      default: return binary(op);
    }
  }

  void push(uint64_t value) { stack_[depth_++] = value; }
  uint64_t pop() { return stack_[--depth_]; }
  uint64_t& top() { return stack_[depth_ - 1]; }

  // Operands in the code are big-endian.
  Result<uint64_t> operand(size_t size) {
    if (pc_ + size > code_.size()) return malformed("it is cut off");
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(code_[pc_++]);
    return value;
  }

  Result<void> constant(size_t size) {
    FRIDAY_TRY(value, operand(size));
    push(value);
    return {};
  }

  Result<void> reference(size_t size) {
    uint64_t address = pop(), value = 0;
    auto read = memory_.read(Addr{address}, std::as_writable_bytes(std::span(&value, 1)).first(size));
    if (!read)
      return std::unexpected(Error{.code = ErrorCode::bad_address,
                                   .message = fmt::format("cannot read {} bytes at {:#x}", size, address),
                                   .address = address});
    push(value);
    return {};
  }

  Result<void> read_register() {
    FRIDAY_TRY(number, operand(2));
    auto value = remote_register(registers_, static_cast<unsigned>(number));
    if (!value)
      return fail(ErrorCode::unsupported, "the compiled expression reads register {}, which is no general register",
                  number);
    push(*value);
    return {};
  }

  Result<void> jump(bool taken) {
    FRIDAY_TRY(target, operand(2));
    if (taken) pc_ = target;
    return {};
  }

  Result<void> extend(bool sign) {
    FRIDAY_TRY(bits, operand(1));
    if (bits == 0 || bits > 64) return malformed("it extends a value of no bits");
    unsigned unused = 64 - static_cast<unsigned>(bits);
    uint64_t shifted = top() << unused;
    top() = sign ? static_cast<uint64_t>(static_cast<int64_t>(shifted) >> unused) : shifted >> unused;
    return {};
  }

  Result<void> pick() {
    FRIDAY_TRY(down, operand(1));
    if (down >= depth_) return malformed("it picks below its stack");
    push(stack_[depth_ - 1 - down]);
    return {};
  }

  Result<void> step() {
    FRIDAY_TRY(number, operand(2));
    if (number >= steps_.size()) return malformed("it refers to a step that it does not have");
    const unsigned inputs = steps_[number].inputs();
    if (depth_ < inputs) return malformed("its stack runs empty");
    depth_ -= inputs;
    FRIDAY_TRY(result, take_step(steps_[number], std::span(stack_).subspan(depth_, inputs), memory_));
    if (result) push(*result);
    return {};
  }

  Result<void> rotate() {  // a b c -> c a b, with c on top before
    uint64_t c = stack_[depth_ - 1], b = stack_[depth_ - 2], a = stack_[depth_ - 3];
    stack_[depth_ - 3] = c;
    stack_[depth_ - 2] = a;
    stack_[depth_ - 1] = b;
    return {};
  }

  Result<void> trace(uint8_t op) {
    uint64_t size;
    if (op == op_trace || op == op_tracenz) {
      size = pop();
    } else {
      FRIDAY_TRY(given, operand(op == op_trace_quick ? 1 : 2));
      size = given;
    }
    uint64_t address = op == op_trace_quick || op == op_trace16 ? top() : pop();
    result_.traced.push_back({address, size});
    return {};
  }

  Result<void> binary(uint8_t op) {
    uint64_t b = pop(), a = pop();
    auto signed_a = static_cast<int64_t>(a), signed_b = static_cast<int64_t>(b);
    bool divides = op >= op_div_signed && op <= op_rem_unsigned;
    if (divides && b == 0) return fail(ErrorCode::bad_input, "division by zero");
    if ((op == op_div_signed || op == op_rem_signed) &&
        signed_b == -1) {  // idiv would trap: the quotient of the smallest number by -1 overflows
      push(op == op_div_signed ? 0 - a : 0);
      return {};
    }
    switch (op) {
      case op_add: push(a + b); return {};
      case op_sub: push(a - b); return {};
      case op_mul: push(a * b); return {};
      case op_div_signed: push(static_cast<uint64_t>(signed_a / signed_b)); return {};
      case op_div_unsigned: push(a / b); return {};
      case op_rem_signed: push(static_cast<uint64_t>(signed_a % signed_b)); return {};
      case op_rem_unsigned: push(a % b); return {};
      case op_lsh: push(b < 64 ? a << b : 0); return {};
      case op_rsh_signed: push(static_cast<uint64_t>(signed_a >> (b < 64 ? b : 63))); return {};
      case op_rsh_unsigned: push(b < 64 ? a >> b : 0); return {};
      case op_bit_and: push(a & b); return {};
      case op_bit_or: push(a | b); return {};
      case op_bit_xor: push(a ^ b); return {};
      case op_equal: push(a == b); return {};
      case op_less_signed: push(signed_a < signed_b); return {};
      case op_less_unsigned: push(a < b); return {};
      default: return malformed(fmt::format("it has the unknown opcode {:#x}", op));
    }
  }

  std::span<const std::byte> code_;
  MemoryReader& memory_;
  const user_regs_struct& registers_;
  std::span<const PlanStep> steps_;
  size_t pc_ = 0, depth_ = 0;
  std::array<uint64_t, stack_limit> stack_;
  AgentResult result_;
};

}  // namespace

Result<AgentResult> run_agent(std::span<const std::byte> code, MemoryReader& memory, const user_regs_struct& registers,
                              std::span<const PlanStep> steps, uint32_t limit) {
  return Machine(code, memory, registers, steps).run(limit);
}

}  // namespace friday
