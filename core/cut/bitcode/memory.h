// The objects and pointers of a module while its facts are collected (collect.h): which id a variable, a function's
// address or a value has, and the flows that constants have by themselves.
#pragma once

#include <optional>
#include <string>

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include "core/cut/bitcode/numbering.h"
#include "core/cut/facts.h"

namespace friday::cut {

// As the linker knows it.
Linkage linkage_of(const llvm::GlobalValue& value);
// The symbol, without the mark that LLVM puts before names that it must not change.
std::string symbol_of(const llvm::GlobalValue& value);
// The path of a source file, with its directory if it is relative.
std::string path_of(const llvm::DIFile* file);

class Memory {
 public:
  // Makes the objects of the module's variables. `facts` has the functions already, in the order of their ids.
  Memory(llvm::Module& module, const Numbering& numbering, Facts& facts);

  // Whether the variable is one of the program's; others only tell the compiler or the linker something.
  static bool is_variable(const llvm::GlobalVariable& variable);

  Id new_pointer() { return facts_.pointers++; }
  // A constant that can carry an address; kNone if it has none.
  Id pointer_of(const llvm::Constant& constant);
  // The object of a function, which from then on counts as one whose address is taken.
  Id object_of(const llvm::Function& function);
  Id object_of(const llvm::GlobalIFunc& ifunc);
  Id object_of(const llvm::GlobalVariable& variable) const;
  Id add_object(Object object);
  // What a variable holds before the program starts.
  void add_initial_values(const llvm::GlobalVariable& variable);
  // Stands for all exceptions on their way from who throws to who catches, in the whole program.
  Id exceptions();

 private:
  Id object_of_function(Id function);
  Id address(Id object, int64_t offset);
  // `to` becomes what one constant is made of, at an unknown place if `exact` is false.
  Id joined(const llvm::Constant& constant, bool exact);
  Id made_pointer_of(const llvm::Constant& constant);
  Id pointer_of_symbol(const llvm::GlobalValue& value, int64_t offset);
  void add_initial(Id object, uint64_t offset, const llvm::Constant& value, unsigned depth);

  llvm::Module& module_;
  const Numbering& numbering_;
  Facts& facts_;
  llvm::DenseMap<const llvm::GlobalVariable*, Id> variables_;
  llvm::DenseMap<const llvm::Constant*, Id> constants_;
  Id exceptions_ = kNone;
};

}  // namespace friday::cut
