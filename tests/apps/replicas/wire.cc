#include "wire.h"

namespace replicas {

bool Peer::ask(const Message& request, Message& reply) {
  if (!socket_.open()) socket_ = connect_to(port_, timeout_ms_);
  if (socket_.open() && socket_.send(request) && socket_.receive(reply)) return true;
  socket_.close();  // a reply that comes too late must not be taken for that of another request
  return false;
}

}  // namespace replicas
