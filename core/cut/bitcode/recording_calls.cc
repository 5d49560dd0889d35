// Calls (recording.h). From inside: what leads outside is logged, and not made at replay; what runs again by itself
// stays; allocation goes to the runtime. From outside: what a call changes inside is logged after it.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "core/cut/bitcode/memory.h"
#include "core/cut/bitcode/recording_module.h"
#include "core/cut/runtime/runtime.h"

namespace friday::cut {
namespace {

bool is_named(llvm::StringRef name, std::initializer_list<const char*> names) {
  for (const char* each : names)
    if (name == each) return true;
  return false;
}
bool jumps(llvm::StringRef name) { return is_named(name, {"longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"}); }
bool marks_place(llvm::StringRef name) { return is_named(name, {"setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp"}); }
bool sets_handler(llvm::StringRef name) {
  return is_named(name, {"signal", "sigaction", "bsd_signal", "sysv_signal", "__sysv_signal", "sigset"});
}

class CallRecorder {
 public:
  explicit CallRecorder(RecordingModule& recording) : r_(recording) {}

  void run() {
    for (Id id = 0; id < r_.places.calls.size(); id++) {
      llvm::CallBase* const call = r_.places.calls[id];
      if (!call || RecordingModule::is_naked(*call->getFunction())) continue;
      if (r_.is_inside(call->getFunction())) from_inside(*call, r_.plan.calls[id]);
      else from_outside(*call, r_.plan.calls[id]);
    }
  }

 private:
  static constexpr uint16_t kTouches =
      Plan::kCallLogsRead | Plan::kCallEntersMemory | Plan::kCallLeavesMemory | Plan::kCallsOutside;

  void from_outside(llvm::CallBase& call, uint16_t flags) {
    llvm::Function* const callee = RecordingModule::callee_of(call);
    const llvm::StringRef name = callee ? callee->getName() : "";
    if (callee && jumps(name)) return check_before(call, "friday_cut_jump");
    if (callee && sets_handler(name)) check_handler(call, name);
    if (callee && r_.is_inside(callee)) {
      if (takes_any_number(*callee))
        r_.refuse(call,
                  "is outside and calls " + name.str() + ", which is inside and takes a variable number of arguments");
      return check_before(call, "friday_cut_check_outside");
    }
    if ((flags & (Plan::kCallEntersMemory | Plan::kAllocatesInside)) == 0) return;
    if (callee && callee->isDeclaration() && name == "realloc" && (flags & Plan::kAllocatesInside))
      return call.setCalledFunction(r_.runtime("friday_cut_outside_realloc", r_.pointer, {r_.pointer, r_.word}));
    if (call.doesNotReturn()) return;
    if (!llvm::isa<llvm::CallInst>(call)) return r_.refuse(call, "writes memory inside by a call that may throw");
    llvm::IRBuilder<> after(call.getNextNode());
    RecordingModule::give_place(after, call);
    llvm::Value* const on = r_.is_on(after);
    llvm::Instruction* const then = llvm::SplitBlockAndInsertIfThen(on, after.GetInsertPoint(), false, r_.rarely());
    llvm::IRBuilder<> at(then);
    RecordingModule::give_place(at, call);
    record_effects(r_, at, call, flags, false);
  }

  // A declaration without a prototype, `f()`, looks so, too, but has no parameters.
  static bool takes_any_number(const llvm::Function& function) {
    return function.isVarArg() && (!function.isDeclaration() || function.arg_size() > 0);
  }

  void check_before(llvm::CallBase& call, const char* check) {
    llvm::IRBuilder<> before(&call);
    RecordingModule::give_place(before, call);
    llvm::Instruction* const then =
        llvm::SplitBlockAndInsertIfThen(r_.is_on(before), call.getIterator(), false, r_.rarely());
    llvm::IRBuilder<> at(then);
    RecordingModule::give_place(at, call);
    at.CreateCall(r_.runtime(check, r_.nothing, {r_.pointer}), {r_.site(call, what_of(call), 0)});
  }

  void check_handler(llvm::CallBase& call, llvm::StringRef name) {
    if (call.arg_size() < 2 || !call.getArgOperand(1)->getType()->isPointerTy()) return;
    llvm::IRBuilder<> before(&call);
    RecordingModule::give_place(before, call);
    llvm::Value* handler = call.getArgOperand(1);
    if (name == "sigaction") {
      if (llvm::isa<llvm::ConstantPointerNull>(handler)) return;
      // The handler is the first member; the structure may be absent.
      llvm::Value* const none = before.CreateIsNull(handler);
      llvm::Value* const kept = r_.scratch(*call.getFunction(), RecordingModule::Scratch::result, 8);
      before.CreateAlignedStore(llvm::ConstantPointerNull::get(r_.pointer), kept, llvm::Align(8));
      handler = before.CreateLoad(r_.pointer, before.CreateSelect(none, kept, handler));
    }
    before.CreateCall(r_.runtime("friday_cut_check_handler", r_.nothing, {r_.pointer, r_.pointer}),
                      {handler, r_.site(call, name.str(), 0)});
  }

