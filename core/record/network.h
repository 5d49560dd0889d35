// The network of a group: hosts that are network namespaces, made without root, and a relay between them that can cut,
// delay and lose (relay.h). Nothing of the machine's own network is touched.
//
// All of it belongs to a process of its own, a child of the recorder, called friday-relay. A recorder that is root
// makes the namespaces as root; any other makes a user namespace first, in which its user keeps its number and has no
// more rights to files than before. The relay's process ends with the object, or when the recorder dies, and before it
// ends it kills whatever still runs on the hosts. The kernel removes namespaces and devices with their last process.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/record/group_spec.h"
#include "core/record/links.h"
#include "core/record/relay.h"
#include "core/record/sock_peers.h"

namespace friday {

// The namespaces of a host. The descriptors belong to the Network.
struct HostPlace {
  int user_namespace = -1;  // -1: that of the recorder
  int net_namespace = -1;
};

// Moves the calling process, which must have one thread only, to a host. Returns 0 or an errno. To be called between
// fork and exec.
int enter(const HostPlace& place);

class Network {
 public:
  // Makes the hosts and starts the relay. Fails if the machine does not give this user what is needed; the
  // message is the `found` of Refusal::network. Call while the process has one thread, and one of the user's
  // credentials.
  static Result<std::unique_ptr<Network>> make(const NetworkSpec& spec);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  // Ends the relay and what still runs on the hosts.
  ~Network();

  // The host with this name, which must be one of the spec.
  HostPlace place_of(const std::string& host) const;

  // The network namespaces of all hosts, in which the other end of a connection may be. The sockets belong to the
  // Network.
  std::vector<SocketSpace> socket_spaces() const;

  // Changes links between named hosts; `from` and `to` of the changes are numbers of hosts in the spec. The changes are
  // in force on return. Fails if the relay is gone.
  Result<void> apply(std::span<const LinkChange> changes);

  // Call when a child process was reaped. Afterwards is_lost() says whether it was the relay.
  void ended(pid_t pid);
  bool is_lost() const { return lost_; }
  void lose() { lost_ = true; }  // to be called when apply() has failed

  // Ends the relay and what still runs on the hosts. Returns the counts of the whole run, or those of the last change
  // if the relay is gone.
  RelayCounts end();

 private:
  Network() = default;
  Result<RelayCounts> ask(const void* message, size_t size);
  Result<void> receive_places();

  std::vector<std::string> hosts_;
  pid_t relay_ = 0;
  bool lost_ = false;
  UniqueFd control_, user_namespace_;
  std::vector<UniqueFd> net_namespaces_, socket_spaces_;
  RelayCounts counts_;
};

}  // namespace friday
