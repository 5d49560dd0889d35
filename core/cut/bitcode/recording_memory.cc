// Accesses of memory (recording.h). Inside, those that may touch memory outside; outside, those that may write inside.
#include <llvm/ADT/MapVector.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "core/cut/bitcode/recording_module.h"

namespace friday::cut {
namespace {

class AccessRecorder {
 public:
  explicit AccessRecorder(RecordingModule& recording) : r_(recording) {}

  void run() {
    for (Id id = 0; id < r_.places.accesses.size(); id++) {
      const uint8_t flags = r_.plan.accesses[id];
      if (flags != 0) add(r_.places.accesses[id], r_.facts.accesses[id], flags);
    }
    for (auto& [instruction, flags] : moves_) record_move(*instruction, flags);
  }

 private:
  void add(const Places::Access& access, const Access& fact, uint8_t flags) {
    llvm::Instruction& at = *access.instruction;
    const bool inside = r_.is_inside(at.getFunction());
    if (RecordingModule::is_naked(*at.getFunction()) || !access.address->getType()->isPointerTy())
      return r_.refuse(at, "touches memory across the cut in a way that the compiler does not show");
    if (!inside) {
      if (flags & Plan::kEntersMemory) record_enter(at, *access.address, fact);
      return;
    }
    flags &= Plan::kLogsRead | Plan::kLeavesMemory;
    if (flags == 0) return;
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&at)) return record_load(*load);
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&at)) return record_leave(*store);
    if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(at)) return record_exchange(at, *access.address, fact);
    if (auto* move = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&at)) {
      if (llvm::isa<llvm::AtomicMemIntrinsic>(move)) return r_.refuse(at, "copies memory across the cut atomically");
      moves_[move] |= flags;
      return;
    }
    r_.refuse(at, "touches memory outside by assembler text, va_arg or an instruction of the processor");
  }

  // What code outside wrote inside is logged, and nobody is inside meanwhile.
  void record_enter(llvm::Instruction& at, llvm::Value& address, const Access& fact) {
    if (at.isTerminator()) return r_.refuse(at, "writes memory inside by a jump");
    llvm::IRBuilder<> before(&at);
    RecordingModule::give_place(before, at);
    llvm::Value* const on = r_.is_on(before);
    llvm::Instruction* then = llvm::SplitBlockAndInsertIfThen(on, at.getIterator(), false, r_.rarely());
    llvm::IRBuilder<> begin(then);
    RecordingModule::give_place(begin, at);
    begin.CreateCall(r_.runtime("friday_cut_write_begin", r_.nothing, {}));
    llvm::IRBuilder<> after(at.getNextNode());
    RecordingModule::give_place(after, at);
    then = llvm::SplitBlockAndInsertIfThen(on, at.getNextNode()->getIterator(), false, r_.rarely());
    llvm::IRBuilder<> end(then);
    RecordingModule::give_place(end, at);
    llvm::Value* bytes = llvm::ConstantInt::get(r_.word, fact.bytes);
    if (auto* move = llvm::dyn_cast<llvm::AnyMemIntrinsic>(&at))
      bytes = end.CreateZExtOrTrunc(move->getLength(), r_.word);
    end.CreateCall(r_.runtime("friday_cut_write_end", r_.nothing, {r_.pointer, r_.word}), {&address, bytes});
  }

  void record_load(llvm::LoadInst& load) {
    llvm::Type* const type = load.getType();
    const uint64_t bytes = r_.layout.getTypeStoreSize(type);
    llvm::IRBuilder<> before(&load);
    RecordingModule::give_place(before, load);
    llvm::Value* const on = r_.is_on(before);
    llvm::Instruction *then = nullptr, *otherwise = nullptr;
    llvm::SplitBlockAndInsertIfThenElse(on, load.getIterator(), &then, &otherwise, r_.rarely());
    llvm::IRBuilder<> at(then);
    RecordingModule::give_place(at, load);
    llvm::Value* const read = read_by_runtime(at, load, bytes);
    llvm::BasicBlock* const rest = load.getParent();
    auto* const value = llvm::PHINode::Create(type, 2, "", rest->begin());
    value->setDebugLoc(load.getDebugLoc());
    load.replaceAllUsesWith(value);
    load.moveBefore(otherwise);
    value->addIncoming(read, then->getParent());
    value->addIncoming(&load, otherwise->getParent());
  }

  llvm::Value* read_by_runtime(llvm::IRBuilder<>& at, llvm::LoadInst& load, uint64_t bytes) {
    llvm::Type* const type = load.getType();
    llvm::Value* const address = load.getPointerOperand();
    const char* const name = bytes == 1   ? "friday_cut_read1"
                             : bytes == 2 ? "friday_cut_read2"
                             : bytes == 4 ? "friday_cut_read4"
                             : bytes == 8 ? "friday_cut_read8"
                                          : nullptr;
    llvm::Constant* const site = r_.site(load, name_of(*address), bytes);
    if (name && (type->isIntegerTy() || type->isPointerTy() || type->isFloatTy() || type->isDoubleTy())) {
      llvm::Value* value = at.CreateCall(r_.runtime(name, r_.word, {r_.pointer, r_.pointer}), {address, site});
      if (type->isPointerTy()) return at.CreateIntToPtr(value, type);
      value = at.CreateTrunc(value, at.getIntNTy(type->getPrimitiveSizeInBits()));
      return at.CreateBitCast(value, type);
    }
    llvm::Value* const place = r_.scratch(*load.getFunction(), RecordingModule::Scratch::result, bytes);
    at.CreateCall(r_.runtime("friday_cut_read_bytes", r_.nothing, {r_.pointer, r_.pointer, r_.word, r_.pointer}),
                  {place, address, llvm::ConstantInt::get(r_.word, bytes), site});
    return at.CreateAlignedLoad(type, place, llvm::Align(1));
  }

  static std::string name_of(const llvm::Value& address) {
    const llvm::Value* const base = address.stripInBoundsOffsets();
    return base->hasName() ? base->getName().str() : std::string("memory outside");
  }

  void record_leave(llvm::StoreInst& store) {
    const uint64_t bytes = r_.layout.getTypeStoreSize(store.getValueOperand()->getType());
    llvm::IRBuilder<> before(&store);
    RecordingModule::give_place(before, store);
    llvm::BasicBlock* const head = store.getParent();
    llvm::Value* const on = r_.is_on(before);
    llvm::Instruction* const asked = llvm::SplitBlockAndInsertIfThen(on, store.getIterator(), false, r_.rarely());
    llvm::IRBuilder<> at(asked);
    RecordingModule::give_place(at, store);
    llvm::Value* const may =
        at.CreateICmpNE(at.CreateCall(r_.runtime("friday_cut_may_write", r_.half, {r_.pointer, r_.word}),
                                      {store.getPointerOperand(), llvm::ConstantInt::get(r_.word, bytes)}),
                        at.getInt32(0));
    auto* const does = llvm::PHINode::Create(may->getType(), 2, "", store.getParent()->begin());
    does->addIncoming(may, asked->getParent());
    does->addIncoming(at.getTrue(), head);
    llvm::Instruction* const then = llvm::SplitBlockAndInsertIfThen(does, store.getIterator(), false);
    store.moveBefore(then);
  }

  void record_exchange(llvm::Instruction& at, llvm::Value& address, const Access& fact) {
    const uint64_t bytes = fact.bytes;
    if (bytes == 0 || bytes > 16) return r_.refuse(at, "has an atomic operation of a size that is not known");
    llvm::Constant* const site = r_.site(at, name_of(address), bytes);
    llvm::Value* const size = llvm::ConstantInt::get(r_.half, bytes);
    llvm::IRBuilder<> before(&at);
    RecordingModule::give_place(before, at);
    llvm::BasicBlock* const head = at.getParent();
    llvm::Value* const on = r_.is_on(before);
    llvm::Instruction* const then = llvm::SplitBlockAndInsertIfThen(on, at.getIterator(), false, r_.rarely());
    llvm::IRBuilder<> ask(then);
    RecordingModule::give_place(ask, at);
    llvm::Value* const place = ask.CreateCall(
        r_.runtime("friday_cut_exchange", r_.pointer, {r_.pointer, r_.half, r_.pointer}), {&address, size, site});
    auto* const where = llvm::PHINode::Create(r_.pointer, 2, "", at.getParent()->begin());
    where->addIncoming(place, then->getParent());
    where->addIncoming(&address, head);
    at.setOperand(0, where);
    llvm::Instruction* const last =
        llvm::SplitBlockAndInsertIfThen(on, at.getNextNode()->getIterator(), false, r_.rarely());
    llvm::IRBuilder<> end(last);
    RecordingModule::give_place(end, at);
    llvm::Value* const found = at.getType()->isStructTy() ? end.CreateExtractValue(&at, 0) : &at;
    llvm::Value* const kept = r_.scratch(*at.getFunction(), RecordingModule::Scratch::result, bytes);
    end.CreateAlignedStore(found, kept, llvm::Align(1));
    end.CreateCall(r_.runtime("friday_cut_exchanged", r_.nothing, {r_.pointer, r_.half, r_.pointer}),
                   {kept, size, site});
  }

  void record_move(llvm::AnyMemIntrinsic& move, uint8_t flags) {
    llvm::IRBuilder<> before(&move);
    RecordingModule::give_place(before, move);
    llvm::Value* const on = r_.is_on(before);
    llvm::Instruction *then = nullptr, *otherwise = nullptr;
    llvm::SplitBlockAndInsertIfThenElse(on, move.getIterator(), &then, &otherwise, r_.rarely());
    llvm::IRBuilder<> at(then);
    RecordingModule::give_place(at, move);
    llvm::Value* const bytes = at.CreateZExtOrTrunc(move.getLength(), r_.word);
    if (auto* transfer = llvm::dyn_cast<llvm::AnyMemTransferInst>(&move)) {
      const uint32_t wanted = ((flags & Plan::kLogsRead) ? 1 : 0) | ((flags & Plan::kLeavesMemory) ? 2 : 0);
      llvm::Constant* const site = r_.site(move, name_of(*transfer->getRawSource()), 0);
      at.CreateCall(r_.runtime("friday_cut_copy", r_.nothing, {r_.pointer, r_.pointer, r_.word, r_.half, r_.pointer}),
                    {move.getRawDest(), transfer->getRawSource(), bytes, at.getInt32(wanted), site});
    } else {
      llvm::Value* const value = at.CreateZExt(llvm::cast<llvm::AnyMemSetInst>(move).getValue(), r_.half);
      at.CreateCall(r_.runtime("friday_cut_fill", r_.nothing, {r_.pointer, r_.half, r_.word}),
                    {move.getRawDest(), value, bytes});
    }
    move.moveBefore(otherwise);
  }

  RecordingModule& r_;
  llvm::MapVector<llvm::AnyMemIntrinsic*, uint8_t> moves_;
};

}  // namespace

void record_accesses(RecordingModule& recording) { AccessRecorder(recording).run(); }

}  // namespace friday::cut
