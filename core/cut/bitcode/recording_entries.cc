// Functions inside: the code moves to NAME.inside, which only code inside calls. NAME itself is an entry: without
// recording it goes on to the code; else the runtime logs the arguments, sets the stack pointer, and calls the code by
// a third function, which takes the arguments from memory. So the code has the same caller in both modes, and the same
// addresses on its stack.
#include <llvm/IR/DebugInfoMetadata.h>

#include "core/cut/bitcode/memory.h"
#include "core/cut/bitcode/recording_module.h"
#include "core/cut/runtime/runtime.h"

namespace friday::cut {
namespace {

class EntryMaker {
 public:
  explicit EntryMaker(RecordingModule& recording) : r_(recording) {}

  void run() {
    const std::vector<llvm::Function*> functions = r_.numbering.functions();
    std::vector<llvm::Function*> found;
    for (llvm::Function* each : functions)
      if (r_.is_inside(each)) found.push_back(each);
    for (llvm::Function* each : found) {
      if (each->isVarArg()) check_variadic(*each);
      else if (each->isDeclaration()) call_body_elsewhere(*each);
      else if (RecordingModule::is_naked(*each)) r_.refuse(*each, "is inside, and has only assembler text");
      else split(*each);
    }
  }

 private:
  // Such a function has no entry, so nobody outside may know its address.
  void check_variadic(llvm::Function& function) {
    if (function.isDeclaration()) return;
    for (const llvm::Use& use : function.uses()) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(use.getUser());
      if (call && call->isCallee(&use)) continue;
      return r_.refuse(function, "is inside, takes a variable number of arguments, and its address is taken");
    }
  }

  static bool is_call_of(const llvm::Use& use) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(use.getUser());
    return call && call->isCallee(&use);
  }
  // Whoever is inside already calls the code itself.
  void redirect(llvm::Function& entry, llvm::Function& body) {
    entry.replaceUsesWithIf(&body, [&](llvm::Use& use) {
      if (!is_call_of(use)) return false;
      const llvm::Function* const caller = llvm::cast<llvm::Instruction>(use.getUser())->getFunction();
      return r_.is_inside(caller) || bodies_.contains(caller);
    });
  }

  static std::string body_name(const llvm::Function& function) { return (function.getName() + ".inside").str(); }

  void call_body_elsewhere(llvm::Function& function) {
    auto* const body =
        llvm::Function::Create(function.getFunctionType(), function.getLinkage(), body_name(function), r_.module);
    body->copyAttributesFrom(&function);
    body->setVisibility(llvm::GlobalValue::HiddenVisibility);
    body->setDSOLocal(true);
    redirect(function, *body);
    if (body->use_empty()) body->eraseFromParent();
  }

  void split(llvm::Function& function) {
    auto* const body = move_code(function);
    bodies_.insert(body);
    redirect(function, *body);
    std::vector<llvm::Type*> types;
    for (const llvm::Argument& each : function.args())
      types.push_back(each.hasByValAttr() ? each.getParamByValType() : each.getType());
    auto* const arguments = llvm::StructType::get(r_.context, types);
    llvm::Type* const result = function.getReturnType();
    const uint64_t argument_bytes = types.empty() ? 0 : r_.layout.getTypeAllocSize(arguments);
    const uint64_t result_bytes = result->isVoidTy() ? 0 : r_.layout.getTypeStoreSize(result).getFixedValue();
    if (argument_bytes > kMostResult || result_bytes > kMostResult)
      r_.refuse(*body, "is inside, and its arguments or result are very long");
    llvm::Function* const invoke = make_invoke(*body, *arguments);
    make_entry(function, *body, *arguments, describe(*body, *invoke, argument_bytes, result_bytes));
  }

  llvm::Function* move_code(llvm::Function& function) {
    auto* const body = llvm::Function::Create(function.getFunctionType(), function.getLinkage(), body_name(function));
    r_.module.getFunctionList().insertAfter(function.getIterator(), body);
    body->copyAttributesFrom(&function);
    body->setComdat(function.getComdat());
    body->setSubprogram(function.getSubprogram());
    function.setSubprogram(nullptr);
    if (!body->hasLocalLinkage()) body->setVisibility(llvm::GlobalValue::HiddenVisibility);
    body->setDSOLocal(true);
    std::vector<std::pair<llvm::BlockAddress*, llvm::BasicBlock*>> addresses;
    for (llvm::BasicBlock& each : function)
      if (each.hasAddressTaken()) addresses.emplace_back(llvm::BlockAddress::get(&function, &each), &each);
    body->splice(body->begin(), &function);
    for (const auto& [old, block] : addresses) {
      old->replaceAllUsesWith(llvm::BlockAddress::get(body, block));
      old->destroyConstant();
    }
    for (size_t i = 0; i < function.arg_size(); i++) {
      function.getArg(static_cast<unsigned>(i))->replaceAllUsesWith(body->getArg(static_cast<unsigned>(i)));
      body->getArg(static_cast<unsigned>(i))->takeName(function.getArg(static_cast<unsigned>(i)));
    }
    return body;
  }

  static void copy_call_attributes(llvm::CallInst& call, const llvm::Function& callee) {
    call.setCallingConv(callee.getCallingConv());
    for (const llvm::Argument& each : callee.args())
      for (const llvm::Attribute& attribute : callee.getAttributes().getParamAttrs(each.getArgNo()))
        call.addParamAttr(each.getArgNo(), attribute);
  }

