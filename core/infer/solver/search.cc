#include "core/infer/solver/search.h"

#include <algorithm>
#include <utility>

namespace friday::infer {
namespace {

constexpr std::chrono::milliseconds kForAddress{500};     // for a question about where an address may lead
constexpr std::chrono::milliseconds kForNegation{1'000};  // for one decision; there are others
constexpr std::chrono::milliseconds kForDemands{1'500};   // of one path, at first

constexpr size_t kMostQueued = 4096;  // decisions of one path

Deadline sooner(Deadline deadline, std::chrono::milliseconds time) {
  return std::min(deadline, std::chrono::steady_clock::now() + time);
}

}  // namespace

std::vector<Expr> Search::held() const {
  std::vector<Expr> conditions = conditions_;
  conditions.insert(conditions.end(), assumptions_.begin(), assumptions_.end());
  return conditions;
}

std::vector<Expr> Search::path_conditions() const {
  std::vector<Expr> conditions = held();
  for (const Decision& each : symbolic_.decisions()) conditions.push_back(each.holds);
  return conditions;
}

std::vector<std::pair<uint32_t, uint8_t>> Search::changes_of_model() const {
  std::vector<std::pair<uint32_t, uint8_t>> changes;
  if (!other_model_) return changes;
  for (size_t i = 0; i < other_model_->size(); ++i) {
    if (i >= first_model_.size() || (*other_model_)[i] != first_model_[i])
      changes.emplace_back(static_cast<uint32_t>(i), (*other_model_)[i]);
  }
  return changes;
}

Model Search::changed(const std::vector<std::pair<uint32_t, uint8_t>>& changes) const {
  Model model = first_model_;
  for (const auto& [symbol, value] : changes) model.resize(std::max<size_t>(model.size(), symbol + 1));
  for (const auto& [symbol, value] : changes) model[symbol] = value;
  return model;
}

PathEnd Search::run() {
  ++paths_;
  x_.set_model(&model());
  return runner_.run(*start_, limits_.instructions, limits_.deadline);
}

Expr Search::found_at(const DemandedValue& demand, size_t byte) {
  if (demand.of == Of::memory) return symbolic_.byte_at(demand.address + byte);
  return symbolic_.register_at(offset_of_general(demand.number) + static_cast<int>(byte), 1);
}

Search::Judgement Search::judge(const PathEnd& end) {
  Judgement judgement;
  const bool call_demanded = std::any_of(demands_->begin(), demands_->end(), [](const DemandedValue& each) {
    return each.of == Of::general_register && each.number == 0;  // rax, which says which call it is
  });
  judgement.can_hold = !call_demanded || end.end == End::system_call;
  judgement.holds = judgement.can_hold;
  std::vector<Expr> missed;
  for (const DemandedValue& demand : *demands_) {
    Expr same = x_.constant(1, 1);
    for (size_t i = 0; i < demand.bytes.size(); ++i) {
      const Expr found = found_at(demand, i);
      if (found == kNone) {
        judgement.holds = judgement.can_hold = false;
        continue;
      }
      const Expr here = x_.equal(found, x_.constant(demand.bytes[i], 8));
      same = x_.both(same, here);
      if (x_.is_constant(here, 0)) judgement.can_hold = false;
      if (x_.value(here) != 0) {
        ++judgement.matched;
      } else {
        judgement.holds = false;
        missed.push_back(here);
      }
    }
    if (!x_.is_constant(same, 1)) judgement.demanded.push_back(same);
  }
  judgement.freedom = x_.symbols_of(missed).size();
  return judgement;
}

// Runs the path of the model; if it does not end as demanded, asks for a model by which it does, and queues what else
// is to try.
PathEnd Search::attempt(Tried tried) {
  PathEnd end = run();
  tried.decisions = symbolic_.decisions();
  tried.model = changes_of_model();
  tried.number = paths_;
  if (end.failed) {
    if (!first_failure_.failed) first_failure_ = end;
    queue_candidates(std::move(tried));
    return end;
  }
  Judgement judgement = judge(end);
  tried.matched = judgement.matched;
  tried.freedom = judgement.freedom;
  if (!judgement.holds && judgement.can_hold) {
    std::vector<Expr> conditions = path_conditions();
    conditions.insert(conditions.end(), judgement.demanded.begin(), judgement.demanded.end());
    Model other = model();
    const Answer answer = questions_.solve(conditions, &other, sooner(limits_.deadline, kForDemands));
    if (answer == Answer::unknown) {
      unanswered_ = true;
      hard_.push_back({std::move(conditions), tried.model});
    }
    if (answer == Answer::yes) {
      other_model_ = std::move(other);
      end = run();  // which makes the same decisions
      judgement = judge(end);
    }
  }
  if (!end.failed && judgement.holds && (!accepts || accepts(end))) {
    succeeded_ = true;
    demanded_ = std::move(judgement.demanded);
    return end;
  }
  queue_candidates(std::move(tried));
  return end;
}

void Search::queue_candidates(Tried tried) {
  const auto path = std::make_shared<const Tried>(std::move(tried));
  const size_t count = path->decisions.size();
  for (size_t i = path->bound; i < count; ++i) {
    if (i - path->bound >= kMostQueued / 2 && count - i > kMostQueued / 2) {  // the first and the last ones only
      unanswered_ = true;
      continue;
    }
    const auto candidate = std::make_shared<Candidate>(Candidate{path, i, order_++, false});
    fair_.push({negated_at(path->decisions[i]), candidate});
    near_.push({candidate});
  }
}

std::shared_ptr<Search::Candidate> Search::next_candidate() {
  near_next_ = !near_next_;
  while (!fair_.empty()) {
    std::shared_ptr<Candidate> next;
    if (near_next_ && !near_.empty()) {
      next = near_.top().candidate;
      near_.pop();
    } else {
      Fair fair = fair_.top();
      fair_.pop();
      const uint64_t negated = negated_at(fair.candidate->path->decisions[fair.candidate->decision]);
      if (!fair.candidate->taken && negated != fair.negated_before) {
        fair.negated_before = negated;
        fair_.push(std::move(fair));
        continue;
      }
      next = fair.candidate;
    }
    if (std::exchange(next->taken, true)) continue;
    return next;
  }
  return nullptr;
}

Answer Search::model_of(const Candidate& candidate, Model* model) {
  const Tried& path = *candidate.path;
  std::vector<Expr> conditions = held();
  for (size_t i = 0; i < candidate.decision; ++i) conditions.push_back(path.decisions[i].holds);
  if (candidate.decision == path.bound) conditions.insert(conditions.end(), path.excluded.begin(), path.excluded.end());
  conditions.push_back(x_.negated(path.decisions[candidate.decision].holds));
  *model = changed(path.model);
  return questions_.solve(conditions, model, sooner(limits_.deadline, kForNegation));
}

PathEnd Search::given_up() const {
  PathEnd end;
  end.failed = true;
  end.address = first_failure_.address;
  if (paths_ >= limits_.paths) {
    end.why = Why::too_many_paths;
  } else if (unanswered_ || std::chrono::steady_clock::now() >= limits_.deadline) {
    end.why = Why::time;
  } else if (first_failure_.failed) {
    end = first_failure_;
  } else {
    end.why = Why::impossible;
  }
  return end;
}

PathEnd Search::find(const StartState& start, const std::vector<DemandedValue>& demands, const SearchLimits& limits) {
  start_ = &start;
  demands_ = &demands;
  limits_ = limits;
  symbolic_.may_hold = [this](Expr condition) {
    std::vector<Expr> conditions = path_conditions();
    conditions.push_back(condition);
    Model other = model();
    return questions_.solve(conditions, &other, sooner(limits_.deadline, kForAddress)) != Answer::no;
  };
  PathEnd end = attempt({});
  while (!succeeded_ && paths_ < limits.paths && std::chrono::steady_clock::now() < limits.deadline) {
    if (const auto next = next_candidate()) end = try_negation(*next);
    else if (!hard_.empty()) end = try_hard();
    else break;
  }
  return succeeded_ ? end : given_up();
}

PathEnd Search::try_negation(const Candidate& candidate) {
  const Decision decision = candidate.path->decisions[candidate.decision];
  ++negated_at(decision);
  Model model;
  const Answer answer = model_of(candidate, &model);
  if (answer == Answer::unknown) unanswered_ = true;
  if (answer != Answer::yes) return {};
  other_model_ = std::move(model);
  Tried tried;
  tried.bound = candidate.decision + 1;
  if (decision.kind != Decision::Kind::branch) {  // others of the choices may follow
    tried.bound = candidate.decision;
    if (candidate.decision == candidate.path->bound) tried.excluded = candidate.path->excluded;
    tried.excluded.push_back(x_.negated(decision.holds));
  }
  return attempt(std::move(tried));
}

// All else was tried: the first question again that was not answered, with half of the time that is left.
PathEnd Search::try_hard() {
  Hard hard = std::move(hard_.front());
  hard_.erase(hard_.begin());
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(limits_.deadline - std::chrono::steady_clock::now());
  const auto time = hard_.empty() ? left : left / 2;
  Model model = changed(hard.model);
  if (questions_.solve(hard.conditions, &model, sooner(limits_.deadline, time)) != Answer::yes) return {};
  other_model_ = std::move(model);
  Tried tried;
  tried.bound = ~size_t{0};  // its decisions are queued already
  return attempt(std::move(tried));
}

}  // namespace friday::infer
