#include "server.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ranges {

Server::Server(const Options& options) : options_(options), master_(options.master) {
  log_ = open((options.directory + "/commits-" + std::to_string(options.id)).c_str(),
              O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
  if (log_ < 0) {
    perror("cannot open the log");
    exit(2);
  }
  for (int port : options.servers) servers_.emplace_back(port);
  if (options.id == 0) ranges_[0] = {kLast, 0};
}

Message Server::answer(const Message& request, const std::vector<Row>& rows) {
  if (request.kind == Kind::commit) return commit(request, rows);
  if (request.kind == Kind::adopt) return adopt(request, rows);
  return request.kind == Kind::count ? count(request) : Message{};
}

// The range with this key; nullptr if it is not here, or on its way to another server.
Range* Server::range_of(uint64_t key) {
  auto found = ranges_.upper_bound(key);
  if (found == ranges_.begin()) return nullptr;
  Range& range = (--found)->second;
  const bool moves = range.moving_from != 0 && key >= range.moving_from;
  return key > range.last || moves ? nullptr : &range;
}

// Whether one of the rows has a key that is not ours.
bool Server::refuses(const std::vector<Row>& rows, uint64_t& key) {
  for (const Row& row : rows)
    if (range_of(key = row.key) == nullptr) return true;
  return false;
}

Message Server::commit(const Message& request, const std::vector<Row>& rows) {
  uint64_t key = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (refuses(rows, key)) return {Kind::no, options_.id, key, key, 0, 0, 0};
  }
  write_log(rows);
  std::lock_guard<std::mutex> lock(mutex_);
  // The planted fault: without --careful nobody looks again.
  if (options_.careful && refuses(rows, key)) return {Kind::no, options_.id, key, key, 0, 0, 0};
  store(rows, request.version);
  committed_ += rows.size();
  return {Kind::yes, options_.id, 0, 0, 0, rows.size(), 0};
}

void Server::store(const std::vector<Row>& rows, uint64_t version) {
  for (const Row& row : rows) {
    if (Range* range = range_of(row.key)) range->rows++;
    rows_[row.key].assign(row.value, row.value + sizeof row.value);
  }
  (void)version;  // who looks at a stop here sees which table the client knew
}

void Server::write_log(const std::vector<Row>& rows) {
  const size_t size = rows.size() * sizeof(Row);
  if (write(log_, rows.data(), size) != static_cast<ssize_t>(size) || fdatasync(log_) != 0) {
    perror("cannot write the log");
    exit(3);
  }
}

Message Server::adopt(const Message& request, const std::vector<Row>& rows) {
  write_log(rows);
  std::lock_guard<std::mutex> lock(mutex_);
  ranges_[request.first] = {request.last, 0};
  store(rows, request.version);
  return {Kind::yes, options_.id, request.first, request.last, 0, 0, 0};
}

Message Server::count(const Message& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ranges_.find(request.first);
  if (found == ranges_.end() || found->second.last != request.last || found->second.moving_from != 0) return {};
  Message reply{Kind::yes, options_.id, request.first, request.last, 0, 0, 0};
  for (auto row = rows_.lower_bound(request.first); row != rows_.end() && row->first <= request.last; ++row)
    reply.number++;
  return reply;
}

// A range that is too large, and copies of the rows of its upper half.
bool Server::choose_split(uint64_t& first, std::vector<Row>& rows) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [low, range] : ranges_) {
    if (range.rows <= kSplit) continue;
    std::vector<uint64_t> keys;
    for (auto row = rows_.lower_bound(low); row != rows_.end() && row->first <= range.last; ++row)
      keys.push_back(row->first);
    first = low;
    range.moving_from = keys[keys.size() / 2];
    for (size_t i = keys.size() / 2; i < keys.size(); i++) {
      Row copy{keys[i], {}};
      std::copy_n(rows_[keys[i]].data(), sizeof copy.value, copy.value);
      rows.push_back(copy);
    }
    return true;
  }
  return false;
}

void Server::move_away(uint64_t first, const std::vector<Row>& rows) {
  const uint32_t server = master_.ask({Kind::place, options_.id, 0, 0, 0, 0, 0}).server;
  Message message{Kind::adopt, server, 0, 0, 0, 0, 0};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    message.first = ranges_[first].moving_from;
    message.last = ranges_[first].last;
  }
  if (server != options_.id) servers_[server].ask(message, rows);
  message.kind = Kind::moved;
  master_.ask(message);
  std::lock_guard<std::mutex> lock(mutex_);
  Range& range = ranges_[first];
  const size_t moved = std::min(range.rows, rows.size());
  range = {message.first - 1, range.rows - moved};
  if (server == options_.id) ranges_[message.first] = {message.last, moved};
  else
    for (const Row& row : rows) rows_.erase(row.key);
}

void Server::split_ranges() {
  for (;;) {
    uint64_t first = 0;
    std::vector<Row> rows;
    if (choose_split(first, rows)) move_away(first, rows);
    else pause_ms(5);
  }
}

}  // namespace ranges
