// What a call of a function without code did to memory that is inside, as annotations say: after the call, the runtime
// is told each range that was written and each piece of memory that was allocated.
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Instructions.h>

#include "core/cut/bitcode/memory.h"
#include "core/cut/bitcode/recording_module.h"

namespace friday::cut {
namespace {

using Kind = AnnotatedValue::Kind;
using Depth = AnnotatedValue::Depth;

class Effects {
 public:
  Effects(RecordingModule& recording, llvm::IRBuilder<>& at, llvm::CallBase& call, uint16_t flags, bool is_skipped)
      : r_(recording), at_(at), call_(call), flags_(flags), is_skipped_(is_skipped) {}

  void run() {
    const llvm::Function* const callee = RecordingModule::callee_of(call_);
    const bool enters = (flags_ & Plan::kCallEntersMemory) != 0;
    if (!callee) {
      if (enters || (flags_ & Plan::kAllocatesInside) != 0)
        refuse("calls by a pointer what may be a function without code, which may write or allocate memory inside");
      return;
    }
    name_ = symbol_of(*callee);
    const Annotation* const known = r_.annotations.function(name_);
    if (!known) {
      if (enters)
        refuse("calls " + name_ +
               ", which has no code and may write memory inside. Say what it writes in a file of annotations "
               "(--annotations), for the plan as well as here");
      return;
    }
    if ((flags_ & Plan::kAllocatesInside) != 0) allocate(*known);
    // Such as qsort(): what it has moved when it calls back is logged only when it is done.
    const bool writes = !known->writes.empty() || !known->moves.empty();
    if (!known->calls.empty() && writes && (enters || is_skipped_) && (is_skipped_ || (flags_ & Plan::kCallsInside)))
      refuse("calls " + name_ + ", which may write memory inside and call a function inside meanwhile");
    // A deterministic function that is skipped at replay is outside there, whatever the plan says of it.
    if (enters || (is_skipped_ && known->deterministic)) write(*known);
  }

 private:
  void refuse(const std::string& what) { r_.refuse(call_, what); }

  void tell(const char* name, std::initializer_list<llvm::Value*> values) {
    llvm::SmallVector<llvm::Type*, 2> types;
    for (llvm::Value* each : values) types.push_back(each->getType());
    at_.CreateCall(r_.runtime(name, r_.nothing, types), llvm::SmallVector<llvm::Value*, 2>(values));
  }

  // Null if it is no pointer that the call has.
  llvm::Value* pointer_of(const AnnotatedValue& value) const {
    llvm::Value* found = nullptr;
    if (value.kind == Kind::argument && value.argument < call_.arg_size()) found = call_.getArgOperand(value.argument);
    if (value.kind == Kind::result) found = &call_;
    return found && found->getType()->isPointerTy() ? found : nullptr;
  }

  llvm::Value* number(uint32_t value) {
    llvm::Value* const found = value == AnnotatedBytes::kResult ? &call_
                               : value < call_.arg_size()       ? call_.getArgOperand(value)
                                                                : nullptr;
    if (!found || !found->getType()->isIntegerTy()) return nullptr;
    llvm::Value* const wide = at_.CreateSExtOrTrunc(found, r_.word);
    return at_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide, at_.getInt64(0));
  }
  // Null if nobody says how many; `memory` may be known as a variable.
  llvm::Value* length(const AnnotatedBytes& bytes, llvm::Value* memory) {
    if (bytes.kind == AnnotatedBytes::Kind::product) {
      llvm::Value* total = at_.getInt64(bytes.factor);
      for (const uint32_t each : bytes.values) {
        llvm::Value* const factor = number(each);
        if (!factor) return nullptr;
        total = at_.CreateMul(total, factor);
      }
      return total;
    }
    if (bytes.kind != AnnotatedBytes::Kind::object || !memory) return nullptr;
    int64_t offset = 0;
    const llvm::Value* const base = llvm::GetPointerBaseWithConstantOffset(memory, offset, r_.layout);
    std::optional<llvm::TypeSize> size;
    if (const auto* local = llvm::dyn_cast<llvm::AllocaInst>(base)) size = local->getAllocationSize(r_.layout);
    if (const auto* variable = llvm::dyn_cast<llvm::GlobalVariable>(base))
      size = r_.layout.getTypeAllocSize(variable->getValueType());
    if (!size || offset < 0 || static_cast<uint64_t>(offset) > size->getFixedValue()) return nullptr;
    return at_.getInt64(size->getFixedValue() - static_cast<uint64_t>(offset));
  }

