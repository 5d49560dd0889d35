// The form of a module from which facts are taken, and into which counters and later the recording are put. It is
// always the same for one bitcode, so that ids of blocks, calls and counters mean the same in each (numbering.h).
#pragma once

#include <llvm/IR/Module.h>

namespace friday::cut {

// Changes the module, but not what it does:
//   - inline functions whose code the compiler may use but not emit (available_externally: `inline` of C99, gnu_inline
//   in
//     headers) get code of their own, so that what runs is what was analysed;
//   - code that nothing reaches goes;
//   - local variables whose address nobody takes become values, those in structures too (SROA);
//   - functions of the C library get the attributes that LLVM knows of them.
// The control flow between the blocks that are left is the compiler's, so a block of the program is a block here.
void normalise(llvm::Module& module);

}  // namespace friday::cut
