#include "core/cut/bitcode/code.h"

#include <algorithm>

#include <llvm/IR/DebugInfo.h>
#include <llvm/IR/GetElementPtrTypeIterator.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Operator.h>

namespace friday::cut {
namespace {

constexpr uint64_t kWord = 8;        // bytes of a pointer
constexpr uint64_t kMostExact = 64;  // bytes of a value whose words are told apart
constexpr uint64_t kVaListBytes =
    24;  // of x86-64: two offsets, then the pointers to the arguments on the stack and in registers

uint32_t line_of(const llvm::Instruction& instruction) {
  const llvm::DebugLoc& place = instruction.getDebugLoc();
  return place ? place.getLine() : 0;
}

uint32_t first_line_of(const llvm::BasicBlock& block) {
  for (const llvm::Instruction& each : block)
    if (const uint32_t line = line_of(each)) return line;
  return 0;
}

void mix(uint64_t& hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
}

void mix_type(uint64_t& hash, const llvm::Type& type) {
  mix(hash, type.isPointerTy() ? uint64_t{llvm::Type::IntegerTyID} : uint64_t{type.getTypeID()});
  if (type.isPointerTy()) mix(hash, 64);
  else if (type.isIntegerTy()) mix(hash, type.getIntegerBitWidth());
  else if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(&type)) mix(hash, vector->getNumElements());
  if (!type.isPointerTy())
    for (const llvm::Type* part : type.subtypes()) mix_type(hash, *part);
}

// The source's variable for which the compiler made this one, if it says so. With optimisation it does so by
// assignments.
const llvm::DILocalVariable* source_of(llvm::AllocaInst& variable) {
  for (const llvm::DbgVariableRecord* each : llvm::findDVRDeclares(&variable)) return each->getVariable();
  for (const llvm::DbgDeclareInst* each : llvm::findDbgDeclares(&variable)) return each->getVariable();
  for (const llvm::DbgVariableRecord* each : llvm::at::getDVRAssignmentMarkers(&variable)) return each->getVariable();
  for (const llvm::DbgAssignIntrinsic* each : llvm::at::getAssignmentMarkers(&variable)) return each->getVariable();
  return nullptr;
}

// Intrinsics that only tell the compiler something, or that move no memory that a program sees.
bool is_remark(const llvm::IntrinsicInst& intrinsic) {
  if (intrinsic.isAssumeLikeIntrinsic() || intrinsic.isLifetimeStartOrEnd()) return true;
  switch (intrinsic.getIntrinsicID()) {
    case llvm::Intrinsic::stacksave:
    case llvm::Intrinsic::stackrestore:
    case llvm::Intrinsic::prefetch:
    case llvm::Intrinsic::vaend:
    case llvm::Intrinsic::eh_typeid_for:
    case llvm::Intrinsic::returnaddress:
    case llvm::Intrinsic::frameaddress: return true;
    default: return false;
  }
}

// What an intrinsic makes of an address is the address itself, whole or in part.
bool keeps_address(const llvm::IntrinsicInst& intrinsic) {
  switch (intrinsic.getIntrinsicID()) {
    case llvm::Intrinsic::launder_invariant_group:
    case llvm::Intrinsic::strip_invariant_group:
    case llvm::Intrinsic::threadlocal_address:
    case llvm::Intrinsic::expect:
    case llvm::Intrinsic::expect_with_probability:
    case llvm::Intrinsic::annotation:
    case llvm::Intrinsic::ptr_annotation:
    case llvm::Intrinsic::ssa_copy:
    case llvm::Intrinsic::preserve_static_offset: return true;
    default: return false;
  }
}

}  // namespace

uint64_t shape_of(const llvm::FunctionType& type) {
  uint64_t hash = 1;
  mix_type(hash, *type.getReturnType());
  for (const llvm::Type* each : type.params()) mix_type(hash, *each);
  return hash ? hash : 1;
}

Code::Code(const Numbering& numbering, Memory& memory, Facts& facts, Places* places)
    : numbering_(numbering), memory_(memory), facts_(facts), places_(places), results_(facts.functions.size(), kNone) {
  for (const llvm::BasicBlock* each : numbering.blocks())
    facts.blocks.push_back({numbering.id_of(each->getParent()), first_line_of(*each)});
  for (const llvm::GlobalIFunc* each : numbering.ifuncs()) facts.blocks.push_back({numbering.id_of(*each), 0});
}

