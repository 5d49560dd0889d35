// Whether this machine's debug registers work.
#pragma once

namespace friday {

// Some hypervisors let a guest set them and never report what they see, so this is tried, once for each process of
// Friday: a child of it stores to memory that they watch. Safe on any thread.
bool debug_registers_work();

}  // namespace friday
