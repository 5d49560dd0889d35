// Finds the installed or built parts of Friday, relative to the running executable.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace friday {

std::string executable_path();
// The directory of friday-shim.so and friday-stub.
std::string library_directory();
// The directory of the Python package friday.
std::string package_directory();
// The pages of the documentation.
std::string docs_directory();
// Where `friday record -s NAME` makes its recordings: $FRIDAY_SESSIONS, else $XDG_DATA_HOME/friday, else
// ~/.local/share/friday.
std::string sessions_directory();
// The directory of the recording that a command line names: a path or, if there is nothing of that name and it has no
// slash, the name of a session.
std::string recording_named(const std::string& text);
bool is_recording(const std::filesystem::path& place);
// The recordings in a directory, in the order of their names.
std::vector<std::filesystem::path> recordings_in(const std::filesystem::path& directory);

}  // namespace friday