void Code::declare(llvm::Function& function) {
  layout_ = &function.getParent()->getDataLayout();
  const Id id = numbering_.id_of(&function);
  Function& fact = facts_.functions[id];
  llvm::Type* const type = function.getReturnType();
  if (!type->isVoidTy()) fact.result.bytes = static_cast<uint32_t>(size_of(type));
  if (!type->isVoidTy() && can_carry(type, *layout_)) results_[id] = fact.result.pointer = memory_.new_pointer();
  for (const llvm::Argument& each : function.args()) {
    llvm::Type* const whole = each.hasByValAttr() ? each.getParamByValType() : each.getType();
    fact.parameters.push_back({.bytes = static_cast<uint32_t>(size_of(whole))});
  }
}

void Code::add(llvm::Function& function) {
  function_ = numbering_.id_of(&function);
  layout_ = &function.getParent()->getDataLayout();
  carriers_ = std::make_unique<Carriers>(function);
  pointers_.clear();
  block_ = numbering_.id_of(&function.getEntryBlock());
  line_ = facts_.functions[function_].place.line;
  if (function.hasFnAttribute(llvm::Attribute::Naked)) unseen("a function of assembler text only (naked)");
  add_parameters(function);
  if (function.isVarArg()) add_variable_arguments(function);
  for (llvm::BasicBlock& block : function) {
    block_ = numbering_.id_of(&block);
    for (Instruction& each : block) {
      line_ = line_of(each);
      instruction_ = &each;
      visit(each);
    }
  }
}

void Code::add(const llvm::GlobalIFunc& ifunc) {
  function_ = numbering_.id_of(ifunc);
  block_ = numbering_.block_of(ifunc);
  line_ = 0;
  const auto* resolver = llvm::dyn_cast<llvm::Function>(ifunc.getResolver()->stripPointerCasts());
  const auto* type = llvm::dyn_cast<llvm::FunctionType>(ifunc.getValueType());
  const Id chosen = resolver ? numbering_.id_of(resolver) : kNone;
  Call call{.function = function_, .block = block_, .shape = type ? shape_of(*type) : 0};
  call.target = memory_.new_pointer();
  if (chosen != kNone && results_[chosen] != kNone) flow(FlowKind::copy, call.target, results_[chosen]);
  const auto pass = [&](llvm::Type* each) {
    const bool carries = !each->isVoidTy() && can_carry(each, *layout_);
    return Handed{.pointer = carries ? memory_.new_pointer() : kNone,
                  .bytes = each->isVoidTy() ? 0 : static_cast<uint32_t>(size_of(each))};
  };
  if (type) {
    for (llvm::Type* each : type->params()) call.arguments.push_back(pass(each));
    call.result = pass(type->getReturnType());
  }
  facts_.functions[function_].parameters = call.arguments;
  facts_.functions[function_].result = call.result;
  facts_.calls.push_back(std::move(call));
  if (places_) places_->calls.push_back(nullptr);
}

uint64_t Code::size_of(llvm::Type* type) const {
  if (!type->isSized() || type->isScalableTy()) return 0;
  return std::min<uint64_t>(layout_->getTypeStoreSize(type).getFixedValue(), UINT32_MAX);
}

void Code::flow(FlowKind kind, Id to, Id from, int64_t offset, uint32_t stride, uint32_t span) {
  if (to == kNone || from == kNone) return;
  facts_.flows.push_back(
      {.kind = kind, .to = to, .from = from, .offset = offset, .function = function_, .stride = stride, .span = span});
}

Id Code::moved(Id from, int64_t offset, uint32_t stride, uint32_t span) {
  if (from == kNone || offset == 0) return from;
  const Id to = memory_.new_pointer();
  flow(FlowKind::copy, to, from, offset, stride, span);
  return to;
}

