#include "core/replay/stop.h"

namespace friday {

const char* name_of(Stop::Kind kind) {
  switch (kind) {
    case Stop::Kind::started: return "started";
    case Stop::Kind::breakpoint: return "breakpoint";
    case Stop::Kind::watch: return "watch";
    case Stop::Kind::step: return "step";
    case Stop::Kind::signal:
    case Stop::Kind::exit: return "exit";
    case Stop::Kind::end: return "end";
    case Stop::Kind::event: return "event";
    case Stop::Kind::interrupt: return "interrupt";
    case Stop::Kind::divergence: return "divergence";
    case Stop::Kind::failure: return "failure";
    case Stop::Kind::caught: return "catch";
    case Stop::Kind::timer: return "timer";
    case Stop::Kind::pause: return "pause";
    case Stop::Kind::reached: return "reached";
  }
  return "end";
}

}  // namespace friday