  static std::string what_of(const llvm::CallBase& call) {
    const llvm::Function* const callee = RecordingModule::callee_of(call);
    return callee ? symbol_of(*callee) : std::string("a function by a pointer");
  }

  // A function that does the same again, and has all that it needs at replay.
  bool runs_again(const llvm::CallBase& call, const llvm::Function& callee, uint16_t flags) const {
    if ((flags & kTouches) != 0 || call.doesNotReturn() || callee.doesNotReturn()) return false;
    const std::string name = symbol_of(callee);
    const Annotation* const known = r_.annotations.function(name);
    return known && known->deterministic && !known->synchronises && !known->allocates() && known->frees.empty() &&
           !is_named(name, {"exit", "_exit", "_Exit", "quick_exit", "abort", "atexit", "on_exit", "__cxa_atexit"});
  }

  void from_inside(llvm::CallBase& call, uint16_t flags) {
    llvm::Function* const callee = RecordingModule::callee_of(call);
    if (!callee) {
      if ((flags & kTouches) != 0) leave(call, flags);
      return;
    }
    if (r_.is_inside(callee)) return;
    const std::string name = symbol_of(*callee);
    if (marks_place(name)) return;
    if (jumps(name)) return check_before(call, "friday_cut_jump");
    if (sets_handler(name)) check_handler(call, name);
    if (callee->isDeclaration() && allocate(call, name)) return;
    if (runs_again(call, *callee, flags)) return;
    leave(call, flags);
  }

  bool allocate(llvm::CallBase& call, const std::string& name) {
    if (!llvm::isa<llvm::CallInst>(call)) return false;
    const auto replace = [&](const char* with, llvm::Type* result, llvm::ArrayRef<llvm::Type*> types) {
      llvm::IRBuilder<> at(&call);
      RecordingModule::give_place(at, call);
      llvm::SmallVector<llvm::Value*, 4> arguments;
      for (llvm::Use& each : call.args())
        arguments.push_back(each->getType()->isIntegerTy() ? at.CreateZExtOrTrunc(each, r_.word) : each.get());
      if (types.size() > arguments.size()) arguments.push_back(r_.site(call, name, 8));
      llvm::CallInst* const made = at.CreateCall(r_.runtime(with, result, types), arguments);
      if (!call.getType()->isVoidTy()) call.replaceAllUsesWith(made);
      call.eraseFromParent();
      return true;
    };
    if (name == "malloc") return replace("friday_cut_malloc", r_.pointer, {r_.word, r_.pointer});
    if (name == "calloc") return replace("friday_cut_calloc", r_.pointer, {r_.word, r_.word, r_.pointer});
    if (name == "realloc") return replace("friday_cut_realloc", r_.pointer, {r_.pointer, r_.word, r_.pointer});
    if (name == "free") return replace("friday_cut_free", r_.nothing, {r_.pointer});
    return false;
  }

  // What the call passes, one value after the other; what is undefined counts as 0.
  uint64_t keep_arguments(llvm::IRBuilder<>& at, llvm::CallBase& call, llvm::Value*& kept) {
    uint64_t bytes = 0;
    for (const llvm::Use& each : call.args())
      if (each->getType()->isSized()) bytes += r_.layout.getTypeStoreSize(each->getType());
    kept = r_.scratch(*call.getFunction(), RecordingModule::Scratch::arguments, bytes);
    uint64_t offset = 0;
    for (const llvm::Use& each : call.args()) {
      if (!each->getType()->isSized()) continue;
      llvm::Value* const value =
          llvm::isa<llvm::UndefValue>(each.get()) ? llvm::Constant::getNullValue(each->getType()) : each.get();
      at.CreateAlignedStore(value, at.CreateConstGEP1_64(r_.byte, kept, offset), llvm::Align(1));
      offset += r_.layout.getTypeStoreSize(each->getType());
    }
    return bytes;
  }

