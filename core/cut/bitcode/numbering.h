// The ids of a module's functions, blocks and counters of bytes, in its normal form (normalise.h). Facts name them, and
// a profile counts by them: both number a module of its own, read from the same bitcode, so nothing but the order in
// the module may decide.
#pragma once

#include <vector>

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include "core/cut/facts.h"

namespace friday::cut {

// Where bytes are counted: the length of a memcpy or memset that is not constant, or an integer that a call hands over.
struct LengthSite {
  enum class What : uint8_t { argument, result };
  llvm::CallBase* call = nullptr;
  What what = What::argument;
  unsigned argument = 0;
};

class Numbering {
 public:
  explicit Numbering(llvm::Module& module);

  // Functions that are numbered: all but the intrinsics of LLVM that stand for no code outside.
  const std::vector<llvm::Function*>& functions() const { return functions_; }
  const std::vector<llvm::GlobalIFunc*>& ifuncs() const { return ifuncs_; }  // their ids follow those of the functions
  const std::vector<llvm::BasicBlock*>& blocks() const { return blocks_; }
  const std::vector<LengthSite>& lengths() const { return lengths_; }

  Id id_of(const llvm::Function* function) const { return find(function_ids_, function); }
  Id id_of(const llvm::BasicBlock* block) const { return find(block_ids_, block); }
  Id id_of(const llvm::GlobalIFunc& ifunc) const;
  // An ifunc has one block, which calls what its resolver has chosen; it is behind all others and never counted.
  Id block_of(const llvm::GlobalIFunc& ifunc) const;
  // The counter of an argument or of the result; kNone if there is none.
  Id length_of_argument(const llvm::CallBase& call, unsigned argument) const;
  Id length_of_result(const llvm::CallBase& call) const;
  uint32_t block_count() const { return static_cast<uint32_t>(blocks_.size() + ifuncs_.size()); }

 private:
  template <typename Key>
  static Id find(const llvm::DenseMap<Key, Id>& ids, Key key) {
    const auto found = ids.find(key);
    return found == ids.end() ? kNone : found->second;
  }
  void number_lengths(llvm::CallBase& call);
  void add_length(llvm::CallBase& call, LengthSite::What what, unsigned argument);

  std::vector<llvm::Function*> functions_;
  std::vector<llvm::GlobalIFunc*> ifuncs_;
  std::vector<llvm::BasicBlock*> blocks_;
  std::vector<LengthSite> lengths_;
  llvm::DenseMap<const llvm::Function*, Id> function_ids_;
  llvm::DenseMap<const llvm::BasicBlock*, Id> block_ids_;
  llvm::DenseMap<const llvm::CallBase*, Id> first_lengths_;  // a call's counters stand together
};

// Whether an intrinsic of LLVM reads something that differs from run to run, such as the clock: it is taken for a
// function that is outside of all bitcode.
bool is_outside(const llvm::Function& intrinsic);

}  // namespace friday::cut
