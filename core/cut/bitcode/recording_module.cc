#include "core/cut/bitcode/recording_module.h"

#include <fmt/format.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/MDBuilder.h>

#include "core/cut/bitcode/memory.h"

namespace friday::cut {

RecordingModule::RecordingModule(llvm::Module& module, const Plan::Module& plan, const Annotations& annotations)
    : module(module),
      plan(plan),
      annotations(annotations),
      context(module.getContext()),
      layout(module.getDataLayout()),
      pointer(llvm::PointerType::get(context, 0)),
      byte(llvm::Type::getInt8Ty(context)),
      word(llvm::Type::getInt64Ty(context)),
      half(llvm::Type::getInt32Ty(context)),
      nothing(llvm::Type::getVoidTy(context)),
      numbering(module) {
  facts = collect_facts(module, numbering, &places);
}

llvm::Function* RecordingModule::callee_of(const llvm::CallBase& call) {
  llvm::Value* callee = call.getCalledOperand()->stripPointerCasts();
  if (auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(callee)) callee = alias->getAliaseeObject();
  return llvm::dyn_cast_or_null<llvm::Function>(callee);
}

std::string RecordingModule::file_of(const llvm::Function& function) {
  const llvm::DISubprogram* const about = function.getSubprogram();
  return about ? about->getFilename().str() : function.getParent()->getSourceFileName();
}

void RecordingModule::refuse(const llvm::Instruction& at, const std::string& what) {
  const llvm::Function& function = *at.getFunction();
  refused.push_back(fmt::format("{} ({}:{}) {}", symbol_of(function), file_of(function),
                                at.getDebugLoc() ? at.getDebugLoc().getLine() : 0, what));
}
void RecordingModule::refuse(const llvm::Function& at, const std::string& what) {
  refused.push_back(fmt::format("{} ({}:{}) {}", symbol_of(at), file_of(at),
                                at.getSubprogram() ? at.getSubprogram()->getLine() : 0, what));
}

llvm::FunctionCallee RecordingModule::runtime(const char* name, llvm::Type* result,
                                              llvm::ArrayRef<llvm::Type*> parameters) {
  auto callee = module.getOrInsertFunction(name, llvm::FunctionType::get(result, parameters, false));
  llvm::cast<llvm::Function>(callee.getCallee())->setDSOLocal(true);
  return callee;
}

llvm::Value* RecordingModule::is_on(llvm::IRBuilder<>& at) {
  auto* const mode = llvm::cast<llvm::GlobalVariable>(module.getOrInsertGlobal("friday_cut_mode", byte));
  mode->setDSOLocal(true);
  mode->setVisibility(llvm::GlobalValue::HiddenVisibility);
  return at.CreateICmpNE(at.CreateLoad(byte, mode), at.getInt8(0));
}

llvm::MDNode* RecordingModule::rarely() const { return llvm::MDBuilder(context).createBranchWeights(1, 2000); }

llvm::Constant* RecordingModule::text(const std::string& text) {
  llvm::Constant*& known = texts_[text];
  if (known) return known;
  llvm::Constant* const bytes = llvm::ConstantDataArray::getString(context, text);
  auto* const variable =
      new llvm::GlobalVariable(module, bytes->getType(), true, llvm::GlobalValue::PrivateLinkage, bytes, "friday.text");
  variable->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  return known = variable;
}

llvm::Constant* RecordingModule::site(const llvm::Instruction& at, const std::string& what, uint64_t bytes) {
  const llvm::Function& function = *at.getFunction();
  const unsigned line = at.getDebugLoc() ? at.getDebugLoc().getLine() : 0;
  auto* const type = llvm::StructType::get(context, {pointer, pointer, pointer, half, half});
  llvm::Constant* const value =
      llvm::ConstantStruct::get(type, {text(symbol_of(function)), text(file_of(function)), text(what),
                                       llvm::ConstantInt::get(half, line), llvm::ConstantInt::get(half, bytes)});
  auto* const variable =
      new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage, value, "friday.site");
  variable->setSection("friday_sites");
  variable->setAlignment(llvm::Align(8));
  return variable;
}

llvm::Value* RecordingModule::scratch(llvm::Function& function, Scratch use, uint64_t bytes) {
  llvm::AllocaInst*& known = scratch_[{&function, use}];
  llvm::BasicBlock& entry = function.getEntryBlock();
  if (!known) {
    known = new llvm::AllocaInst(llvm::ArrayType::get(byte, 8), layout.getAllocaAddrSpace(), nullptr, llvm::Align(16),
                                 "friday.scratch", entry.begin());
  }
  if (bytes > known->getAllocatedType()->getArrayNumElements())
    known->setAllocatedType(llvm::ArrayType::get(byte, (bytes + 7) / 8 * 8));
  return known;
}

void RecordingModule::give_place(llvm::IRBuilder<>& at, const llvm::Instruction& like) {
  llvm::DebugLoc place = like.getDebugLoc();
  llvm::DISubprogram* const about = like.getFunction()->getSubprogram();
  if (!place && about) place = llvm::DILocation::get(like.getContext(), 0, 0, about);
  at.SetCurrentDebugLocation(place);
}

}  // namespace friday::cut
