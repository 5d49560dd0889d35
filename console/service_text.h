// What makes a service be recorded: a drop-in for systemd, or the entry point of a container. Each is text that can be
// used as it is, with its explanation in comments.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace friday {

struct ServiceRequest {
  std::string friday;                // absolute path of this program
  std::string recording;             // empty: the text chooses one
  std::string name;                  // of the node, and of the service
  std::string max_size;              // empty: the text chooses one
  std::vector<std::string> options;  // further options of `friday record`
  std::vector<std::string> command;  // of the service; a program without `/` is looked up on its PATH
};

Result<std::string> systemd_drop_in(const ServiceRequest& request);
Result<std::string> container_entry_point(const ServiceRequest& request);

}  // namespace friday
