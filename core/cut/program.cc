#include "core/cut/program.h"

#include <filesystem>

#include "core/base/beneath.h"

namespace friday::cut {

Result<LinkedProgram> read_program(const std::string& program, const std::string& directory) {
  FRIDAY_TRY(names, names_beneath(Beneath(directory, "")));  // in order
  std::vector<Facts> modules;
  for (const std::string& name : names) {
    if (!name.ends_with(".facts")) continue;
    FRIDAY_TRY(module, read_facts(std::filesystem::path(directory) / name));
    modules.push_back(std::move(module));
  }
  if (modules.empty())
    return fail(ErrorCode::not_found,
                "{} has no facts of a program: none of its {} files is called *.facts. `friday-bitcode "
                "facts PROGRAM -o {}` writes them",
                directory, names.size(), directory);
  return link_with_ids(program, std::move(modules));
}

}  // namespace friday::cut
