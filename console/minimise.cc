#include "console/minimise.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "console/say.h"
#include "core/base/counted.h"
#include "core/record/interrupts.h"
#include "core/study/minimise.h"

namespace friday {
namespace {

// How many runs in succession must fail, so that it is by chance in one of a hundred trials at most, if so many runs
// fail anyway.
unsigned repeats_for(size_t failures, size_t runs) {
  constexpr double kByChance = 0.01;
  constexpr unsigned kLeast = 2, kMost = 20;
  // Under a part of an order that makes them fail more runs fail than without any.
  constexpr double kUnderPart = 0.5;
  const double share = std::max(static_cast<double>(failures) / static_cast<double>(runs), kUnderPart);
  if (share >= 1) return kMost;
  return std::clamp(static_cast<unsigned>(std::ceil(std::log(kByChance) / std::log(share))), kLeast, kMost);
}

class Search {
 public:
  Search(const GroupSpec& group, const ForcePlan& plan, const ForceOptions& options, const RunOrder& order,
         std::string directory, const Interrupts& interrupts)
      : group_(group),
        plan_(plan),
        options_(options),
        order_(order),
        directory_(std::move(directory)),
        interrupts_(interrupts) {
    out_.messages = order.size();
  }

  Result<Minimised> run() {
    // What makes runs fail is, as a rule, among the messages that all failing runs have.
    std::vector<std::vector<uint32_t>> wholes = {plan_.common, all_of_run()};
    if (wholes[0].size() < 2 || wholes[0] == wholes[1]) wholes.erase(wholes.begin());
    for (size_t i = 0; i < wholes.size(); i++) {
      FRIDAY_TRY(kept, search_in(std::move(wholes[i])));
      if (out_.interrupted && chain_.size() < 2)
        return fail(ErrorCode::interrupted, "interrupted before any part of the order was found to be enough");
      if (kept) return found(*kept);
      if (i + 1 < wholes.size() && !options_.quiet && !options_.as_json)
        say(stderr, "friday force: the messages that all failing runs have are not enough; now among all of run {}\n",
            options_.run);
    }
    return fail(ErrorCode::unsupported,
                "with the order of {} of run {} forced, {} failed as it did ({}){}: it is not this order alone that "
                "makes it fail. `friday force {} {}` forces what the comparison has found",
                counted(last_.messages, "message"), options_.run,
                last_.failed ? fmt::format("only {} of {}", last_.failed, counted(last_.runs, "run"))
                             : fmt::format("none of {}", counted(last_.runs, "run")),
                plan_.why, last_.why.empty() ? "" : "; " + last_.why, options_.study, options_.run);
  }

 private:
  static constexpr unsigned kMostLeftOut = 3;   // in a run of the search
  static constexpr unsigned kSurely = 20;       // runs
  static constexpr unsigned kMostRepeats = 80;  // for a trial

  static constexpr double kLeastPatience = 1;  // seconds

  // Unless the user has said how long: many messages of an order may not come again, and each costs this time. Whoever
  // was silent in none of the runs for a tenth of it will not send it any more. If it would have come after all, the
  // trial fails to make the group fail, and the search keeps more messages than it must.
  double patience() const {
    if (options_.patience > 0) return options_.patience;
    return std::clamp(10 * plan_.longest_silence, kLeastPatience, kUsualPatience);
  }

  struct Tally {
    size_t messages = 0, failed = 0, runs = 0;  // failed: as the run whose order it is
    std::string why;                            // the order did not come true in one of them
  };

  Result<ForcedOutcome> try_out(const std::vector<uint32_t>& some, unsigned times, unsigned most_left_out) {
    plan_.order = order_.of_these(some);
    auto outcome = run_forced(group_, plan_, options_.until,
                              {.directory = directory_,
                               .times = times,
                               .others = 1,
                               .record = !group_.predicates.empty(),  // they judge replays
                               .quiet = true,
                               .most_left_out = most_left_out,
                               .patience = patience(),
                               .interrupts = &interrupts_});
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
    if (outcome) {
      out_.runs += outcome->runs;
      last_ = {some.size(), outcome->failed_alike, outcome->runs,
               outcome->not_forced.empty() ? "" : outcome->not_forced.front().second};
    }
    if (outcome && outcome->end == SeriesEnd::How::interrupted) out_.interrupted = true;
    if (outcome && outcome->end == SeriesEnd::How::failed)
      return fail(ErrorCode::io, "a run could not be made, so that the search has ended");
    return outcome;
  }

  void tell(size_t messages, const ForcedOutcome& outcome) {
    if (options_.quiet || options_.as_json || out_.interrupted) return;
    const bool all = outcome.failed_alike == outcome.runs;
    const std::string otherwise =
        outcome.failed_otherwise.empty() ? "did not fail" : "failed otherwise: " + outcome.failed_otherwise;
    say(stderr, "friday force: trial {}: {}: {}{}\n", ++trials_, counted(messages, "message"),
        all ? fmt::format("{} failed", counted(outcome.runs, "run"))
            : fmt::format("run {} {}", outcome.runs, otherwise),
        outcome.not_forced.empty() ? "" : fmt::format(" (not forced: {})", outcome.not_forced.back().second));
  }

