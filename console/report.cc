#include "console/report.h"

#include <memory>

#include "console/options.h"
#include "console/paths.h"
#include "console/python.h"

namespace friday {

void add_report_command(CLI::App& app, int* status) {
  struct Options {
    std::string recording, output;
    bool yes = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("report",
                                     "Collect what is needed to report a replay that diverges, without any contents; "
                                     "says what that is and asks before it writes");
  add_recording(*command, options->recording);
  command->add_option("-o,--output", options->output, "The file to write (default: REC-report.json)");
  command->add_flag("--yes", options->yes, "Write without asking");
  command->footer("Example:\n  friday report REC");
  command->callback([options, status] {
    *status = with_python("report", "friday.report", [&](pybind11::module_& report) {
      using namespace pybind11::literals;
      return report
          .attr("main")(options->recording, "output"_a = options->output, "yes"_a = options->yes,
                        "executable"_a = executable_path())
          .cast<int>();
    });
  });
}

}  // namespace friday