Id Code::pointer_of(const llvm::Value& value) {
  if (const auto* constant = llvm::dyn_cast<llvm::Constant>(&value)) return memory_.pointer_of(*constant);
  if (llvm::isa<llvm::MetadataAsValue, llvm::InlineAsm, llvm::BasicBlock>(value) || !carriers_->contains(&value))
    return kNone;
  const auto [known, is_new] = pointers_.try_emplace(&value, kNone);
  if (is_new) known->second = memory_.new_pointer();
  return known->second;
}

Id Code::address_of(const llvm::Value& value) {
  const Id pointer = pointer_of(value);
  return pointer == kNone ? memory_.new_pointer() : pointer;
}

void Code::copy(const llvm::Value& to, const llvm::Value& from, int64_t offset) {
  const Id target = pointer_of(to);
  if (target != kNone) flow(FlowKind::copy, target, pointer_of(from), offset);
}

void Code::read_value(Id to, Id from, uint64_t bytes) {
  if (to == kNone) return;
  if (bytes > kMostExact) return flow(FlowKind::load, to, moved(from, kAnyOffset));
  for (uint64_t at = 0; at + kWord <= bytes; at += kWord)
    flow(FlowKind::load, to, moved(from, static_cast<int64_t>(at)));
}

void Code::write_value(Id to, Id value, uint64_t bytes) {
  if (value == kNone) return;
  if (bytes > kMostExact) return flow(FlowKind::store, moved(to, kAnyOffset), value);
  for (uint64_t at = 0; at + kWord <= bytes; at += kWord)
    flow(FlowKind::store, moved(to, static_cast<int64_t>(at)), value);
}

Id Code::access(const llvm::Value& address, bool reads, bool writes, uint64_t bytes, Id length) {
  const Id pointer = address_of(address);
  const auto fixed = length == kNone ? static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX)) : 0;
  facts_.accesses.push_back({.function = function_,
                             .block = block_,
                             .pointer = pointer,
                             .reads = reads,
                             .writes = writes,
                             .bytes = fixed,
                             .length = length,
                             .line = line_});
  if (places_) places_->accesses.push_back({instruction_, const_cast<llvm::Value*>(&address)});
  return pointer;
}

void Code::stands_at(Id object, const llvm::Value& value) {
  if (!places_) return;
  places_->objects.resize(object + 1, nullptr);
  places_->objects[object] = const_cast<llvm::Value*>(&value);
}

void Code::unseen(std::string what) { facts_.unseen.push_back({function_, line_, std::move(what)}); }

void Code::add_parameters(llvm::Function& function) {
  for (const llvm::Argument& each : function.args()) {
    Id pointer = pointer_of(each);
    if (each.hasByValAttr()) {
      // The caller hands over the bytes: the function has a variable of its own for them.
      llvm::Type* const type = each.getParamByValType();
      const Id object = memory_.add_object({.kind = ObjectKind::stack,
                                            .name = each.getName().str(),
                                            .function = function_,
                                            .size = layout_->getTypeAllocSize(type)});
      facts_.flows.push_back({.kind = FlowKind::address, .to = pointer, .object = object, .function = function_});
      stands_at(object, each);
      const Id own = pointer;
      pointer = memory_.new_pointer();
      flow(FlowKind::move, own, pointer, static_cast<int64_t>(size_of(type)));
    }
    facts_.functions[function_].parameters[each.getArgNo()].pointer = pointer;
  }
}

void Code::add_variable_arguments(llvm::Function&) {
  const Id object = memory_.add_object({.kind = ObjectKind::stack, .name = "...", .function = function_});
  const Id pointer = memory_.new_pointer();
  facts_.flows.push_back({.kind = FlowKind::address, .to = pointer, .object = object, .function = function_});
  facts_.functions[function_].variable_arguments = pointer;
}

