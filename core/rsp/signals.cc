#include "core/rsp/signals.h"

#include <signal.h>

namespace friday {
namespace {

struct Pair {
  int linux, gdb;
};

constexpr Pair kPairs[] = {
    {SIGHUP, 1},     {SIGINT, 2},   {SIGQUIT, 3},   {SIGILL, 4},   {SIGTRAP, 5},  {SIGABRT, 6},
    {SIGFPE, 8},     {SIGKILL, 9},  {SIGBUS, 10},   {SIGSEGV, 11}, {SIGSYS, 12},  {SIGPIPE, 13},
    {SIGALRM, 14},   {SIGTERM, 15}, {SIGURG, 16},   {SIGSTOP, 17}, {SIGTSTP, 18}, {SIGCONT, 19},
    {SIGCHLD, 20},   {SIGTTIN, 21}, {SIGTTOU, 22},  {SIGIO, 23},   {SIGXCPU, 24}, {SIGXFSZ, 25},
    {SIGVTALRM, 26}, {SIGPROF, 27}, {SIGWINCH, 28}, {SIGUSR1, 30}, {SIGUSR2, 31}, {SIGPWR, 32},
};

// gdb numbers the real-time signals 33 to 63 as 45 to 75; 32 and 64 were added later with other numbers.
constexpr int kFirstRealtime = 33, kLastRealtime = 63, kGdbFirstRealtime = 45, kGdbRealtime32 = 77, kGdbRealtime64 = 78,
              kGdbUnknown = 143;

}  // namespace

int gdb_signal(int linux_signal) {
  if (linux_signal == 0) return 0;
  for (Pair pair : kPairs)
    if (pair.linux == linux_signal) return pair.gdb;
  if (linux_signal >= kFirstRealtime && linux_signal <= kLastRealtime)
    return linux_signal - kFirstRealtime + kGdbFirstRealtime;
  if (linux_signal == 32) return kGdbRealtime32;
  if (linux_signal == 64) return kGdbRealtime64;
  return kGdbUnknown;
}

int linux_signal(int gdb_signal) {
  for (Pair pair : kPairs)
    if (pair.gdb == gdb_signal) return pair.linux;
  int realtime = gdb_signal - kGdbFirstRealtime + kFirstRealtime;
  if (realtime >= kFirstRealtime && realtime <= kLastRealtime) return realtime;
  if (gdb_signal == kGdbRealtime32) return 32;
  if (gdb_signal == kGdbRealtime64) return 64;
  return 0;
}

}  // namespace friday
