#include "core/trace/event_filter.h"

#include <sched.h>
#include <sys/syscall.h>
#include <csignal>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/nearest.h"
#include "core/trace/calls.h"

namespace friday {
namespace {

std::optional<unsigned> number_in(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view blanks = " \t,";
  for (size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;
       at = text.find_first_not_of(blanks, at)) {
    const size_t end = std::min(text.find_first_of(blanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

Result<unsigned> call_of(std::string_view word) {
  if (auto number = number_in(word)) {
    if (!call_name(*number).empty()) return *number;
    return fail(ErrorCode::usage, "there is no system call with the number {}", word);
  }
  for (const CallRule& rule : call_rules())
    if (rule.name == word) return rule.number;
  std::vector<std::string_view> names;
  for (const CallRule& rule : call_rules()) names.push_back(rule.name);
  const std::string hint = nearest_text(word, names);
  return fail(ErrorCode::usage, "there is no system call `{}`{}", word,
              hint.empty() ? "; `friday record --list-calls` lists them" : hint);
}

Result<unsigned> signal_of(std::string_view word) {
  if (const int number = signal_number(word)) return static_cast<unsigned>(number);
  std::vector<std::string> names;
  for (int number = 1; number < NSIG; number++) names.push_back(signal_text(number));
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fail(ErrorCode::usage, "there is no signal `{}`{}", word, nearest_text(word, known));
}

bool makes_process(const EventView& event) {
  switch (event->call) {
    case SYS_fork:
    case SYS_vfork: return true;
    case SYS_clone: return !(event.argument(0) & CLONE_THREAD);
    default: return false;
  }
}

// Whether the call that begins at `offset` returns to the program: an execve does only if it has failed.
bool returns(const TraceReader& trace, uint64_t offset, uint32_t thread) {
  for (auto record = trace.record_at(offset); record;) {
    offset += record->header().size;
    if (offset >= trace.end_offset()) return false;
    record = trace.record_at(offset);
    if (record && record->is_event() && record->event().thread() == thread)
      return record->event().type() == format::kReturn;
  }
  return false;
}

}  // namespace

int signal_number(std::string_view text) {
  if (auto number = number_in(text)) return *number < static_cast<unsigned>(NSIG) ? static_cast<int>(*number) : 0;
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  if (!upper.starts_with("SIG")) upper = "SIG" + upper;
  for (int number = 1; number < NSIG; number++)
    if (signal_text(number) == upper) return number;
  return 0;
}

Result<EventFilter> EventFilter::parse(std::string_view text) {
  const auto words = words_of(text);
  EventFilter filter;
  const std::string_view kind = words.empty() ? "" : words.front();
  if (kind == "syscall") filter.kind_ = Kind::call;
  else if (kind == "signal") filter.kind_ = Kind::signal;
  else if (kind == "fork" || kind == "vfork") filter.kind_ = Kind::fork;
  else if (kind == "exec") filter.kind_ = Kind::exec;
  else
    return fail(
        ErrorCode::usage,
        "cannot catch `{}`: there are syscall [NAME...], signal [NAME...], fork, exec, throw, rethrow and catch", text);
  const bool named = filter.kind_ == Kind::call || filter.kind_ == Kind::signal;
  if (!named && words.size() > 1) return fail(ErrorCode::usage, "`catch {}` takes no argument", kind);
  for (size_t i = 1; i < words.size(); i++) {
    if (words[i] == "all" && words.size() == 2) break;
    FRIDAY_TRY(number, filter.kind_ == Kind::call ? call_of(words[i]) : signal_of(words[i]));
    filter.numbers_.insert(number);
  }
  return filter;
}

bool EventFilter::matches(const TraceReader& trace, uint64_t offset, const EventView& event) const {
  const bool begins_call = event.type() == format::kCall || event.type() == format::kRelease;
  switch (kind_) {
    case Kind::call: return begins_call && (numbers_.empty() || numbers_.contains(event->call));
    case Kind::signal: return event.type() == format::kSignal && (numbers_.empty() || numbers_.contains(event->call));
    case Kind::fork: return begins_call && makes_process(event);
    case Kind::exec:
      return begins_call && (event->call == SYS_execve || event->call == SYS_execveat) &&
             event.type() == format::kRelease && !returns(trace, offset, event.thread());
  }
  return false;
}

bool EventFilter::is_of(const EventView& event) const {
  switch (kind_) {
    case Kind::call: return event.has_call() && (numbers_.empty() || numbers_.contains(event->call));
    case Kind::signal: return event.type() == format::kSignal && (numbers_.empty() || numbers_.contains(event->call));
    case Kind::fork: return event.has_call() && makes_process(event);
    case Kind::exec: return event.has_call() && (event->call == SYS_execve || event->call == SYS_execveat);
  }
  return false;
}

bool EventFilter::takes_death(int signal) const {
  return kind_ == Kind::signal && (numbers_.empty() || numbers_.contains(static_cast<unsigned>(signal)));
}

}  // namespace friday