  void allocate(const Annotation& known) {
    const llvm::Function* const callee = RecordingModule::callee_of(call_);
    bool done = false;
    for (const Annotation::Result& each : known.returns) {
      if (each.value.kind != Kind::fresh && each.value.kind != Kind::shared) continue;
      done = true;
      if (!call_.getType()->isPointerTy()) continue;
      if (llvm::Value* const bytes = length(each.size, nullptr)) tell("friday_cut_allocated", {&call_, bytes});
      else if (callee->isDeclaration()) tell("friday_cut_allocated_usable", {&call_});
      else allocate_text(known);
    }
    for (const Annotation::Store& each : known.stores) {
      if (each.value.kind != Kind::fresh) continue;
      llvm::Value* const at = each.at.depth == Depth::itself ? pointer_of(each.at) : nullptr;
      if (!at) continue;
      done = true;
      tell("friday_cut_allocated_usable", {at_.CreateLoad(r_.pointer, at)});
    }
    if (!done) refuse("calls " + name_ + ", which allocates memory inside in a way that its annotation does not say");
  }

  // An allocator of the program that gives a text, such as a pool's strdup.
  void allocate_text(const Annotation& known) {
    for (const Annotation::Touch& each : known.writes)
      if (each.memory.kind == Kind::result && each.bytes.kind == AnnotatedBytes::Kind::string) {
        tell("friday_cut_wrote_text", {&call_});
        return;
      }
    refuse("calls " + name_ + ", which allocates memory inside; its annotation does not say how many bytes");
  }

  // Functions that print to memory: what they write ends with a zero byte, which their result does not count, and at
  // the length of the memory, which it does not know. Annotations say "result".
  bool write_text() {
    static const std::map<std::string, int, std::less<>> printers{
        {"sprintf", -1},  {"vsprintf", -1},      {"__sprintf_chk", -1},  {"__vsprintf_chk", -1}, {"snprintf", 1},
        {"vsnprintf", 1}, {"__snprintf_chk", 1}, {"__vsnprintf_chk", 1}, {"strftime", 1},
    };
    const auto found = printers.find(name_);
    if (found == printers.end() || call_.arg_size() < 2) return false;
    llvm::Value* const limit =
        found->second < 0 ? at_.getInt64(~uint64_t{0}) : at_.CreateZExtOrTrunc(call_.getArgOperand(1), r_.word);
    llvm::Value* const result = at_.CreateSExtOrTrunc(&call_, r_.word);
    at_.CreateCall(r_.runtime("friday_cut_printed", r_.nothing, {r_.pointer, r_.word, r_.word}),
                   {call_.getArgOperand(0), limit, result});
    return true;
  }

  void write(const Annotation& known) {
    if (write_text()) return;
    for (const Annotation::Touch& each : known.writes) write_range(each.memory, each.bytes);
    for (const Annotation::Move& each : known.moves) write_range(each.to, each.bytes);
    for (const Annotation::Store& each : known.stores)
      if (llvm::Value* const at = each.at.depth == Depth::itself ? pointer_of(each.at) : nullptr)
        tell("friday_cut_wrote", {at, at_.getInt64(8)});
  }

  void write_range(const AnnotatedValue& memory, const AnnotatedBytes& bytes) {
    if (memory.kind == Kind::own || memory.kind == Kind::constant || memory.kind == Kind::kept) return;
    if (memory.depth != Depth::itself || memory.kind == Kind::symbols) {
      if ((flags_ & Plan::kCallEntersMemory) != 0)
        refuse("calls " + name_ + ", which may write memory inside that its arguments only lead to");
      return;
    }
    const uint32_t last = memory.onwards ? static_cast<uint32_t>(call_.arg_size()) : memory.argument + 1;
    for (uint32_t i = memory.argument; i < last; i++) {
      AnnotatedValue each = memory;
      each.argument = i;
      llvm::Value* const at = pointer_of(each);
      if (!at || llvm::isa<llvm::ConstantPointerNull>(at)) continue;
      write_at(at, bytes);
      if (memory.kind == Kind::result) break;
    }
  }

  void write_at(llvm::Value* at, const AnnotatedBytes& bytes) {
    if (bytes.kind == AnnotatedBytes::Kind::string) return tell("friday_cut_wrote_text", {at});
    llvm::Value* const count = length(bytes, at);
    if (count) return tell("friday_cut_wrote", {at, count});
    refuse("calls " + name_ + ", which may write memory inside; its annotation does not say how many bytes");
  }

  RecordingModule& r_;
  llvm::IRBuilder<>& at_;
  llvm::CallBase& call_;
  const uint16_t flags_;
  const bool is_skipped_;
  std::string name_;
};

}  // namespace

void record_effects(RecordingModule& recording, llvm::IRBuilder<>& at, llvm::CallBase& call, uint16_t flags,
                    bool is_skipped) {
  Effects(recording, at, call, flags, is_skipped).run();
}

}  // namespace friday::cut
