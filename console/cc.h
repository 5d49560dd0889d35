// `friday cc` and `friday c++`: Debian's clang 19, which also keeps the bitcode of what it compiles (core/cut/bitcode).
//
// All that follows belongs to the compiler, so the command line is not parsed as those of other subcommands are: main()
// asks names_compiler() first. A link to friday of the name friday-cc or friday-c++ is the same compiler in one word,
// for makefiles that quote $CC.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace friday {

struct CompilerCall {
  bool is_cxx = false;
  std::vector<std::string> arguments;  // the compiler's, without its name
};

// Nothing if the command line is that of another subcommand.
std::optional<CompilerCall> compiler_call(int argc, char** argv);

// Becomes the compiler. Returns only if that is not possible: prints why, and gives the exit code.
int become_compiler(const CompilerCall& call);

// Names both in `friday --help` and for completion; main() never lets CLI11 run them.
void add_compiler_commands(CLI::App& app, int* status);

}  // namespace friday