  llvm::Function* make_invoke(llvm::Function& body, llvm::StructType& arguments) {
    auto* const type = llvm::FunctionType::get(r_.nothing, {r_.pointer, r_.pointer}, false);
    auto* const invoke =
        llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, body.getName() + ".invoke", r_.module);
    copy_target(*invoke, body);
    invoke->addFnAttr(llvm::Attribute::NoInline);
    llvm::IRBuilder<> at(llvm::BasicBlock::Create(r_.context, "", invoke));
    llvm::SmallVector<llvm::Value*, 8> values;
    for (const llvm::Argument& each : body.args()) {
      llvm::Value* const place = at.CreateStructGEP(&arguments, invoke->getArg(0), each.getArgNo());
      values.push_back(each.hasByValAttr() ? place : at.CreateLoad(each.getType(), place));
    }
    llvm::CallInst* const call = at.CreateCall(&body, values);
    copy_call_attributes(*call, body);
    if (!body.getReturnType()->isVoidTy()) at.CreateAlignedStore(call, invoke->getArg(1), llvm::Align(1));
    at.CreateRetVoid();
    return invoke;
  }

  // Which instructions of the processor it may use, and how its frame is described.
  static void copy_target(llvm::Function& to, const llvm::Function& from) {
    for (const char* each : {"target-cpu", "target-features", "tune-cpu", "frame-pointer"})
      if (from.hasFnAttribute(each)) to.addFnAttr(from.getFnAttribute(each));
    if (from.hasUWTable()) to.setUWTableKind(from.getUWTableKind());
  }

  llvm::Constant* describe(llvm::Function& body, llvm::Function& invoke, uint64_t arguments, uint64_t result) {
    const auto number = [&](uint64_t value) { return llvm::ConstantInt::get(r_.half, value); };
    auto* const rest = llvm::ArrayType::get(r_.half, 3);
    auto* const type =
        llvm::StructType::get(r_.context, {r_.pointer, r_.pointer, r_.pointer, r_.half, r_.half, r_.half, rest});
    std::string name = symbol_of(body);
    name.resize(name.size() - strlen(".inside"));
    llvm::Constant* const value =
        llvm::ConstantStruct::get(type, {r_.text(name), r_.text(RecordingModule::file_of(body)), &invoke,
                                         number(body.getSubprogram() ? body.getSubprogram()->getLine() : 0),
                                         number(arguments), number(result), llvm::ConstantAggregateZero::get(rest)});
    auto* const variable =
        new llvm::GlobalVariable(r_.module, type, false, llvm::GlobalValue::InternalLinkage, value, "friday.entry");
    variable->setSection("friday_entries");
    variable->setAlignment(llvm::Align(8));
    return variable;
  }

  void make_entry(llvm::Function& entry, llvm::Function& body, llvm::StructType& arguments, llvm::Constant* about) {
    llvm::LLVMContext& context = r_.context;
    entry.setPersonalityFn(nullptr);
    for (const auto each : {llvm::Attribute::AlwaysInline, llvm::Attribute::OptimizeNone, llvm::Attribute::InlineHint,
                            llvm::Attribute::NoRecurse, llvm::Attribute::WillReturn})
      entry.removeFnAttr(each);
    entry.addFnAttr(llvm::Attribute::NoInline);
    entry.setSection("friday_stubs");
    auto* const first = llvm::BasicBlock::Create(context, "", &entry);
    auto* const asks = llvm::BasicBlock::Create(context, "asks", &entry);
    auto* const plain = llvm::BasicBlock::Create(context, "plain", &entry);
    auto* const enters = llvm::BasicBlock::Create(context, "enters", &entry);
    llvm::IRBuilder<> at(first);
    llvm::AllocaInst* const kept = at.CreateAlloca(&arguments);
    kept->setAlignment(llvm::Align(16));
    llvm::Type* const type = entry.getReturnType();
    llvm::AllocaInst* const result = type->isVoidTy() ? nullptr : at.CreateAlloca(type);
    at.CreateCondBr(r_.is_on(at), asks, plain, r_.rarely());
    at.SetInsertPoint(asks);
    llvm::Value* const inside = at.CreateCall(r_.runtime("friday_cut_is_inside", r_.half, {}));
    at.CreateCondBr(at.CreateICmpNE(inside, at.getInt32(0)), plain, enters);

    at.SetInsertPoint(plain);
    llvm::SmallVector<llvm::Value*, 8> values;
    for (llvm::Argument& each : entry.args()) values.push_back(&each);
    llvm::CallInst* const call = at.CreateCall(&body, values);
    copy_call_attributes(*call, body);
    if (type->isVoidTy()) at.CreateRetVoid();
    else at.CreateRet(call);

    at.SetInsertPoint(enters);
    for (llvm::Argument& each : entry.args()) {
      llvm::Value* const place = at.CreateStructGEP(&arguments, kept, each.getArgNo());
      if (each.hasByValAttr())
        at.CreateMemCpy(place, llvm::Align(1), &each, llvm::Align(1),
                        r_.layout.getTypeAllocSize(each.getParamByValType()));
      else at.CreateStore(&each, place);
    }
    llvm::Value* const none = llvm::ConstantPointerNull::get(r_.pointer);
    at.CreateCall(r_.runtime("friday_cut_enter", r_.nothing, {r_.pointer, r_.pointer, r_.pointer}),
                  {about, kept, result ? static_cast<llvm::Value*>(result) : none});
    if (type->isVoidTy()) at.CreateRetVoid();
    else at.CreateRet(at.CreateLoad(type, result));
  }

  RecordingModule& r_;
  llvm::DenseSet<const llvm::Function*> bodies_;
};

}  // namespace

void make_entries(RecordingModule& recording) { EntryMaker(recording).run(); }

}  // namespace friday::cut
