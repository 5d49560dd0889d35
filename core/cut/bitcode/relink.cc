#include "core/cut/bitcode/relink.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>
#include <optional>

#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/Object/Archive.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/scratch.h"
#include "core/cut/bitcode/link_inputs.h"
#include "core/cut/bitcode/modules.h"

namespace friday::cut {
namespace {

constexpr const char* kCompiler = "clang-19";
constexpr size_t kMostComplaint = 2000;  // bytes of what a tool says that stand in an error

// Runs a command in a directory and waits for it. An error has what the command wrote to standard error.
Result<void> run_tool(const std::vector<std::string>& words, const std::string& directory, const std::string& log) {
  std::vector<char*> pointers;
  for (const std::string& each : words) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
  pid_t child = -1;
  const int error = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return fail(ErrorCode::io,
                "cannot start {} in {}: {}. The directory in which the program was built must still exist, and "
                "so must the tool",
                words[0], directory, strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (status == 0) return {};
  const std::string said = read_file(log).value_or("");
  return fail(ErrorCode::component_died, "{} failed in {}: {}", words[0], directory, said.substr(0, kMostComplaint));
}

// Options of clang -cc1 that this build must not have: first those that stand alone, then those with a value behind
// them.
constexpr std::string_view kDroppedOptions[] = {"-emit-obj",
                                                "-emit-llvm",
                                                "-emit-llvm-bc",
                                                "-S",
                                                "-emit-llvm-uselists",
                                                "-split-dwarf-inlining",
                                                "-sys-header-deps",
                                                "-MP",
                                                "-MV"};
constexpr std::string_view kDroppedPairs[] = {"-dependency-file",     "-MT",
                                              "-split-dwarf-file",    "-split-dwarf-output",
                                              "-opt-record-file",     "-dumpdir",
                                              "-coverage-notes-file", "-coverage-data-file",
                                              "-header-include-file", "-serialize-diagnostic-file",
                                              "-diagnostic-log-file", "-main-file-name"};

template <size_t Count>
bool is_one_of(const std::string& word, const std::string_view (&words)[Count]) {
  return std::ranges::find(words, word) != std::end(words);
}

// Options of a linker that write files beside its output, which belong to the first build.
bool writes_file(std::string_view argument) {
  for (const char* each :
       {"-Map", "--Map", "--dependency-file", "--print-map", "--cref", "--reproduce", "--time-trace", "--out-implib"})
    if (argument == each || argument.starts_with(std::string(each) + "=")) return true;
  return false;
}
bool is_pie(std::string_view argument) {
  return argument == "-pie" || argument == "--pie" || argument == "--gc-sections" || argument == "-pic-executable";
}
bool has_value_behind(std::string_view argument) {
  return argument == "-Map" || argument == "--Map" || argument == "--dependency-file" || argument == "--reproduce" ||
         argument == "--out-implib";
}

class Relinking {
 public:
  Relinking(const LinkedFile& file, const Relink& how, const ScratchDirectory& scratch)
      : file_(file), how_(how), scratch_(scratch.path()) {}

  Result<void> run() {
    if (!file_.link)
      return fail(
          ErrorCode::unsupported,
          "{} cannot be built again: it was not linked by friday cc, so nobody knows how. Link it with `friday cc` or "
          "`friday c++` as the compiler, not with ld or another compiler",
          file_.path);
    FRIDAY_TRY_VOID(in_parallel(file_.modules.size(), how_.jobs, [&](size_t i) { return compile(i); }));
    FRIDAY_TRY_VOID(choose_inputs());
    return link();
  }

 private:
  std::string scratch(size_t number, const char* suffix) const {
    return fmt::format("{}/{:04}{}", scratch_, number, suffix);
  }
  std::string object(size_t module) const { return scratch(module, ".o"); }

  Result<void> compile(size_t number) const {
    const Record& record = file_.modules[number];
    const std::string bitcode = scratch(number, ".bc");
    {
      llvm::LLVMContext context;
      FRIDAY_TRY(module, normal_module(record, context));
      FRIDAY_TRY_VOID(how_.change(*module, record));
      llvm::SmallString<0> bytes;
      llvm::raw_svector_ostream out(bytes);
      llvm::WriteBitcodeToFile(*module, out);
      FRIDAY_TRY_VOID(write_file_atomically(bitcode, std::string_view(bytes.data(), bytes.size())));
    }
    std::vector<std::string> words{kCompiler, "-cc1"};
    const std::vector<std::string> options = options_to_compile(record);
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"-emit-obj", "-o", object(number), "-x", "ir", bitcode});
    // Nothing of the sources is read again, so their directory may be gone.
    const bool is_there = std::filesystem::is_directory(record.directory);
    auto done = run_tool(words, is_there ? record.directory : scratch_, scratch(number, ".log"));
    if (!done) done.error().message = fmt::format("cannot compile {} again: {}", record.source, done.error().message);
    std::error_code unimportant;
    std::filesystem::remove(bitcode, unimportant);
    return done;
  }

