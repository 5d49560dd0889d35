#include "console/cc.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "console/complain.h"
#include "console/paths.h"
#include "core/cut/bitcode/response.h"

namespace friday {
namespace {

constexpr const char* kClang = "clang-19";
constexpr const char* kClangCxx = "clang++-19";

const char* name_of(const CompilerCall& call) { return call.is_cxx ? "c++" : "cc"; }

// Options that decide where clang looks for its linker. Those in `apart` may have their value in the next argument.
bool is_about_linker(std::string_view argument) {
  for (const char* joined : {"-B", "--prefix=", "--target=", "--sysroot=", "--gcc-toolchain=", "--gcc-install-dir="})
    if (argument.starts_with(joined)) return true;
  return false;
}

// What friday-ld is told of the linker: its path, or a command that asks clang for it.
std::string linker_question(const CompilerCall& call) {
  std::string path, kind;
  std::vector<std::string> words{call.is_cxx ? kClangCxx : kClang};
  const std::vector<std::string> all = cut::expand_responses(call.arguments);
  for (size_t i = 0; i < all.size(); i++) {
    const std::string_view each = all[i];
    if (each.starts_with("--ld-path=")) path = each.substr(strlen("--ld-path="));
    else if (each.starts_with("-fuse-ld=")) kind = each.substr(strlen("-fuse-ld="));
    else if (is_about_linker(each)) words.emplace_back(each);
    else if (each == "-target" && i + 1 < all.size()) words.insert(words.end(), {all[i], all[i + 1]});
    if (each == "-B" && i + 1 < all.size()) words.push_back(all[++i]);
  }
  if (!path.empty()) return path;
  if (kind.starts_with('/')) return kind;
  words.push_back("-print-prog-name=" + (kind.empty() || kind == "ld" ? "ld" : "ld." + kind));
  std::string lines;
  for (const std::string& each : words) lines += each + "\n";
  return lines;
}

// The frontend and the assembler, called by their own names, take none of the compiler's options.
bool is_frontend(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments[0].starts_with("-cc1");
}

std::vector<std::string> words_of(const CompilerCall& call, const std::string& library) {
  std::vector<std::string> words{call.is_cxx ? kClangCxx : kClang};
  if (is_frontend(call.arguments)) {
    words.insert(words.end(), call.arguments.begin(), call.arguments.end());
    return words;
  }
  words.insert(words.end(), {"--start-no-unused-arguments", "-fpass-plugin=" + library + "/friday-embed.so", "-Xclang",
                             "-fembed-bitcode=marker", "--end-no-unused-arguments"});
  // Of several --ld-path the last one counts. Behind `--` there are only inputs.
  const auto end = std::ranges::find(call.arguments, "--");
  words.insert(words.end(), call.arguments.begin(), end);
  words.insert(words.end(),
               {"--start-no-unused-arguments", "--ld-path=" + library + "/friday-ld", "--end-no-unused-arguments"});
  words.insert(words.end(), end, call.arguments.end());
  return words;
}

}  // namespace

std::optional<CompilerCall> compiler_call(int argc, char** argv) {
  if (argc < 1) return std::nullopt;
  const std::string own = std::filesystem::path(argv[0]).filename().string();
  if (own == "friday-cc" || own == "friday-c++") return CompilerCall{own == "friday-c++", {argv + 1, argv + argc}};
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command != "cc" && command != "c++") return std::nullopt;
  return CompilerCall{command == "c++", {argv + 2, argv + argc}};
}

int become_compiler(const CompilerCall& call) {
  const std::string library = library_directory();
  for (const char* part : {"/friday-embed.so", "/friday-ld"})
    if (access((library + part).c_str(), R_OK) != 0)
      return complain(name_of(call), Error{ErrorCode::not_found,
                                           fmt::format("{}{} is missing: this Friday was built without its part for "
                                                       "compilers. Run `console/setup.sh --cut`, and build it "
                                                       "again with cmake -DFRIDAY_CUT=ON",
                                                       library, part)});
  std::vector<std::string> words = words_of(call, library);
  std::vector<char*> pointers;
  for (std::string& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  setenv("FRIDAY_LINKER", linker_question(call).c_str(), 1);
  execvp(pointers[0], pointers.data());
  const char* reason = strerror(errno);
  return complain(name_of(call), Error{ErrorCode::not_found,
                                       fmt::format("cannot start {}: {}. It is the only compiler whose bitcode Friday "
                                                   "reads: apt-get install clang-19",
                                                   words[0], reason)});
}

void add_compiler_commands(CLI::App& app, int* status) {
  for (const bool is_cxx : {false, true}) {
    auto* command = app.add_subcommand(is_cxx ? "c++" : "cc",
                                       is_cxx ? "Compile C++ as clang++-19 does, and keep the bitcode for `friday cut`"
                                              : "Compile C as clang-19 does, and keep the bitcode for `friday cut`");
    command->prefix_command();
    command->footer("Example:\n  ./configure CC='friday cc' CXX='friday c++' && make");
    command->callback([=] { *status = become_compiler({is_cxx, command->remaining()}); });
  }
}

}  // namespace friday
