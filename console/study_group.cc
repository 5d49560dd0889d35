#include "console/study_group.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "console/service_text.h"
#include "core/base/beneath.h"
#include "core/record/group.h"

namespace friday {
namespace {

using nlohmann::json;

constexpr size_t kMostGroup = 16 << 20, kMostOrigin = 32 << 20;  // bytes of the files

json as_json(const StudyOrigin& origin) {
  const auto text = read_beneath(Beneath(origin.group), kMostGroup);
  std::error_code error;
  const auto whole = [&](const std::string& path) {
    return path.empty() ? "" : std::filesystem::absolute(path, error).lexically_normal().string();
  };
  return {{"group", text ? *text : ""},
          {"group_file", whole(origin.group)},
          {"live", whole(origin.live)},
          {"script", origin.script},
          {"script_name", origin.script_name},
          {"directory", std::filesystem::current_path(error).string()},
          {"predicates", origin.predicates},
          {"frame", origin.frame},
          {"scope", origin.scoped ? origin.script_name : ""}};
}

// Whether both are of the same group, script and predicates, and tell messages apart in the same way. Where the file
// lies, and what the script's node is called, does not matter.
bool is_same(const json& one, const json& other) {
  for (const char* key : {"group", "script", "predicates"})
    if (one.value(key, json()) != other.value(key, json())) return false;
  return std::ranges::all_of(std::array{"frame", "live", "scope"},
                             [&](const char* key) { return one.value(key, json("")) == other.value(key, json("")); });
}

Beneath place_of(const std::string& study) { return {study, "study.json"}; }

}  // namespace

Result<GroupSpec> group_of(const StudyOrigin& origin) {
  GroupSpec group;
  if (origin.live.empty()) {
    FRIDAY_TRY(read, read_group(origin.group));
    group = std::move(read);
  }
  group.predicates.insert(group.predicates.end(), origin.predicates.begin(), origin.predicates.end());
  if (origin.schedule) FRIDAY_TRY_VOID(check_judged_by_schedules(group));
  if (origin.script.empty()) return group;
  FRIDAY_TRY_VOID(check_node_name(origin.script_name));
  if (std::ranges::find(group.programs, origin.script_name, &ProgramSpec::name) != group.programs.end())
    return fail(ErrorCode::usage, "{} has a node `{}` already: give the script another name with --name", origin.group,
                origin.script_name);
  ProgramSpec script;
  script.name = origin.script_name;
  script.command = origin.script;
  if (auto& hosts = group.network.hosts; !hosts.empty()) {
    script.host = script.name;
    if (hosts.size() >= group.network.room())
      return fail(ErrorCode::usage,
                  "{}: the group's network has no address left for the script; choose a larger subnet", origin.group);
    if (!std::ranges::count(hosts, script.host)) hosts.push_back(script.host);
  }
  for (const ProgramSpec& program : group.programs)
    if (!program.ready.empty()) script.after.push_back(program.name);
  group.programs.push_back(std::move(script));
  group.stop_when_ends = origin.script_name;
  group.must_succeed.push_back(origin.script_name);
  return group;
}

Result<void> claim_study(const std::string& study, const StudyOrigin& origin, unsigned runs) {
  const Beneath place = place_of(study);
  const json asked = as_json(origin);
  const auto text = read_beneath(place, kMostOrigin);
  const json known = text ? json::parse(*text, nullptr, false) : json();
  if (known.is_object() && is_same(known, asked)) return {};
  if (text && runs > 0)
    return fail(ErrorCode::usage,
                "{} is a study of another group, script, predicate, frame or scope ({}): its runs cannot be compared "
                "with those of this one; name another directory",
                study, place.path());
  if (runs > 0)
    return fail(ErrorCode::usage,
                "{} holds runs of `friday record --until-failure`: `friday compare {}` compares them; name another "
                "directory for a study of its own",
                study, study);
  std::error_code error;
  if (std::filesystem::exists(study + "/recording.json", error)) return {};  // the series will refuse it
  if (mkdir(study.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("cannot create {}", study));
  return write_beneath(place, asked.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

std::string command_for_more(const std::string& study, size_t present, size_t wanted) {
  const auto text = read_beneath(place_of(study), kMostOrigin);
  const json known = text ? json::parse(*text, nullptr, false) : json();
  if (!known.is_object())
    return fmt::format("friday record -o {} --until-failure {} --failures {} --group GROUP.toml", shell_word(study),
                       wanted - present, wanted - present);
  std::string command = fmt::format("friday diagnose -o {} -n {}", shell_word(study), wanted);
  const auto add = [&](const json& value, const char* option) {
    if (value.is_string() && !value.get<std::string>().empty())
      command += option + (" " + shell_word(value.get<std::string>()));
  };
  const auto add_all = [&](const char* key, const char* option) {
    if (const json list = known.value(key, json::array()); list.is_array())
      for (const json& each : list) add(each, option);
  };
  add(known.value("live", json()), " --live");
  if (known.value("live", json("")) == json("")) add(known.value("group_file", json()), " --group");
  add_all("predicates", " --predicate");
  add(known.value("frame", json()), " --frame");
  if (known.value("scope", json("")) != json("")) command += " --scoped";
  if (known.value("script_name", json()) != json("script")) add(known.value("script_name", json()), " --name");
  if (known.value("script", json::array()) == json::array()) return command;
  command += " --";
  add_all("script", "");
  return command;
}

Result<StudyOrigin> origin_of(const std::string& study) {
  const Beneath place = place_of(study);
  const auto text = read_beneath(place, kMostOrigin);
  if (!text)
    return fail(
        ErrorCode::not_found,
        "{} does not say of which group and script it is ({}): only a study that `friday diagnose` has made can "
        "be forced",
        study, text.error().message);
  const json known = json::parse(*text, nullptr, false);
  const auto words = [&](const char* key) {
    const json list = known.value(key, json::array());
    return list.is_array() && std::ranges::all_of(list, [](const json& each) { return each.is_string(); })
               ? std::optional(list.get<std::vector<std::string>>())
               : std::nullopt;
  };
  const bool is_object = known.is_object();
  const auto is_text = [&](const char* key) { return is_object && known.contains(key) && known[key].is_string(); };
  const auto script = is_object ? words("script") : std::nullopt,
             predicates = is_object ? words("predicates") : std::nullopt;
  if (is_text("live") && !known["live"].get<std::string>().empty())
    return fail(
        ErrorCode::usage,
        "{} was made against a group that went on ({}), so there is no group to start anew: force its orders with "
        "`friday force --order ORDER.json --group GROUP.toml -o DIR`",
        study, known["live"].get<std::string>());
  if (!is_text("group") || !script || !predicates) return fail(ErrorCode::bad_input, "{} is damaged", place.path());
  if (!is_text("group_file") || !is_text("script_name") || !is_text("directory"))
    return fail(ErrorCode::bad_input,
                "{} does not say where the group file is: an earlier version of Friday has made it. Run `friday "
                "diagnose` again, into another directory",
                place.path());
  StudyOrigin origin{.group = known["group_file"],
                     .script_name = known["script_name"],
                     .script = *script,
                     .predicates = *predicates,
                     .directory = known["directory"]};
  const auto now = read_beneath(Beneath(origin.group), kMostGroup);
  if (!now) return std::unexpected(now.error());
  if (*now != known["group"].get<std::string>())
    return fail(ErrorCode::bad_input, "{} is another one than when {} was made: make a new study of it", origin.group,
                study);
  return origin;
}

}  // namespace friday
