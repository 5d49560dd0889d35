// The facts of functions' code (collect.h): how pointers flow, what reads and writes memory, what is called.
#pragma once

#include <memory>
#include <vector>

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/IntrinsicInst.h>

#include "core/cut/bitcode/carriers.h"
#include "core/cut/bitcode/collect.h"
#include "core/cut/bitcode/memory.h"
#include "core/cut/bitcode/numbering.h"
#include "core/cut/facts.h"

namespace friday::cut {

// Of parameters and result as the machine hands them over: a pointer is like any other integer of 8 bytes. Never 0.
uint64_t shape_of(const llvm::FunctionType& type);

class Code {
 public:
  // `places`: takes where each access, call and object of the facts stands; may be null.
  Code(const Numbering& numbering, Memory& memory, Facts& facts, Places* places);

  // Gives a function pointers for its parameters and its result. All functions are declared before one is added.
  void declare(llvm::Function& function);
  void add(llvm::Function& function);
  // The code behind an ifunc: it calls what the resolver has chosen.
  void add(const llvm::GlobalIFunc& ifunc);

 private:
  using Instruction = llvm::Instruction;

  // A pointer that moves along while a value of several words is read or written.
  Id moved(Id from, int64_t offset, uint32_t stride = 0, uint32_t span = 0);
  Id pointer_of(const llvm::Value& value);
  Id address_of(const llvm::Value& value);  // never kNone: an address that nobody knows has a pointer without flows
  void flow(FlowKind kind, Id to, Id from, int64_t offset = 0, uint32_t stride = 0, uint32_t span = 0);
  void copy(const llvm::Value& to, const llvm::Value& from, int64_t offset = 0);
  void read_value(Id to, Id from, uint64_t bytes);
  void write_value(Id to, Id value, uint64_t bytes);
  // Gives the pointer.
  Id access(const llvm::Value& address, bool reads, bool writes, uint64_t bytes, Id length = kNone);
  void stands_at(Id object, const llvm::Value& value);
  void unseen(std::string what);
  uint64_t size_of(llvm::Type* type) const;

  void add_parameters(llvm::Function& function);
  void add_variable_arguments(llvm::Function& function);
  void visit(Instruction& instruction);
  void visit_alloca(llvm::AllocaInst& variable);
  void visit_load(llvm::LoadInst& load);
  void visit_store(llvm::StoreInst& store);
  void visit_address(llvm::GetElementPtrInst& address);
  void visit_exchange(Instruction& instruction, llvm::Value& address, llvm::Value& value);
  void visit_calculation(Instruction& instruction);
  void visit_return(llvm::ReturnInst& instruction);
  void visit_catch(llvm::LandingPadInst& pad);
  void visit_call(llvm::CallBase& call);
  void visit_assembler(llvm::CallBase& call);
  void visit_intrinsic(llvm::IntrinsicInst& intrinsic);
  void visit_memory(llvm::AnyMemIntrinsic& intrinsic);
  Handed handed(const llvm::CallBase& call, unsigned argument);
  bool set_callee(Call& fact, const llvm::CallBase& call);

  const Numbering& numbering_;
  Memory& memory_;
  Facts& facts_;
  Places* places_;
  std::vector<Id> results_;  // by function: the pointer of what it returns
  // Of the function that is being added:
  Id function_ = kNone, block_ = kNone;
  uint32_t line_ = 0;
  Instruction* instruction_ = nullptr;
  const llvm::DataLayout* layout_ = nullptr;
  std::unique_ptr<Carriers> carriers_;
  llvm::DenseMap<const llvm::Value*, Id> pointers_;
};

}  // namespace friday::cut
