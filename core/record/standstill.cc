#include "core/record/standstill.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/record/proc_files.h"

namespace friday {

namespace {

template <typename T>
T read(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

struct Process {
  pid_t own = 0, thread = 0;
  std::optional<pid_t> here;  // its pid in our PID namespace, if it is visible here
  char state = 0;             // state of the thread that ran last

  Process(const shim::TokenMember& member) : Process(read(member.pid), read(member.tid), read(member.pid_namespace)) {}
  Process(uint32_t pid, uint32_t tid, uint64_t space)
      : own(static_cast<pid_t>(pid)), thread(static_cast<pid_t>(tid)), here(find_process(own, space)) {
    if (here) state = thread_state(*here, *here == own && thread ? thread : *here);
  }
  bool is_stopped() const { return state == 'T' || state == 't'; }
  std::string text() const {
    return here ? fmt::format("process {} ({})", *here, process_name(*here))
                : fmt::format("process {} of another PID namespace", own);
  }
};

// Members that wait in `group`, the longest waiting first, and at most so many: others change the queue meanwhile, so
// it may lead round.
std::vector<uint32_t> waiting_in(const shim::TokenArea& area, const shim::TokenGroup& group, size_t most) {
  std::vector<uint32_t> found;
  for (uint32_t at = read(group.first); at && at < shim::kMaxMembers && found.size() < most;
       at = read(area.member[at].next))
    found.push_back(at);
  return found;
}

// Whether a process is in the queue of a group: then its threads wait for the group's holder, not for each other.
bool waits_for_its_group(const shim::TokenArea& area, uint32_t pid, uint64_t space) {
  const uint32_t groups = std::min(__atomic_load_n(&area.groups, __ATOMIC_ACQUIRE), shim::kMaxGroups - 1);
  for (uint32_t number = 1; number <= groups; number++)
    for (uint32_t at : waiting_in(area, area.group[number], shim::kMaxMembers))
      if (read(area.member[at].pid) == pid && read(area.member[at].pid_namespace) == space) return true;
  return false;
}

std::string advice(const Process& holder) {
  const pid_t pid = holder.here.value_or(holder.own);
  switch (holder.state) {
    case 'T': return fmt::format("it is stopped: `kill -CONT {}` lets it go on", pid);
    case 't': return "a debugger has stopped it: let it go on there";
    case 'R':
      return fmt::format(
          "it runs and makes no call: see with `gdb -p {}` where, and have it make one, such as sched_yield(2), while "
          "it waits",
          pid);
    case 'Z':
    case 'X':
    case 0: return holder.here ? "it has ended: end those that wait for it" : "it cannot be seen from here";
    default: return fmt::format("it sleeps in the kernel: see with `gdb -p {}` where", pid);
  }
}

}  // namespace

std::vector<KeptToken> Standstill::look(const shim::TokenArea& area) {
  std::vector<KeptToken> found;
  look_at_groups(area, found);
  look_at_threads(area, found);
  return found;
}

void Standstill::look_at_groups(const shim::TokenArea& area, std::vector<KeptToken>& found) {
  const uint32_t groups = std::min(__atomic_load_n(&area.groups, __ATOMIC_ACQUIRE), shim::kMaxGroups - 1);
  for (uint32_t number = 1; number <= groups; number++) {
    const shim::TokenGroup& group = area.group[number];
    const uint32_t state = read(group.state), waiting = read(group.waiting);
    const uint64_t turn = read(group.turn);
    if (read(group.forward) || !waiting || (state & ~shim::kTokenWho) != shim::kTokenHeld) {
      seen_.erase(number);
      continue;
    }
    Seen& seen = seen_[number];
    seen.looks = seen.state == state && seen.turn == turn ? seen.looks + 1 : 0;
    seen.state = state;
    seen.turn = turn;
    const uint32_t member = state & shim::kTokenWho;
    if (seen.looks < kSeconds * kLooksPerSecond || member >= shim::kMaxMembers || told_.contains(member)) continue;
    const Process holder(area.member[member]);
    // If all waiters are stopped too, somebody has stopped the whole group on purpose.
    constexpr size_t kMost = 8;
    const auto waiters = waiting_in(area, group, kMost);
    const auto runs =
        std::find_if(waiters.begin(), waiters.end(), [&](uint32_t n) { return !Process(area.member[n]).is_stopped(); });
    if (runs == waiters.end()) continue;
    told_.insert(member);
    const std::string thread =
        holder.thread && holder.here == holder.own ? fmt::format(", thread {},", holder.thread) : "";
    const std::string more = waiting > 1 ? fmt::format(" and {} more", waiting - 1) : "";
    found.push_back(
        {fmt::format(
             "{}{} has kept {}{} waiting for {} seconds (they share memory, so that one of them runs at a time): {}",
             holder.text(), thread, Process(area.member[*runs]).text(), more, kSeconds, advice(holder)),
         holder.own, holder.state == 'R'});
  }
}

// Reports threads that the waiting threads' own count shows to be kept waiting: only the process itself knows which of
// its threads holds its token.
void Standstill::look_at_threads(const shim::TokenArea& area, std::vector<KeptToken>& found) {
  for (const shim::KeptThread& kept : area.kept) {
    const uint32_t pid = __atomic_load_n(&kept.pid, __ATOMIC_ACQUIRE), thread = read(kept.tid);
    if (!pid || __atomic_load_n(&kept.looks, __ATOMIC_ACQUIRE) < kSeconds * 1000 ||
        told_threads_.contains({pid, thread}))
      continue;
    const uint64_t space = read(kept.pid_namespace);
    if (waits_for_its_group(area, pid, space)) continue;
    const Process process(pid, thread, space), child(thread, thread, space);
    // a vfork child runs with the identity of the thread that created it
    const bool by_vfork = process.here && !process.state;
    if (by_vfork && !child.state) continue;  // it has ended, together with everybody who waited
    told_threads_.insert({pid, thread});
    const std::string who = by_vfork ? fmt::format("{}, a child by vfork of {},", child.text(), process.text())
                                     : fmt::format("{}, thread {},", process.text(), thread);
    const Process& holder = by_vfork ? child : process;
    found.push_back(
        {fmt::format("{} has kept other threads waiting for {} seconds (one of a process runs at a time): {}", who,
                     kSeconds, advice(holder)),
         process.own, holder.state == 'R'});
  }
}

}  // namespace friday
