// rangeclient --master PORT --servers P,P,P,P --rows N [--seed S]: loads N rows with random keys into the
// range-partitioned table, in batches, and prints how many were acknowledged. With --count N instead: counts the rows
// of the table, and exits with 1 if there are fewer than N.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "wire.h"

using namespace ranges;

constexpr size_t kBatch = 20;  // rows

struct Client {
  Partner master_;
  std::vector<Partner> servers_;
  std::map<uint64_t, Message> known_;  // the master's answers, by the range's first key; they may be out of date
  std::vector<std::vector<Row>> batches_;
  uint64_t version_ = 0;  // of the newest answer of the master
  uint64_t acknowledged_ = 0, refused_ = 0;

  explicit Client(const Options& options) : master_(options.master), batches_(options.servers.size()) {
    for (int port : options.servers) servers_.emplace_back(port);
  }

  Message locate(uint64_t key) {
    auto found = known_.upper_bound(key);
    if (found != known_.begin() && (--found)->second.last >= key) return found->second;
    const Message reply = master_.ask({Kind::locate, 0, key, key, 0, 0, 0});
    version_ = reply.version;
    return known_[reply.first] = reply;
  }

  // What was known of the range of this key is out of date.
  void forget(uint64_t key) {
    auto found = known_.upper_bound(key);
    if (found != known_.begin()) known_.erase(--found);
  }

  void add(const Row& row) {
    const uint32_t server = locate(row.key).server;
    batches_[server].push_back(row);
    if (batches_[server].size() >= kBatch) commit(server);
  }

  void commit(uint32_t server) {
    std::vector<Row> rows;
    rows.swap(batches_[server]);
    if (rows.empty()) return;
    const Message reply = servers_[server].ask({Kind::commit, server, 0, 0, version_, 0, 0}, rows);
    if (reply.kind == Kind::yes) {
      acknowledged_ += rows.size();
      return;
    }
    refused_++;
    forget(reply.first);
    pause_ms(2);
    for (const Row& row : rows) add(row);
  }

  void load(uint64_t rows, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15;
    const auto random = [&] {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      return state;
    };
    for (uint64_t i = 0; i < rows; i++) {
      Row row{random(), {}};
      for (char& byte : row.value) byte = static_cast<char>('a' + random() % 26);
      add(row);
    }
    for (bool more = true; more;) {
      more = false;
      for (uint32_t each = 0; each < batches_.size(); each++) {
        more = more || !batches_[each].empty();
        commit(each);
      }
    }
  }

  uint64_t count() {
    uint64_t rows = 0;
    for (uint64_t key = 0;;) {
      const Message range = locate(key);
      const Message reply = servers_[range.server].ask({Kind::count, range.server, range.first, range.last, 0, 0, 0});
      if (reply.kind != Kind::yes) {
        forget(key);
        pause_ms(10);
        continue;
      }
      rows += reply.number;
      if (range.last == kLast) return rows;
      key = range.last + 1;
    }
  }
};

Client* client;

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  client = new Client(options);
  if (!options.count) {
    client->load(options.rows, options.seed);
    printf("loaded %" PRIu64 " rows; %" PRIu64 " batches were refused\n", client->acknowledged_, client->refused_);
    return client->acknowledged_ == options.rows ? 0 : 3;
  }
  const uint64_t rows = client->count();
  printf("the table has %" PRIu64 " of %" PRIu64 " rows\n", rows, options.rows);
  return rows < options.rows ? 1 : 0;
}
