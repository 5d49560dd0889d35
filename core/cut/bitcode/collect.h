// Takes the facts of a cut (core/cut/facts.h) from a module in its normal form.
#pragma once

#include <vector>

#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include "core/cut/bitcode/numbering.h"
#include "core/cut/facts.h"

namespace friday::cut {

// Where the items of a module's facts stand, by their ids.
struct Places {
  struct Access {
    llvm::Instruction* instruction = nullptr;
    llvm::Value* address = nullptr;
  };
  std::vector<Access> accesses;
  std::vector<llvm::CallBase*> calls;  // null of an ifunc
  // A variable: llvm::GlobalVariable, llvm::AllocaInst, or an argument that is handed over by value. Null of others.
  std::vector<llvm::Value*> objects;
};

// All but `module` and `fingerprint`, which are those of the record. `numbering` is of the same module, after
// normalise().
Facts collect_facts(llvm::Module& module, const Numbering& numbering, Places* places = nullptr);

}  // namespace friday::cut
