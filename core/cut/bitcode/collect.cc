#include "core/cut/bitcode/collect.h"

#include <llvm/IR/DebugInfoMetadata.h>

#include "core/cut/bitcode/code.h"
#include "core/cut/bitcode/memory.h"

namespace friday::cut {
namespace {

class ModuleFacts {
 public:
  ModuleFacts(llvm::Module& module, const Numbering& numbering, Places* places)
      : module_(module), numbering_(numbering), places_(places) {}

  Facts run() {
    for (const llvm::Function* each : numbering_.functions()) add_function(*each);
    for (const llvm::GlobalIFunc* each : numbering_.ifuncs()) add_ifunc(*each);
    Memory memory(module_, numbering_, facts_);
    Code code(numbering_, memory, facts_, places_);
    facts_.lengths = static_cast<uint32_t>(numbering_.lengths().size());
    for (llvm::Function* each : numbering_.functions()) code.declare(*each);
    for (const llvm::GlobalVariable& each : module_.globals()) memory.add_initial_values(each);
    for (llvm::Function* each : numbering_.functions())
      if (!each->isDeclaration()) code.add(*each);
    for (const llvm::GlobalIFunc* each : numbering_.ifuncs()) code.add(*each);
    mark_started("llvm.global_ctors");
    mark_started("llvm.global_dtors");
    add_aliases(memory);
    if (!module_.getModuleInlineAsm().empty()) facts_.unseen.push_back({.what = "assembler text outside of functions"});
    if (places_) add_variables(memory);
    return std::move(facts_);
  }

 private:
  void add_variables(const Memory& memory) {
    places_->objects.resize(facts_.objects.size(), nullptr);
    for (llvm::GlobalVariable& each : module_.globals())
      if (const Id id = memory.object_of(each); id != kNone) places_->objects[id] = &each;
  }

  void add_function(const llvm::Function& function) {
    Function fact{.name = symbol_of(function), .linkage = linkage_of(function), .variadic = function.isVarArg()};
    if (fact.name.empty()) fact.name = "unnamed";
    if (const llvm::DISubprogram* about = function.getSubprogram())
      fact.place = {path_of(about->getFile()), about->getLine()};
    fact.shape = shape_of(*function.getFunctionType());
    if (!function.isDeclaration()) fact.first_block = numbering_.id_of(&function.getEntryBlock());
    facts_.functions.push_back(std::move(fact));
  }

  void add_ifunc(const llvm::GlobalIFunc& ifunc) {
    Function fact{.name = symbol_of(ifunc), .linkage = linkage_of(ifunc)};
    if (const auto* type = llvm::dyn_cast<llvm::FunctionType>(ifunc.getValueType())) {
      fact.shape = shape_of(*type);
      fact.variadic = type->isVarArg();
    }
    fact.first_block = numbering_.block_of(ifunc);
    facts_.functions.push_back(std::move(fact));
  }

  // The functions in a list of what the loader calls.
  void mark_started(const char* list) {
    const llvm::GlobalVariable* variable = module_.getGlobalVariable(list);
    if (!variable || !variable->hasInitializer()) return;
    const auto* entries = llvm::dyn_cast<llvm::ConstantArray>(variable->getInitializer());
    if (!entries) return;
    for (const llvm::Use& each : entries->operands())
      if (const auto* entry = llvm::dyn_cast<llvm::ConstantStruct>(each); entry && entry->getNumOperands() > 1)
        if (const auto* function = llvm::dyn_cast<llvm::Function>(entry->getOperand(1)->stripPointerCasts()))
          if (const Id id = numbering_.id_of(function); id != kNone) facts_.functions[id].started = true;
  }

  void add_aliases(Memory& memory) {
    for (const llvm::GlobalAlias& each : module_.aliases()) {
      Alias alias{.name = symbol_of(each), .linkage = linkage_of(each)};
      const llvm::GlobalObject* const base = each.getAliaseeObject();
      if (const auto* function = llvm::dyn_cast_or_null<llvm::Function>(base)) {
        alias.function = numbering_.id_of(function);
      } else if (const auto* ifunc = llvm::dyn_cast_or_null<llvm::GlobalIFunc>(base)) {
        alias.function = numbering_.id_of(*ifunc);
      } else if (const auto* variable = llvm::dyn_cast_or_null<llvm::GlobalVariable>(base)) {
        alias.object = memory.object_of(*variable);
      }
      if (alias.function != kNone || alias.object != kNone) facts_.aliases.push_back(std::move(alias));
    }
  }

  llvm::Module& module_;
  const Numbering& numbering_;
  Places* places_;
  Facts facts_;
};

}  // namespace

Facts collect_facts(llvm::Module& module, const Numbering& numbering, Places* places) {
  return ModuleFacts(module, numbering, places).run();
}

}  // namespace friday::cut
