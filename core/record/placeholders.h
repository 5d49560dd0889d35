// Placeholders of a group file, which are filled anew for each run, so that runs do not meet in ports and directories:
//
//   {port:NAME}   a port of 127.0.0.1 that is free, for TCP and for UDP; the same NAME is the same port within a run
//   {address:NODE} the IPv4 address of the node's host in the group's own network ([network])
//   {dir}         a new directory inside the recording, for data of the programs
//   {recording}   the absolute path of the recording
//   {run}         the number of the run, from 1
//
// Other braces stand for themselves, and so do placeholders behind a `$`, which are variables of a shell. `{{dir}}` is
// the text `{dir}`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/record/group_spec.h"

namespace friday {

// Fails if `text` has a placeholder that is not complete, such as {port}.
Result<void> check_placeholders(const std::string& text);

// Messages for what stands in braces in the group's commands, directories, environments, files and checks and is not
// a placeholder, but nearly one: {prot:web}. The programs get it as it is.
std::vector<std::string> near_misses(const GroupSpec& group);

// The nodes of which `text` wants the address.
std::vector<std::string> addresses_in(const std::string& text);

// Of the free ports, those whose number is `part` modulo `parts`.
struct PortShare {
  unsigned part = 0, parts = 1;
};

// The values for one run. Not for several threads.
class Placeholders {
 public:
  // `recording` need not exist yet.
  Placeholders(const std::string& recording, unsigned run, PortShare share = {});

  // The group with the values in its commands, directories, environments, files and checks.
  Result<GroupSpec> fill(const GroupSpec& group);
  Result<std::string> fill(const std::string& text);

  // The path of {dir} if it was used; otherwise empty. Whoever runs the group creates it.
  const std::string& directory() const { return directory_; }

 private:
  Result<uint16_t> port_of(const std::string& name);
  std::string new_directory() const;

  std::string recording_, directory_;
  unsigned run_;
  PortShare share_;
  std::map<std::string, uint16_t> ports_;
  std::map<std::string, std::string> addresses_;
};

}  // namespace friday
