// replicasclient --ports P,P,P,P [--entries N] [--paced N]: puts values into the store (store.h), first as fast as they
// are acknowledged, then one after some hundred milliseconds each, and prints each that was acknowledged: "acknowledged
// VALUE as entry INDEX by nNODE".
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "wire.h"

using namespace replicas;

// Longer than a checkpoint, so that some of the client's requests find a leader that has just written one; another time
// for each, so that this does not depend on how fast the machine is.
constexpr int kLeastPace = 310, kMostPace = 410;  // milliseconds
constexpr int kTimeout = 4;  // milliseconds after which another node is asked; twice as many when all have been asked
constexpr int kAtMost = 60000;  // milliseconds for one value

static std::vector<int> ports;
static uint32_t leader;

static bool put(uint64_t value) {
  const int64_t end = now_ms() + kAtMost;
  for (int attempt = 0; now_ms() < end; attempt++) {
    const int timeout = std::min(kTimeout << std::min(attempt / static_cast<int>(ports.size()), 8), 1000);
    const Socket socket = connect_to(ports[leader], timeout);
    Message request, reply;
    request.kind = Kind::put;
    request.value = value;
    if (socket.open() && socket.send(request) && socket.receive(reply)) {
      if (reply.ok) {
        printf("acknowledged %" PRIu64 " as entry %" PRIu64 " by n%u\n", value, reply.index - 1, leader);
        fflush(stdout);
        return true;
      }
    }
    leader = (leader + 1) % static_cast<uint32_t>(ports.size());
    if (attempt % 4 == 3) pause_ms(10);
  }
  fprintf(stderr, "the client gives up: nobody acknowledged %" PRIu64 "\n", value);
  return false;
}

int main(int argc, char** argv) {
  int entries = 100, paced = 12;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--entries")) entries = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--paced")) paced = atoi(argv[i + 1]);
    std::istringstream list(strcmp(argv[i], "--ports") ? "" : argv[i + 1]);
    for (std::string port; std::getline(list, port, ',');) ports.push_back(port_of(port));
  }
  if (ports.empty()) {
    fprintf(stderr, "usage: replicasclient --ports PORT,PORT,... [--entries N] [--paced N]\n");
    return 2;
  }
  uint64_t value = 1000;
  for (int i = 0; i < entries; i++)
    if (!put(value++)) return 3;
  std::uniform_int_distribution pace(kLeastPace, kMostPace);
  std::random_device random;
  for (int i = 0; i < paced; i++) {
    pause_ms(pace(random));
    if (!put(value++)) return 3;
  }
  for (int i = 0; i < 3; i++)  // what was lost is overwritten by these at the latest
    if (!put(value++)) return 3;
  pause_ms(100);
  return 0;
}
