// What `friday force` makes of a study, one of its runs, or an order that was written down: the order of messages, and
// the group that it is forced onto.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/study_group.h"
#include "core/study/classes.h"
#include "core/study/exact_order.h"
#include "core/study/forcing.h"
#include "core/study/study.h"

namespace friday {

struct ForceOptions {
  std::string study, order, output, until = "handled", when_stuck;
  std::string group;                       // of --order
  std::string live;                        // a recording of programs on standby, onto which it is forced
  std::string listen, join;                // of --live: HOST:PORT for others, HOST:PORT/KEY of another one
  unsigned run = 0, only = 0, times = 10;  // only: number of the finding; 0: not named
  double patience = 0;                     // seconds; 0: kUsualPatience
  std::vector<std::string> ignored, classes;
  bool whole = false, minimise = false, record = false, as_json = false, quiet = false;
};
inline constexpr double kUsualPatience = 10;  // seconds

struct ForcePlan {
  StudyOrigin origin{};
  UserClasses classes;
  Framing framing{};  // of the study, or of an order in a file
  std::variant<ForcedOrder, ExactOrder> order{};
  // Of a study: whether the order of the finding shall come true, and how many runs it has.
  bool holds = true;
  size_t finding = 0;  // its number, from 1
  size_t runs = 0, failures = 0;
  std::string why{};    // of a run that failed: the reason
  std::string until{};  // of an order in a file: when the next message may follow; empty: it does not say

  KeptValues kept{};                // of an ExactOrder: what the texts of its messages are made with
  std::vector<uint32_t> common{};   // of `whole`: messages that all failing runs of the study have
  double longest_silence = 0;       // seconds: between two messages of any run of the study
  std::optional<RunOrder> whole{};  // what `order` is of, with --whole and --minimise

  const ExactOrder* exact() const { return std::get_if<ExactOrder>(&order); }
};

// What the command line asks for; with --minimise or --whole the order of all messages of the run.
Result<ForcePlan> plan_of(const ForceOptions& options);

// An order in the form that --order takes. `place`: what it is called if it is none.
Result<ForcePlan> read_order(const std::string& text, const std::string& place, std::vector<std::string> ignored = {},
                             std::vector<std::string> classes = {});

// The messages that are held back until they may be handled, or that come between none of these.
std::vector<MessageClass> messages_of(const ForcePlan& plan);

// Pieces of text one of which each message of the order has (ShaperOptions::words).
std::vector<std::string> words_of(const ForcePlan& plan);

// The order in the form that --order takes.
nlohmann::json as_json(const ForcePlan& plan);

// The messages of an exact order, if they are not too many.
void print_order(const ForcePlan& plan);
void print_plan(const ForceOptions& options, const ForcePlan& plan);

}  // namespace friday
