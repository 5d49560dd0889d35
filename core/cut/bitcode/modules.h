// From a module's record to LLVM's module and back to an object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "core/base/error.h"
#include "core/cut/bitcode/record.h"
#include "core/cut/facts.h"

namespace friday::cut {

// A module in its normal form (normalise.h). `context` must outlive it.
Result<std::unique_ptr<llvm::Module>> normal_module(const Record& record, llvm::LLVMContext& context);

// The facts of a module, checked.
Result<Facts> facts_of(const Record& record);

// For the facts of a shared object: its symbols give way to those of the program, as the loader lets the first one win.
void yield_to_program(Facts& facts);

// Calls work(0) to work(count - 1) in `threads` threads, and gives the first error (of the smallest number) if there is
// one.
Result<void> in_parallel(size_t count, unsigned threads, const std::function<Result<void>(size_t)>& work);

}  // namespace friday::cut
