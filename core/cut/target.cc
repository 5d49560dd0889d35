// Which functions the name of a target means.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/counted.h"
#include "core/base/nearest.h"
#include "core/cut/choose.h"

namespace friday::cut {
namespace {

bool is_path_end(std::string_view path, std::string_view end) {
  return path == end || (path.ends_with(end) && path[path.size() - end.size() - 1] == '/');
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

class TargetSearch {
 public:
  explicit TargetSearch(const Facts& facts) : facts_(facts) {
    for (Id i = 0; i < facts.functions.size(); i++) {
      by_name_.emplace(facts.functions[i].name, i);
      if (has_code(i) && !facts.functions[i].place.file.empty()) files_.insert(facts.functions[i].place.file);
    }
  }

  Result<void> add(std::string_view name) {
    if (name.empty())
      return fail(ErrorCode::usage, "the target has an empty name: write FILE.c, or FUNCTION,FUNCTION without spaces");
    const size_t before = found_.size();
    const auto [first, last] = by_name_.equal_range(name);
    if (first != last) return add_functions(name, first, last);
    if (const size_t colon = name.rfind(':'); colon != std::string_view::npos)
      return add_function_of_file(name, name.substr(0, colon), name.substr(colon + 1));
    for (Id i = 0; i < facts_.functions.size(); i++)
      if (has_code(i) && is_path_end(facts_.functions[i].place.file, name)) found_.insert(i);
    return found_.size() == before && !names_file(name) ? nothing(name) : Result<void>();
  }
  std::vector<Id> found() const { return {found_.begin(), found_.end()}; }

 private:
  using Names = std::multimap<std::string_view, Id>;

  bool has_code(Id function) const { return facts_.functions[function].linkage != Linkage::declared; }
  bool names_file(std::string_view name) const {
    return std::ranges::any_of(files_, [&](std::string_view file) { return is_path_end(file, name); });
  }

  Result<void> add_functions(std::string_view name, Names::const_iterator first, Names::const_iterator last) {
    std::vector<Id> with_code;
    for (auto each = first; each != last; ++each)
      if (has_code(each->second)) with_code.push_back(each->second);
    if (with_code.empty())
      return fail(ErrorCode::not_found,
                  "{} is called by {}, but its code is not in the bitcode, so it cannot be replayed by "
                  "itself: compile its source with `friday cc`, or choose a function that calls it",
                  name, facts_.module);
    if (with_code.size() > 1) {
      std::string places;
      for (const Id each : with_code)
        places +=
            fmt::format("{}{}:{}", places.empty() ? "" : ", ", base_name(facts_.functions[each].place.file), name);
      return fail(ErrorCode::usage, "{} functions of {} are called {}: write which one, as {}", with_code.size(),
                  facts_.module, name, places);
    }
    found_.insert(with_code[0]);
    return {};
  }

  Result<void> add_function_of_file(std::string_view name, std::string_view file, std::string_view function) {
    const auto [first, last] = by_name_.equal_range(function);
    bool any = false;
    for (auto each = first; each != last; ++each)
      if (has_code(each->second) && is_path_end(facts_.functions[each->second].place.file, file))
        any = true, found_.insert(each->second);
    if (any) return {};
    if (first != last)
      return fail(ErrorCode::not_found, "{} is asked for, and {} has a function {} in other files only: {}", name,
                  facts_.module, function, facts_.functions[first->second].place.file);
    return nothing(function);
  }

  Result<void> nothing(std::string_view name) const {
    std::vector<std::string_view> known;
    for (const auto& [each, function] : by_name_)
      if (has_code(function)) known.push_back(each);
    for (const std::string& file : files_) known.push_back(base_name(file));
    const bool as_file = name.find('.') != std::string_view::npos || name.find('/') != std::string_view::npos;
    const std::string why = as_file ? std::string(
                                          "no function of the bitcode comes from there. Was that file compiled with "
                                          "`friday cc` and -g?")
                                    : std::string(
                                          "it is misspelt, or the compiler has put its code into its callers (then "
                                          "choose these, or mark it __attribute__((noinline)))");
    return fail(ErrorCode::not_found, "{} is neither a function nor a source file of {}, which has {} with code: {}{}",
                name, facts_.module, counted(known.size() - files_.size(), "function"), why,
                nearest_text(base_name(name), known));
  }

  const Facts& facts_;
  Names by_name_;
  std::set<std::string> files_;
  std::set<Id> found_;
};

}  // namespace

Result<std::vector<Id>> find_target(const Facts& facts, std::string_view target) {
  TargetSearch search(facts);
  while (true) {
    const size_t comma = target.find(',');
    FRIDAY_TRY_VOID(search.add(target.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    target.remove_prefix(comma + 1);
  }
  return search.found();
}

}  // namespace friday::cut
