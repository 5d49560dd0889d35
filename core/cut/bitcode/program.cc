#include "core/cut/bitcode/program.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <llvm/Object/Archive.h>
#include <llvm/Support/MemoryBuffer.h>

#include "core/base/elf.h"
#include "core/base/files.h"
#include "core/cut/bitcode/link_inputs.h"
#include "core/cut/bitcode/record_read.h"

namespace friday::cut {
namespace {

std::string absolute_in(const std::string& directory, const std::string& path) {
  return path.starts_with('/') ? path : directory + "/" + path;
}

// Names in the dynamic section; offsets that lead nowhere are left out.
std::vector<std::string> needed_of(const Elf& elf) {
  std::vector<std::string> names;
  const Elf64_Shdr* const header = elf.find_section(".dynamic");
  const auto bytes = elf.section(".dynamic"), strings = elf.section(".dynstr");
  if (!header || !bytes || !strings) return names;
  for (size_t at = 0; at + sizeof(Elf64_Dyn) <= bytes->size(); at += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    memcpy(&entry, bytes->data() + at, sizeof entry);
    if (entry.d_tag != DT_NEEDED || entry.d_un.d_val >= strings->size()) continue;
    const std::string_view rest = strings->substr(entry.d_un.d_val);
    names.emplace_back(rest.substr(0, rest.find('\0')));
  }
  return names;
}

// Members without records, if others of the archive have some. An archive without any is named as a whole.
std::string unseen_of_archive(const std::string& path, const std::string& shown) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) return "";
  auto archive = llvm::object::Archive::create((*buffer)->getMemBufferRef());
  if (!archive) {
    llvm::consumeError(archive.takeError());
    return "";
  }
  llvm::Error error = llvm::Error::success();
  size_t all = 0, without = 0;
  std::string names;
  for (const auto& member : (*archive)->children(error)) {
    auto bytes = member.getBuffer();
    auto name = member.getName();
    if (!bytes || !name) {
      if (!bytes) llvm::consumeError(bytes.takeError());
      if (!name) llvm::consumeError(name.takeError());
      continue;
    }
    all++;
    if (kind_of(std::string_view(bytes->data(), bytes->size())) == InputKind::recorded) continue;
    if (without++ < 5) names += (names.empty() ? "" : ", ") + name->str();
  }
  llvm::consumeError(std::move(error));
  if (without == 0) return "";
  if (without == all) return fmt::format("{}: an archive without bitcode", shown);
  return fmt::format("{}: {} of {} members, which are linked only if something needs them: {}{}", shown, without, all,
                     names, without > 5 ? ", ..." : "");
}

// What the compiler adds to each program: the code around main(), and arithmetic that the processor lacks.
bool is_of_compiler(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const char* prefix : {"crt", "Scrt", "rcrt", "gcrt", "grcrt", "Mcrt", "libgcc", "clang_rt.crt"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

Result<LinkedFile> read_linked(const std::string& path) {
  FRIDAY_TRY(content, read_file(path));
  FRIDAY_TRY(records, records_in(content, path));
  LinkedFile file{.path = path, .modules = {}, .link = {}, .needed = needed_of(Elf(content))};
  for (Record& each : records) {
    if (each.kind == Record::Kind::module) file.modules.push_back(std::move(each));
    else file.link = std::move(each);
  }
  if (file.modules.empty())
    return fail(ErrorCode::bad_input,
                "{} has no bitcode: {}. Build it with CC='friday cc' and CXX='friday c++', and do not strip it", path,
                file.link ? "friday cc linked it, of objects that others compiled"
                          : "it was built by another compiler, or stripped");
  return file;
}

std::vector<std::string> unseen_code(const LinkedFile& file) {
  std::vector<std::string> found;
  if (file.link) {
    const std::vector<KeptInput> kept = decode_inputs(file.link->stored);
    for (const KeptInput& each : kept)
      if (!each.has_records) found.push_back(each.path + ": an object of the assembler or of another compiler");
    for (const LinkInput& each : inputs_of(file.link->arguments, file.link->directory)) {
      if (is_of_compiler(each.path)) continue;
      const std::string path = absolute_in(file.link->directory, each.path);
      if (each.kind == InputKind::object)
        found.push_back(each.path + ": an object of the assembler or of another compiler");
      if (each.kind != InputKind::archive) continue;
      if (std::string text = unseen_of_archive(path, each.path); !text.empty()) found.push_back(std::move(text));
    }
  } else {
    found.push_back("whatever else the linker took: it was not started by friday cc, so its command is not known");
  }
  for (const std::string& each : file.needed)
    found.push_back(each + ": a shared object; give it too if friday cc built it");
  // The C library's archives stand in a command several times.
  std::vector<std::string> unique;
  for (std::string& each : found)
    if (std::ranges::find(unique, each) == unique.end()) unique.push_back(std::move(each));
  return unique;
}

std::string short_name(const Record& module) { return std::filesystem::path(module.source).filename().string(); }

}  // namespace friday::cut
