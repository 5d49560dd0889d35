#include "core/cut/bitcode/numbering.h"

#include <algorithm>

#include <llvm/IR/Constants.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

namespace friday::cut {
namespace {

bool is_countable(const llvm::Type* type) { return type->isIntegerTy(32) || type->isIntegerTy(64); }

// Whether a call may move bytes of a number that only shows when it runs: to code that this module does not have, with
// memory among its arguments.
bool may_move_bytes(const llvm::CallBase& call) {
  if (call.isInlineAsm() || llvm::isa<llvm::IntrinsicInst>(call)) return false;
  const llvm::Function* callee = call.getCalledFunction();
  if (callee && !callee->isDeclaration()) return false;
  return std::ranges::any_of(call.args(), [](const llvm::Use& each) { return each->getType()->isPointerTy(); });
}

}  // namespace

bool is_outside(const llvm::Function& intrinsic) {
  const llvm::StringRef name = intrinsic.getName();
  for (const char* each : {"llvm.readcyclecounter", "llvm.readsteadycounter", "llvm.x86.rdtsc", "llvm.x86.rdpmc",
                           "llvm.x86.rdrand", "llvm.x86.rdseed", "llvm.x86.rdpid"})
    if (name.starts_with(each)) return true;
  return false;
}

Numbering::Numbering(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (function.isIntrinsic() && !is_outside(function)) continue;
    function_ids_[&function] = static_cast<Id>(functions_.size());
    functions_.push_back(&function);
    for (llvm::BasicBlock& block : function) {
      block_ids_[&block] = static_cast<Id>(blocks_.size());
      blocks_.push_back(&block);
      for (llvm::Instruction& each : block)
        if (auto* call = llvm::dyn_cast<llvm::CallBase>(&each)) number_lengths(*call);
    }
  }
  for (llvm::GlobalIFunc& each : module.ifuncs()) ifuncs_.push_back(&each);
}

void Numbering::add_length(llvm::CallBase& call, LengthSite::What what, unsigned argument) {
  first_lengths_.try_emplace(&call, static_cast<Id>(lengths_.size()));
  lengths_.push_back({&call, what, argument});
}

void Numbering::number_lengths(llvm::CallBase& call) {
  if (auto* memory = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&call)) {
    if (!llvm::isa<llvm::ConstantInt>(memory->getLength())) add_length(call, LengthSite::What::argument, 2);
    return;
  }
  if (!may_move_bytes(call)) return;
  for (unsigned i = 0; i < call.arg_size(); i++) {
    const llvm::Value* argument = call.getArgOperand(i);
    if (is_countable(argument->getType()) && !llvm::isa<llvm::Constant>(argument))
      add_length(call, LengthSite::What::argument, i);
  }
  if (is_countable(call.getType()) && !call.isMustTailCall()) add_length(call, LengthSite::What::result, 0);
}

Id Numbering::length_of_argument(const llvm::CallBase& call, unsigned argument) const {
  for (Id id = find(first_lengths_, &call); id < lengths_.size() && lengths_[id].call == &call; id++)
    if (lengths_[id].what == LengthSite::What::argument && lengths_[id].argument == argument) return id;
  return kNone;
}

Id Numbering::length_of_result(const llvm::CallBase& call) const {
  for (Id id = find(first_lengths_, &call); id < lengths_.size() && lengths_[id].call == &call; id++)
    if (lengths_[id].what == LengthSite::What::result) return id;
  return kNone;
}

Id Numbering::id_of(const llvm::GlobalIFunc& ifunc) const {
  return static_cast<Id>(functions_.size() + (std::ranges::find(ifuncs_, &ifunc) - ifuncs_.begin()));
}

Id Numbering::block_of(const llvm::GlobalIFunc& ifunc) const {
  return static_cast<Id>(blocks_.size() + (std::ranges::find(ifuncs_, &ifunc) - ifuncs_.begin()));
}

}  // namespace friday::cut