  void leave(llvm::CallBase& call, uint16_t flags) {
    llvm::Type* const type = call.getType();
    const uint64_t bytes = type->isVoidTy() ? 0 : r_.layout.getTypeStoreSize(type).getFixedValue();
    if (!llvm::isa<llvm::CallInst>(call) || call.isMustTailCall())
      return r_.refuse(call, "calls " + what_of(call) + " outside so that it may throw");
    if (bytes > kMostResult || call.hasFnAttr(llvm::Attribute::ReturnsTwice))
      return r_.refuse(call, "calls " + what_of(call) + " outside, which gives a large result or returns twice");
    llvm::Constant* const site = r_.site(call, what_of(call), bytes);
    llvm::BasicBlock* const head = call.getParent();
    llvm::BasicBlock* const calls = head->splitBasicBlock(call.getIterator(), "calls");
    llvm::BasicBlock* const rest = calls->splitBasicBlock(call.getNextNode()->getIterator(), "rest");
    llvm::Function* const function = head->getParent();
    auto* const leaves = llvm::BasicBlock::Create(r_.context, "leaves", function, calls);
    auto* const comes_back = llvm::BasicBlock::Create(r_.context, "back", function, rest);
    auto* const skips = llvm::BasicBlock::Create(r_.context, "skips", function, rest);

    llvm::IRBuilder<> at(head->getTerminator());
    RecordingModule::give_place(at, call);
    llvm::Value* crosses = r_.is_on(at);
    if (!RecordingModule::callee_of(call)) crosses = at.CreateAnd(crosses, is_outside(at, *call.getCalledOperand()));
    at.CreateCondBr(crosses, leaves, calls, r_.rarely());
    head->getTerminator()->eraseFromParent();

    at.SetInsertPoint(leaves);
    llvm::Value* kept = nullptr;
    const uint64_t passed = keep_arguments(at, call, kept);
    if (passed > kMostResult) r_.refuse(call, "passes very long arguments to " + what_of(call));
    llvm::Value* const made =
        at.CreateICmpNE(at.CreateCall(r_.runtime("friday_cut_leave", r_.half, {r_.pointer, r_.pointer, r_.half}),
                                      {site, kept, at.getInt32(static_cast<uint32_t>(passed))}),
                        at.getInt32(0));
    at.CreateCondBr(made, calls, skips);

    auto* const left = llvm::PHINode::Create(at.getInt1Ty(), 2, "", calls->begin());
    left->addIncoming(at.getFalse(), head);
    left->addIncoming(at.getTrue(), leaves);
    at.SetInsertPoint(calls->getTerminator());
    at.CreateCondBr(left, comes_back, rest, r_.rarely());
    calls->getTerminator()->eraseFromParent();

    llvm::Value* const result = r_.scratch(*function, RecordingModule::Scratch::result, bytes);
    llvm::Value* const size = at.getInt32(static_cast<uint32_t>(bytes));
    at.SetInsertPoint(comes_back);
    llvm::Instruction* const last = at.CreateBr(rest);
    at.SetInsertPoint(last);
    if (!call.doesNotReturn()) record_effects(r_, at, call, flags, true);
    at.SetInsertPoint(last);
    RecordingModule::give_place(at, call);
    if (bytes > 0) at.CreateAlignedStore(&call, result, llvm::Align(1));
    at.CreateCall(r_.runtime("friday_cut_back", r_.nothing, {r_.pointer, r_.pointer, r_.half}), {site, result, size});

    at.SetInsertPoint(skips);
    at.CreateCall(r_.runtime("friday_cut_result", r_.nothing, {r_.pointer, r_.pointer, r_.half}), {site, result, size});
    llvm::Value* const known = bytes > 0 ? at.CreateAlignedLoad(type, result, llvm::Align(1)) : nullptr;
    at.CreateBr(rest);
    if (bytes == 0) return;
    auto* const value = llvm::PHINode::Create(type, 3, "", rest->begin());
    call.replaceUsesWithIf(value, [&](llvm::Use& use) {
      auto* const user = llvm::cast<llvm::Instruction>(use.getUser());
      return user != value && user->getParent() != last->getParent() && !is_of_effects(*user, comes_back, rest);
    });
    value->addIncoming(&call, calls);
    value->addIncoming(&call, last->getParent());
    value->addIncoming(known, skips);
  }

  // Effects may have made blocks of their own between `from` and `to`.
  static bool is_of_effects(const llvm::Instruction& user, const llvm::BasicBlock* from, const llvm::BasicBlock* to) {
    for (const llvm::BasicBlock* each = from; each && each != to; each = each->getNextNode())
      if (user.getParent() == each) return true;
    return false;
  }

  // Entries of inside functions stand in a section of their own.
  llvm::Value* is_outside(llvm::IRBuilder<>& at, llvm::Value& target) {
    const auto bound = [&](const char* name) {
      auto* const variable = llvm::cast<llvm::GlobalVariable>(r_.module.getOrInsertGlobal(name, r_.byte));
      variable->setDSOLocal(true);
      variable->setLinkage(llvm::GlobalValue::ExternalWeakLinkage);
      variable->setVisibility(llvm::GlobalValue::HiddenVisibility);
      return at.CreatePtrToInt(variable, r_.word);
    };
    llvm::Value* const address = at.CreatePtrToInt(&target, r_.word);
    return at.CreateOr(at.CreateICmpULT(address, bound("__start_friday_stubs")),
                       at.CreateICmpUGE(address, bound("__stop_friday_stubs")));
  }

  RecordingModule& r_;
};

}  // namespace

void record_calls(RecordingModule& recording) { CallRecorder(recording).run(); }

}  // namespace friday::cut
