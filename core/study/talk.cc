#include "core/study/talk.h"

#include <algorithm>

#include "core/trace/cache.h"

namespace friday {
namespace {

constexpr uint64_t kMostFile = uint64_t{1} << 30;  // bytes
constexpr uint64_t kVersion = 1;                   // of the file; in the place of a fingerprint

void add_strings(CacheWriter& writer, const std::vector<std::string>& strings) {
  std::vector<uint64_t> ends;
  std::vector<char> bytes;
  for (const std::string& text : strings) {
    bytes.insert(bytes.end(), text.begin(), text.end());
    ends.push_back(bytes.size());
  }
  writer.add(ends);
  writer.add(bytes);
}

bool take_strings(CacheReader& reader, std::vector<std::string>& strings) {
  std::vector<uint64_t> ends;
  std::vector<char> bytes;
  if (!reader.take(ends) || !reader.take(bytes)) return false;
  if (ends.size() > bytes.size() + 1) return false;  // no two are equal, so at most one is empty
  uint64_t begin = 0;
  for (uint64_t end : ends) {
    if (end < begin || end > bytes.size()) return false;
    strings.emplace_back(bytes.data() + begin, end - begin);
    begin = end;
  }
  return begin == bytes.size();
}

bool is_sound(const Talk& talk) {
  const auto is_longer = [](const std::string& text) { return text.size() > Talk::kMostBytes; };
  return talk.roles.size() <= Talk::kMostRoles && std::ranges::none_of(talk.texts, is_longer) &&
         std::ranges::none_of(talk.roles, is_longer) && std::ranges::all_of(talk.events, [&](const TalkEvent& event) {
           return event.role < talk.roles.size() && event.sent <= 1 &&
                  (event.partner < talk.roles.size() || event.partner == TalkEvent::kOutside) &&
                  (event.text < talk.texts.size() || event.text == TalkEvent::kUnknown);
         });
}

}  // namespace

Result<void> Talk::write(const Beneath& file) const {
  CacheWriter writer;
  add_strings(writer, roles);
  add_strings(writer, texts);
  writer.add(events);
  if (writer.size() > kMostFile || !is_sound(*this))
    return fail(ErrorCode::unsupported,
                "{} events between {} roles are more than is kept of a run (1 GiB of messages, and {} roles)",
                events.size(), roles.size(), kMostRoles);
  return writer.write_to(file, kVersion);
}

Result<Talk> Talk::read(const Beneath& file) {
  FRIDAY_TRY(reader, CacheReader::open_file(file, kVersion, kMostFile));
  Talk talk;
  if (!take_strings(reader, talk.roles) || !take_strings(reader, talk.texts) || !reader.take(talk.events) ||
      !is_sound(talk))
    return fail(ErrorCode::bad_input, "{} does not hold the messages of a run, or is damaged", file.path());
  return talk;
}

std::string role_of(const std::string& node_name) {
  static constexpr std::string_view kMade[] = {"/child-", "/exec-"};
  std::string role;
  for (size_t at = 0; at < node_name.size();) {
    std::string_view mark = node_name[at] == '#' ? "#" : "";
    for (std::string_view made : kMade)
      if (node_name.compare(at, made.size(), made) == 0) mark = made;
    size_t end = at + mark.size();
    while (!mark.empty() && end < node_name.size() && node_name[end] >= '0' && node_name[end] <= '9') end++;
    if (end > at + mark.size()) {
      if (mark != "#") role += mark.substr(0, mark.size() - 1);
      at = end;
    } else {
      role += node_name[at++];
    }
  }
  return role;
}

}  // namespace friday
