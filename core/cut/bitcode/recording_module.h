// What the parts of the recording's pass (recording.h) share about a module: types, the runtime's functions, the table
// of sites, and what was found that cannot be recorded. Belongs to one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "core/cut/annotations.h"
#include "core/cut/bitcode/collect.h"
#include "core/cut/bitcode/numbering.h"
#include "core/cut/plan.h"

namespace friday::cut {

class RecordingModule {
 public:
  RecordingModule(llvm::Module& module, const Plan::Module& plan, const Annotations& annotations);

  llvm::Module& module;
  const Plan::Module& plan;
  const Annotations& annotations;
  llvm::LLVMContext& context;
  const llvm::DataLayout& layout;
  llvm::PointerType* pointer;
  llvm::IntegerType *byte, *word, *half;  // of 1, 8 and 4 bytes
  llvm::Type* nothing;
  Numbering numbering;
  Places places;
  Facts facts;
  std::vector<std::string> refused;

  bool is_inside(const llvm::Function* function) const {
    const Id id = numbering.id_of(function);
    return id != kNone && (plan.functions[id] & Plan::kInside) != 0;
  }
  // The function that is called, through casts and aliases; null of an indirect call.
  static llvm::Function* callee_of(const llvm::CallBase& call);
  static bool is_naked(const llvm::Function& function) { return function.hasFnAttribute(llvm::Attribute::Naked); }

  void refuse(const llvm::Instruction& at, const std::string& what);
  void refuse(const llvm::Function& at, const std::string& what);

  llvm::FunctionCallee runtime(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> parameters);
  // Whether the program is recorded or replayed.
  llvm::Value* is_on(llvm::IRBuilder<>& at);
  llvm::MDNode* rarely() const;
  // A constant in the table of sites (core/cut/runtime/runtime.h).
  llvm::Constant* site(const llvm::Instruction& at, const std::string& what, uint64_t bytes);
  llvm::Constant* text(const std::string& text);
  // Memory of a function for arguments or results of crossings, at least so large.
  enum class Scratch : uint8_t { arguments, result };
  llvm::Value* scratch(llvm::Function& function, Scratch use, uint64_t bytes);
  // Calls with a place must stand in functions with debug information.
  static void give_place(llvm::IRBuilder<>& at, const llvm::Instruction& like);
  static std::string file_of(const llvm::Function& function);

 private:
  std::map<std::string, llvm::Constant*> texts_;
  std::map<std::pair<llvm::Function*, Scratch>, llvm::AllocaInst*> scratch_;
};

// Loads, stores and what else touches memory (recording_memory.cc).
void record_accesses(RecordingModule& recording);
// Calls of both sides (recording_calls.cc). After record_accesses().
void record_calls(RecordingModule& recording);
// What functions without code wrote and allocated, after a call (recording_effects.cc). `at` is behind the call.
void record_effects(RecordingModule& recording, llvm::IRBuilder<>& at, llvm::CallBase& call, uint16_t flags,
                    bool is_skipped);
// Functions inside become an entry and a body (recording_entries.cc). After record_calls().
void make_entries(RecordingModule& recording);

}  // namespace friday::cut
