// replicas --id I --ports P,P,P,P [--directory DIR] [--careful] [--calm]: a node of the replicated store (store.h),
// until SIGTERM. P is a port, or ADDRESS:PORT.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "store.h"

using namespace replicas;

Store* store;

static volatile std::sig_atomic_t told_to_stop;

static Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--careful") {
      options.careful = true;
    } else if (word == "--calm") {
      options.calm = true;
    } else if (word == "--id") {
      options.id = static_cast<uint32_t>(atoi(argv[++i]));
    } else if (word == "--directory") {
      options.directory = argv[++i];
    } else if (word == "--ports") {
      std::istringstream ports(argv[++i]);
      for (std::string port; std::getline(ports, port, ',');) options.ports.push_back(port_of(port));
    }
  }
  if (options.ports.size() > 32 || options.id >= options.ports.size()) {
    fprintf(stderr, "usage: replicas --id I --ports PORT,PORT,... [--directory DIR] [--careful] [--calm]\n");
    exit(2);
  }
  return options;
}

static void serve(Socket socket) {
  Message request;
  while (socket.receive(request) && !store->answers_nobody() && socket.send(store->answer(request))) continue;
}

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  std::signal(SIGTERM, [](int) { told_to_stop = 1; });
  store = new Store(options);  // its threads use it to the end
  const Socket listener = listen_on(options.ports[options.id]);
  std::thread([&] {
    for (;;) std::thread(serve, accept_from(listener)).detach();
  }).detach();
  std::thread(&Store::send_heartbeats, store).detach();
  std::thread(&Store::watch_the_leader, store).detach();
  for (uint32_t peer = 0; peer < options.ports.size(); peer++)
    if (peer != options.id) std::thread(&Store::replicate_to, store, peer).detach();
  while (!told_to_stop) pause_ms(20);
  store->write_log();
  return 0;
}
