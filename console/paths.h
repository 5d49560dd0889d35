// Finds the installed or built parts of Friday, relative to the running executable.
#pragma once

#include <string>

namespace friday {

std::string executable_path();
// The directory of friday-shim.so and friday-stub.
std::string library_directory();
// The directory of the Python package friday.
std::string package_directory();
// The pages of the documentation.
std::string docs_directory();

}  // namespace friday
