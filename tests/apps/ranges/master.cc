// rangemaster --master PORT --servers P,P,P,P: knows which server has which range of the table's keys, until SIGTERM.
// In the beginning the first server has all.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "wire.h"

using namespace ranges;

struct Assignment {
  uint64_t last;
  uint32_t server;
};

struct Master {
  std::mutex mutex_;
  std::map<uint64_t, Assignment> table_;  // by the first key
  std::vector<uint32_t> ranges_of_;       // how many each server has, or will have
  uint64_t version_ = 1;

  explicit Master(size_t servers) : ranges_of_(servers) {
    table_[0] = {kLast, 0};
    ranges_of_[0] = 1;
  }

  Message locate(const Message& request) {
    const auto found = std::prev(table_.upper_bound(request.first));
    return {Kind::yes, found->second.server, found->first, found->second.last, version_, 0, 0};
  }

  // The one with the fewest ranges takes the next.
  Message place() {
    uint32_t best = 0;
    for (uint32_t each = 0; each < ranges_of_.size(); each++)
      if (ranges_of_[each] < ranges_of_[best]) best = each;
    ranges_of_[best]++;
    return {Kind::yes, best, 0, 0, version_, 0, 0};
  }

  void move_range(uint64_t first, uint64_t last, uint32_t server) {
    const auto old = std::prev(table_.upper_bound(first));
    old->second.last = first - 1;
    table_[first] = {last, server};
    version_++;
  }

  Message answer(const Message& request) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (request.kind == Kind::locate) return locate(request);
    if (request.kind == Kind::place) return place();
    if (request.kind != Kind::moved) return {};
    move_range(request.first, request.last, request.server);
    return {Kind::yes, request.server, request.first, request.last, version_, 0, 0};
  }
};

Master* master;

static volatile std::sig_atomic_t told_to_stop;

static void serve(Socket socket) {
  Message request;
  std::vector<Row> rows;
  while (hear(socket, request, rows) && tell(socket, master->answer(request))) continue;
}

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  std::signal(SIGTERM, [](int) { told_to_stop = 1; });
  master = new Master(options.servers.size());  // its threads use it to the end
  const Socket listener = listen_on(options.master);
  std::thread([&] {
    for (;;) std::thread(serve, accept_from(listener)).detach();
  }).detach();
  while (!told_to_stop) pause_ms(20);
  return 0;
}
