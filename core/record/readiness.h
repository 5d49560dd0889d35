// When a program of a group is ready, so that others may start: it has opened a port, has printed something, or has
// ended well. Looks from outside and never connects: a connection would be an input of the program.
#pragma once

#include <regex.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

// The key `ready` of a node: "port 7000", "output REGEX" (POSIX extended), or "exit".
struct Readiness {
  enum class Kind { port, output, exit };
  Kind kind = Kind::exit;
  uint16_t port = 0;
  std::string pattern;
};

Result<Readiness> parse_ready(const std::string& text);

// Whether a socket in the network of process `pid` listens on this TCP port, or is bound to this UDP port.
bool is_port_open(pid_t pid, uint16_t port);

// Watches one program. Of the files only what is appended after the creation of the object counts.
class ReadyWatch {
 public:
  // `files`: those that the program's output is appended to.
  ReadyWatch(Readiness what, const std::vector<std::string>& files);

  // Whether the program is ready. To be asked again and again, and once more when it has ended. `status`: its wait
  // status if it has ended, otherwise -1.
  bool is_ready(pid_t pid, int status);

 private:
  struct File {
    std::string path;
    uint64_t read = 0;  // bytes that were looked at
    std::string line;   // the beginning of a line whose end is not there yet
  };
  bool appears_in(File& file);
  bool matches(std::string line) const;

  struct FreeRegex {
    void operator()(regex_t* regex) const {
      regfree(regex);
      delete regex;
    }
  };
  Readiness what_;
  std::vector<File> files_;
  std::unique_ptr<regex_t, FreeRegex> regex_;
};

}  // namespace friday
