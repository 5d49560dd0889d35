// A server of a range-partitioned table: it has some ranges of the keys, with their rows. When a range has grown too
// large, its upper half moves to the server that the master names, while rows go on being committed.
//
// The planted fault is that of Hypertable's issue 63, in which rows are lost when they are committed while their range
// moves: a commit looks whether its rows belong to a range of this server, writes them to the log on the disk, and then
// stores them. If the range has been copied in between, its new owner never gets them. Nobody is told: the client has
// its acknowledgement, and the rows stay with a server that is not asked for them any more.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "wire.h"

namespace ranges {

constexpr size_t kSplit = 300;  // rows; a range with more moves its upper half away

struct Range {
  uint64_t last;
  size_t rows;               // those that were stored while the range was here
  uint64_t moving_from = 0;  // the first key of the part that is on its way to another server; 0: none is
};

class Server {
 public:
  explicit Server(const Options& options);

  Message answer(const Message& request, const std::vector<Row>& rows);

  // A thread, which runs until the program ends.
  void split_ranges();

  const Options options_;
  std::mutex mutex_;
  std::map<uint64_t, Range> ranges_;            // by the first key
  std::map<uint64_t, std::vector<char>> rows_;  // all that are here
  uint64_t committed_ = 0;                      // rows

 private:
  Range* range_of(uint64_t key);
  bool refuses(const std::vector<Row>& rows, uint64_t& key);
  Message commit(const Message& request, const std::vector<Row>& rows);
  Message adopt(const Message& request, const std::vector<Row>& rows);
  Message count(const Message& request);
  void write_log(const std::vector<Row>& rows);
  void store(const std::vector<Row>& rows, uint64_t version);
  bool choose_split(uint64_t& first, std::vector<Row>& rows);
  void move_away(uint64_t first, const std::vector<Row>& rows);

  int log_;  // a file, in which the rows are in the order of their commits
  Partner master_;
  std::vector<Partner> servers_;
};

}  // namespace ranges
