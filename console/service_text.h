// Generates the files that make a service run under the recorder: a drop-in for systemd, or the entry point of a
// container. Each text can be used as it is and explains itself in comments.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

struct ServiceRequest {
  std::string friday;                // absolute path of this program
  std::string recording;             // empty: the generated text chooses one
  std::string name;                  // name of the node and of the service
  std::string max_size;              // empty: the generated text chooses one
  std::vector<std::string> options;  // further options for `friday record`
  // the service's command; a program without `/` is looked up in the PATH of the service
  std::vector<std::string> command;
};

// A word as a shell is given it, quoted where it has to be.
std::string shell_word(const std::string& word);

Result<std::string> systemd_drop_in(const ServiceRequest& request);
Result<std::string> container_entry_point(const ServiceRequest& request);

}  // namespace friday
