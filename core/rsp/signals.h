// Converts between Linux's signal numbers and gdb's, which are the same on every system (30 is SIGUSR1). A signal
// without a counterpart becomes 143 ("unknown signal") for gdb and 0 for Linux.
#pragma once

namespace friday {

int gdb_signal(int linux_signal);
int linux_signal(int gdb_signal);

}  // namespace friday
