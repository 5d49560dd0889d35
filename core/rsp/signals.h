// gdb numbers signals in its own way, the same on every system ("30" is SIGUSR1). Both directions; what has no
// counterpart is 143 ("unknown signal") towards gdb and 0 towards Linux.
#pragma once

namespace friday {

int gdb_signal(int linux_signal);
int linux_signal(int gdb_signal);

}  // namespace friday