void Code::visit(Instruction& instruction) {
  if (auto* variable = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) visit_alloca(*variable);
  else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) visit_load(*load);
  else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) visit_store(*store);
  else if (auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction)) visit_address(*address);
  else if (auto* change = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
    visit_exchange(*change, *change->getPointerOperand(), *change->getValOperand());
  else if (auto* exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
    visit_exchange(*exchange, *exchange->getPointerOperand(), *exchange->getNewValOperand());
  else if (auto* end = llvm::dyn_cast<llvm::ReturnInst>(&instruction)) visit_return(*end);
  else if (auto* pad = llvm::dyn_cast<llvm::LandingPadInst>(&instruction)) visit_catch(*pad);
  else if (auto* intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
           intrinsic && !is_outside(*intrinsic->getCalledFunction()))
    visit_intrinsic(*intrinsic);
  else if (auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction)) visit_call(*call);
  else if (auto* argument = llvm::dyn_cast<llvm::VAArgInst>(&instruction)) {
    const Id list = access(*argument->getPointerOperand(), true, true, kVaListBytes);
    const Id place = memory_.new_pointer();
    read_value(place, moved(list, kAnyOffset), kWord);
    read_value(pointer_of(*argument), moved(place, kAnyOffset), size_of(argument->getType()));
  } else {
    visit_calculation(instruction);
  }
}

void Code::visit_alloca(llvm::AllocaInst& variable) {
  Object object{.kind = ObjectKind::stack, .function = function_};
  object.name = variable.getName().str();
  if (const llvm::DILocalVariable* source = source_of(variable)) {
    object.name = source->getName().str();
    object.place = {path_of(source->getFile()), source->getLine()};
  }
  if (const auto size = variable.getAllocationSize(*layout_); size && !size->isScalable())
    object.size = size->getFixedValue();
  const Id id = memory_.add_object(std::move(object));
  stands_at(id, variable);
  facts_.flows.push_back({.kind = FlowKind::address, .to = pointer_of(variable), .object = id, .function = function_});
}

void Code::visit_load(llvm::LoadInst& load) {
  const uint64_t bytes = size_of(load.getType());
  const Id from = access(*load.getPointerOperand(), true, false, bytes);
  read_value(pointer_of(load), from, bytes);
}

void Code::visit_store(llvm::StoreInst& store) {
  const uint64_t bytes = size_of(store.getValueOperand()->getType());
  const Id to = access(*store.getPointerOperand(), false, true, bytes);
  write_value(to, pointer_of(*store.getValueOperand()), bytes);
  if (bytes >= kWord) return;
  for (const llvm::LoadInst* each : pieces_of(store))
    flow(FlowKind::move, to, address_of(*each->getPointerOperand()), static_cast<int64_t>(bytes));
}

void Code::visit_address(llvm::GetElementPtrInst& address) {
  const Id to = pointer_of(address);
  Id at = pointer_of(*address.getPointerOperand());
  if (at == kNone || to == kNone) return;
  if (address.getType()->isVectorTy()) return flow(FlowKind::copy, to, at, kAnyOffset);
  struct Step {
    int64_t offset;
    uint32_t stride = 0, span = 0;
  };
  llvm::SmallVector<Step, 4> steps;
  const auto add = [&](int64_t offset) {
    if (!steps.empty() && steps.back().offset != kAnyOffset) steps.back().offset += offset;
    else if (offset != 0) steps.push_back({offset});
  };
  llvm::Type* container = nullptr;  // that the step goes into; the first one counts objects behind each other
  for (auto each = llvm::gep_type_begin(address); each != llvm::gep_type_end(address); ++each) {
    const auto* array = llvm::dyn_cast_or_null<llvm::ArrayType>(container);
    container = each.getIndexedType();
    const auto* index = llvm::dyn_cast<llvm::ConstantInt>(each.getOperand());
    if (llvm::StructType* structure = each.getStructTypeOrNull()) {
      add(static_cast<int64_t>(layout_->getStructLayout(structure)->getElementOffset(index->getZExtValue())));
      continue;
    }
    const auto stride = static_cast<int64_t>(each.getSequentialElementStride(*layout_).getFixedValue());
    if (index) {
      add(index->getSExtValue() * stride);
      continue;
    }
    const uint64_t span = array ? array->getNumElements() * static_cast<uint64_t>(stride) : 0;
    steps.push_back({kAnyOffset, static_cast<uint32_t>(std::min<int64_t>(stride, UINT32_MAX)),
                     static_cast<uint32_t>(std::min<uint64_t>(span, UINT32_MAX))});
  }
  if (steps.empty()) steps.push_back({0});
  for (size_t i = 0; i + 1 < steps.size(); i++) at = moved(at, steps[i].offset, steps[i].stride, steps[i].span);
  flow(FlowKind::copy, to, at, steps.back().offset, steps.back().stride, steps.back().span);
}

