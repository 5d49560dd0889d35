// A bank and tokens on ZeroMQ: each of NODES processes holds accounts and tokens in containers of the standard library
// and sends parts of them to the others, which acknowledge; what is not acknowledged in time is sent again, and who has
// it already drops it. The planted fault: node 2 forgets to note down every transfer whose number ends in 5, and takes
// it again when it comes again.
//
//   tokens SELF PORT,PORT,... SECONDS SEED [fault]
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

enum class Kind : std::uint32_t { hello, money, token, acknowledgement };

struct Message {
  Kind kind;
  std::uint32_t from;
  std::uint64_t id;  // of a transfer: unique in the group
  std::int64_t amount;
  std::int32_t token;
  char account[12];
};

struct Sent {
  Message message;
  std::uint32_t to;
  Clock::time_point at;
};

struct Bank {
  std::map<std::string, std::int64_t> balances{{"cash", 500}, {"checking", 300}, {"savings", 200}};
  std::set<int> tokens;
  std::unordered_map<std::uint64_t, Sent> unanswered;
  std::vector<std::set<std::uint64_t>> seen;  // by sender
  std::uint64_t next = 1;
};

struct Network {
  void* context = zmq_ctx_new();
  void* inbox = nullptr;
  std::vector<void*> peers;

  void open(std::uint32_t self, const std::vector<std::string>& ports) {
    zmq_ctx_set(context, ZMQ_IO_THREADS, 2);
    inbox = zmq_socket(context, ZMQ_PULL);
    if (zmq_bind(inbox, ("tcp://127.0.0.1:" + ports[self]).c_str()) != 0) exit(3);
    for (std::uint32_t i = 0; i < ports.size(); i++) {
      peers.push_back(i == self ? nullptr : zmq_socket(context, ZMQ_PUSH));
      const int linger = 0;
      if (i != self && (zmq_setsockopt(peers[i], ZMQ_LINGER, &linger, sizeof linger) ||
                        zmq_connect(peers[i], ("tcp://127.0.0.1:" + ports[i]).c_str())))
        exit(3);
    }
  }
  void send(std::uint32_t to, const Message& message) { zmq_send(peers[to], &message, sizeof message, ZMQ_DONTWAIT); }
  bool receive(Message& message, int timeout_ms) {
    zmq_pollitem_t item{inbox, 0, ZMQ_POLLIN, 0};
    return zmq_poll(&item, 1, timeout_ms) == 1 && zmq_recv(inbox, &message, sizeof message, 0) == sizeof message;
  }
  void close() {
    for (void* peer : peers)
      if (peer) zmq_close(peer);
    zmq_close(inbox);
    zmq_ctx_term(context);
  }
};

std::uint32_t self;
bool fault;
Bank bank;
std::unique_ptr<Network> network;

// Each fifth transfer goes twice at once: whoever receives must cope.
void send(std::uint32_t to, const Message& message) {
  bank.unanswered[message.id] = {message, to, Clock::now()};
  for (int times = (message.id & 0xffffffff) % 5 == 0 ? 2 : 1; times > 0; times--) network->send(to, message);
}

[[gnu::noinline]] void send_money(std::uint32_t to, const Message& message) { send(to, message); }
[[gnu::noinline]] void send_token(std::uint32_t to, const Message& message) { send(to, message); }

[[gnu::noinline]] void took_money(const Message& message) {
  if (message.amount < 0) printf("a debt\n");
}

[[gnu::noinline]] void took_token(const Message& message) {
  if (message.token < 0) printf("no token\n");
}

void give(std::uint32_t to, std::mt19937& random) {
  Message message{Kind::money, self, (std::uint64_t{self + 1} << 32) + bank.next++, 0, 0, ""};
  if (random() % 3 == 0 && !bank.tokens.empty()) {
    message.kind = Kind::token;
    message.token = *std::next(bank.tokens.begin(), static_cast<long>(random() % bank.tokens.size()));
    bank.tokens.erase(message.token);
    send_token(to, message);
    return;
  }
  auto account = std::next(bank.balances.begin(), static_cast<long>(random() % bank.balances.size()));
  if (account->second == 0) return;
  message.amount = 1 + static_cast<long>(random()) % std::min<long>(account->second, 50);
  snprintf(message.account, sizeof message.account, "%s", account->first.c_str());
  account->second -= message.amount;
  send_money(to, message);
}

void take(const Message& message) {
  auto& seen = bank.seen[message.from];
  if (!seen.contains(message.id)) {
    const bool forgets = fault && self == 2 && (message.id & 0xffffffff) % 10 == 5;
    if (!forgets) seen.insert(message.id);
    else
      printf("n2 takes %s %ld as %lu\n", message.kind == Kind::money ? "money" : "token",
             message.kind == Kind::money ? message.amount : message.token, message.id);
    if (message.kind == Kind::money) {
      bank.balances[message.account] += message.amount;
      took_money(message);
    } else {
      bank.tokens.insert(message.token);
      took_token(message);
    }
  }
  network->send(message.from, {Kind::acknowledgement, self, message.id, 0, 0, ""});
}

void send_again(Clock::time_point now) {
  for (auto& [id, sent] : bank.unanswered)
    if (now - sent.at > std::chrono::milliseconds(200)) {
      sent.at = now;
      network->send(sent.to, sent.message);
    }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  self = static_cast<std::uint32_t>(atoi(argv[1]));
  fault = argc > 5;
  std::vector<std::string> ports;
  std::istringstream list(argv[2]);
  for (std::string port; std::getline(list, port, ',');) ports.push_back(port);
  std::mt19937 random(static_cast<unsigned>(atoi(argv[4])) * 100 + self);
  bank.seen.resize(ports.size());
  for (int i = 0; i < 5; i++) bank.tokens.insert(static_cast<int>(self) * 5 + i);
  network = std::make_unique<Network>();
  network->open(self, ports);

  // Nobody sends before everybody has been heard of; ZeroMQ keeps what goes to a peer that is not there yet.
  std::set<std::uint32_t> heard{self};
  for (std::uint32_t i = 0; i < ports.size(); i++)
    if (i != self) network->send(i, {Kind::hello, self, 0, 0, 0, ""});
  auto due = Clock::now(), end = due + std::chrono::seconds(atoi(argv[3])), quiet = due;
  Message message;
  while (Clock::now() < end || !bank.unanswered.empty() || Clock::now() < quiet + std::chrono::milliseconds(500)) {
    if (network->receive(message, 5)) {
      quiet = Clock::now();
      if (message.kind == Kind::hello) heard.insert(message.from);
      else if (message.kind == Kind::acknowledgement) bank.unanswered.erase(message.id);
      else take(message);
    }
    const auto now = Clock::now();
    send_again(now);
    if (now < due || now > end || heard.size() < ports.size()) continue;
    due = now + std::chrono::milliseconds(20);
    give((self + 1 + static_cast<std::uint32_t>(random() % (ports.size() - 1))) %
             static_cast<std::uint32_t>(ports.size()),
         random);
  }
  network->close();
  const long sum = std::accumulate(bank.balances.begin(), bank.balances.end(), 0L,
                                   [](long total, const auto& account) { return total + account.second; });
  printf("n%u holds %ld and %zu tokens after %lu transfers\n", self, sum, bank.tokens.size(), bank.next - 1);
  return 0;
}
