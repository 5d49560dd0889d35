// Which events of a trace somebody asks for: system calls, signals, new processes, new programs. Filters are values
// that depend on nothing; all functions may be called from any thread.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/trace/reader.h"

namespace friday {

class EventFilter {
 public:
  // Parses what follows `catch`:
  //   syscall [NAME|NUMBER ...]   the entry of one of these system calls; without names, of any
  //   signal [NAME|NUMBER ...]    a signal whose handler is about to be entered; without names, of any
  //   fork | vfork                a call that makes a process
  //   exec                        a call that replaces the program
  // Fails with usage for anything else, and names the nearest known word.
  static Result<EventFilter> parse(std::string_view text);

  // Whether `event`, which lies at `offset` in the trace, is one of these. Reads on from there only for exec, which
  // must not have failed.
  bool matches(const TraceReader& trace, uint64_t offset, const EventView& event) const;

  // Whether `event` is of one of these calls or signals. Of a call during which others ran it takes both events, the
  // entry and the return.
  bool is_of(const EventView& event) const;

  // Whether a process that dies of this signal is meant. No event stands for its death.
  bool takes_death(int signal) const;

 private:
  enum class Kind { call, signal, fork, exec };
  Kind kind_ = Kind::call;
  std::set<unsigned> numbers_;  // of calls or signals; empty: all
};

// The number of a signal by its name ("SIGUSR1", "USR1", "usr1") or number; 0 if there is none.
int signal_number(std::string_view text);

}  // namespace friday
