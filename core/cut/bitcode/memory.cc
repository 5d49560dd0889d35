#include "core/cut/bitcode/memory.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/Operator.h>

#include "core/cut/bitcode/carriers.h"

namespace friday::cut {
namespace {

Place place_of_variable(const llvm::GlobalVariable& variable) {
  llvm::SmallVector<llvm::DIGlobalVariableExpression*, 1> known;
  variable.getDebugInfo(known);
  if (known.empty()) return {};
  const llvm::DIGlobalVariable* about = known.front()->getVariable();
  return {path_of(about->getFile()), about->getLine()};
}

}  // namespace

Linkage linkage_of(const llvm::GlobalValue& value) {
  if (value.isDeclarationForLinker()) return Linkage::declared;
  if (value.hasLocalLinkage()) return Linkage::internal;
  return value.isWeakForLinker() ? Linkage::weak : Linkage::strong;
}

std::string symbol_of(const llvm::GlobalValue& value) {
  const llvm::StringRef name = value.getName();
  return (name.starts_with("\1") ? name.drop_front() : name).str();
}

std::string path_of(const llvm::DIFile* file) {
  if (!file) return "";
  const std::string name = file->getFilename().str(), directory = file->getDirectory().str();
  return name.starts_with('/') || directory.empty() ? name : directory + "/" + name;
}

bool Memory::is_variable(const llvm::GlobalVariable& variable) {
  return !variable.hasAppendingLinkage() && !variable.getName().starts_with("llvm.") &&
         variable.getSection() != "llvm.metadata";
}

Memory::Memory(llvm::Module& module, const Numbering& numbering, Facts& facts)
    : module_(module), numbering_(numbering), facts_(facts) {
  for (const llvm::GlobalVariable& each : module.globals()) {
    if (!is_variable(each)) continue;
    Object object{.kind = ObjectKind::global, .name = symbol_of(each), .linkage = linkage_of(each)};
    // LLVM knows a variable without a name, if it is the module's own.
    if (object.name.empty()) object.name = "unnamed";
    object.size = each.getValueType()->isSized() ? module.getDataLayout().getTypeAllocSize(each.getValueType()) : 0;
    object.constant = each.isConstant();
    object.thread_local_ = each.isThreadLocal();
    object.place = place_of_variable(each);
    variables_[&each] = add_object(std::move(object));
  }
}

Id Memory::add_object(Object object) {
  facts_.objects.push_back(std::move(object));
  return static_cast<Id>(facts_.objects.size() - 1);
}

Id Memory::object_of_function(Id function) {
  Function& owner = facts_.functions[function];
  owner.address_taken = true;
  if (owner.object == kNone)
    owner.object = add_object({.kind = ObjectKind::function,
                               .name = owner.name,
                               .linkage = owner.linkage,
                               .function = function,
                               .place = owner.place});
  return owner.object;
}

Id Memory::object_of(const llvm::Function& function) {
  const Id id = numbering_.id_of(&function);
  return id == kNone ? kNone : object_of_function(id);
}

Id Memory::object_of(const llvm::GlobalIFunc& ifunc) { return object_of_function(numbering_.id_of(ifunc)); }

Id Memory::object_of(const llvm::GlobalVariable& variable) const {
  const auto found = variables_.find(&variable);
  return found == variables_.end() ? kNone : found->second;
}

Id Memory::address(Id object, int64_t offset) {
  const Id pointer = new_pointer();
  facts_.flows.push_back({.kind = FlowKind::address, .to = pointer, .object = object, .offset = offset});
  return pointer;
}

Id Memory::exceptions() {
  if (exceptions_ == kNone) {
    const Id object = add_object({.kind = ObjectKind::global,
                                  .name = "exceptions on their way",
                                  .linkage = Linkage::weak,
                                  .size = sizeof(void*)});
    exceptions_ = address(object, 0);
  }
  return exceptions_;
}

Id Memory::pointer_of(const llvm::Constant& constant) {
  if (llvm::isa<llvm::ConstantData>(constant) || !can_carry(constant.getType(), module_.getDataLayout())) return kNone;
  if (const auto known = constants_.find(&constant); known != constants_.end()) return known->second;
  const Id made = made_pointer_of(constant);
  return constants_[&constant] = made;
}

Id Memory::made_pointer_of(const llvm::Constant& constant) {
  if (llvm::isa<llvm::BlockAddress>(constant)) return kNone;
  if (constant.getType()->isPointerTy()) {
    llvm::APInt offset(module_.getDataLayout().getIndexTypeSizeInBits(constant.getType()), 0);
    const llvm::Value* base =
        constant.stripAndAccumulateConstantOffsets(module_.getDataLayout(), offset, /*AllowNonInbounds=*/true);
    if (const auto* symbol = llvm::dyn_cast<llvm::GlobalValue>(base))
      return pointer_of_symbol(*symbol, offset.getSExtValue());
  }
  if (const auto* same = llvm::dyn_cast<llvm::DSOLocalEquivalent>(&constant))
    return pointer_of(*same->getGlobalValue());
  if (const auto* same = llvm::dyn_cast<llvm::NoCFIValue>(&constant)) return pointer_of(*same->getGlobalValue());
  const auto* expression = llvm::dyn_cast<llvm::ConstantExpr>(&constant);
  return joined(constant, !expression || expression->isCast());
}

Id Memory::joined(const llvm::Constant& constant, bool exact) {
  llvm::SmallVector<Id, 4> parts;
  for (const llvm::Use& each : constant.operands()) {
    const auto* part = llvm::dyn_cast<llvm::Constant>(each.get());
    if (const Id pointer = part ? pointer_of(*part) : kNone; pointer != kNone) parts.push_back(pointer);
  }
  if (parts.empty()) return kNone;
  if (parts.size() == 1 && exact) return parts.front();
  const Id to = new_pointer();
  for (const Id from : parts)
    facts_.flows.push_back({.kind = FlowKind::copy, .to = to, .from = from, .offset = exact ? 0 : kAnyOffset});
  return to;
}

Id Memory::pointer_of_symbol(const llvm::GlobalValue& value, int64_t offset) {
  if (const auto* function = llvm::dyn_cast<llvm::Function>(&value)) {
    const Id object = object_of(*function);
    return object == kNone ? kNone : address(object, offset);
  }
  if (const auto* ifunc = llvm::dyn_cast<llvm::GlobalIFunc>(&value)) return address(object_of(*ifunc), offset);
  if (const auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(&value)) {
    const Id from = pointer_of(*alias->getAliasee());
    if (from == kNone || offset == 0) return from;
    const Id to = new_pointer();
    facts_.flows.push_back({.kind = FlowKind::copy, .to = to, .from = from, .offset = offset});
    return to;
  }
  const Id object = object_of(llvm::cast<llvm::GlobalVariable>(value));
  return object == kNone ? kNone : address(object, offset);
}

void Memory::add_initial_values(const llvm::GlobalVariable& variable) {
  if (variable.hasInitializer() && is_variable(variable))
    add_initial(variables_.at(&variable), 0, *variable.getInitializer(), 0);
}

void Memory::add_initial(Id object, uint64_t offset, const llvm::Constant& value, unsigned depth) {
  constexpr unsigned kMostDepth = 200;  // types nest as deep as their source does
  if (llvm::isa<llvm::ConstantData>(value) || depth > kMostDepth) return;
  const llvm::DataLayout& layout = module_.getDataLayout();
  if (const auto* structure = llvm::dyn_cast<llvm::ConstantStruct>(&value)) {
    const llvm::StructLayout* places = layout.getStructLayout(structure->getType());
    for (unsigned i = 0; i < structure->getNumOperands(); i++)
      add_initial(object, offset + places->getElementOffset(i), *structure->getOperand(i), depth + 1);
  } else if (llvm::isa<llvm::ConstantArray, llvm::ConstantVector>(value)) {
    for (unsigned i = 0; i < value.getNumOperands(); i++) {
      const auto& element = llvm::cast<llvm::Constant>(*value.getOperand(i));
      add_initial(object, offset + i * layout.getTypeAllocSize(element.getType()), element, depth + 1);
    }
  } else if (const Id from = pointer_of(value); from != kNone) {
    facts_.flows.push_back(
        {.kind = FlowKind::initial, .from = from, .object = object, .offset = static_cast<int64_t>(offset)});
  }
}

}  // namespace friday::cut
