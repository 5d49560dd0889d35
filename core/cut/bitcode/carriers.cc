#include "core/cut/bitcode/carriers.h"

#include <vector>

#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "core/cut/bitcode/numbering.h"

namespace friday::cut {
namespace {

using llvm::Instruction;

// Intrinsics that count, compare or calculate.
bool only_calculates(const llvm::IntrinsicInst& intrinsic) {
  switch (intrinsic.getIntrinsicID()) {
    case llvm::Intrinsic::ctpop:
    case llvm::Intrinsic::ctlz:
    case llvm::Intrinsic::cttz:
    case llvm::Intrinsic::objectsize:
    case llvm::Intrinsic::umul_with_overflow:
    case llvm::Intrinsic::smul_with_overflow:
    case llvm::Intrinsic::is_constant: return true;
    default: return intrinsic.getType()->isFPOrFPVectorTy();
  }
}

bool is_code(const llvm::CallBase& call) {
  const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&call);
  return !intrinsic || is_outside(*intrinsic->getCalledFunction());
}

void add_arguments(const llvm::CallBase& call, llvm::SmallVector<llvm::Value*, 4>& list) {
  for (const llvm::Use& each : call.args())
    if (!each->getType()->isMetadataTy()) list.push_back(each.get());
}

bool is_move(const Instruction& instruction) {
  return llvm::isa<llvm::CastInst, llvm::FreezeInst, llvm::PHINode, llvm::SelectInst>(instruction);
}

}  // namespace

bool can_carry(const llvm::Type* type, const llvm::DataLayout& layout) {
  if (type->isPointerTy()) return true;
  if (!type->isSized() || type->isScalableTy()) return false;
  return layout.getTypeStoreSize(const_cast<llvm::Type*>(type)).getFixedValue() >= 8;
}

llvm::SmallVector<llvm::Value*, 4> passed_on(const Instruction& instruction) {
  llvm::SmallVector<llvm::Value*, 4> list;
  switch (instruction.getOpcode()) {
    case Instruction::PHI:
      for (const llvm::Use& each : llvm::cast<llvm::PHINode>(instruction).incoming_values()) list.push_back(each.get());
      break;
    case Instruction::Select: list = {instruction.getOperand(1), instruction.getOperand(2)}; break;
    case Instruction::Add:
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::InsertValue:
    case Instruction::InsertElement:
    case Instruction::ShuffleVector: list = {instruction.getOperand(0), instruction.getOperand(1)}; break;
    case Instruction::Sub:
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
    case Instruction::Freeze:
    case Instruction::ExtractValue:
    case Instruction::ExtractElement:
    case Instruction::GetElementPtr: list = {instruction.getOperand(0)}; break;
    case Instruction::Call:
    case Instruction::Invoke: {
      const auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (intrinsic && !is_code(*intrinsic) && !only_calculates(*intrinsic)) add_arguments(*intrinsic, list);
      break;
    }
    default:
      if (instruction.isCast()) list = {instruction.getOperand(0)};
  }
  return list;
}

llvm::SmallVector<const llvm::LoadInst*, 2> pieces_of(const llvm::StoreInst& store) {
  constexpr size_t kMostVisited = 32;
  llvm::SmallVector<const llvm::LoadInst*, 2> loads;
  llvm::SmallVector<const llvm::Value*, 8> seen{store.getValueOperand()};
  for (size_t at = 0; at < seen.size() && at < kMostVisited; at++) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(seen[at])) loads.push_back(load);
    const auto* instruction = llvm::dyn_cast<Instruction>(seen[at]);
    if (!instruction || !is_move(*instruction)) continue;
    for (llvm::Value* each : passed_on(*instruction))
      if (!llvm::is_contained(seen, each)) seen.push_back(each);
  }
  return loads;
}

Carriers::Carriers(const llvm::Function& function) : layout_(function.getParent()->getDataLayout()) {
  go_forward(function);
  go_back(function);
}

bool Carriers::contains(const llvm::Value* value) const {
  if (!can_carry(value->getType(), layout_)) return false;
  if (value->getType()->isPointerTy()) return true;
  return from_address_.contains(value) && to_address_.contains(value);
}

// Whether an address may come into the function by this value.
bool Carriers::may_begin(const llvm::Value& value) const {
  if (!can_carry(value.getType(), layout_)) return false;
  if (value.getType()->isPointerTy() || llvm::isa<llvm::Argument>(value)) return true;
  if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&value)) return is_code(*call) || call->mayReadFromMemory();
  return llvm::isa<llvm::LoadInst, llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst, llvm::LandingPadInst, llvm::VAArgInst>(
      value);
}

// Whether an address may leave the function, or become a pointer, by one of the value's uses.
bool Carriers::may_end(const llvm::Value& value) const {
  return llvm::any_of(value.uses(), [&](const llvm::Use& use) {
    const auto* user = llvm::dyn_cast<Instruction>(use.getUser());
    if (!user) return false;
    if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(user)) return store->getValueOperand() == &value;
    if (const auto* call = llvm::dyn_cast<llvm::CallBase>(user)) return is_code(*call) || call->mayWriteToMemory();
    if (llvm::isa<llvm::ReturnInst, llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst, llvm::ResumeInst>(user)) return true;
    return user->getType()->isPtrOrPtrVectorTy() && llvm::is_contained(passed_on(*user), &value);
  });
}

void Carriers::go_forward(const llvm::Function& function) {
  std::vector<const llvm::Value*> fresh;
  const auto add = [&](const llvm::Value* value) {
    if (can_carry(value->getType(), layout_) && from_address_.insert(value).second) fresh.push_back(value);
  };
  // An address that is a constant has no beginning in the function.
  const auto takes_constant = [](const Instruction& each) {
    return llvm::any_of(passed_on(each), [](const llvm::Value* from) {
      return llvm::isa<llvm::Constant>(from) && !llvm::isa<llvm::ConstantData>(from);
    });
  };
  for (const llvm::Argument& each : function.args())
    if (may_begin(each)) add(&each);
  for (const llvm::BasicBlock& block : function)
    for (const Instruction& each : block)
      if (may_begin(each) || takes_constant(each)) add(&each);
  while (!fresh.empty()) {
    const llvm::Value* value = fresh.back();
    fresh.pop_back();
    for (const llvm::User* user : value->users())
      if (const auto* instruction = llvm::dyn_cast<Instruction>(user);
          instruction && llvm::is_contained(passed_on(*instruction), value))
        add(instruction);
  }
}

void Carriers::go_back(const llvm::Function& function) {
  std::vector<const llvm::Value*> fresh;
  const auto add = [&](const llvm::Value* value) {
    if (can_carry(value->getType(), layout_) && to_address_.insert(value).second) fresh.push_back(value);
  };
  for (const llvm::Argument& each : function.args())
    if (may_end(each)) add(&each);
  for (const llvm::BasicBlock& block : function)
    for (const Instruction& each : block)
      if (may_end(each)) add(&each);
  while (!fresh.empty()) {
    const auto* instruction = llvm::dyn_cast<Instruction>(fresh.back());
    fresh.pop_back();
    if (!instruction) continue;
    for (const llvm::Value* each : passed_on(*instruction)) add(each);
  }
}

}  // namespace friday::cut