void Code::visit_exchange(Instruction& instruction, llvm::Value& address, llvm::Value& value) {
  const uint64_t bytes = size_of(value.getType());
  const Id place = access(address, true, true, bytes);
  read_value(pointer_of(instruction), place, bytes);
  Id written = pointer_of(value);
  const auto* change = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction);
  if (change && change->getOperation() != llvm::AtomicRMWInst::Xchg) written = moved(written, kAnyOffset);
  write_value(place, written, bytes);
}

void Code::visit_calculation(Instruction& instruction) {
  if (pointer_of(instruction) == kNone) return;
  const unsigned opcode = instruction.getOpcode();
  int64_t offset = 0;
  if (instruction.isBinaryOp() && size_of(instruction.getType()) <= kWord) {
    offset = kAnyOffset;
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(instruction.getOperand(1));
    if (number && opcode == Instruction::Add) offset = number->getSExtValue();
    if (number && opcode == Instruction::Sub) offset = -number->getSExtValue();
  }
  for (llvm::Value* each : passed_on(instruction)) copy(instruction, *each, offset);
}

void Code::visit_return(llvm::ReturnInst& instruction) {
  if (results_[function_] == kNone || !instruction.getReturnValue()) return;
  flow(FlowKind::copy, results_[function_], pointer_of(*instruction.getReturnValue()));
}

void Code::visit_catch(llvm::LandingPadInst& pad) { flow(FlowKind::load, pointer_of(pad), memory_.exceptions()); }

Handed Code::handed(const llvm::CallBase& call, unsigned argument) {
  const llvm::Value& value = *call.getArgOperand(argument);
  Handed fact{.pointer = pointer_of(value)};
  if (value.getType()->isMetadataTy()) return fact;
  llvm::Type* const whole = call.isByValArgument(argument) ? call.getParamByValType(argument) : value.getType();
  fact.bytes = static_cast<uint32_t>(size_of(whole));
  fact.length = numbering_.length_of_argument(call, argument);
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(&value); number && number->getBitWidth() <= 64)
    fact.constant = number->getSExtValue();
  return fact;
}

// False if the callee is known and has no code that could be called.
bool Code::set_callee(Call& fact, const llvm::CallBase& call) {
  const llvm::Value* callee = call.getCalledOperand()->stripPointerCasts();
  if (const auto* alias = llvm::dyn_cast<llvm::GlobalAlias>(callee)) callee = alias->getAliaseeObject();
  if (const auto* function = llvm::dyn_cast_or_null<llvm::Function>(callee)) fact.callee = numbering_.id_of(function);
  else if (const auto* ifunc = llvm::dyn_cast_or_null<llvm::GlobalIFunc>(callee))
    fact.callee = numbering_.id_of(*ifunc);
  else fact.target = address_of(*call.getCalledOperand());
  return fact.callee != kNone || fact.target != kNone;
}

void Code::visit_call(llvm::CallBase& call) {
  if (call.isInlineAsm()) return visit_assembler(call);
  Call fact{.function = function_, .block = block_, .line = line_};
  if (!set_callee(fact, call)) return;
  fact.shape = call.getFunctionType()->isVarArg() ? 0 : shape_of(*call.getFunctionType());
  for (unsigned i = 0; i < call.arg_size(); i++) fact.arguments.push_back(handed(call, i));
  if (!call.getType()->isVoidTy()) {
    fact.result = {.pointer = pointer_of(call), .bytes = static_cast<uint32_t>(size_of(call.getType()))};
    fact.result.length = numbering_.length_of_result(call);
  }
  if (fact.callee != kNone && facts_.functions[fact.callee].name == "__cxa_throw" && !fact.arguments.empty())
    flow(FlowKind::store, memory_.exceptions(), fact.arguments[0].pointer);
  facts_.calls.push_back(std::move(fact));
  if (places_) places_->calls.push_back(&call);
}

