#include "core/cut/bitcode/counting.h"

#include <cstring>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "core/cut/bitcode/numbering.h"

namespace friday::cut {
namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kMostName = 4096;  // bytes of a module's name in a file of counts

// What a file of counts begins with: see core/cut/counts.h.
std::string head_of(const Record& record, uint64_t blocks, uint64_t lengths) {
  const std::string name = record.source.substr(0, kMostName);
  std::string head = "FRIDCUTC";
  const auto put = [&](auto number) { head.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(uint32_t{1});
  put(static_cast<uint32_t>(name.size()));
  head += fingerprint_text(record);
  put(blocks);
  put(lengths);
  head += name;
  head.resize((head.size() + 7) / 8 * 8, '\0');
  return head;
}

class CounterPass {
 public:
  CounterPass(llvm::Module& module, const Record& record)
      : module_(module), numbering_(module), word_(llvm::Type::getInt64Ty(module.getContext())) {
    make_counters(head_of(record, numbering_.block_count(), numbering_.lengths().size()));
  }

  void run() {
    for (llvm::Function* each : numbering_.functions()) forget_effects(*each);
    const std::vector<LengthSite>& lengths = numbering_.lengths();
    for (size_t i = 0; i < lengths.size(); i++)
      if (!is_naked(*lengths[i].call)) count_length(lengths[i], numbering_.block_count() + i);
    const std::vector<llvm::BasicBlock*>& blocks = numbering_.blocks();
    for (size_t i = 0; i < blocks.size(); i++) count_block(*blocks[i], i);
  }

 private:
  void make_counters(const std::string& head) {
    llvm::LLVMContext& context = module_.getContext();
    const uint64_t count = numbering_.block_count() + numbering_.lengths().size();
    const uint64_t bytes = head.size() + count * sizeof(uint64_t);
    llvm::Constant* const first = llvm::ConstantDataArray::getString(context, head, /*AddNull=*/false);
    auto* const counters = counters_type_ = llvm::ArrayType::get(word_, count);
    auto* const rest =
        llvm::ArrayType::get(llvm::Type::getInt8Ty(context), (bytes + kPage - 1) / kPage * kPage - bytes);
    type_ = llvm::StructType::get(context, {first->getType(), counters, rest}, /*isPacked=*/true);
    llvm::Constant* const value = llvm::ConstantStruct::get(
        type_, {first, llvm::ConstantAggregateZero::get(counters), llvm::ConstantAggregateZero::get(rest)});
    counters_ = new llvm::GlobalVariable(module_, type_, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                         value, "friday.counts");
    counters_->setSection("friday_counts");
    counters_->setAlignment(llvm::Align(kPage));
    llvm::appendToCompilerUsed(module_, {counters_});  // else the optimiser takes it apart
  }

  static bool is_naked(const llvm::Instruction& instruction) {
    return instruction.getFunction()->hasFnAttribute(llvm::Attribute::Naked);
  }

  // A function that counts writes memory, whatever the source says of it.
  void forget_effects(llvm::Function& function) {
    if (function.isDeclaration()) return;
    function.setMemoryEffects(llvm::MemoryEffects::unknown());
    function.removeFnAttr(llvm::Attribute::NoSync);
    for (llvm::User* user : function.users())
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(user); call && call->getCalledOperand() == &function)
        call->setMemoryEffects(llvm::MemoryEffects::unknown());
  }

  void add(llvm::IRBuilder<>& at, size_t counter, llvm::Value* amount) {
    llvm::Value* const place =
        at.CreateConstInBoundsGEP2_32(counters_type_, field(at), 0, static_cast<unsigned>(counter));
    llvm::Value* const before = at.CreateAlignedLoad(word_, place, llvm::Align(8));
    llvm::Value* const after = llvm::isa<llvm::ConstantInt>(amount)
                                   ? at.CreateAdd(before, amount)
                                   : at.CreateBinaryIntrinsic(llvm::Intrinsic::uadd_sat, before, amount);
    at.CreateAlignedStore(after, place, llvm::Align(8));
  }
  llvm::Value* field(llvm::IRBuilder<>& at) { return at.CreateStructGEP(type_, counters_, 1); }

  void count_block(llvm::BasicBlock& block, size_t counter) {
    if (is_naked(block.front()) || block.getFirstInsertionPt() == block.end()) return;
    llvm::IRBuilder<> at(&block, block.getFirstInsertionPt());
    add(at, counter, llvm::ConstantInt::get(word_, 1));
  }

  void count_length(const LengthSite& site, size_t counter) {
    llvm::CallBase& call = *site.call;
    llvm::IRBuilder<> at(&call);
    llvm::Value* value = &call;
    if (site.what == LengthSite::What::argument) {
      value = call.getArgOperand(site.argument);
    } else if (auto* invoke = llvm::dyn_cast<llvm::InvokeInst>(&call)) {
      llvm::BasicBlock* next = invoke->getNormalDest();
      if (!next->getSinglePredecessor()) next = llvm::SplitEdge(invoke->getParent(), next);
      at.SetInsertPoint(next, next->getFirstInsertionPt());
    } else {
      at.SetInsertPoint(call.getNextNode());
    }
    llvm::Value* const wide = at.CreateSExtOrTrunc(value, word_);
    add(at, counter, at.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide, llvm::ConstantInt::get(word_, 0)));
  }

  llvm::Module& module_;
  Numbering numbering_;
  llvm::Type* word_;
  llvm::StructType* type_ = nullptr;
  llvm::ArrayType* counters_type_ = nullptr;
  llvm::GlobalVariable* counters_ = nullptr;
};

}  // namespace

Result<void> add_counters(llvm::Module& module, const Record& record) {
  CounterPass(module, record).run();
  return {};
}

}  // namespace friday::cut
