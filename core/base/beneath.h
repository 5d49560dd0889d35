// Files of a directory that a stranger has filled, such as a recording. What a name in it leads to is looked at before
// it is opened: a symbolic link is not followed, wherever on the way it stands, and a FIFO, a device or a socket is not
// opened at all, so that none can block the reader, be read without end, or make a device act. Each of these is refused
// by name (bad_input); what is not there is not_found. Stateless; any thread may call.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

struct Beneath {
  Beneath(std::string directory, std::string inside) : root(std::move(directory)), name(std::move(inside)) {}
  // A single file: its directory is the user's word.
  Beneath(const std::string& path);
  Beneath(const char* path) : Beneath(std::string(path)) {}

  std::string root;  // as the user named it; links in it are followed
  std::string name;  // "nodes/0/trace": what the stranger's directory holds

  std::string path() const { return root + (root.ends_with('/') ? "" : "/") + name; }
  Beneath below(std::string_view file) const { return {root, name + (name.empty() ? "" : "/") + std::string(file)}; }
  // The file of that name in the same directory.
  Beneath beside(std::string_view file) const;
  Beneath directory() const;
};

// `access`: O_RDONLY or O_RDWR.
Result<UniqueFd> open_beneath(const Beneath& file, int access = O_RDONLY);
Result<UniqueFd> open_directory_beneath(const Beneath& directory);
// Makes what is missing of it, for its owner alone.
Result<UniqueFd> make_directory_beneath(const Beneath& directory);

// Makes the last directory of the name, for its owner alone. False: something of that name is there.
Result<bool> make_new_directory_beneath(const Beneath& directory);
// A new file, for its owner alone, to be read and written. Fails where something of that name is there, or its
// directory is not.
Result<UniqueFd> create_beneath(const Beneath& file);
// Removes the name, of a file or an empty directory; what cannot be removed stays.
void remove_beneath(const Beneath& file);

// The whole file, unless it is larger than `most` bytes.
Result<std::string> read_beneath(const Beneath& file, uint64_t most);
// `fill` writes to a temporary name, which is then renamed, so that readers see old or new, whole; or nothing new where
// it fails.
Result<void> replace_beneath(const Beneath& file, const std::function<Result<void>(int fd)>& fill);
// The same with a text. The directory is made if need be.
Result<void> write_beneath(const Beneath& file, std::string_view text);

// Fails if anything below the directory, at any depth, is neither a regular file nor a directory: for readers that open
// by path. A directory that is not there holds nothing.
Result<void> check_below(const Beneath& directory);

}  // namespace friday