  std::vector<uint32_t> all_of_run() const {
    std::vector<uint32_t> all(order_.size());
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  Minimised found(const std::vector<uint32_t>& kept) {
    out_.order = order_.of_these(kept);
    return std::move(out_);
  }

  // The fewest of these messages whose order makes the group fail; those known so far if it was interrupted. None if
  // the order of all of them does not, or not each time.
  Result<std::optional<std::vector<uint32_t>>> search_in(std::vector<uint32_t> all) {
    chain_.clear();
    out_.repeats = repeats_for(plan_.failures, plan_.runs);
    FRIDAY_TRY(whole, whole_of(std::move(all)));
    if (!whole) return std::nullopt;
    chain_ = {*whole};
    while (!out_.interrupted) {
      std::vector<uint32_t> kept = chain_.back();
      kept = minimise(std::move(kept), [this](const std::vector<uint32_t>& some) { return test(some); });
      if (error_) return std::unexpected(*error_);
      if (out_.interrupted) break;
      FRIDAY_TRY(holds, is_certain(kept));
      if (holds && kept.empty())
        return fail(ErrorCode::unsupported, "the group fails in {} of {} runs whatever the order of its messages is",
                    last_.failed, last_.runs);
      if (holds) return kept;
      if (out_.interrupted) break;
      FRIDAY_TRY(is_sure, go_back());
      if (!is_sure && !out_.interrupted) return std::nullopt;
    }
    return chain_.back();
  }

  // The messages that come again, whose order makes the group fail. None if it does not.
  Result<std::optional<std::vector<uint32_t>>> whole_of(std::vector<uint32_t> kept) {
    constexpr int kMostRounds = 10;
    for (int round = 0; round < kMostRounds; round++) {
      FRIDAY_TRY(outcome, try_out(kept, out_.repeats, static_cast<unsigned>(order_.size())));
      tell(kept.size(), outcome);
      if (out_.interrupted) return kept;
      if (outcome.failed_alike < outcome.runs) return std::nullopt;
      if (outcome.left_out.empty()) return kept;
      std::vector<uint32_t> rest;
      for (uint32_t i = 0; i < kept.size(); i++)
        if (!outcome.left_out.contains(i)) rest.push_back(kept[i]);
      out_.left_out += kept.size() - rest.size();
      kept = std::move(rest);
    }
    return fail(ErrorCode::unsupported, "in each of {} other messages of run {} did not come again", kMostRounds,
                options_.run);
  }

  // Whether the messages make so many runs fail that the search cannot have come by them by chance.
  Result<bool> is_certain(const std::vector<uint32_t>& some) {
    return fails_always(some, std::max(kSurely, 2 * out_.repeats));
  }

  // Whether so many runs fail under the order of these messages, counting those that were made before. Where one has
  // not, that stays so, whatever the search begins with once more.
  Result<bool> fails_always(const std::vector<uint32_t>& some, unsigned times) {
    Known& known = known_[some];
    // A run that does not fail says nothing if the order did not come true in it: then it is tried once more.
    for (int tries = 0; !known.lacks && known.failed < times; tries++) {
      FRIDAY_TRY(outcome, try_out(some, times - known.failed, kMostLeftOut));
      tell(some.size(), outcome);
      known.failed += static_cast<unsigned>(outcome.failed_alike);
      if (out_.interrupted) return false;
      known.lacks = outcome.failed_alike < outcome.runs && (outcome.not_forced.empty() || tries > 0);
    }
    return !known.lacks;
  }

  // Under a part of the order more runs fail than without any, so that one may have been taken for enough. Goes back to
  // the fewest messages that surely are, from where the search goes on with twice as many runs for each trial. False:
  // not even all of them are.
  Result<bool> go_back() {
    size_t sure = 0, too_few = chain_.size() - 1;
    if (too_few == 0) return false;
    while (too_few - sure > 1) {
      const size_t middle = sure + (too_few - sure) / 2;
      FRIDAY_TRY(holds, is_certain(chain_[middle]));
      if (out_.interrupted) return true;
      (holds ? sure : too_few) = middle;
    }
    if (sure == 0) {
      FRIDAY_TRY(holds, is_certain(chain_[0]));
      if (out_.interrupted || !holds) return out_.interrupted;
    }
    chain_.resize(sure + 1);
    out_.repeats *= 2;
    if (out_.repeats > kMostRepeats)
      return fail(
          ErrorCode::unsupported,
          "with parts of the order nearly all runs fail, and not all: no part of it can be told from the whole");
    return true;
  }

  Tried test(const std::vector<uint32_t>& some) {
    out_.tried++;
    const auto holds = fails_always(some, out_.repeats);
    if (!holds) error_ = holds.error();
    if (!holds || out_.interrupted) return Tried::stop;
    if (*holds) chain_.push_back(some);
    return *holds ? Tried::has : Tried::lacks;
  }

  const GroupSpec& group_;
  ForcePlan plan_;
  const ForceOptions& options_;
  const RunOrder& order_;
  const std::string directory_;
  const Interrupts& interrupts_;
  Minimised out_;
  Tally last_;           // of the last trial
  unsigned trials_ = 0;  // that were told
  struct Known {
    unsigned failed = 0;  // runs
    bool lacks = false;   // a run has not failed
  };
  std::map<std::vector<uint32_t>, Known> known_;  // what is known of parts of the order
  std::vector<std::vector<uint32_t>> chain_;  // parts of the order that made runs fail, each a part of the one before
  std::optional<Error> error_;
};

}  // namespace

Result<Minimised> minimise_order(const GroupSpec& group, ForcePlan& plan, const ForceOptions& options,
                                 const std::string& directory) {
  if (std::error_code error; std::filesystem::exists(directory, error))
    return fail(ErrorCode::usage, "{} is there already: a search that was killed may have left it; remove it",
                directory);
  if (plan.failures == plan.runs)
    return fail(ErrorCode::unsupported,
                "all {} of the study have failed, so that no order is needed for that: nothing to minimise",
                counted(plan.runs, "run"));
  const RunOrder whole = *std::exchange(plan.whole, std::nullopt);  // large, and copied for no run
  FRIDAY_TRY(interrupts, Interrupts::watch());
  return Search(group, plan, options, whole, directory, interrupts).run();
}

}  // namespace friday