  // What stands in the new command for each argument of the old one.
  Result<void> choose_inputs() {
    const std::vector<KeptInput> kept = decode_inputs(file_.link->stored);
    const std::vector<std::string>& command = file_.link->arguments;
    replaced_.assign(command.size(), std::nullopt);
    for (size_t at = 1; at < command.size(); at++)
      for (size_t i = 0; i < kept.size(); i++)
        if (command[at] == kept[i].path) FRIDAY_TRY_VOID(use_kept(at, kept[i], i));
    for (const LinkInput& each : inputs_of(command, file_.link->directory)) {
      if (replaced_[each.argument]) continue;
      if (each.kind == InputKind::recorded) take_away(each.argument);
      if (each.kind == InputKind::archive) FRIDAY_TRY_VOID(use_archive(each));
    }
    for (size_t at = 1; at < command.size(); at++) FRIDAY_TRY_VOID(check_present(at));
    return {};
  }

  // The modules stand where the first of their objects or archives stood.
  void take_away(size_t argument) {
    replaced_[argument] = "";
    place_ = std::min(place_, argument);
  }

  Result<void> use_kept(size_t argument, const KeptInput& kept, size_t number) {
    if (kept.has_records) {
      take_away(argument);
      return {};
    }
    replaced_[argument] = fmt::format("{}/kept{}.o", scratch_, number);
    return write_file_atomically(*replaced_[argument], kept.bytes);
  }

  // An object that was deleted since is no loss if its module is in the program; but nobody can tell which it was, so
  // only names of objects that are gone are taken for such.
  Result<void> check_present(size_t argument) {
    const std::string& word = file_.link->arguments[argument];
    if (replaced_[argument] || word.starts_with('-') || !word.ends_with(".o")) return {};
    const auto path = std::filesystem::path(file_.link->directory) / word;
    if (std::filesystem::exists(path)) return {};
    return fail(
        ErrorCode::not_found,
        "{} cannot be built again: its linker took {}, which is gone. Build the program again and leave its objects "
        "where they are",
        file_.path, path.string());
  }

