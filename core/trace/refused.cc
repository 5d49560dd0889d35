#include "core/trace/refused.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "core/base/counted.h"
#include "core/trace/calls.h"
#include "core/trace/trace_file.h"

namespace friday {
namespace {

struct Advice {
  unsigned call;
  const char* text;
  const char* why = nullptr;  // of a call that is refused in some cases only
};

constexpr const char* kNeedsIt = "a program that does without it is recorded; one that needs it is not";

constexpr Advice kTold[] = {
    {shim::sys::ptrace, "record the programs without the debugger, tracer or sandbox that attaches to them",
     "a process cannot be traced while it is recorded"},
    {shim::sys::io_uring_setup, "a program that hangs or ends over this has an option to use epoll or threads instead"},
    {shim::sys::perf_event_open, "profile the programs when they are not recorded"},
    {shim::sys::bpf, kNeedsIt},
    {shim::sys::userfaultfd, kNeedsIt},
    {shim::sys::pkey_alloc, kNeedsIt},
    {shim::sys::pkey_mprotect, kNeedsIt},
    {shim::sys::memfd_secret, kNeedsIt},
    {shim::sys::modify_ldt, kNeedsIt},
    {shim::sys::iopl, kNeedsIt},
    {shim::sys::ioperm, kNeedsIt},
    {shim::sys::remap_file_pages, kNeedsIt},
    {shim::sys::quotactl, kNeedsIt},
    {shim::sys::quotactl_fd, kNeedsIt},
    {shim::sys::io_pgetevents, kNeedsIt},
};

const Advice* advice_on(unsigned call) {
  const auto* found = std::ranges::find(kTold, call, &Advice::call);
  return found == std::end(kTold) ? nullptr : found;
}

}  // namespace

uint64_t RefusedCalls::count() const {
  uint64_t sum = 0;
  for (const auto& [node, times] : nodes) sum += times;
  return sum;
}

std::string RefusedCalls::why() const {
  if (const Advice* advice = advice_on(call); advice && advice->why) return advice->why;
  constexpr std::string_view kAnswer = "ENOSYS: ";
  for (const CallRule& rule : call_rules())
    if (rule.number == call)
      return std::string(rule.detail.starts_with(kAnswer) ? rule.detail.substr(kAnswer.size()) : rule.detail);
  return "";
}

std::string RefusedCalls::advice() const {
  const Advice* advice = advice_on(call);
  return advice ? advice->text : "";
}

std::vector<RefusedCalls> refusals_of(const Recording& recording) {
  std::map<unsigned, RefusedCalls> found;
  for (const NodeInfo& node : recording.nodes()) {
    const auto header = read_header(recording.trace(node.id));
    if (!header || header->version != format::kVersion) continue;
    for (const format::RefusedCall& entry : header->refused) {
      if (!entry.count || !advice_on(entry.call)) continue;
      RefusedCalls& refusal = found.try_emplace(entry.call, RefusedCalls{entry.call, {}}).first->second;
      refusal.nodes.emplace_back(node.id, entry.count);
    }
  }
  std::vector<RefusedCalls> list;
  for (auto& [call, refusal] : found) list.push_back(std::move(refusal));
  return list;
}

std::string describe(const Recording& recording, const RefusedCalls& refusal) {
  constexpr size_t kNamed = 3;
  std::string names;
  for (size_t n = 0; n < std::min(refusal.nodes.size(), kNamed); n++)
    names += fmt::format("{}{}", n ? ", " : "", recording.find(refusal.nodes[n].first)->name);
  if (refusal.nodes.size() > kNamed) names += fmt::format(" and {} more", refusal.nodes.size() - kNamed);
  return fmt::format("{} was refused with ENOSYS {} in {} ({}): {}", call_text(refusal.call),
                     counted(refusal.count(), "time"), names, refusal.why(), refusal.advice());
}

}  // namespace friday