// Assembler text reads and writes what its operands point to. Whatever goes in may come out, and be stored.
void Code::visit_assembler(llvm::CallBase& call) {
  const auto& text = *llvm::cast<llvm::InlineAsm>(call.getCalledOperand());
  if (text.getAsmString().empty() && call.getType()->isVoidTy()) return;
  if (!text.getAsmString().empty()) unseen("assembler text: " + text.getAsmString().substr(0, 80));
  const bool touches_memory = call.mayReadOrWriteMemory();
  for (unsigned i = 0; i < call.arg_size(); i++) {
    const llvm::Value& argument = *call.getArgOperand(i);
    const Id pointer = pointer_of(argument);
    if (pointer == kNone) continue;
    llvm::Type* const element = call.getParamElementType(i);
    if (!element) copy(call, argument, kAnyOffset);
    if (!argument.getType()->isPointerTy() || !touches_memory) continue;
    access(argument, call.mayReadFromMemory(), call.mayWriteToMemory(), element ? size_of(element) : kWord);
    flow(FlowKind::load, pointer_of(call), pointer);
    for (unsigned j = 0; j < call.arg_size() && call.mayWriteToMemory(); j++)
      if (j != i && !call.getParamElementType(j)) flow(FlowKind::store, pointer, pointer_of(*call.getArgOperand(j)));
  }
}

void Code::visit_memory(llvm::AnyMemIntrinsic& intrinsic) {
  const auto* length = llvm::dyn_cast<llvm::ConstantInt>(intrinsic.getLength());
  const uint64_t bytes = length ? length->getZExtValue() : 0;
  const Id counter = length ? kNone : numbering_.length_of_argument(intrinsic, 2);
  const auto* move = llvm::dyn_cast<llvm::AnyMemTransferInst>(&intrinsic);
  const Id from = move ? access(*move->getRawSource(), true, false, bytes, counter) : kNone;
  const Id to = access(*intrinsic.getRawDest(), false, true, bytes, counter);
  flow(FlowKind::move, to, from, length ? static_cast<int64_t>(bytes) : kAnyOffset);
}

void Code::visit_intrinsic(llvm::IntrinsicInst& intrinsic) {
  if (auto* memory = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&intrinsic)) return visit_memory(*memory);
  const bool keeps = keeps_address(intrinsic);
  if (pointer_of(intrinsic) != kNone)
    for (llvm::Value* each : passed_on(intrinsic)) copy(intrinsic, *each, keeps ? 0 : kAnyOffset);
  if (is_remark(intrinsic) || keeps || !intrinsic.mayReadOrWriteMemory()) return;
  const auto id = intrinsic.getIntrinsicID();
  if (id == llvm::Intrinsic::vastart) {
    const Id list = access(*intrinsic.getArgOperand(0), false, true, kVaListBytes);
    for (const int64_t place : {8, 16})
      flow(FlowKind::store, moved(list, place), facts_.functions[function_].variable_arguments);
    return;
  }
  if (id == llvm::Intrinsic::vacopy) {
    const Id from = access(*intrinsic.getArgOperand(1), true, false, kVaListBytes);
    const Id to = access(*intrinsic.getArgOperand(0), false, true, kVaListBytes);
    return flow(FlowKind::move, to, from, kVaListBytes);
  }
  // Those of the processor: vectors that are loaded and stored in parts, and the like.
  uint64_t bytes = kWord;
  if (!intrinsic.getType()->isVoidTy()) bytes = std::max(bytes, size_of(intrinsic.getType()));
  for (const llvm::Use& each : intrinsic.args()) bytes = std::max(bytes, size_of(each->getType()));
  for (const llvm::Use& each : intrinsic.args()) {
    if (!each->getType()->isPointerTy()) continue;
    const Id place = access(*each, intrinsic.mayReadFromMemory(), intrinsic.mayWriteToMemory(), bytes);
    if (intrinsic.mayReadFromMemory()) flow(FlowKind::load, pointer_of(intrinsic), moved(place, kAnyOffset));
    if (!intrinsic.mayWriteToMemory()) continue;
    for (const llvm::Use& other : intrinsic.args())
      if (&other != &each) flow(FlowKind::store, moved(place, kAnyOffset), pointer_of(*other));
  }
}

}  // namespace friday::cut
