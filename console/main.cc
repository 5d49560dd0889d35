// The friday command: one subcommand a file.
#include <CLI/CLI.hpp>

#include "console/dump.h"
#include "console/info.h"
#include "console/record.h"
#include "console/replay.h"
#include "console/run.h"
#include "console/verify.h"

int main(int argc, char** argv) {
  CLI::App app{"Friday: record distributed programs, replay them as one, question the whole system's state"};
  app.require_subcommand(1);
  int status = 0;
  friday::add_record_command(app, &status);
  friday::add_verify_command(app, &status);
  friday::add_replay_command(app, &status);
  friday::add_run_command(app, &status);
  friday::add_info_command(app, &status);
  friday::add_dump_command(app, &status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  return status;
}
