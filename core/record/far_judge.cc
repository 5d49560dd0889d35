#include "core/record/far_judge.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "core/base/files.h"
#include "core/base/log.h"

namespace friday {

using nlohmann::json;

namespace {

// As JSON has it: each byte as the character of its number.
std::string as_latin1(std::span<const std::byte> bytes) {
  constexpr unsigned kAscii = 0x80, kLead = 0xc0, kNext = 0x80, kNextBits = 6, kNextMask = 0x3f;
  std::string out;
  for (const std::byte each : bytes) {
    const auto code = std::to_integer<unsigned>(each);
    if (code >= kAscii) out += static_cast<char>(kLead | code >> kNextBits);
    out += static_cast<char>(code < kAscii ? code : kNext | (code & kNextMask));
  }
  return out;
}

}  // namespace

std::string this_machine() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  struct stat network;
  const uint64_t space = stat("/proc/self/ns/net", &network) == 0 ? network.st_ino : 0;
  return fmt::format("{}/{}", boot ? boot->substr(0, boot->find('\n')) : "", space);
}

FarJudge::FarJudge(FarJudgeOptions options) : options_(std::move(options)) {
  auto link = JudgeLink::connect(options_.place);
  if (!link) {
    end(false, link.error().message);
    return;
  }
  link_.emplace(std::move(*link));
  link_->trust();
  link_->send({{"is", "hello"}, {"key", options_.key}, {"roles", options_.roles}, {"machine", this_machine()}});
}

void FarJudge::arm() {
  if (link_) link_->send({{"is", "armed"}});
}

void FarJudge::leave(const std::string& why) {
  if (over_) return;
  if (!kept_.empty()) return give_up(why);
  constexpr int kLongestMs = 1000;
  link_->send({{"is", "leaves"}});
  (void)link_->flush_all(kLongestMs);
  end(false, why);
}

void FarJudge::add_to(PollSet& set) {
  if (over_) return;
  if (link_->is_gone()) look();  // it was noticed while something was sent
  else
    set.add(
        link_->fd(), [this] { look(); }, link_->events());
}

bool FarJudge::do_without() { return std::chrono::steady_clock::now() - heard_ < options_.patience; }

MessageJudge::Verdict FarJudge::sent(const Sent& message) {
  if (over_) return Verdict::pass;
  json told{{"is", "sent"},
            {"ticket", message.ticket},
            {"from", message.from},
            {"to", message.to},
            {"bytes", as_latin1(message.bytes.first(std::min(message.bytes.size(), options_.most_bytes)))},
            {"length", message.length}};
  const KnownConnection* connection = message.connection;
  if (connection && !connection->is_pipe && !connection->is_unix) {
    told["local"] = as_json(connection->local);
    told["remote"] = as_json(connection->remote);
  }
  link_->send(told);
  kept_.insert(message.ticket);
  return Verdict::hold;
}

void FarJudge::tell(const char* what, Ticket ticket) {
  if (!over_) link_->send({{"is", what}, {"ticket", ticket}});
}

void FarJudge::tell_far(const char* what, uint64_t number) {
  if (!over_) link_->send({{"is", "far"}, {"what", what}, {"number", number}});
}

void FarJudge::answer(const Question& question, const Answer& answer) {
  if (over_) return;
  json told{{"is", "answer"}, {"number", question.number}, {"name", answer.name}, {"waits", answer.waits}};
  if (answer.count) told["count"] = *answer.count;
  link_->send(told);
}

void FarJudge::lost(Ticket ticket) {
  kept_.erase(ticket);
  tell("lost", ticket);
}

void FarJudge::give_up(const std::string& why) {
  if (over_) return;
  constexpr int kLongestMs = 1000;
  link_->send({{"is", "give up"}, {"why", why}});
  (void)link_->flush_all(kLongestMs);
  end(false, why);
}

void FarJudge::end(bool came_true, const std::string& why) {
  if (over_) return;
  over_ = true;
  came_true_ = came_true;
  why_ = why;
  for (const Ticket each : kept_) released_.push_back({each, false});
  kept_.clear();
  questions_.clear();
}

std::vector<MessageJudge::Released> FarJudge::release() { return std::exchange(released_, {}); }

std::vector<FarJudge::Question> FarJudge::questions() { return std::exchange(questions_, {}); }

void FarJudge::look() {
  link_->flush();
  link_->receive();
  while (const auto message = link_->next()) take(*message);
  if (link_->is_gone())
    end(false, fmt::format("the connection to the judge at {} is gone: {}", describe(options_.place), link_->why()));
}

void FarJudge::take(const json& message) {
  if (over_) return;
  heard_ = std::chrono::steady_clock::now();
  const std::string is = text_of(message, "is");
  if (is == "alive") return;
  if (is == "over") return end(flag_of(message, "came_true"), text_of(message, "why"));
  if (is == "refused")
    return end(false, fmt::format("the judge at {} refuses: {}", describe(options_.place), text_of(message, "why")));
  if (is == "release") {
    const Ticket ticket = number_of(message, "ticket");
    if (kept_.erase(ticket)) released_.push_back({ticket, flag_of(message, "watched"), flag_of(message, "far")});
    return;
  }
  using Kind = Question::Kind;
  static const std::map<std::string, Kind> kKinds{
      {"receiver", Kind::receiver}, {"quiet", Kind::quiet}, {"expect", Kind::expect}, {"count", Kind::count}};
  const auto kind = kKinds.find(is);
  const auto local = socket_place(message.value("local", json())),
             remote = socket_place(message.value("remote", json()));
  if (kind == kKinds.end() || (kind->second != Kind::quiet && (!local || !remote)))
    return give_up("the judge says what is not understood: it may be another version of Friday");
  Question question{.kind = kind->second,
                    .number = number_of(message, "number"),
                    .ticket = number_of(message, "ticket"),
                    .length = number_of(message, "length"),
                    .sends = flag_of(message, "sends")};
  if (local && remote) question.local = *local, question.remote = *remote;
  questions_.push_back(question);
}

}  // namespace friday
