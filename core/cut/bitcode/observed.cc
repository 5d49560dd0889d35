#include "core/cut/bitcode/observed.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "core/base/beneath.h"
#include "core/base/files.h"
#include "core/cut/annotations.h"
#include "core/cut/bitcode/observation.h"
#include "core/cut/points_to.h"

namespace friday::cut {
namespace {

// What was observed, by the numbers of the program's facts.
struct ObservedPair {
  Id access = kNone;
  bool is_call = false;
  Id memory = kNone;  // an object or a call
  auto operator<=>(const ObservedPair&) const = default;
};

class ObservedFiles {
 public:
  explicit ObservedFiles(const LinkedProgram& program) : program_(program) {
    for (size_t i = 0; i < program.facts.modules.size(); i++)
      modules_.try_emplace(program.facts.modules[i].fingerprint, i);
  }

  Result<void> read(const std::string& path) {
    FRIDAY_TRY(file, read_file(path));
    if (file.size() != kObservationBytes || !file.starts_with(kObservationMagic))
      return fail(ErrorCode::bad_input,
                  "{} is no file of observations: it has {} bytes and not {}, or does not begin with "
                  "{}. Run the checked build again",
                  path, file.size(), kObservationBytes, kObservationMagic);
    for (uint64_t i = 0; i < kObservationPairs; i++) {
      uint64_t pair;
      std::memcpy(&pair, file.data() + kObservationHead + i * sizeof pair, sizeof pair);
      if (pair != 0) FRIDAY_TRY_VOID(add(path, file, pair));
    }
    return {};
  }

  const std::set<ObservedPair>& pairs() const { return pairs_; }
  uint64_t replaced() const { return replaced_; }

 private:
  Result<const ModuleIds*> module(const std::string& path, const std::string& file, uint64_t number) const {
    const std::string fingerprint = file.substr(number * 32, 32);
    const auto found = modules_.find(fingerprint);
    if (number == 0 || found == modules_.end())
      return fail(ErrorCode::bad_input,
                  "{} has observations of a module with the fingerprint {}, which the program does not "
                  "have: name all files that were checked, and of this build",
                  path, fingerprint);
    return &program_.ids[found->second];
  }

  Result<void> add(const std::string& path, const std::string& file, uint64_t pair) {
    FRIDAY_TRY(accessing, module(path, file, pair >> 52));
    FRIDAY_TRY(owner, module(path, file, pair >> 20 & (kMostModules - 1)));
    const bool is_call = pair & kMostObserved;
    const uint64_t access = pair >> 32 & (kMostAccesses - 1), memory = pair & (kMostObserved - 1);
    const std::vector<Id>& memories = is_call ? owner->calls : owner->objects;
    if (access >= accessing->accesses.size() || memory >= memories.size())
      return fail(ErrorCode::bad_input,
                  "{} names access {} of {} and memory {} of {}: it is damaged, or of another Friday", path, access,
                  accessing->accesses.size(), memory, memories.size());
    const ObservedPair found{accessing->accesses[access], is_call, memories[memory]};
    if (found.access == kNone || found.memory == kNone) replaced_++;
    else pairs_.insert(found);
    return {};
  }

  const LinkedProgram& program_;
  std::map<std::string, size_t> modules_;  // by fingerprint
  std::set<ObservedPair> pairs_;
  uint64_t replaced_ = 0;
};

class Prediction {
 public:
  Prediction(const Facts& facts, const PointsTo& points_to) : facts_(facts), points_to_(points_to) {
    const std::vector<PointsTo::Item>& items = points_to.items();
    for (uint32_t i = 0; i < items.size(); i++) {
      if (items[i].object != kNone) items_.emplace(std::pair(false, items[i].object), i);
      if (items[i].call != kNone) items_.emplace(std::pair(true, items[i].call), i);
    }
    const auto& contexts = points_to.contexts().contexts();
    for (Id i = 0; i < contexts.size(); i++) contexts_.emplace(contexts[i].function, i);
  }

  bool contains(const ObservedPair& pair) const {
    const Access& access = facts_.accesses[pair.access];
    if (is_in(points_to_.points(kNone, access.pointer), pair)) return true;
    const auto [first, last] = contexts_.equal_range(access.function);
    for (auto each = first; each != last; ++each)
      if (is_in(points_to_.points(each->second, access.pointer), pair)) return true;
    return false;
  }

  std::string text(const ObservedPair& pair) const {
    const Access& access = facts_.accesses[pair.access];
    const Function& function = facts_.functions[access.function];
    std::string text = fmt::format("{} line {} of {} {} ", function.name, access.line, function.place.file,
                                   access.writes ? "writes" : "reads");
    if (pair.is_call) {
      const Call& call = facts_.calls[pair.memory];
      const std::string callee = call.callee == kNone ? "a pointer" : facts_.functions[call.callee].name;
      return text +
             fmt::format("what {} got from {} at line {}", facts_.functions[call.function].name, callee, call.line);
    }
    const Object& object = facts_.objects[pair.memory];
    const std::string owner = object.function == kNone ? "" : facts_.functions[object.function].name + ".";
    return text + fmt::format("{}{}", owner, object.name.empty() ? fmt::format("#{}", pair.memory) : object.name);
  }

 private:
  bool is_in(const SparseSet& set, const ObservedPair& pair) const {
    const auto [first, last] = items_.equal_range(std::pair(pair.is_call, pair.memory));
    for (auto each = first; each != last; ++each)
      if (set.contains(each->second)) return true;
    return false;
  }

  const Facts& facts_;
  const PointsTo& points_to_;
  std::multimap<std::pair<bool, Id>, uint32_t> items_;
  std::multimap<Id, Id> contexts_;  // by function
};

}  // namespace

Result<ObservedReport> compare_with_prediction(const LinkedProgram& program, const std::string& directory) {
  FRIDAY_TRY(names, names_beneath(Beneath(directory, "")));
  ObservedReport report;
  ObservedFiles files(program);
  for (const std::string& name : names) {
    if (!name.ends_with(".observed")) continue;
    report.files++;
    FRIDAY_TRY_VOID(files.read((std::filesystem::path(directory) / name).string()));
  }
  if (report.files == 0)
    return fail(ErrorCode::not_found,
                "{} has no observations: run what `friday-bitcode observing` built, with "
                "FRIDAY_OBSERVED={}",
                directory, directory);
  FRIDAY_TRY(annotations, Annotations::standard());
  const PointsTo points_to(program.facts, annotations);
  const Prediction prediction(program.facts, points_to);
  report.pairs = files.pairs().size();
  report.replaced = files.replaced();
  for (const ObservedPair& each : files.pairs()) {
    if (prediction.contains(each)) {
      report.predicted++;
    } else if (report.unpredicted_count++ < ObservedReport::kMostNamed) {
      report.unpredicted.push_back(prediction.text(each));
    }
  }
  return report;
}

}  // namespace friday::cut
