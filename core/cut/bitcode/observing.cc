#include "core/cut/bitcode/observing.h"

#include <algorithm>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "core/cut/annotations.h"
#include "core/cut/bitcode/collect.h"
#include "core/cut/bitcode/numbering.h"
#include "core/cut/bitcode/observation.h"

namespace friday::cut {
namespace {

// Functions of the C library that give new memory as their result, of which malloc_usable_size() knows the length.
bool is_of_malloc(llvm::StringRef name) {
  for (const char* each :
       {"malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "valloc", "strdup", "strndup",
        "__strdup", "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"})
    if (name == each) return true;
  return false;
}
bool frees(llvm::StringRef name) {
  for (const char* each : {"free", "cfree", "realloc", "reallocarray", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"})
    if (name == each) return true;
  return false;
}

// The length of new memory that an annotated function returns, such as an allocator with pools; null for others.
const AnnotatedBytes* new_memory_of(const Annotations& annotations, llvm::StringRef name) {
  const Annotation* const known = annotations.function(std::string_view(name.data(), name.size()));
  if (!known) return nullptr;
  const auto is_text = [](const Annotation::Touch& each) {
    return each.memory.kind == AnnotatedValue::Kind::result && each.bytes.kind == AnnotatedBytes::Kind::string;
  };
  for (const Annotation::Result& each : known->returns) {
    if (each.value.kind != AnnotatedValue::Kind::fresh || each.value.depth != AnnotatedValue::Depth::itself) continue;
    const auto text = std::ranges::find_if(known->writes, is_text);
    const bool has_text = each.size.kind == AnnotatedBytes::Kind::object && text != known->writes.end();
    return has_text ? &text->bytes : &each.size;
  }
  return nullptr;
}

class ObservingPass {
 public:
  ObservingPass(llvm::Module& module, const Record& record, const Annotations& annotations)
      : module_(module),
        annotations_(annotations),
        context_(module.getContext()),
        pointer_(llvm::PointerType::get(context_, 0)),
        word_(llvm::Type::getInt64Ty(context_)),
        id_(llvm::Type::getInt32Ty(context_)),
        nothing_(llvm::Type::getVoidTy(context_)) {
    const Numbering numbering(module);
    facts_ = collect_facts(module, numbering, &places_);
    functions_ = numbering.functions();
    llvm::Constant* const text = llvm::ConstantDataArray::getString(context_, fingerprint_text(record), false);
    auto* const type = llvm::StructType::get(context_, {text->getType(), id_});
    self_ = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                     llvm::ConstantStruct::get(type, {text, llvm::ConstantInt::get(id_, 0)}),
                                     "friday.module");
    number_ = llvm::ConstantExpr::getGetElementPtr(
        type, self_, llvm::ArrayRef<llvm::Constant*>{llvm::ConstantInt::get(id_, 0), llvm::ConstantInt::get(id_, 1)});
  }

  Result<void> run() {
    if (places_.accesses.size() > kMostAccesses ||
        std::max(places_.calls.size(), places_.objects.size()) > kMostObserved)
      return fail(ErrorCode::unsupported,
                  "{} has {} accesses, {} calls and {} objects, and at most {}, {} and {} can be "
                  "observed",
                  facts_.module, places_.accesses.size(), places_.calls.size(), places_.objects.size(), kMostAccesses,
                  kMostObserved, kMostObserved);
    for (Id id = 0; id < places_.accesses.size(); id++) observe_access(id);
    for (Id id = 0; id < places_.calls.size(); id++)
      if (places_.calls[id]) observe_call(*places_.calls[id], id);
    for (Id id = 0; id < places_.objects.size(); id++)
      if (places_.objects[id]) observe_object(*places_.objects[id], id);
    for (llvm::Function* each : functions_) {
      forget_effects(*each);
      forget_lifetimes(*each);
    }
    finish_start();
    return {};
  }

 private:
  static bool is_naked(const llvm::Function& function) { return function.hasFnAttribute(llvm::Attribute::Naked); }

  template <typename... Values>
  void call(llvm::IRBuilder<>& at, const char* name, llvm::ArrayRef<llvm::Type*> types, Values*... values) {
    at.SetCurrentDebugLocation(place_of(at));
    at.CreateCall(module_.getOrInsertFunction(name, llvm::FunctionType::get(nothing_, types, false)), {values...});
  }
  // A call in a function with debug information must have a place, so that it can be inlined.
  static llvm::DebugLoc place_of(const llvm::IRBuilder<>& at) {
    llvm::Function* const function = at.GetInsertBlock()->getParent();
    llvm::DISubprogram* const about = function->getSubprogram();
    return about ? llvm::DebugLoc(llvm::DILocation::get(function->getContext(), 0, 0, about)) : llvm::DebugLoc();
  }
  llvm::Value* number(llvm::IRBuilder<>& at) { return at.CreateLoad(id_, number_); }
  llvm::Value* constant(Id id) { return llvm::ConstantInt::get(id_, id); }

  void observe_access(Id id) {
    const Places::Access& access = places_.accesses[id];
    if (!access.address->getType()->isPointerTy() || is_naked(*access.instruction->getFunction())) return;
    llvm::IRBuilder<> at(access.instruction);
    llvm::Value* bytes = llvm::ConstantInt::get(word_, facts_.accesses[id].bytes);
    if (auto* memory = llvm::dyn_cast<llvm::AnyMemIntrinsic>(access.instruction))
      bytes = at.CreateZExtOrTrunc(memory->getLength(), word_);
    call(at, "friday_observe_access", {id_, id_, pointer_, word_}, number(at), constant(id), access.address, bytes);
  }

  void observe_call(llvm::CallBase& site, Id id) {
    const llvm::Function* callee = site.getCalledFunction();
    if (!callee) return;
    const llvm::StringRef name = callee->getName();
    if (frees(name) && site.arg_size() > 0 && site.getArgOperand(0)->getType()->isPointerTy()) {
      llvm::IRBuilder<> at(&site);
      call(at, "friday_observe_freed", {pointer_}, site.getArgOperand(0));
    }
    const AnnotatedBytes* const bytes = new_memory_of(annotations_, name);
    const bool is_malloc = is_of_malloc(name) && callee->isDeclaration();
    if ((!bytes && !is_malloc) || !site.getType()->isPointerTy() || site.isMustTailCall()) return;
    llvm::IRBuilder<> at(&site);
    if (auto* invoke = llvm::dyn_cast<llvm::InvokeInst>(&site)) {
      llvm::BasicBlock* next = invoke->getNormalDest();
      if (!next->getSinglePredecessor()) next = llvm::SplitEdge(invoke->getParent(), next);
      at.SetInsertPoint(next, next->getFirstInsertionPt());
    } else {
      at.SetInsertPoint(site.getNextNode());
    }
    if (is_malloc) {
      call(at, "friday_observe_allocated", {id_, id_, pointer_}, number(at), constant(id), &site);
    } else if (bytes->kind == AnnotatedBytes::Kind::string) {
      call(at, "friday_observe_text", {id_, id_, pointer_}, number(at), constant(id), &site);
    } else if (llvm::Value* const length = length_of(at, *bytes, site)) {
      call(at, "friday_observe_new", {id_, id_, pointer_, word_}, number(at), constant(id), &site, length);
    }
  }

  // Null if nobody says how long the memory is.
  llvm::Value* length_of(llvm::IRBuilder<>& at, const AnnotatedBytes& bytes, const llvm::CallBase& site) const {
    if (bytes.kind != AnnotatedBytes::Kind::product) return nullptr;
    llvm::Value* length = llvm::ConstantInt::get(word_, bytes.factor);
    for (const uint32_t each : bytes.values) {
      if (each >= site.arg_size() || !site.getArgOperand(each)->getType()->isIntegerTy()) return nullptr;
      length = at.CreateMul(length, at.CreateZExtOrTrunc(site.getArgOperand(each), word_));
    }
    return length;
  }

  void observe_object(llvm::Value& value, Id id) {
    if (auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(&value)) return observe_variable(*variable, id);
    auto* const local = llvm::dyn_cast<llvm::AllocaInst>(&value);
    auto* const argument = llvm::dyn_cast<llvm::Argument>(&value);
    llvm::Function& function = local ? *local->getFunction() : *argument->getParent();
    if (is_naked(function)) return;
    llvm::BasicBlock& entry = function.getEntryBlock();
    llvm::IRBuilder<> at(&entry, local && !local->isStaticAlloca() ? std::next(local->getIterator())
                                                                   : entry.getFirstNonPHIOrDbgOrAlloca());
    if (local && !local->isStaticAlloca()) at.SetInsertPoint(local->getNextNode());
    llvm::Value* const bytes =
        local ? bytes_of(at, *local)
              : llvm::ConstantInt::get(word_, module_.getDataLayout().getTypeAllocSize(argument->getParamByValType()));
    call(at, "friday_observe_object", {id_, id_, pointer_, word_}, number(at), constant(id), &value, bytes);
    if (local && !local->isStaticAlloca()) return;  // what lies there next takes its place
    for (llvm::BasicBlock& block : function) {
      llvm::Instruction* end = block.getTerminator();
      if (!llvm::isa<llvm::ReturnInst, llvm::ResumeInst>(end)) continue;
      if (llvm::CallInst* tail = block.getTerminatingMustTailCall()) end = tail;
      llvm::IRBuilder<> last(end);
      call(last, "friday_observe_end", {pointer_, word_}, &value, bytes);
    }
  }

  llvm::Value* bytes_of(llvm::IRBuilder<>& at, llvm::AllocaInst& local) {
    const uint64_t each = module_.getDataLayout().getTypeAllocSize(local.getAllocatedType());
    return at.CreateMul(at.CreateZExtOrTrunc(local.getArraySize(), word_), llvm::ConstantInt::get(word_, each));
  }

  void observe_variable(llvm::GlobalVariable& variable, Id id) {
    variable.setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::None);  // else constants of equal bytes may be one
    const uint64_t size = facts_.objects[id].size;
    llvm::Constant* const bytes = llvm::ConstantInt::get(word_, size);
    if (variable.isThreadLocal()) {
      // Each thread has its own, which is where its address is taken.
      for (llvm::User* each : variable.users())
        if (auto* taken = llvm::dyn_cast<llvm::IntrinsicInst>(each);
            taken && taken->getIntrinsicID() == llvm::Intrinsic::threadlocal_address && taken->getNextNode()) {
          llvm::IRBuilder<> at(taken->getNextNode());
          call(at, "friday_observe_object", {id_, id_, pointer_, word_}, number(at), constant(id), taken, bytes);
        }
    } else if (!variable.isDeclaration() && size > 0) {
      variables_.push_back({&variable, id});
    }
  }

  void forget_effects(llvm::Function& function) {
    if (function.isDeclaration()) return;
    function.setMemoryEffects(llvm::MemoryEffects::unknown());
    function.removeFnAttr(llvm::Attribute::NoSync);
    for (llvm::User* user : function.users())
      if (auto* site = llvm::dyn_cast<llvm::CallBase>(user); site && site->getCalledOperand() == &function)
        site->setMemoryEffects(llvm::MemoryEffects::unknown());
  }

  // Else two variables of a function may share their memory, when it is not known which of them is there.
  static void forget_lifetimes(llvm::Function& function) {
    std::vector<llvm::Instruction*> found;
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& each : block)
        if (each.isLifetimeStartOrEnd()) found.push_back(&each);
    for (llvm::Instruction* each : found) each->eraseFromParent();
  }

