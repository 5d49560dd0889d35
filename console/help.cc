#include "console/help.h"

#include <memory>

#include <pybind11/stl.h>

#include "console/python.h"

namespace friday {

void add_help_command(CLI::App& app, int* status) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto* command = app.add_subcommand("help", "Show a page of the documentation, which is installed with Friday");
  command->add_option("topic", *words, "A page or a command, and words to search the page for; none: lists the pages");
  command->footer("Examples:\n  friday help tutorial\n  friday help errors the trace was cut off");
  command->callback([words, status] {
    *status = with_python("help", "friday.pages",
                          [&](pybind11::module_& pages) { return pages.attr("main")(*words).cast<int>(); });
  });
}

}  // namespace friday