  // Without the members that have records: their modules are linked in any case.
  Result<void> use_archive(const LinkInput& input) {
    const std::string path = input.path.starts_with('/') ? input.path : file_.link->directory + "/" + input.path;
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return fail(ErrorCode::io, "cannot read {}, which {} was linked with: {}", path, file_.path,
                  buffer.getError().message());
    auto archive = llvm::object::Archive::create((*buffer)->getMemBufferRef());
    if (!archive)
      return fail(ErrorCode::bad_input, "{}, which {} was linked with, is damaged: {}", path, file_.path,
                  llvm::toString(archive.takeError()));
    std::vector<llvm::NewArchiveMember> members;
    bool has_recorded = false;
    llvm::Error error = llvm::Error::success();
    for (const auto& child : (*archive)->children(error)) {
      auto member = llvm::NewArchiveMember::getOldMember(child, /*Deterministic=*/true);
      if (!member) {
        llvm::consumeError(std::move(error));
        return fail(ErrorCode::bad_input, "{}, which {} was linked with, cannot be read: {}", path, file_.path,
                    llvm::toString(member.takeError()));
      }
      const llvm::StringRef bytes = member->Buf->getBuffer();
      if (kind_of(std::string_view(bytes.data(), bytes.size())) == InputKind::recorded) has_recorded = true;
      else members.push_back(std::move(*member));
    }
    if (error) return fail(ErrorCode::bad_input, "{} is damaged: {}", path, llvm::toString(std::move(error)));
    if (!has_recorded) return {};
    take_away(input.argument);
    if (members.empty()) return {};
    replaced_[input.argument] = fmt::format("{}/archive{}.a", scratch_, input.argument);
    if (llvm::Error failed =
            llvm::writeArchive(*replaced_[input.argument], members, llvm::SymtabWritingMode::NormalSymtab,
                               llvm::object::Archive::K_GNU, /*Deterministic=*/true, /*Thin=*/false))
      return fail(ErrorCode::io, "cannot write {}: {}", *replaced_[input.argument], llvm::toString(std::move(failed)));
    return {};
  }

  Result<void> link() {
    const std::vector<std::string>& command = file_.link->arguments;
    std::vector<std::string> words{command[0]};
    const std::string output = std::filesystem::absolute(how_.output).string();
    for (size_t at = 1; at < command.size(); at++) {
      if (at == place_) add_modules(words);
      const std::string& word = command[at];
      if (replaced_[at]) {
        if (!replaced_[at]->empty()) words.push_back(*replaced_[at]);
      } else if (word == "-o" || word == "--output" || has_value_behind(word)) {
        at++;
      } else if (!word.starts_with("--output=") && !writes_file(word) && !(how_.fixed && is_pie(word))) {
        words.push_back(word);
      }
    }
    if (place_ >= command.size()) add_modules(words);
    if (!how_.runtime.empty()) {
      FRIDAY_TRY(runtime, beside_tool(how_.runtime));
      words.push_back(runtime);
    }
    if (how_.fixed) words.push_back("-no-pie");
    words.insert(words.end(), {"-o", output});
    auto done = run_tool(words, file_.link->directory, scratch_ + "/link.log");
    if (!done) done.error().message = fmt::format("cannot link {} again: {}", file_.path, done.error().message);
    return done;
  }

  void add_modules(std::vector<std::string>& words) const {
    for (size_t i = 0; i < file_.modules.size(); i++) words.push_back(object(i));
  }

  static Result<std::string> beside_tool(const std::string& name) {
    std::error_code error;
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
    std::string path = (own.parent_path() / name).string();
    if (!std::filesystem::exists(path))
      return fail(ErrorCode::not_found, "{} is missing: install Friday again with its part for compilers", path);
    return path;
  }

  const LinkedFile& file_;
  const Relink& how_;
  std::string scratch_;
  std::vector<std::optional<std::string>> replaced_;  // by argument; empty: nothing stands there any more
  size_t place_ = SIZE_MAX;                           // before which argument the modules stand
};

}  // namespace

std::vector<std::string> options_to_compile(const Record& module) {
  std::vector<std::string> options;
  for (size_t i = 0; i < module.arguments.size(); i++) {
    const std::string& each = module.arguments[i];
    if (is_one_of(each, kDroppedPairs)) i++;
    else if (!is_one_of(each, kDroppedOptions) && !each.starts_with("-flto") && !each.starts_with("-ftime-trace") &&
             !each.starts_with("-fthin-link-bitcode"))
      options.push_back(each);
  }
  return options;
}

Result<void> relink(const LinkedFile& file, const Relink& how) {
  FRIDAY_TRY(scratch, ScratchDirectory::make());
  return Relinking(file, how, scratch).run();
}

}  // namespace friday::cut
