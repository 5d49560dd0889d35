#include "core/record/judge_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/ranges.h>

#include "core/base/log.h"

namespace friday {

using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds kAskAgain(10);
constexpr char kBehindHeld[] =
    "the next message of the order is sent behind one, on the same connection, that must wait for it";

// The bytes that a text of far_judge.cc stands for.
std::string from_latin1(const std::string& text) {
  constexpr unsigned kAscii = 0x80, kNextBits = 6, kNextMask = 0x3f, kLeadMask = 0x03;
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    const auto code = static_cast<unsigned char>(text[i]);
    if (code < kAscii || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const auto next = static_cast<unsigned char>(text[++i]);
    out += static_cast<char>((code & kLeadMask) << kNextBits | (next & kNextMask));
  }
  return out;
}

Result<std::string> random_key() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(ErrorCode::io, "getrandom failed");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string host_of(SocketAddress& at) {
  char host[NI_MAXHOST];
  return getnameinfo(at.get(), at.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0 ? host : "an unknown host";
}

}  // namespace

JudgeServer::JudgeServer(JudgeServerOptions options, UniqueFd listener, UniqueFd stopped)
    : options_(std::move(options)), listener_(std::move(listener)), stopped_(std::move(stopped)) {}

JudgeServer::~JudgeServer() = default;

Result<std::unique_ptr<JudgeServer>> JudgeServer::listen(const JudgePlace& place, JudgeServerOptions options) {
  FRIDAY_TRY(at, look_up(place, true));
  UniqueFd listener(::socket(at.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UniqueFd stopped(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener || !stopped) return fail_errno(errno, "cannot make a socket");
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener.get(), at.get(), at.size) != 0 || ::listen(listener.get(), SOMAXCONN) != 0)
    return fail_errno(errno, fmt::format("cannot listen at {}", describe(place)));
  char port[NI_MAXSERV];
  at.size = sizeof at.address;
  if (getsockname(listener.get(), at.get(), &at.size) != 0 ||
      getnameinfo(at.get(), at.size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0)
    return fail(ErrorCode::io, "the port at {} is not known", describe(place));
  FRIDAY_TRY(key, random_key());
  std::unique_ptr<JudgeServer> server(new JudgeServer(std::move(options), std::move(listener), std::move(stopped)));
  server->key_ = std::move(key);
  server->place_ = {place.host, port};
  return server;
}

void JudgeServer::stop() {
  const uint64_t one = 1;
  (void)!write(stopped_.get(), &one, sizeof one);
}

void JudgeServer::run() {
  constexpr std::chrono::seconds kLongestFarewell(2);  // until recorders have been told that the order is over
  constexpr int kUsualMs = 100;
  std::optional<Clock::time_point> end;
  for (bool stops = false;;) {
    PollSet set;
    const size_t stopped = stops ? 0 : set.add(stopped_.get());
    if (Clock::now() >= accepts_again_) set.add(listener_.get(), [this] { accept(); });
    for (Recorder& recorder : recorders_)
      set.add(
          recorder.link.fd(), [this, &recorder] { serve(recorder); }, recorder.link.events());
    const auto waited = set.wait(ask_again_.empty() ? kUsualMs : static_cast<int>(kAskAgain.count()));
    if (!waited) give_up(waited.error().message);
    else set.act();
    if (!stops && waited && set.is_ready(stopped)) {
      stops = true;
      give_up("it was called off");
    }
    drop_those_that_left();
    begin_if_all_are_there();
    look();
    if (!over_) continue;
    if (!end) end = Clock::now() + kLongestFarewell;
    const bool all_know = std::ranges::all_of(recorders_, [](const Recorder& each) { return each.link.all_is_sent(); });
    if (!waited || Clock::now() > *end) break;
    if (!all_know) continue;
    if (recorders_.empty()) break;
    for (Recorder& each : recorders_) each.link.say_no_more();  // they close, when they have read it
  }
  listener_.reset();  // who comes now is not kept waiting
  recorders_.clear();
}

void JudgeServer::accept() {
  SocketAddress from{.address = {}, .size = sizeof from.address};
  UniqueFd socket(accept4(listener_.get(), from.get(), &from.size, SOCK_CLOEXEC));
  constexpr size_t kMostRecorders = 1000;
  constexpr std::ptrdiff_t kMostStrangers = 50;
  const auto is_stranger = [](const Recorder& each) { return !each.joined && !each.observes; };
  if (std::ranges::count_if(recorders_, is_stranger) >= kMostStrangers)
    std::ranges::find_if(recorders_, is_stranger)->link.close("there are too many");
  constexpr std::chrono::milliseconds kRest(100);  // where there are no more descriptors
  if (!socket && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) accepts_again_ = Clock::now() + kRest;
  if (socket && recorders_.size() < kMostRecorders) recorders_.emplace_back(std::move(socket), host_of(from));
}

void JudgeServer::serve(Recorder& recorder) {
  recorder.link.flush();
  recorder.link.receive();
  while (const auto message = recorder.link.next()) take(recorder, *message);
}

void JudgeServer::drop_those_that_left() {
  constexpr std::chrono::seconds kLongestStranger(10);
  for (auto each = recorders_.begin(); each != recorders_.end();) {
    if (each->link.is_gone())  // what it has said before
      while (const auto message = each->link.next()) take(*each, *message);
    if (!each->joined && !each->observes && Clock::now() - each->since > kLongestStranger)
      each->link.close("it says nothing");
    if (each->link.is_gone() || each->leaves) leave(*each), each = recorders_.erase(each);
    else ++each;
  }
  if (begun_ && !over_ && std::ranges::none_of(recorders_, &Recorder::joined))
    give_up(fmt::format("all programs have ended without {}", options_.judge->waits_for()));
}

void JudgeServer::take(Recorder& recorder, const json& message) {
  const std::string is = text_of(message, "is");
  if (!recorder.joined) return join(recorder, message);
  if (over_) return;
  if (is == "armed") recorder.armed = true;
  else if (is == "sent") sent(recorder, message);
  else if (is == "give up") give_up(text_of(message, "why"));
  else if (is == "leaves") recorder.leaves = true;
  else if (is == "answer") answered(recorder, message);
  else if (is == "far") far_happened(text_of(message, "what"), number_of(message, "number"));
  else if (const auto known = number_.find({&recorder, number_of(message, "ticket")}); known != number_.end())
    happened(is, known->second);
}

// Of a stranger nothing is taken but who he is.
void JudgeServer::join(Recorder& recorder, const json& message) {
  if (text_of(message, "key") != key_) {
    recorder.link.send({{"is", "refused"}, {"why", "the key is another one"}});
    return recorder.link.close("it does not know the key");
  }
  recorder.link.trust();
  const std::string is = text_of(message, "is");
  if (is == "order") {
    recorder.observes = true;
    recorder.link.send({{"is", "order"}, {"order", options_.order}});
    return over_ ? tell_outcome(recorder) : void();
  }
  if (is != "hello") return recorder.link.close("what it says is not understood");
  recorder.joined = true;
  recorder.machine = text_of(message, "machine");
  for (const json& role : message.value("roles", json::array()))
    if (role.is_string()) recorder.roles.insert(role.get<std::string>());
  FRIDAY_LOG(record, info, "the recorder of {} joins: {}", recorder.host, fmt::join(recorder.roles, ", "));
  if (over_) tell_outcome(recorder);
}

void JudgeServer::tell_outcome(Recorder& recorder) const {
  recorder.link.send({{"is", "over"}, {"came_true", outcome_->came_true}, {"why", outcome_->why}});
}

void JudgeServer::begin_if_all_are_there() {
  if (begun_ || over_) return;
  std::set<std::string> roles;
  for (const Recorder& each : recorders_) {
    if (each.joined && !each.armed) return;
    if (each.joined) roles.insert(each.roles.begin(), each.roles.end());
  }
  if (roles.empty()) return;
  const auto missing = options_.missing(roles);
  if (missing.empty()) {
    begun_ = true;
    progress_ = Clock::now();
    return options_.say(fmt::format("{} take part", fmt::join(roles, ", ")));
  }
  const std::string text = fmt::format("waiting for programs of other machines: {}", fmt::join(missing, ", "));
  if (text != waits_for_) options_.say(text);
  waits_for_ = text;
}

void JudgeServer::sent(Recorder& recorder, const json& message) {
  const Ticket number = next_++;
  Message made{.sender = &recorder,
               .ticket = number_of(message, "ticket"),
               .from = text_of(message, "from"),
               .to = text_of(message, "to"),
               .bytes = from_latin1(text_of(message, "bytes")),
               .length = number_of(message, "length")};
  if (!begun_) return let_go(made, false, false);
  const json local = message.value("local", json()), remote = message.value("remote", json());
  std::string key;
  if (socket_place(local) && socket_place(remote))
    key = fmt::format("{} {}{}", fmt::ptr(&recorder), local.dump(), remote.dump());
  // What comes behind a message whose receiver is asked for is judged behind it.
  const auto known = connections_.find(key);
  const bool asks = !key.empty() && (made.to.empty() || (known != connections_.end() && known->second.question));
  if (asks) made.connection = key;
  number_[{&recorder, made.ticket}] = number;
  messages_.emplace(number, std::move(made));
  if (!asks) {
    judge(number);
    return release();
  }
  Connection& connection = connections_[key];
  connection.local = local;
  connection.remote = remote;
  connection.messages.insert(number);
  if (!connection.question && !ask_again_.contains(key)) ask_who(key);
}

uint64_t JudgeServer::ask(Recorder& recorder, const char* what, Question question, json more) {
  const uint64_t number = next_++;
  more["is"] = what;
  more["number"] = number;
  question.asked.insert(&recorder);
  questions_[number] = std::move(question);
  recorder.link.send(more);
  return number;
}

// Asks all recorders for the other end of a connection, that of the sender, too: of a process that forks it could not
// tell.
void JudgeServer::ask_who(const std::string& key) {
  Connection& connection = connections_.at(key);
  connection.asked = Clock::now();
  const Recorder* sender = messages_.at(*connection.messages.begin()).sender;
  const uint64_t number = connection.question = next_++;
  Question question{.kind = Question::Kind::who, .connection = key};
  const bool here = is_loopback(*socket_place(connection.remote));
  for (Recorder& each : recorders_) {
    if (!each.joined || (here && each.machine != sender->machine)) continue;
    each.link.send(
        {{"is", "receiver"}, {"number", number}, {"local", connection.remote}, {"remote", connection.local}});
    question.asked.insert(&each);
  }
  questions_[number] = std::move(question);
}

void JudgeServer::answered(Recorder& recorder, const json& answer) {
  const auto found = questions_.find(number_of(answer, "number"));
  if (found == questions_.end()) return;
  Question& asked = found->second;
  if (const std::string name = text_of(answer, "name"); !name.empty()) asked.receiver = &recorder, asked.name = name;
  asked.waits |= flag_of(answer, "waits");
  if (answer.contains("count")) asked.counts[&recorder] = number_of(answer, "count");
  asked.asked.erase(&recorder);
  if (asked.asked.empty()) settle(found->first);
}

// Nobody will say more to a question.
void JudgeServer::settle(uint64_t number) {
  const auto found = questions_.find(number);
  if (found == questions_.end()) return;
  const Question known = found->second;
  if (known.kind != Question::Kind::expect) questions_.erase(found);  // of those what happens is still told
  if (known.kind == Question::Kind::who) know_who(known);
  else if (messages_.contains(known.message)) know_counts(known);
}

// All recorders have answered.
void JudgeServer::know_who(const Question& question) {
  const auto found = connections_.find(question.connection);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  connection.question = 0;
  if (connection.messages.empty()) {
    connections_.erase(found);
    return;
  }
  if (question.waits && !question.receiver) {
    ask_again_.insert(question.connection);
    return;
  }
  const std::set<Ticket> messages = connection.messages;
  for (const Ticket number : messages) {
    const auto message = messages_.find(number);
    if (message == messages_.end() || message->second.stage != Message::Stage::asking) continue;
    if (!question.receiver) {  // whoever receives it is not recorded
      let_go(message->second, false, false);
      forget(number);
      continue;
    }
    message->second.receiver = question.receiver;
    message->second.to = question.name;
    judge(number);
  }
  release();
}

void JudgeServer::know_counts(const Question& question) {
  Message& message = messages_.at(question.message);
  const auto count_of = [&](const Recorder* recorder) {
    const auto found = question.counts.find(recorder);
    return found == question.counts.end() ? std::nullopt : found->second;
  };
  const Connection& connection = connections_.at(message.connection);
  const auto sent = count_of(message.sender), received = count_of(message.receiver);
  if (question.kind != Question::Kind::count && !(question.kind == Question::Kind::quiet ? sent : received))
    return give_up(fmt::format("it cannot be told how much of a connection of {} was received", message.from));
  if (question.kind == Question::Kind::quiet) {
    message.sent_before = *sent;
    set_stage(message, Message::Stage::expecting);
    ask(*message.receiver, "expect", {.kind = Question::Kind::expect, .message = question.message},
        {{"local", connection.remote}, {"remote", connection.local}, {"length", message.length}});
    return;
  }
  if (question.kind == Question::Kind::expect) {
    message.received_before = *received;
    set_stage(message, Message::Stage::sent);
    return let_go(message, false, true);
  }
  // Where more is sent all the time the counts are never the same at several looks, and nobody can tell.
  const bool known = sent && received && message.sender != message.receiver;
  const auto difference =
      known ? static_cast<int64_t>((*sent - message.sent_before) - (*received - message.received_before)) : 0;
  if (difference == 0) return happened("handled", question.message);
  // Something may have been sent between the two counts. What differs so again was counted wrongly.
  constexpr unsigned kSurely = 3;
  message.times = difference == message.difference ? message.times + 1 : 1;
  message.difference = difference;
  if (message.times == kSurely) return give_up("how many bytes of a connection were received could not be told");
  count_again(question.message);
}

// A message was handled at an end that another recorder counts.
void JudgeServer::count_again(Ticket number) {
  Message& message = messages_.at(number);
  if (!message.sender || !message.receiver) return happened("handled", number);
  const Connection& connection = connections_.at(message.connection);
  const uint64_t asked = ask(*message.sender, "count", {.kind = Question::Kind::count, .message = number},
                             {{"local", connection.local}, {"remote", connection.remote}, {"sends", true}});
  if (message.receiver == message.sender) return;  // it answers for one of its ends, and nothing is compared
  questions_.at(asked).asked.insert(message.receiver);
  message.receiver->link.send({{"is", "count"},
                               {"number", asked},
                               {"local", connection.remote},
                               {"remote", connection.local},
                               {"sends", false}});
}

void JudgeServer::far_happened(const std::string& what, Ticket number) {
  const auto question = questions_.find(number);
  if (question == questions_.end() || question->second.kind != Question::Kind::expect) return;
  const Ticket ticket = question->second.message;
  if (what != "received") questions_.erase(question);
  if (!messages_.contains(ticket)) return;
  if (what != "handled") return happened(what, ticket);
  set_stage(messages_.at(ticket), Message::Stage::counting);
  progress_ = Clock::now();
  count_again(ticket);
}

void JudgeServer::judge(Ticket number) {
  Message& message = messages_.at(number);
  const auto bytes = std::as_bytes(std::span(message.bytes));
  const auto verdict = options_.judge->sent({number, message.from, message.to, bytes, message.length});
  if (verdict == MessageJudge::Verdict::pass) return go(number, false);
  const bool held = verdict == MessageJudge::Verdict::hold;
  if (!held || held_ == 0) progress_ = Clock::now();
  if (held) set_stage(message, Message::Stage::held);
  else go(number, true);
}

// A message may be sent.
void JudgeServer::go(Ticket number, bool watched) {
  Message& message = messages_.at(number);
  if (!watched) {
    let_go(message, false, false);
    return forget(number);
  }
  if (options_.judge->is_one_line() && is_behind_held(number)) return give_up(kBehindHeld);
  if (!message.receiver) {
    set_stage(message, Message::Stage::sent);
    return let_go(message, true, false);
  }
  set_stage(message, Message::Stage::quieting);
  ask(*message.sender, "quiet", {.kind = Question::Kind::quiet, .message = number}, {{"ticket", message.ticket}});
}

void JudgeServer::let_go(const Message& message, bool watched, bool far) {
  message.sender->link.send({{"is", "release"}, {"ticket", message.ticket}, {"watched", watched}, {"far", far}});
}

void JudgeServer::set_stage(Message& message, Message::Stage stage) {
  held_ -= message.stage == Message::Stage::held;
  held_ += stage == Message::Stage::held;
  message.stage = stage;
}

void JudgeServer::forget(Ticket number) {
  const auto message = messages_.find(number);
  set_stage(message->second, Message::Stage::sent);
  if (message->second.sender) number_.erase({message->second.sender, message->second.ticket});
  if (const auto connection = connections_.find(message->second.connection); connection != connections_.end()) {
    connection->second.messages.erase(number);
    if (connection->second.messages.empty() && !connection->second.question) {
      ask_again_.erase(connection->first);
      connections_.erase(connection);
    }
  }
  messages_.erase(message);
}

bool JudgeServer::is_behind_held(Ticket number) const {
  const auto connection = connections_.find(messages_.at(number).connection);
  return connection != connections_.end() && std::ranges::any_of(connection->second.messages, [&](Ticket each) {
           return each < number && messages_.at(each).stage == Message::Stage::held;
         });
}

// Of a message that is watched, or of one that is kept and lost.
void JudgeServer::happened(const std::string& what, Ticket number) {
  if (!messages_.contains(number)) return;
  progress_ = Clock::now();
  if (what == "received") {
    options_.judge->received(number);
  } else if (what == "handled" || what == "lost") {
    forget(number);
    if (what == "handled") options_.judge->handled(number);
    else options_.judge->lost(number);
  }
  release();
}

void JudgeServer::release() {
  if (over_) return;
  for (std::vector<MessageJudge::Released> next; !over_ && !(next = options_.judge->release()).empty();)
    for (const auto& released : next)
      if (!over_ && messages_.contains(released.ticket)) go(released.ticket, released.watched);
  if (!over_ && options_.judge->is_over()) tell_end();
}

void JudgeServer::give_up(const std::string& why) {
  if (over_) return;
  FRIDAY_LOG(record, info, "the order is given up: {}", why);
  options_.judge->give_up(why);
  tell_end();
}

void JudgeServer::tell_end() {
  over_ = true;
  {
    const std::scoped_lock lock(mutex_);
    const bool came_true = options_.judge->came_true();
    outcome_ = Outcome{came_true, came_true ? "" : options_.judge->reason()};
  }
  for (Recorder& each : recorders_)
    if (each.joined || each.observes) tell_outcome(each);
  messages_.clear();
  held_ = 0;
  number_.clear();
  connections_.clear();
  ask_again_.clear();
  questions_.clear();
}

void JudgeServer::leave(Recorder& recorder) {
  if (!recorder.joined || over_) return;
  if (recorder.leaves) return go_on_without(recorder);
  const std::string who = fmt::format("the recorder of {} ({})", recorder.host, fmt::join(recorder.roles, ", "));
  FRIDAY_LOG(record, info, "{} has left: {}", who, recorder.link.why());
  if (begun_) return give_up(fmt::format("{} has vanished: {}", who, recorder.link.why()));
  options_.say(fmt::format("{} has left: {}", who, recorder.link.why()));
}

// Its programs have ended: what they have sent stays on its way, and what they have not received they will never get.
void JudgeServer::go_on_without(const Recorder& recorder) {
  FRIDAY_LOG(record, info, "the programs of {} have ended ({})", recorder.host, fmt::join(recorder.roles, ", "));
  std::vector<Ticket> lost;
  for (auto& [number, message] : messages_) {
    const bool is_own = message.sender == &recorder;
    if (is_own) {
      number_.erase({message.sender, message.ticket});
      message.sender = nullptr;
    }
    const bool watched_there = message.receiver ? message.receiver == &recorder : is_own;
    if (!watched_there || message.stage == Message::Stage::asking) continue;
    if (message.stage == Message::Stage::counting) {  // it was handled, and cannot be counted again
      message.receiver = nullptr;
      continue;
    }
    if (message.sender && message.stage != Message::Stage::sent) let_go(message, false, false);
    lost.push_back(number);
  }
  std::vector<uint64_t> answered;
  for (auto& [number, question] : questions_) {
    if (question.receiver == &recorder) question.receiver = nullptr;
    if (question.asked.erase(&recorder) && question.asked.empty()) answered.push_back(number);
  }
  for (const Ticket number : lost) happened("lost", number);
  for (const uint64_t number : answered) settle(number);
}

void JudgeServer::look() {
  const Clock::time_point now = Clock::now();
  constexpr std::chrono::seconds kSayAlive(1);
  if (now - said_alive_ >= kSayAlive) {
    said_alive_ = now;
    for (Recorder& each : recorders_)
      if (each.joined) each.link.send({{"is", "alive"}});
  }
  if (over_ || !begun_) return;
  std::vector<std::string> due;
  for (const std::string& key : ask_again_)
    if (now - connections_.at(key).asked >= kAskAgain) due.push_back(key);
  for (const std::string& key : due) {
    ask_again_.erase(key);
    ask_who(key);
  }
  if (now - progress_ >= options_.patience) look_at_patience();
}

// Nothing has happened for long.
void JudgeServer::look_at_patience() {
  progress_ = Clock::now();
  const auto waits = [this](const auto& each) {
    const auto stage = each.second.stage;
    if (stage == Message::Stage::quieting && is_behind_held(each.first)) return false;
    return stage != Message::Stage::held && stage != Message::Stage::sent;
  };
  const double seconds = std::chrono::duration<double>(options_.patience).count();
  if (const auto found = std::ranges::find_if(messages_, waits); found != messages_.end()) {
    const Message& message = found->second;
    const bool asks = message.stage == Message::Stage::asking;
    return give_up(fmt::format("{:g} s have passed until {} a message of {}", seconds,
                               asks ? "somebody accepted the connection of" : "the recorders could count",
                               message.from));
  }
  if (held_ == 0) return;
  if (options_.judge->do_without()) return release();
  give_up(fmt::format("{:g} s have passed without {}", seconds, options_.judge->waits_for()));
}

std::optional<JudgeServer::Outcome> JudgeServer::outcome() const {
  const std::scoped_lock lock(mutex_);
  return outcome_;
}

Result<std::unique_ptr<JudgeObserver>> JudgeObserver::ask(const JudgePlace& place, const std::string& key) {
  FRIDAY_TRY(link, JudgeLink::connect(place));
  std::unique_ptr<JudgeObserver> observer(new JudgeObserver(std::move(link), place));
  JudgeLink& to = observer->link_;
  to.trust();
  to.send({{"is", "order"}, {"key", key}});
  constexpr std::chrono::seconds kLongest(10);
  constexpr int kLookAgainMs = 100;
  const auto end = std::chrono::steady_clock::now() + kLongest;
  while (std::chrono::steady_clock::now() < end) {
    pollfd ready{to.fd(), to.events(), 0};
    (void)poll(&ready, 1, kLookAgainMs);
    to.flush();
    to.receive();
    while (const auto message = to.next()) {
      const std::string is = text_of(*message, "is");
      if (is == "refused") return fail(ErrorCode::usage, "{} refuses: {}", describe(place), text_of(*message, "why"));
      observer->order_ = text_of(*message, "order");
      if (is == "order") return observer;
    }
    if (to.is_gone()) return fail(ErrorCode::io, "{}: {}", describe(place), to.why());
  }
  return fail(ErrorCode::io, "{} does not answer", describe(place));
}

std::optional<JudgeServer::Outcome> JudgeObserver::outcome() {
  link_.flush();
  link_.receive();
  while (const auto message = link_.next())
    if (text_of(*message, "is") == "over")
      return JudgeServer::Outcome{flag_of(*message, "came_true"), text_of(*message, "why")};
  if (!link_.is_gone()) return std::nullopt;
  return JudgeServer::Outcome{
      false, fmt::format("the connection to the judge at {} is gone: {}", describe(place_), link_.why())};
}

}  // namespace friday
