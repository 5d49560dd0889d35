#include "core/base/refusals.h"

namespace friday {

const RefusalText& refusal_text(Refusal refusal) {
  static constexpr RefusalText kDispatch{
      "Syscall User Dispatch", "nothing can be recorded or replayed: calls that no patch covers would be missed.",
      "It needs Linux 5.11 or newer with CONFIG_GENERIC_ENTRY, and a container's seccomp profile that allows prctl: "
      "--security-opt seccomp=unconfined."};
  static constexpr RefusalText kAddresses{
      "mappings at far addresses",
      "what has no room there cannot be recorded or replayed: the trace has its window there.",
      "Raise the limit of address space: ulimit -v unlimited, or LimitAS= of a service."};
  static constexpr RefusalText kDisk{
      "16 MiB of disk for a trace", "no program can be recorded there.",
      "Make room, raise the limit of file sizes (ulimit -f), or record elsewhere with -o."};
  static constexpr RefusalText kPtrace{
      "to let Friday trace its own child", "friday replay, run and verify cannot work; recording does.",
      "Allow ptrace: in a container with --cap-add=SYS_PTRACE or --security-opt seccomp=unconfined, on a host with "
      "kernel.yama.ptrace_scope below 3."};
  static constexpr RefusalText kMemfd{
      "files in memory (memfd_create)", "friday replay, run and verify cannot work; recording does.",
      "Allow it in the container's seccomp profile: --security-opt seccomp=unconfined."};
  static constexpr RefusalText kConfinement{
      "filters of system calls (seccomp)",
      "nothing is replayed: a replayed process runs code of the recording, and could do whatever you may.",
      "It needs a kernel with CONFIG_SECCOMP_FILTER. A recording that you trust replays without a filter with "
      "--unconfined."};
  static constexpr RefusalText kGdb{
      "to start gdb 13 or newer",
      "friday verify and break points at addresses work, but nothing knows symbols and expressions.",
      "Install Debian's package gdb."};
  static constexpr RefusalText kGdbPython{
      "Python inside gdb", "friday verify works; friday replay and run cannot ask for symbols and expressions.",
      "Install Debian's package gdb: gdb-minimal has no Python."};
  static constexpr RefusalText kDescriptors{
      "more than a few open files",
      "no group or only a small one can be replayed: "
      "each node takes up to ten descriptors of Friday's, one of them has number 100.",
      "Raise the limit: ulimit -n 65536, or LimitNOFILE= of a service."};
  static constexpr RefusalText kAffinity{
      "to choose processors (sched_setaffinity)",
      "replay of several nodes is about five times slower: hand-overs cross processors.",
      "Allow it in the container's seccomp profile: --security-opt seccomp=unconfined."};
  static constexpr RefusalText kDebugRegisters{
      "debug registers that report what they watch",
      "watches of local and thread-local variables are slow: each store to the page of the variable costs 10 us or "
      "more. "
      "rwatch and awatch are refused.",
      "The host of this virtual machine does not pass debug exceptions on; others do."};
  static constexpr RefusalText kClock{"a clock that is read without the kernel",
                                      "recording is slower: each call's two time stamps are calls of the kernel.",
                                      "The kernel found the time-stamp counter unreliable (dmesg says why), and reads "
                                      "its own clock itself; on a virtual machine the host may offer a better one."};
  static constexpr RefusalText kPunchHole{
      "holes in files", "traces are compressed, but take their full size on the disk until their nodes have ended.",
      "Record to another file system: ext4, xfs, btrfs and tmpfs have them."};
  static constexpr RefusalText kPersonality{"to switch off random addresses (personality)",
                                            "nothing: a recording carries its addresses, whatever they are.", ""};
  static constexpr RefusalText kPerf{"hardware counters (perf_event_open)", "nothing: this version counts no branches.",
                                     ""};
  static constexpr RefusalText kUserfaultfd{"userfaultfd", "nothing: this version protects watched pages without it.",
                                            ""};
  static constexpr RefusalText kUserNamespaces{"user namespaces",
                                               "nothing for record and replay; tests of several hosts then need root.",
                                               "sysctl kernel.unprivileged_userns_clone=1."};
  static constexpr RefusalText kNetwork{
      "a network of namespaces",
      "a group file with [network] cannot be recorded, so there are no partitions, delays and losses; all else works.",
      "For a user who is not root it needs user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
      "user.max_user_namespaces above 0, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0), in a container "
      "--security-opt seccomp=unconfined or --cap-add=SYS_ADMIN; and for all a kernel with CONFIG_VETH and "
      "CONFIG_PACKET."};
  static constexpr RefusalText kLockedMemory{"to lock memory", "nothing: Friday locks none.", ""};
  switch (refusal) {
    case Refusal::dispatch: return kDispatch;
    case Refusal::addresses: return kAddresses;
    case Refusal::disk: return kDisk;
    case Refusal::ptrace: return kPtrace;
    case Refusal::memfd: return kMemfd;
    case Refusal::confinement: return kConfinement;
    case Refusal::gdb: return kGdb;
    case Refusal::gdb_python: return kGdbPython;
    case Refusal::descriptors: return kDescriptors;
    case Refusal::affinity: return kAffinity;
    case Refusal::debug_registers: return kDebugRegisters;
    case Refusal::clock: return kClock;
    case Refusal::punch_hole: return kPunchHole;
    case Refusal::personality: return kPersonality;
    case Refusal::perf_events: return kPerf;
    case Refusal::userfaultfd: return kUserfaultfd;
    case Refusal::user_namespaces: return kUserNamespaces;
    case Refusal::network: return kNetwork;
    case Refusal::locked_memory: return kLockedMemory;
  }
  return kDispatch;
}

std::string describe_refusal(Refusal refusal, std::string_view found) {
  const RefusalText& text = refusal_text(refusal);
  return fmt::format("this system refuses {} ({}): {}{}{}", text.what, found, text.cost, *text.cure ? " " : "",
                     text.cure);
}

std::unexpected<Error> refused(Refusal refusal, std::string_view found) {
  return std::unexpected(Error{ErrorCode::unsupported, describe_refusal(refusal, found)});
}

}  // namespace friday
