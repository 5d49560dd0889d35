#include "core/cut/bitcode/normalise.h"

#include <vector>

#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/InferFunctionAttrs.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/Local.h>

namespace friday::cut {
namespace {

// Gives an available_externally function a name and code of its own for direct calls. Where its address is taken, the
// address stays that of the function elsewhere: a program may compare it.
void own_inline_function(llvm::Function& function) {
  const std::string name = function.getName().str();
  function.setName(name + ".inline");
  auto* const elsewhere = llvm::Function::Create(function.getFunctionType(), llvm::GlobalValue::ExternalLinkage, name,
                                                 function.getParent());
  elsewhere->copyAttributesFrom(&function);
  elsewhere->setComdat(nullptr);
  elsewhere->setPersonalityFn(nullptr);
  function.replaceUsesWithIf(elsewhere, [&](llvm::Use& use) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(use.getUser());
    return !call || !call->isCallee(&use);
  });
  function.setLinkage(llvm::GlobalValue::InternalLinkage);
  function.setComdat(nullptr);
  function.setVisibility(llvm::GlobalValue::DefaultVisibility);
  function.setDSOLocal(true);
  if (elsewhere->use_empty()) elsewhere->eraseFromParent();
}

void own_inline_functions(llvm::Module& module) {
  std::vector<llvm::Function*> found;
  for (llvm::Function& each : module)
    if (each.hasAvailableExternallyLinkage()) found.push_back(&each);
  for (llvm::Function* each : found) own_inline_function(*each);
  // A constant that another module defines: what this one knows of it may be used by the optimiser only.
  for (llvm::GlobalVariable& each : module.globals()) {
    if (!each.hasAvailableExternallyLinkage()) continue;
    each.setInitializer(nullptr);
    each.setLinkage(llvm::GlobalValue::ExternalLinkage);
  }
}

}  // namespace

void normalise(llvm::Module& module) {
  own_inline_functions(module);
  for (llvm::Function& each : module)
    if (!each.isDeclaration()) llvm::removeUnreachableBlocks(each);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cycles;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cycles);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cycles, modules);
  llvm::InferFunctionAttrsPass().run(module, modules);
  // Run directly, so that functions of -O0 (optnone), which a pass manager leaves out, are treated like all others.
  for (llvm::Function& each : module)
    if (!each.isDeclaration())
      functions.invalidate(each, llvm::SROAPass(llvm::SROAOptions::PreserveCFG).run(each, functions));
}

}  // namespace friday::cut
