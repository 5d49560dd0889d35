#include "core/infer/solver/vex.h"

#include <csetjmp>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include <sys/mman.h>

extern "C" {
extern VexControl vex_control;  // of libvex; its headers do not declare it, but it may be changed between translations
void friday_infer_enter(void* state, const void* code);
void friday_infer_leave();
}

// Code that VEX's back end has made expects the guest state in rbp, the x87 control word 0x27f and MXCSR 0x1f80. It
// ends with a jump to the address that it was given as disp_cp_xassisted, and keeps no register.
asm(R"(
  .text
  .globl friday_infer_enter
  .type friday_infer_enter, @function
friday_infer_enter:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  sub $24, %rsp
  fnstcw 8(%rsp)
  movw $0x27f, 10(%rsp)
  fldcw 10(%rsp)
  mov %rdi, %rbp
  jmp *%rsi
  .globl friday_infer_leave
friday_infer_leave:
  fldcw 8(%rsp)
  add $24, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
  .size friday_infer_enter, .-friday_infer_enter
)");

namespace friday::infer {
namespace {

constexpr size_t kCodeOfOneOperation = 4096;
constexpr Long kResultPlace = 224 + 32 * 4;

std::jmp_buf vex_failure;
bool vex_guarded = false;
IROp compiled_operation = Iop_INVALID;

__attribute__((noreturn)) void vex_failed() {  // an attribute of its type, which VEX's declaration has
  if (vex_guarded) std::longjmp(vex_failure, 1);
  std::abort();
}
std::string vex_text;
bool vex_listened_to = false;
void vex_says(const HChar* text, SizeT length) {
  if (vex_listened_to) vex_text.append(text, length);
}
Bool vex_follows(void*, Addr) { return False; }
UInt vex_self_check(void*, VexRegisterUpdates* updates, const VexGuestExtents*) {
  *updates = VexRegUpdSpAtMemAccess;  // registers need to be right at the end of a block only
  return 0;
}

// The processor that programs are translated for. Instructions that the machine does not have do not occur, so it has
// all that VEX knows; rdrand and rdseed never reach VEX.
constexpr UInt kProcessor = VEX_HWCAPS_AMD64_SSE3 | VEX_HWCAPS_AMD64_SSSE3 | VEX_HWCAPS_AMD64_CX16 |
                            VEX_HWCAPS_AMD64_LZCNT | VEX_HWCAPS_AMD64_AVX | VEX_HWCAPS_AMD64_AVX2 |
                            VEX_HWCAPS_AMD64_BMI | VEX_HWCAPS_AMD64_RDTSCP | VEX_HWCAPS_AMD64_F16C;

void start_vex() {
  static bool started = false;
  if (started) return;
  started = true;
  VexControl control;
  LibVEX_default_VexControl(&control);
  control.iropt_level = 2;
  control.iropt_unroll_thresh = 0;
  control.iropt_register_updates_default = VexRegUpdSpAtMemAccess;
  control.guest_chase = False;
  LibVEX_Init(vex_failed, vex_says, 0, &control);
}

VexTranslateArgs arguments_for_vex(const uint8_t* code, uint64_t address, VexGuestExtents* extents) {
  VexTranslateArgs arguments{};
  arguments.arch_guest = arguments.arch_host = VexArchAMD64;
  LibVEX_default_VexArchInfo(&arguments.archinfo_guest);
  arguments.archinfo_guest.endness = VexEndnessLE;
  arguments.archinfo_guest.hwcaps = kProcessor;
  arguments.archinfo_host = arguments.archinfo_guest;
  LibVEX_default_VexAbiInfo(&arguments.abiinfo_both);
  arguments.abiinfo_both.guest_stack_redzone_size = 128;
  arguments.abiinfo_both.guest_amd64_assume_fs_is_const = True;
  arguments.abiinfo_both.guest_amd64_assume_gs_is_const = True;
  arguments.guest_bytes = code;
  arguments.guest_bytes_addr = address;
  arguments.chase_into_ok = vex_follows;
  arguments.guest_extents = extents;
  arguments.needs_self_check = vex_self_check;
  arguments.disp_cp_xassisted = reinterpret_cast<const void*>(friday_infer_leave);
  return arguments;
}

IRExpr* get_operand(IRSB* block, IRType type, Int place) {
  const IRType loaded = type == Ity_I1 ? Ity_I8 : type;
  const IRTemp temporary = newIRTemp(block->tyenv, loaded);
  addStmtToIRSB(block, IRStmt_WrTmp(temporary, IRExpr_Get(place, loaded)));
  if (type != Ity_I1) return IRExpr_RdTmp(temporary);
  const IRTemp wide = newIRTemp(block->tyenv, Ity_I64), bit = newIRTemp(block->tyenv, Ity_I1);
  addStmtToIRSB(block, IRStmt_WrTmp(wide, IRExpr_Unop(Iop_8Uto64, IRExpr_RdTmp(temporary))));
  addStmtToIRSB(block, IRStmt_WrTmp(bit, IRExpr_Unop(Iop_64to1, IRExpr_RdTmp(wide))));
  return IRExpr_RdTmp(bit);
}

IRExpr* applied(IROp operation, IRExpr* const* operands, int count) {
  switch (count) {
    case 1: return IRExpr_Unop(operation, operands[0]);
    case 2: return IRExpr_Binop(operation, operands[0], operands[1]);
    case 3: return IRExpr_Triop(operation, operands[0], operands[1], operands[2]);
    default: return IRExpr_Qop(operation, operands[0], operands[1], operands[2], operands[3]);
  }
}

// Called by VEX between front end and back end: puts a block of our own in place of the lifted one.
IRSB* block_of_one_operation(void*, IRSB*, const VexGuestLayout*, const VexGuestExtents*, const VexArchInfo*, IRType,
                             IRType) {
  IRType types[5] = {Ity_INVALID, Ity_INVALID, Ity_INVALID, Ity_INVALID, Ity_INVALID};
  typeOfPrimop(compiled_operation, &types[0], &types[1], &types[2], &types[3], &types[4]);
  IRSB* block = emptyIRSB();
  IRExpr* operands[4];
  int count = 0;
  for (; count < 4 && types[count + 1] != Ity_INVALID; ++count) {
    operands[count] = get_operand(block, types[count + 1], 224 + 32 * count);
  }
  const IRTemp result = newIRTemp(block->tyenv, types[0]);
  addStmtToIRSB(block, IRStmt_WrTmp(result, applied(compiled_operation, operands, count)));
  if (types[0] == Ity_I1) {
    const IRTemp wide = newIRTemp(block->tyenv, Ity_I64);
    addStmtToIRSB(block, IRStmt_WrTmp(wide, IRExpr_Unop(Iop_1Uto64, IRExpr_RdTmp(result))));
    addStmtToIRSB(block, IRStmt_Put(kResultPlace, IRExpr_RdTmp(wide)));
  } else {
    addStmtToIRSB(block, IRStmt_Put(kResultPlace, IRExpr_RdTmp(result)));
  }
  block->next = IRExpr_Const(IRConst_U64(0));
  block->jumpkind = Ijk_Boring;
  block->offsIP = offsetof(GuestState, guest_RIP);
  return block;
}

// Nothing in here may have a destructor that matters: a failure of VEX jumps out of it.
Int compile_into(uint8_t* place) {
  static const uint8_t nothing[32] = {0x90, 0xc3};
  VexGuestExtents extents;
  Int used = 0;
  VexTranslateArgs arguments = arguments_for_vex(nothing, 0x1000, &extents);
  arguments.instrument1 = block_of_one_operation;
  arguments.host_bytes = place;
  arguments.host_bytes_size = kCodeOfOneOperation;
  arguments.host_bytes_used = &used;
  vex_control.guest_max_insns = 1;
  vex_guarded = true;
  if (setjmp(vex_failure) != 0) {
    vex_guarded = false;
    return 0;
  }
  const VexTranslateResult result = LibVEX_Translate(&arguments);
  vex_guarded = false;
  return result.status == VexTranslateResult::VexTransOK ? used : 0;
}

// Memory for compiled operations. It is made executable once, because a confined program cannot do so later, is only
// used as far as it is needed, and never given back.
uint8_t* room_for_code() {
  constexpr size_t kOperations = static_cast<size_t>(Iop_LAST - Iop_INVALID);
  static const auto all =
      static_cast<uint8_t*>(mmap(nullptr, kOperations * kCodeOfOneOperation, PROT_READ | PROT_WRITE | PROT_EXEC,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  static size_t used = 0;
  if (static_cast<void*>(all) == MAP_FAILED || used == kOperations) return nullptr;
  return all + kCodeOfOneOperation * used++;
}

}  // namespace

void prepare_vex() {
  start_vex();
  (void)room_for_code();
}

const IRSB* lift(uint64_t address, const uint8_t* code, int instructions) {
  start_vex();
  static VexGuestExtents extents;
  static VexTranslateArgs arguments;
  arguments = arguments_for_vex(code, address, &extents);
  vex_control.guest_max_insns = instructions;
  vex_guarded = true;
  if (setjmp(vex_failure) != 0) {
    vex_guarded = false;
    return nullptr;
  }
  VexTranslateResult result;
  VexRegisterUpdates updates;
  const IRSB* block = LibVEX_FrontEnd(&arguments, &result, &updates);
  vex_guarded = false;
  return block;
}

int bits_of(IRType type) {
  switch (type) {
    case Ity_INVALID: return 0;
    case Ity_I1: return 1;
    default: return 8 * sizeofIRType(type);
  }
}

const Signature& signature_of(IROp operation) {
  static std::unordered_map<int, Signature> known;
  const auto found = known.find(operation);
  if (found != known.end()) return found->second;
  IRType types[5] = {Ity_INVALID, Ity_INVALID, Ity_INVALID, Ity_INVALID, Ity_INVALID};
  typeOfPrimop(operation, &types[0], &types[1], &types[2], &types[3], &types[4]);
  Signature signature;
  signature.result = static_cast<uint16_t>(bits_of(types[0]));
  for (; signature.count < 4 && types[signature.count + 1] != Ity_INVALID; ++signature.count) {
    signature.operands[signature.count] = static_cast<uint16_t>(bits_of(types[signature.count + 1]));
  }
  return known.emplace(operation, signature).first->second;
}

std::string name_of(IROp operation) {
  start_vex();
  vex_text.clear();
  vex_listened_to = true;
  ppIROp(operation);
  vex_listened_to = false;
  return vex_text;
}

void NativeOperation::run(Workbench& bench) const {
  *reinterpret_cast<uint32_t*>(bench.state + 8) = 1u << 30;  // host_EvC_COUNTER: the code leaves early when it runs out
  friday_infer_enter(bench.state, code_);
}

const NativeOperation* native_operation(IROp operation) {
  static std::unordered_map<int, std::unique_ptr<NativeOperation>> known;
  const auto found = known.find(operation);
  if (found != known.end()) return found->second.get();
  start_vex();
  std::unique_ptr<NativeOperation> compiled;
  compiled_operation = operation;
  if (uint8_t* place = room_for_code(); place != nullptr && compile_into(place) > 0) {
    compiled = std::make_unique<NativeOperation>(place);
  }
  return known.emplace(operation, std::move(compiled)).first->second.get();
}

}  // namespace friday::infer
