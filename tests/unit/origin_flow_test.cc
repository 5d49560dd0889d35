// What core/origin says that an instruction does with bytes, beside what the processor does: random instructions are
// executed on random registers and memory. A byte that is said to be copied must be the source's; one that is not said
// to be written must be as it was; one that is said to be constant must be the same whatever the registers held.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <random>

#include <Zydis/Zydis.h>

#include "core/origin/flow.h"
#include "core/stop/registers.h"

namespace friday {
namespace {

constexpr size_t kMemory = 256;

// Registers as the trampoline loads and stores them, in the order of their encoding; rsp is not touched.
struct State {
  std::array<uint64_t, 16> general;
  std::array<std::array<std::byte, 32>, 16> vectors;
  uint64_t flags;
  alignas(32) std::array<std::byte, kMemory> memory;
};
static_assert(offsetof(State, vectors) == 128 && offsetof(State, flags) == 640);

extern "C" void flow_test_run(State* state, const void* code);
// Loads the registers, calls the code, which ends in ret, and stores them. rsp is the host's.
asm(R"(
.text
.globl flow_test_run
flow_test_run:
  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15
  push %rdi
  push %rsi
)"
#define VECTORS(op) \
  op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11) op(12) op(13) op(14) op(15)
#define LOAD(n) "  vmovdqu (128+32*" #n ")(%rdi), %ymm" #n "\n"
#define STORE(n) "  vmovdqu %ymm" #n ", (128+32*" #n ")(%rdi)\n"
    VECTORS(LOAD)
        R"(
  push 640(%rdi)
  popfq
  mov 0(%rdi), %rax;  mov 8(%rdi), %rcx;  mov 16(%rdi), %rdx; mov 24(%rdi), %rbx
  mov 40(%rdi), %rbp; mov 48(%rdi), %rsi
  mov 64(%rdi), %r8;  mov 72(%rdi), %r9;  mov 80(%rdi), %r10; mov 88(%rdi), %r11
  mov 96(%rdi), %r12; mov 104(%rdi), %r13; mov 112(%rdi), %r14; mov 120(%rdi), %r15
  mov 56(%rdi), %rdi
  call *(%rsp)
  xchg 8(%rsp), %rdi
  pushfq
  pop 640(%rdi)
  cld
  mov %rax, 0(%rdi);  mov %rcx, 8(%rdi);  mov %rdx, 16(%rdi); mov %rbx, 24(%rdi)
  mov %rbp, 40(%rdi); mov %rsi, 48(%rdi)
  mov %r8, 64(%rdi);  mov %r9, 72(%rdi);  mov %r10, 80(%rdi); mov %r11, 88(%rdi)
  mov %r12, 96(%rdi); mov %r13, 104(%rdi); mov %r14, 112(%rdi); mov %r15, 120(%rdi)
)" VECTORS(STORE) R"(
  mov 8(%rsp), %rax
  mov %rax, 56(%rdi)
  add $16, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx
  vzeroupper
  ret
)");

user_regs_struct registers_of(const State& state, uint64_t pc) {
  user_regs_struct registers{};
  for (unsigned i = 0; i < 16; i++) set_general_register(registers, i, state.general[i]);
  registers.eflags = state.flags;
  registers.rip = pc;
  return registers;
}

