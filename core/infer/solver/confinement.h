// What the solver may do once it has the descriptor of the process's memory: compute, read that descriptor, and speak
// over the socket. It interprets instructions and data of a program that it does not trust, so it opens nothing, sends
// nothing anywhere else, starts nothing and makes no memory executable. What is not allowed fails with EPERM.
#pragma once

namespace friday::infer {

// For the whole process, for good. `socket` and `memory`: the only descriptors that may be used, beside standard error
// for writing. False if the kernel refuses.
bool confine(int socket, int memory);

}  // namespace friday::infer
