// Which values of a function can carry an address, or a part of a structure that has one.
//
// A pointer can. So can each other value of at least 8 bytes that comes from where addresses may be (it was loaded,
// handed over, or made of a pointer) and goes where it may become one again (it is stored, handed over, or made a
// pointer): C programs keep addresses in integers, in unions with a double, and in structures that the compiler treats
// as integers or vectors. An integer that is only compared or used as an index carries nothing.
//
// What changes a value beyond recognition ends the way: multiplication, division, arithmetic of floating point. So does
// a value below 8 bytes; pieces_of() is about those.
#pragma once

#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

namespace friday::cut {

// By its type alone.
bool can_carry(const llvm::Type* type, const llvm::DataLayout& layout);

// Those operands of an instruction that may go into its result, whole or in part. Not what it loads, and nothing for a
// call of code.
llvm::SmallVector<llvm::Value*, 4> passed_on(const llvm::Instruction& instruction);

// The loads whose value, of less than 8 bytes, a store writes unchanged: a piece of what may be an address, if a loop
// copies byte by byte.
llvm::SmallVector<const llvm::LoadInst*, 2> pieces_of(const llvm::StoreInst& store);

class Carriers {
 public:
  explicit Carriers(const llvm::Function& function);
  bool contains(const llvm::Value* value) const;

 private:
  bool may_begin(const llvm::Value& value) const;
  bool may_end(const llvm::Value& value) const;
  void go_forward(const llvm::Function& function);
  void go_back(const llvm::Function& function);

  const llvm::DataLayout& layout_;
  llvm::DenseSet<const llvm::Value*> from_address_, to_address_;
};

}  // namespace friday::cut
