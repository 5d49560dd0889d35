// Opens files in a directory whose contents are not trusted, such as a recording. Each component of a name is checked
// before it is opened: symbolic links are not followed, and a FIFO, device or socket is not opened, so that none of
// them can block the reader, be read without end, or trigger an action of a device. Such names fail with bad_input, and
// missing files with not_found. Stateless; any thread may call.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

struct Beneath {
  Beneath(std::string directory, std::string inside) : root(std::move(directory)), name(std::move(inside)) {}
  // A single file; its directory is trusted because the user named it.
  Beneath(const std::string& path);
  Beneath(const char* path) : Beneath(std::string(path)) {}

  std::string root;  // as the user named it; symbolic links in it are followed
  std::string name;  // the untrusted part, for example "nodes/0/trace"

  std::string path() const { return root + (root.ends_with('/') ? "" : "/") + name; }
  Beneath below(std::string_view file) const { return {root, name + (name.empty() ? "" : "/") + std::string(file)}; }
  // The file with name `file` in the same directory.
  Beneath beside(std::string_view file) const;
  Beneath directory() const;
};

// `access` is O_RDONLY or O_RDWR.
Result<UniqueFd> open_beneath(const Beneath& file, int access = O_RDONLY);
Result<UniqueFd> open_directory_beneath(const Beneath& directory);
// Creates the missing directories of the name, accessible to the owner only.
Result<UniqueFd> make_directory_beneath(const Beneath& directory);

// The names of what the directory holds, in order.
Result<std::vector<std::string>> names_beneath(const Beneath& directory);

// Creates the last directory of the name, accessible to the owner only. Returns false if the name exists.
Result<bool> make_new_directory_beneath(const Beneath& directory);
// Creates and opens a file for reading and writing, accessible to the owner only. Fails if the name exists or its
// directory does not.
Result<UniqueFd> create_beneath(const Beneath& file);
// Opens a file without a name on the directory's file system, for reading and writing, accessible to the owner only. It
// is gone when it is closed, unless name_beneath() has given it a name, which must not exist. Not every file system has
// such files.
Result<UniqueFd> create_unnamed_beneath(const Beneath& directory);
Result<void> name_beneath(int fd, const Beneath& file);
// Removes a file or an empty directory. Ignores failures.
void remove_beneath(const Beneath& file);

// Reads the whole file. Fails if it is larger than `most` bytes.
Result<std::string> read_beneath(const Beneath& file, uint64_t most);
// Replaces the file atomically: `fill` writes a temporary file, which is then renamed. If `fill` fails, the old file
// stays.
Result<void> replace_beneath(const Beneath& file, const std::function<Result<void>(int fd)>& fill);
// The same with a text. Creates the directory if necessary.
Result<void> write_beneath(const Beneath& file, std::string_view text);

// Fails if anything in the directory, at any depth, is neither a regular file nor a directory. For use before other
// programs open files there by path. A missing directory counts as empty.
Result<void> check_below(const Beneath& directory);

}  // namespace friday