  // Gives the module a number and tells where its variables are, before anything else of the program runs.
  void finish_start() {
    auto* const start = llvm::Function::Create(llvm::FunctionType::get(nothing_, false),
                                               llvm::GlobalValue::InternalLinkage, "friday.observe", module_);
    llvm::IRBuilder<> at(llvm::BasicBlock::Create(context_, "", start));
    call(at, "friday_observe_module", {pointer_}, self_);
    for (const auto& [variable, id] : variables_)
      call(at, "friday_observe_object", {id_, id_, pointer_, word_}, number(at), constant(id), variable,
           llvm::ConstantInt::get(word_, facts_.objects[id].size));
    at.CreateRetVoid();
    llvm::appendToGlobalCtors(module_, start, 0);
  }

  llvm::Module& module_;
  const Annotations& annotations_;
  llvm::LLVMContext& context_;
  llvm::PointerType* pointer_;
  llvm::Type *word_, *id_, *nothing_;
  Places places_;
  Facts facts_;
  std::vector<llvm::Function*> functions_;
  llvm::GlobalVariable* self_ = nullptr;
  llvm::Constant* number_ = nullptr;
  std::vector<std::pair<llvm::GlobalVariable*, Id>> variables_;
};

}  // namespace

Result<void> observe_accesses(llvm::Module& module, const Record& record) {
  FRIDAY_TRY(annotations, Annotations::standard());
  return ObservingPass(module, record, annotations).run();
}

}  // namespace friday::cut
