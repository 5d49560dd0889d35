#include "console/bitcode_tool.h"

#include <unistd.h>

#include <filesystem>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <boost/process/search_path.hpp>

#include "console/paths.h"

namespace friday {
namespace {

namespace bp = boost::process;

constexpr char kBitcodeTool[] = "friday-bitcode";

// The tool that needs LLVM lies beside the shim, or is on the PATH.
Result<std::string> find_bitcode_tool() {
  const auto beside = std::filesystem::path(library_directory()) / kBitcodeTool;
  if (::access(beside.c_str(), X_OK) == 0) return beside.string();
  if (const auto found = bp::search_path(kBitcodeTool); !found.empty()) return found.string();
  return fail(
      ErrorCode::not_found,
      "{} is not there, which reads the bitcode of a program. It is an optional part: install its packages with "
      "`bash console/setup.sh --cut`, configure with `cmake -DFRIDAY_CUT=ON`, and build again; `friday cut graph` and "
      "`choose` also take a "
      "directory with facts that were made elsewhere",
      beside.string());
}

}  // namespace

Result<int> run_bitcode_tool(const std::vector<std::string>& arguments) {
  FRIDAY_TRY(tool, find_bitcode_tool());
  std::error_code error;
  bp::child child(bp::exe = tool, bp::args = arguments, bp::std_in<bp::null, bp::std_out> stderr, error);
  if (error) return fail(ErrorCode::io, "cannot start {}: {}", tool, error.message());
  child.wait(error);
  if (error) return fail(ErrorCode::io, "cannot wait for {}: {}", tool, error.message());
  return child.exit_code();
}

}  // namespace friday
