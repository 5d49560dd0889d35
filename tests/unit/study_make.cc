// friday_study_make DIRECTORY RUNS EVENTS: writes a study of that many runs with that many events each, as a service of
// a dozen processes would leave it, for tests/bench/diagnose.py. Every fifth run fails, since what a crawler writes
// about a key comes between two looks of one client at it; in the others it comes before or after.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/unit/study_support.h"

namespace {

using namespace friday;

constexpr unsigned kClients = 8, kKeys = 20'000;

Talk run_of(std::mt19937_64& random, size_t events, bool failed) {
  testing::TalkScript script;
  const uint32_t cache = script.node("cache"), store = script.node("store"), crawler = script.node("crawler");
  std::vector<uint32_t> clients;
  for (unsigned i = 0; i < kClients; i++) clients.push_back(script.node(fmt::format("client-{}", i)));
  const size_t rounds = events / 8;
  const size_t victim = rounds / 2;
  for (size_t round = 0; round < rounds; round++) {
    const uint32_t client = clients[random() % kClients];
    const uint64_t key = round == victim ? kKeys + random() % 1000 : random() % kKeys;
    const auto get = [&] { script.say(client, cache, fmt::format("*2\r\n$3\r\nGET\r\n$9\r\nkey:{:05}\r\n", key)); };
    const auto set = [&](uint64_t which) {
      script.say(crawler, cache,
                 fmt::format("*3\r\n$3\r\nSET\r\n$9\r\nkey:{:05}\r\n$4\r\n{:04}\r\n", which, random() % 9999));
    };
    get();
    if (failed && round == victim) set(key);
    script.say(cache, client, fmt::format("$4\r\n{:04}\r\n", random() % 9999));
    if (round == victim) get();
    if (!failed && round == victim) set(key);
    script.say(client, store, fmt::format("put key:{:05} {} by {}\n", key, random() % 100000, random() % 4));
    script.say(store, client, random() % 50 ? "stored\n" : "stored, and the log was written\n");
    if (random() % 4 == 0) set(2 * kKeys + random() % kKeys);  // which nobody looks at
  }
  return script.run(0, failed).talk;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: friday_study_make DIRECTORY RUNS EVENTS\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::filesystem::create_directories(directory + "/messages");
  std::ofstream list(directory + "/runs.jsonl");
  std::mt19937_64 random(1);
  for (int run = 1; run <= atoi(argv[2]); run++) {
    const bool failed = run % 5 == 0;
    const auto written = run_of(random, strtoul(argv[3], nullptr, 10), failed)
                             .write(Beneath(directory, fmt::format("messages/run-{}", run)));
    if (!written) {
      fprintf(stderr, "%s\n", describe(written.error()).c_str());
      return 1;
    }
    list << fmt::format("{{\"run\":{},\"result\":\"{}\"}}\n", run, failed ? "FAILED" : "passed");
  }
  return 0;
}