class Flow : public testing::Test {
 protected:
  Flow() {
    code_ = static_cast<std::byte*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Flow() override { munmap(code_, 4096); }

  State random_state() {
    State state{};
    const auto fill = [&](void* at, size_t size) {
      for (size_t i = 0; i < size; i++) static_cast<unsigned char*>(at)[i] = static_cast<unsigned char>(random_());
    };
    fill(&state.vectors, sizeof state.vectors);
    fill(&state.memory, sizeof state.memory);
    fill(&state.general, sizeof state.general);
    state.flags = 0x202 | (random_() & arithmetic_flags);
    return state;
  }

  // Where a byte of the state stands.
  std::byte& byte_of(State& state, const Bytes& byte) {
    switch (byte.in) {
      case Bytes::In::general: return reinterpret_cast<std::byte*>(&state.general)[byte.low];
      case Bytes::In::vector: return state.vectors[byte.low / 64][byte.low % 64];
      case Bytes::In::memory: break;
    }
    return state.memory.at(byte.low - reinterpret_cast<uint64_t>(&running_.memory));
  }

  // Executes the instruction and compares. The addresses must lie in the state's memory.
  void check(const std::vector<uint8_t>& bytes, const State& begin) {
    std::memcpy(code_, bytes.data(), bytes.size());
    code_[bytes.size()] = std::byte{0xc3};  // ret
    const Addr pc{reinterpret_cast<uint64_t>(code_)};
    const auto instruction = decode_instruction(pc, std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(instruction);
    SCOPED_TRACE(text_of(*instruction));
    running_ = begin;
    flow_test_run(&running_, code_);
    State before = begin, after = running_;
    const auto first = registers_of(before, pc.value), second = registers_of(after, pc.value + bytes.size());
    for (const Bytes& all : {Bytes{Bytes::In::general, 0, 128}, Bytes{Bytes::In::vector, 0, 64 * 16},
                             Bytes{Bytes::In::memory, reinterpret_cast<uint64_t>(&running_.memory), kMemory}}) {
      const auto pieces = pieces_of(*instruction, first, second, all);
      for (uint64_t at = all.low; at < all.high(); at++) {
        const Bytes byte{all.in, at, 1};
        if (all.in == Bytes::In::general && at / 8 == 4) continue;  // rsp is the host's
        if (all.in == Bytes::In::vector && at % 64 >= 32) continue;
        const auto piece = std::ranges::find_if(pieces, [&](const Piece& each) { return each.part.overlaps(byte); });
        const std::byte now = byte_of(after, byte);
        if (piece == pieces.end()) {
          EXPECT_EQ(now, byte_of(before, byte)) << text_of(byte) << " is said to stay";
        } else if (piece->how == Piece::How::copied) {
          const uint64_t index = at - piece->part.low;
          ASSERT_EQ(piece->from.size, piece->part.size);
          const uint64_t from = piece->from.low + (piece->swapped ? piece->from.size - 1 - index : index);
          EXPECT_EQ(now, byte_of(before, {piece->from.in, from, 1})) << text_of(byte) << " is said to be copied";
          copied_++;
        } else if (piece->how == Piece::How::extended) {
          EXPECT_TRUE(now == std::byte{0} || now == std::byte{0xff}) << text_of(byte);
        } else if (piece->how == Piece::How::constant) {
          constants_[{all.in, at}] = now;
        }
      }
    }
  }

  // Encodes random operands of a mnemonic. `memory`: the index of the operand that is in memory, or none (-1).
  std::vector<uint8_t> encode(ZydisMnemonic mnemonic, const std::vector<ZydisEncoderOperand>& operands,
                              ZydisInstructionAttributes prefixes = 0) {
    ZydisEncoderRequest request{};
    request.mnemonic = mnemonic;
    request.machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    request.prefixes = prefixes;
    request.operand_count = static_cast<ZyanU8>(operands.size());
    std::copy(operands.begin(), operands.end(), request.operands);
    std::vector<uint8_t> bytes(ZYDIS_MAX_INSTRUCTION_LENGTH);
    ZyanUSize size = bytes.size();
    if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, bytes.data(), &size))) return {};
    bytes.resize(size);
    return bytes;
  }
  ZydisEncoderOperand reg(ZydisRegister first) {
    static constexpr unsigned kUsable[] = {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_REGISTER;
    const bool vector = first == ZYDIS_REGISTER_XMM0 || first == ZYDIS_REGISTER_YMM0;
    operand.reg.value = static_cast<ZydisRegister>(first + (vector ? random_() % 16 : kUsable[random_() % 15]));
    return operand;
  }
  ZydisEncoderOperand small_register() {
    static constexpr ZydisRegister kAll[] = {ZYDIS_REGISTER_AL, ZYDIS_REGISTER_BL,  ZYDIS_REGISTER_AH,
                                             ZYDIS_REGISTER_DH, ZYDIS_REGISTER_SIL, ZYDIS_REGISTER_R9B};
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_REGISTER;
    operand.reg.value = kAll[random_() % 6];
    return operand;
  }
  ZydisEncoderOperand number(uint64_t value) {
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
    operand.imm.u = value;
    return operand;
  }
  // At a random place, aligned to 32 bytes if `aligned`; the register is r15, which point_to_memory() sets.
  ZydisEncoderOperand memory(uint16_t size, bool aligned = false) {
    ZydisEncoderOperand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_MEMORY;
    operand.mem.base = ZYDIS_REGISTER_R15;
    operand.mem.displacement = static_cast<ZyanI64>(aligned ? random_() % 4 * 32 : random_() % 150);
    operand.mem.size = size;
    return operand;
  }
  void point_to_memory(State& state) { state.general[15] = reinterpret_cast<uint64_t>(&running_.memory); }

  std::mt19937 random_{20261125};
  alignas(64) State running_{};
  std::byte* code_ = nullptr;
  size_t copied_ = 0;
  std::map<std::pair<Bytes::In, uint64_t>, std::byte> constants_;  // what was said to be one
};

