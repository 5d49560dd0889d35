// The file of a plan. Each list of flags is written as one list of numbers for each flag.
#include <algorithm>
#include <span>

#include <nlohmann/json.hpp>

#include "core/base/beneath.h"
#include "core/base/files.h"
#include "core/cut/plan.h"

namespace friday::cut {
namespace {

using nlohmann::json;

constexpr uint64_t kMostPlanFile = uint64_t{1} << 30;   // bytes
constexpr uint64_t kMostPlanItems = uint64_t{1} << 28;  // of all lists together
constexpr int kPlanVersion = 1;

struct FlagName {
  uint16_t bit;
  const char* name;
};
constexpr FlagName kFunctionFlags[] = {{Plan::kInside, "inside"}, {Plan::kTarget, "target"}};
constexpr FlagName kObjectFlags[] = {{Plan::kObjectInside, "inside"}, {Plan::kObjectOutside, "outside"}};
constexpr FlagName kAccessFlags[] = {
    {Plan::kLogsRead, "logs_read"}, {Plan::kEntersMemory, "enters_memory"}, {Plan::kLeavesMemory, "leaves_memory"}};
constexpr FlagName kCallFlags[] = {{Plan::kCallsInside, "calls_inside"},
                                   {Plan::kCallsOutside, "calls_outside"},
                                   {Plan::kCallLogsRead, "logs_read"},
                                   {Plan::kCallEntersMemory, "enters_memory"},
                                   {Plan::kCallLeavesMemory, "leaves_memory"},
                                   {Plan::kAllocatesInside, "allocates_inside"},
                                   {Plan::kAllocatesOutside, "allocates_outside"}};

template <typename Flags>
json flags_json(const std::vector<Flags>& flags, std::span<const FlagName> names) {
  json list = {{"count", flags.size()}};
  for (const auto& [bit, name] : names) {
    json numbers = json::array();
    for (size_t i = 0; i < flags.size(); i++)
      if ((flags[i] & bit) != 0) numbers.push_back(i);
    if (!numbers.empty()) list[name] = std::move(numbers);
  }
  return list;
}

// Reads parts of a document, and remembers the first thing that is wrong.
class PlanReader {
 public:
  std::string text(const json& object, const char* key) {
    const auto found = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || found == object.end() || !found->is_string()) {
      note(fmt::format("\"{}\" must be a text", key));
      return {};
    }
    return found->get<std::string>();
  }

  template <typename Flags>
  void flags(const json& module, const char* key, std::span<const FlagName> names, std::vector<Flags>& flags) {
    const auto list = module.is_object() ? module.find(key) : module.end();
    if (!module.is_object() || list == module.end() || !list->is_object())
      return note(fmt::format("\"{}\" is missing", key));
    const auto count = list->find("count");
    if (count == list->end() || !count->is_number_unsigned() || count->get<uint64_t>() > kMostPlanItems - items_)
      return note(fmt::format("\"{}\" has no count, or all counts together are above {}", key, kMostPlanItems));
    items_ += count->get<uint64_t>();
    flags.resize(count->get<uint64_t>());
    for (const auto& [name, numbers] : list->items()) {
      if (name == "count") continue;
      const auto* known = std::ranges::find_if(names, [&](const FlagName& each) { return name == each.name; }).base();
      if (known == names.data() + names.size() || !numbers.is_array())
        return note(fmt::format("\"{}\" of \"{}\" is unknown, or no list", name, key));
      set(flags, numbers, known->bit, key);
    }
  }
  void note(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  template <typename Flags>
  void set(std::vector<Flags>& flags, const json& numbers, uint16_t bit, const char* key) {
    for (const json& number : numbers) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() >= flags.size())
        return note(fmt::format("\"{}\" names {} of {}", key, number.dump(), flags.size()));
      flags[number.get<uint64_t>()] |= static_cast<Flags>(bit);
    }
  }

  uint64_t items_ = 0;  // of all lists
  std::string wrong_;
};

}  // namespace

std::string plan_text(const Plan& plan) {
  json modules = json::array();
  for (const Plan::Module& each : plan.modules)
    modules.push_back({{"name", each.name},
                       {"fingerprint", each.fingerprint},
                       {"functions", flags_json(each.functions, kFunctionFlags)},
                       {"objects", flags_json(each.objects, kObjectFlags)},
                       {"accesses", flags_json(each.accesses, kAccessFlags)},
                       {"calls", flags_json(each.calls, kCallFlags)}});
  const json document = {{"friday_cut_plan", kPlanVersion},
                         {"program", plan.program},
                         {"fingerprint", plan.fingerprint},
                         {"target", plan.target},
                         {"modules", std::move(modules)}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<void> write_plan(const Plan& plan, const std::string& path) {
  return write_file_atomically(path, plan_text(plan));
}

Result<Plan> parse_plan(std::string_view text, const std::string& path) {
  const json document = json::parse(text, nullptr, false);
  const auto version = document.is_object() ? document.find("friday_cut_plan") : document.end();
  if (!document.is_object() || version == document.end())
    return fail(ErrorCode::bad_input,
                "{} is no plan of a cut: it is not JSON with \"friday_cut_plan\". `friday cut choose "
                "--plan FILE` writes one",
                path);
  if (!version->is_number_integer() || version->get<int64_t>() != kPlanVersion)
    return fail(ErrorCode::bad_input,
                "{} is a plan of version {}, and this Friday reads version {}: choose the cut again", path,
                version->dump(), kPlanVersion);
  PlanReader reader;
  Plan plan{
      reader.text(document, "program"), reader.text(document, "fingerprint"), reader.text(document, "target"), {}};
  const auto modules = document.find("modules");
  if (modules == document.end() || !modules->is_array()) reader.note("\"modules\" must be a list");
  else
    for (const json& each : *modules) {
      Plan::Module module{reader.text(each, "name"), reader.text(each, "fingerprint"), {}, {}, {}, {}};
      reader.flags(each, "functions", kFunctionFlags, module.functions);
      reader.flags(each, "objects", kObjectFlags, module.objects);
      reader.flags(each, "accesses", kAccessFlags, module.accesses);
      reader.flags(each, "calls", kCallFlags, module.calls);
      plan.modules.push_back(std::move(module));
      if (!reader.wrong().empty()) break;
    }
  if (!reader.wrong().empty())
    return fail(ErrorCode::bad_input, "{} is damaged: {}. Choose the cut again (friday cut choose --plan)", path,
                reader.wrong());
  return plan;
}

Result<Plan> read_plan(const std::string& path) {
  FRIDAY_TRY(text, read_beneath(Beneath(path), kMostPlanFile));
  return parse_plan(text, path);
}

}  // namespace friday::cut
