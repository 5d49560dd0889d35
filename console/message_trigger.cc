#include "console/message_trigger.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "console/python.h"
#include "console/say.h"
#include "core/base/printable.h"
#include "core/trace/calls.h"
#include "core/trace/payload.h"

namespace friday {

namespace py = pybind11;

namespace {

using namespace std::chrono_literals;

int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch() / 1ns; }

std::atomic<int64_t> running_since{0};  // steady_ns() at which a file began to run; 0: none does

struct Running {
  Running() { running_since = steady_ns(); }
  ~Running() { running_since = 0; }
};

// Other channels, such as files and terminals, carry no messages.
bool carries_messages(const ChannelDescription* channel) {
  if (!channel) return true;  // its parent has it, and described it
  return channel->kind == format::kChannelStream || channel->kind == format::kChannelDatagram ||
         channel->kind == format::kChannelSeqpacket || channel->kind == format::kChannelPipe;
}

bool is_receipt(const format::TransferPart& transfer) {
  return transfer.direction == format::kIn && transfer.length > 0 && !(transfer.flags & format::kPeek);
}

// The contents as Python's bytes, fewer than were received if only the beginning was kept; None if there are none.
py::object contents_of(EventView event, uint32_t ordinal, const TraceTail& tail) {
  const PayloadAnswer payload = trace_payloads().read(event, ordinal);
  if (!payload) return py::none();
  for (std::span<const std::byte> piece : payload->pieces)
    if (tail.lacks(piece)) return py::none();
  const std::vector<std::byte> bytes = payload->joined();
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

static void wait_for_the_input_and_end() {
  constexpr auto kLongest = 2s;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (::poll(&input, 1, -1) < 0 && errno == EINTR) {}
  for (;; std::this_thread::sleep_for(100ms)) {
    const auto since = running_since.load();
    if (since == 0 || steady_ns() - since < std::chrono::nanoseconds(kLongest).count()) continue;
    say(stderr, "friday live: a file of --save-on does not return, and the recording has ended\n");
    _exit(2);
  }
}

void end_when_python_outlives_the_input() { std::thread(wait_for_the_input_and_end).detach(); }

struct MessageTriggers::Python {
  std::unique_ptr<PythonRuntime> runtime;
  std::vector<py::object> files;
};

bool is_python_file(const std::string& text) { return text.ends_with(".py"); }

MessageTriggers::MessageTriggers(std::unique_ptr<Python> python) : python_(std::move(python)) {}

MessageTriggers::~MessageTriggers() = default;

bool MessageTriggers::any_left() const { return !python_->files.empty(); }

std::vector<std::string> MessageTriggers::take_failures() { return std::exchange(failures_, {}); }

Result<std::unique_ptr<MessageTriggers>> MessageTriggers::load(const std::vector<std::string>& files) {
  auto python = std::make_unique<Python>();
  FRIDAY_TRY(runtime, PythonRuntime::start());
  python->runtime = std::move(runtime);
  std::signal(SIGINT, SIG_DFL);  // Python would only look at it between two messages
  FRIDAY_TRY(module, python->runtime->import("friday.live"));
  try {
    const Running running;
    for (const std::string& file : files) python->files.push_back(module.attr("Trigger")(file));
  } catch (const py::error_already_set& error) {
    return fail(ErrorCode::usage, "{}", std::string(py::str(error.value())));
  }
  return std::unique_ptr<MessageTriggers>(new MessageTriggers(std::move(python)));
}

std::optional<std::string> MessageTriggers::visit(Node& node, const RecordView& record, const FollowedNode& followed,
                                                  bool ask) {
  node.channels_.add(record);
  if (!ask || !any_left() || !record.is_event()) return std::nullopt;
  const EventView event = record.event();
  std::optional<std::string> why;
  uint32_t ordinal = 0;
  for (PartView part : event.parts()) {
    const format::TransferPart* transfer = part.transfer();
    if (!transfer) continue;
    const uint32_t here = ordinal++;
    if (!is_receipt(*transfer)) continue;
    const ChannelDescription* channel = node.channels_.find(transfer->channel);
    if (!carries_messages(channel)) continue;
    const std::string peer = node.channels_.peer_text(part);
    const auto seconds = static_cast<double>(followed.real_ns_of(event.return_ticks())) * 1e-9;
    const py::object contents = contents_of(event, here, followed.tail());
    for (size_t n = 0; n < python_->files.size();) {
      bool fails = false;
      try {
        const Running running;
        const py::object answer = python_->files[n].attr("ask")(
            printable(node.name_), node.id_.value, std::string(call_name(event->call)),
            channel ? channel_kind_name(channel->kind) : "unknown",
            peer.empty() ? py::object(py::none()) : py::str(printable(peer)), contents, transfer->length, seconds);
        if (!answer.is_none() && !why) why = answer.cast<std::string>();
      } catch (const py::error_already_set& error) {
        failures_.push_back(py::str(error.value()));
        fails = true;
      }
      if (!fails) n++;
      else python_->files.erase(python_->files.begin() + static_cast<long>(n));
    }
  }
  return why;
}

}  // namespace friday
