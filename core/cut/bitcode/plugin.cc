// friday-embed.so: the plug-in of clang with which `friday cc` keeps the bitcode of what it compiles (record.h).
//
// It runs where the optimiser begins, so the bitcode is that of `-Xclang -disable-llvm-passes -emit-llvm` with the
// user's own options, and one run of the compiler makes object and bitcode. A global variable in a section of its own
// would be loaded with the program: LLVM 19 knows only the names .llvmbc and .llvmcmd as those of sections that are
// not. Assembler text of the module says what the section is like. It costs some 3 characters a byte, which the
// assembler reads again.
//
// clang writes its own arguments into a variable if it is told `-fembed-bitcode=marker`: the plug-in takes them from
// there and removes the variable.
#include <unistd.h>

#include <climits>
#include <string>
#include <string_view>

#include <llvm/ADT/SmallVector.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Passes/PassPlugin.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/ModuleUtils.h>

#include "core/cut/bitcode/record.h"

namespace friday::cut {
namespace {

// What stands around a record in a module's assembler text, so that a module that is compiled in two steps (-emit-llvm,
// -save-temps) has one record only.
constexpr std::string_view kBegin = "# friday: record\n", kEnd = "# friday: end of record\n";

// Whether an argument of `clang -cc1` is about this run only.
bool is_own(std::string_view argument) {
  return argument == "-cc1" || argument.starts_with("-fembed-bitcode") || argument.starts_with("-fpass-plugin");
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\0'), text.size());
    if (!is_own(text.substr(0, end))) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Takes the compiler's arguments out of the module, and with them the empty variable for the bitcode.
std::vector<std::string> take_arguments(llvm::Module& module) {
  std::vector<std::string> arguments;
  auto* const command = module.getGlobalVariable("llvm.cmdline", true);
  auto* const marker = module.getGlobalVariable("llvm.embedded.module", true);
  if (command)
    if (const auto* text = llvm::dyn_cast<llvm::ConstantDataSequential>(command->getInitializer()))
      arguments = split(text->getRawDataValues());
  llvm::removeFromUsedLists(module, [&](llvm::Constant* used) { return used && (used == command || used == marker); });
  for (auto* variable : {command, marker}) {
    if (!variable) continue;
    variable->removeDeadConstantUsers();  // the former list of what is used
    if (variable->use_empty()) variable->eraseFromParent();
  }
  return arguments;
}

void drop_earlier_record(llvm::Module& module) {
  std::string text = module.getModuleInlineAsm();
  for (size_t from; (from = text.find(kBegin)) != std::string::npos;) {
    const size_t end = text.find(kEnd, from);
    if (end == std::string::npos) return;
    text.erase(from, end + kEnd.size() - from);
  }
  module.setModuleInlineAsm(text);
}

// As a string of the assembler.
std::string quoted(std::string_view bytes) {
  std::string text = "\"";
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte >= ' ' && byte < 127 && byte != '"' && byte != '\\') {
      text += each;
    } else {
      text += '\\';
      for (const unsigned shift : {6, 3, 0}) text += static_cast<char>('0' + (byte >> shift & 7));
    }
  }
  return text += '"';
}

std::string assembler_text(std::string_view record) {
  constexpr size_t kLine = 4096;
  std::string text = std::string(kBegin) + ".pushsection " + std::string(kSection) + ",\"\",@progbits\n";
  for (size_t at = 0; at < record.size(); at += kLine) text += ".ascii " + quoted(record.substr(at, kLine)) + "\n";
  return text + ".popsection\n" + std::string(kEnd);
}

class Embed : public llvm::PassInfoMixin<Embed> {
 public:
  static bool isRequired() { return true; }

  llvm::PreservedAnalyses run(llvm::Module& module, llvm::ModuleAnalysisManager&) {
    Record record;
    record.source = module.getSourceFileName();
    record.arguments = take_arguments(module);
    drop_earlier_record(module);
    char directory[PATH_MAX];
    if (getcwd(directory, sizeof directory)) record.directory = directory;
    llvm::SmallString<0> bitcode;
    llvm::raw_svector_ostream out(bitcode);
    llvm::WriteBitcodeToFile(module, out);
    store_bitcode(record, bitcode.str());
    module.appendModuleInlineAsm(assembler_text(encode(record)));
    return llvm::PreservedAnalyses::all();
  }
};

}  // namespace
}  // namespace friday::cut

extern "C" LLVM_ATTRIBUTE_WEAK __attribute__((visibility("default"))) llvm::PassPluginLibraryInfo
llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "friday-embed", "1", [](llvm::PassBuilder& builder) {
            builder.registerPipelineStartEPCallback(
                [](llvm::ModulePassManager& passes, llvm::OptimizationLevel) { passes.addPass(friday::cut::Embed()); });
          }};
}