TEST_F(Flow, IsWhatTheProcessorDoes) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no AVX2";
  using M = ZydisMnemonic;
  const auto general = [&](uint16_t size) {
    return size == 1   ? small_register()
           : size == 2 ? reg(ZYDIS_REGISTER_AX)
           : size == 4 ? reg(ZYDIS_REGISTER_EAX)
                       : reg(ZYDIS_REGISTER_RAX);
  };
  const auto xmm = [&] { return reg(ZYDIS_REGISTER_XMM0); };
  const auto ymm = [&] { return reg(ZYDIS_REGISTER_YMM0); };
  const auto any = [&](uint16_t size) { return size == 16 ? xmm() : size == 32 ? ymm() : general(size); };
  std::map<M, size_t> tried;
  const auto run = [&](M mnemonic, const std::vector<ZydisEncoderOperand>& operands,
                       ZydisInstructionAttributes prefixes = 0, uint64_t count = 0) {
    const auto bytes = encode(mnemonic, operands, prefixes);
    if (bytes.empty()) return;
    tried[mnemonic]++;
    State state = random_state();
    point_to_memory(state);
    if (prefixes || count) {  // string instructions
      state.general[1] = count;
      state.general[6] = state.general[15] + random_() % 60;
      state.general[7] = state.general[15] + 128 + random_() % 60;
    }
    constants_.clear();
    check(bytes, state);
    const auto seen = constants_;
    State other = random_state();  // with the same addresses and counts
    for (unsigned number : {1, 6, 7, 15}) other.general[number] = state.general[number];
    constants_.clear();
    check(bytes, other);
    EXPECT_EQ(constants_, seen) << "said to be constant";
  };
  for (int round = 0; round < 400; round++) {
    const uint16_t size = std::array<uint16_t, 4>{1, 2, 4, 8}[random_() % 4];
    const uint64_t immediate = random_() % 256;
    for (M m : {ZYDIS_MNEMONIC_MOV, ZYDIS_MNEMONIC_XCHG, ZYDIS_MNEMONIC_ADD, ZYDIS_MNEMONIC_XOR, ZYDIS_MNEMONIC_SUB,
                ZYDIS_MNEMONIC_AND, ZYDIS_MNEMONIC_OR, ZYDIS_MNEMONIC_XADD, ZYDIS_MNEMONIC_CMPXCHG,
                ZYDIS_MNEMONIC_CMOVB, ZYDIS_MNEMONIC_CMOVNLE, ZYDIS_MNEMONIC_CMOVZ, ZYDIS_MNEMONIC_CMOVNP,
                ZYDIS_MNEMONIC_IMUL, ZYDIS_MNEMONIC_MOVBE}) {
      run(m, {general(size), general(size)});
      run(m, {general(size), memory(size)});
      run(m, {memory(size), general(size)});
    }
    for (M m : {ZYDIS_MNEMONIC_SHL, ZYDIS_MNEMONIC_SHR, ZYDIS_MNEMONIC_SAR, ZYDIS_MNEMONIC_ROL, ZYDIS_MNEMONIC_ROR}) {
      run(m, {general(size), number(8 * (random_() % 8))});
      run(m, {memory(size), number(8 * (random_() % 8))});
      run(m, {general(size), number(random_() % 64)});
    }
    run(ZYDIS_MNEMONIC_MOV, {general(size), number(immediate)});
    run(ZYDIS_MNEMONIC_MOV, {memory(size), number(immediate % 128)});
    run(ZYDIS_MNEMONIC_AND, {general(size), number(0)});
    run(ZYDIS_MNEMONIC_BSWAP, {general(size)});
    run(ZYDIS_MNEMONIC_LEA, {reg(ZYDIS_REGISTER_RAX), memory(8)});
    run(ZYDIS_MNEMONIC_CDQE, {});
    run(ZYDIS_MNEMONIC_CWDE, {});
    run(ZYDIS_MNEMONIC_CDQ, {});
    run(ZYDIS_MNEMONIC_MUL, {general(size)});
    run(ZYDIS_MNEMONIC_SETZ, {general(1)});
    for (M m : {ZYDIS_MNEMONIC_MOVZX, ZYDIS_MNEMONIC_MOVSX}) {
      const uint16_t narrow = random_() % 2 ? 1 : 2;
      run(m, {general(random_() % 2 ? 4 : 8), general(narrow)});
      run(m, {general(random_() % 2 ? 4 : 8), memory(narrow)});
    }
    run(ZYDIS_MNEMONIC_MOVSXD, {general(8), general(4)});
    for (M m : {ZYDIS_MNEMONIC_MOVAPS, ZYDIS_MNEMONIC_MOVUPS, ZYDIS_MNEMONIC_MOVDQA, ZYDIS_MNEMONIC_MOVDQU,
                ZYDIS_MNEMONIC_PUNPCKLQDQ, ZYDIS_MNEMONIC_PUNPCKHQDQ, ZYDIS_MNEMONIC_PUNPCKLDQ,
                ZYDIS_MNEMONIC_PUNPCKHDQ, ZYDIS_MNEMONIC_UNPCKLPS, ZYDIS_MNEMONIC_UNPCKHPD, ZYDIS_MNEMONIC_PXOR,
                ZYDIS_MNEMONIC_PADDD, ZYDIS_MNEMONIC_PCMPEQB}) {
      run(m, {xmm(), xmm()});
      run(m, {xmm(), memory(16, true)});
      run(m, {memory(16, true), xmm()});
    }
    for (M m : {ZYDIS_MNEMONIC_VMOVUPS, ZYDIS_MNEMONIC_VMOVDQU, ZYDIS_MNEMONIC_VMOVAPS}) {
      const uint16_t wide = random_() % 2 ? 16 : 32;
      run(m, {any(wide), any(wide)});
      run(m, {any(wide), memory(wide, true)});
      run(m, {memory(wide, true), any(wide)});
    }
    for (M m : {ZYDIS_MNEMONIC_VPUNPCKLQDQ, ZYDIS_MNEMONIC_VPUNPCKHQDQ, ZYDIS_MNEMONIC_VPUNPCKLDQ,
                ZYDIS_MNEMONIC_VUNPCKLPD, ZYDIS_MNEMONIC_VPXOR, ZYDIS_MNEMONIC_VPADDD}) {
      const uint16_t wide = random_() % 2 ? 16 : 32;
      run(m, {any(wide), any(wide), any(wide)});
      run(m, {any(wide), any(wide), memory(wide)});
    }
    for (M m : {ZYDIS_MNEMONIC_MOVD, ZYDIS_MNEMONIC_MOVQ, ZYDIS_MNEMONIC_VMOVD, ZYDIS_MNEMONIC_VMOVQ,
                ZYDIS_MNEMONIC_MOVSS, ZYDIS_MNEMONIC_MOVSD, ZYDIS_MNEMONIC_VMOVSS, ZYDIS_MNEMONIC_VMOVSD,
                ZYDIS_MNEMONIC_MOVLPS, ZYDIS_MNEMONIC_MOVHPS, ZYDIS_MNEMONIC_MOVHPD, ZYDIS_MNEMONIC_VMOVHPS}) {
      const uint16_t part = random_() % 2 ? 4 : 8;
      run(m, {xmm(), xmm()});
      run(m, {xmm(), general(part)});
      run(m, {general(part), xmm()});
      run(m, {xmm(), memory(part)});
      run(m, {memory(part), xmm()});
    }
    for (M m : {ZYDIS_MNEMONIC_VMOVSS, ZYDIS_MNEMONIC_VMOVSD, ZYDIS_MNEMONIC_VMOVLHPS, ZYDIS_MNEMONIC_VMOVHLPS})
      run(m, {xmm(), xmm(), xmm()});
    run(ZYDIS_MNEMONIC_VMOVLPS, {xmm(), xmm(), memory(8)});
    run(ZYDIS_MNEMONIC_VMOVHPS, {xmm(), xmm(), memory(8)});
    run(ZYDIS_MNEMONIC_MOVLHPS, {xmm(), xmm()});
    run(ZYDIS_MNEMONIC_MOVHLPS, {xmm(), xmm()});
    run(ZYDIS_MNEMONIC_MOVDDUP, {xmm(), xmm()});
    run(ZYDIS_MNEMONIC_PSHUFD, {xmm(), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_VPSHUFD, {ymm(), ymm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PSRLDQ, {xmm(), number(immediate % 20)});
    run(ZYDIS_MNEMONIC_PSLLDQ, {xmm(), number(immediate % 20)});
    run(ZYDIS_MNEMONIC_VPSRLDQ, {ymm(), ymm(), number(immediate % 20)});
    run(ZYDIS_MNEMONIC_VPSLLDQ, {xmm(), xmm(), number(immediate % 20)});
    for (M m : {ZYDIS_MNEMONIC_VPBROADCASTB, ZYDIS_MNEMONIC_VPBROADCASTW, ZYDIS_MNEMONIC_VPBROADCASTD,
                ZYDIS_MNEMONIC_VPBROADCASTQ, ZYDIS_MNEMONIC_VBROADCASTSS}) {
      run(m, {any(random_() % 2 ? 16 : 32), xmm()});
      for (uint16_t element : {1, 2, 4, 8}) run(m, {any(random_() % 2 ? 16 : 32), memory(element)});
    }
    run(ZYDIS_MNEMONIC_VBROADCASTI128, {ymm(), memory(16)});
    run(ZYDIS_MNEMONIC_PEXTRB, {general(4), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PEXTRB, {memory(1), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PEXTRW, {general(4), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PEXTRD, {general(4), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PEXTRQ, {general(8), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PEXTRQ, {memory(8), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_PINSRB, {xmm(), general(4), number(immediate)});
    run(ZYDIS_MNEMONIC_PINSRW, {xmm(), general(4), number(immediate)});
    run(ZYDIS_MNEMONIC_PINSRD, {xmm(), memory(4), number(immediate)});
    run(ZYDIS_MNEMONIC_PINSRQ, {xmm(), general(8), number(immediate)});
    run(ZYDIS_MNEMONIC_VPINSRQ, {xmm(), xmm(), general(8), number(immediate)});
    run(ZYDIS_MNEMONIC_VPINSRD, {xmm(), xmm(), memory(4), number(immediate)});
    run(ZYDIS_MNEMONIC_VINSERTI128, {ymm(), ymm(), xmm(), number(immediate)});
    run(ZYDIS_MNEMONIC_VINSERTF128, {ymm(), ymm(), memory(16), number(immediate)});
    run(ZYDIS_MNEMONIC_VEXTRACTI128, {xmm(), ymm(), number(immediate)});
    run(ZYDIS_MNEMONIC_VEXTRACTF128, {memory(16), ymm(), number(immediate)});
    run(ZYDIS_MNEMONIC_VZEROUPPER, {});
    const uint64_t times = random_() % 8;
    for (M m : {ZYDIS_MNEMONIC_MOVSB, ZYDIS_MNEMONIC_MOVSW, ZYDIS_MNEMONIC_MOVSQ, ZYDIS_MNEMONIC_STOSB,
                ZYDIS_MNEMONIC_STOSD, ZYDIS_MNEMONIC_STOSQ, ZYDIS_MNEMONIC_LODSB, ZYDIS_MNEMONIC_LODSD}) {
      run(m, {}, ZYDIS_ATTRIB_HAS_REP, times);
      run(m, {}, 0, 1);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(tried.size(), 90u);
  EXPECT_GT(copied_, 100'000u);
}

}  // namespace
}  // namespace friday
