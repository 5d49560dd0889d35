// How the shim is told to load a program itself, because no loader would preload the shim into it (loader.cc). Whoever
// starts the program executes the shim in its place, with the program's arguments.
#pragma once

namespace friday::shim {

// A variable that is added to the environment: "N:PATH", a descriptor of the program's file, open for reading, which is
// closed before the program starts, and the path by which it was executed (AT_EXECFN, getauxval(3)).
inline constexpr char kProgramVariable[] = "FRIDAY_PROGRAM";

}  // namespace friday::shim
