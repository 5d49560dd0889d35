// rangeserver --master PORT --servers P,P,P,P --id I [--directory DIR] [--careful]: server I of the range-partitioned
// table (server.h), until SIGTERM.
#include <csignal>
#include <thread>

#include "server.h"

using namespace ranges;

Server* server;

static volatile std::sig_atomic_t told_to_stop;

static void serve(Socket socket) {
  Message request;
  std::vector<Row> rows;
  while (hear(socket, request, rows) && tell(socket, server->answer(request, rows))) continue;
}

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  std::signal(SIGTERM, [](int) { told_to_stop = 1; });
  server = new Server(options);  // its threads use it to the end
  const Socket listener = listen_on(options.servers[options.id]);
  std::thread([&] {
    for (;;) std::thread(serve, accept_from(listener)).detach();
  }).detach();
  std::thread(&Server::split_ranges, server).detach();
  while (!told_to_stop) pause_ms(20);
  return 0;
}
