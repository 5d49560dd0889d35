#include "core/trace/behind_call.h"

#include "core/shim/call_numbers.h"

namespace friday {
namespace {

constexpr uint64_t kMostRecords = 4096;  // looked at for an answer

// Follows the events of the thread from that of the call on.
class WayOut {
 public:
  // Returns true if the answer is known. A handler of a fault has an rt_sigreturn, but no event when it begins. So if
  // handlers have run, any sigreturn that was counted for them may be that of a fault's, unless later ones are all
  // those of later signals.
  bool take(const EventView& event) {
    is_out_ = is_out_ || comes_out(event);
    return is_out_ && (!had_handlers_ || returns_once_more(event));
  }
  bool is_out() const { return is_out_; }
  std::optional<uint64_t> answer() const {
    return keeps_turn_ && !is_refused_ && later_handlers_ >= 0 ? std::optional(behind_) : std::nullopt;
  }

 private:
  static bool is_sigreturn(const EventView& event) {
    return event->header.type == format::kCall && event->call == shim::sys::rt_sigreturn;
  }
  bool returns_once_more(const EventView& event) {
    if (event.thread() != thread_) return false;
    later_handlers_ += event->header.type == format::kSignal;
    later_handlers_ -= is_sigreturn(event);
    return later_handlers_ < 0;
  }
  // Whether the thread is out of the call before this event of the node.
  bool comes_out(const EventView& event) {
    if (!begun_) return begin(event);
    if (event.thread() != thread_) return keeps_turn_;
    const uint16_t type = event->header.type;
    if (handlers_ > 0) {
      handlers_ += type == format::kSignal;
      handlers_ -= is_sigreturn(event);
      if (handlers_ == 0) stands_behind(event);
      return false;
    }
    const bool yields = type == format::kYield && event->call == format::kYieldCall;
    const bool resumes = type == format::kYield && event->call == format::kYieldResumed;
    if (is_released_ ? type == format::kReturn : resumes) {
      is_released_ = false;
      is_refused_ = event->header.flags & format::kFlagRestarted;
      stands_behind(event);
      return is_refused_;
    }
    if (type == format::kSignal && !(event->header.flags & format::kFlagAtEntry)) handlers_ = 1, had_handlers_ = true;
    else if (!yields) return out_at(event);
    keeps_turn_ = false;
    return false;
  }
  bool begin(const EventView& event) {
    begun_ = true;
    thread_ = event.thread();
    is_released_ = event->header.type == format::kRelease;
    is_refused_ = event->header.flags & format::kFlagRestarted;
    if (!is_released_) stands_behind(event);
    return is_refused_;
  }
  void stands_behind(const EventView& event) {
    keeps_turn_ = true;
    behind_ = event->index + 1;
  }
  // The thread has executed the code before this event of its own.
  bool out_at(const EventView& event) {
    is_refused_ = is_released_;  // the call has no return
    keeps_turn_ = true;
    behind_ = event->index;
    return true;
  }

  bool begun_ = false, is_released_ = false, is_refused_ = false;
  bool keeps_turn_ = false;  // the thread stands behind the call, and goes on when `behind_` events are done
  uint64_t behind_ = 0;
  uint32_t thread_ = 0;
  int handlers_ = 0;
  bool is_out_ = false;
  bool had_handlers_ = false;
  int later_handlers_ = 0;  // of signals, that have begun since the thread is out, less those that have returned
};

}  // namespace

std::optional<uint64_t> events_behind_call(const TraceReader& reader, uint64_t offset) {
  WayOut way;
  uint64_t records = 0;
  for (; records < kMostRecords && offset < reader.end_offset(); records++) {
    const auto record = reader.record_at(offset);
    if (!record) return std::nullopt;
    offset += record->header().size;
    if (record->is_event() && way.take(record->event())) break;
  }
  return records < kMostRecords || way.is_out() ? way.answer() : std::nullopt;
}

}  // namespace friday
