// The command friday. Each subcommand has a file of its own.
#include <fcntl.h>

#include <new>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "console/cc.h"
#include "console/checkpoint.h"
#include "console/compare.h"
#include "console/complete.h"
#include "console/cut.h"
#include "console/diagnose.h"
#include "console/doctor.h"
#include "console/dump.h"
#include "console/force.h"
#include "console/help.h"
#include "console/info.h"
#include "console/live.h"
#include "console/log.h"
#include "console/ls.h"
#include "console/merge.h"
#include "console/pack.h"
#include "console/paths.h"
#include "console/record.h"
#include "console/refine.h"
#include "console/replay.h"
#include "console/report.h"
#include "console/restore.h"
#include "console/run.h"
#include "console/usage.h"
#include "console/verify.h"
#include "core/base/refusals.h"

namespace {

// Opens the standard streams if the caller has closed them; otherwise the first files opened would be taken for them.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  if (const auto call = friday::compiler_call(argc, argv)) return friday::become_compiler(*call);
  CLI::App app{"Friday: record distributed programs, replay them as one, question the whole system's state", "friday"};
  app.formatter(friday::make_help_formatter());
  app.require_subcommand(1);
  app.set_version_flag("--version", FRIDAY_VERSION);
  int status = 0;
  friday::accept_gdbs_ex(argc, argv);
  auto script_args = friday::take_script_args(argc, argv);
  friday::add_record_command(app, &status);
  friday::add_verify_command(app, &status);
  friday::add_checkpoint_command(app, &status);
  friday::add_replay_command(app, &status);
  friday::add_run_command(app, &status, std::move(script_args));
  friday::add_ls_command(app, &status);
  friday::add_info_command(app, &status);
  friday::add_live_command(app, &status);
  friday::add_merge_command(app, &status);
  friday::add_pack_command(app, &status);
  friday::add_restore_command(app, &status);
  friday::add_log_command(app, &status);
  friday::add_diagnose_command(app, &status);
  friday::add_force_command(app, &status);
  friday::add_refine_command(app, &status);
  friday::add_compare_command(app, &status);
  friday::add_cut_command(app, &status);
  friday::add_compiler_commands(app, &status);
  friday::add_dump_command(app, &status);
  friday::add_doctor_command(app, &status);
  friday::add_report_command(app, &status);
  friday::add_help_command(app, &status);
  friday::add_completion_command(app, &status);
  app.add_flag_callback(
      "--python-path",
      [] {
        fmt::print("{}\n", friday::package_directory());
        throw CLI::Success();
      },
      "Print the directory of the package friday, for PYTHONPATH: import friday and the pytest plugin");
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    for (const std::string& word : friday::complete_words(app, {argv + 2, argv + argc})) fmt::print("{}\n", word);
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{}\n", friday::refusal_of(app, error, argc, argv));
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "friday: {}\n", friday::kNoMemory);
    return 2;
  }
  return status;
}
