// Where the installed or built parts of Friday lie, relative to the running executable.
#pragma once

#include <string>

namespace friday {

std::string executable_path();
// Directory of friday-shim.so and friday-stub.
std::string library_directory();
// Directory of the Python package friday.
std::string package_directory();

}  // namespace friday
