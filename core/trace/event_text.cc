#include "core/trace/event_text.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/base/printable.h"
#include "core/trace/address.h"
#include "core/trace/arguments.h"
#include "core/trace/calls.h"

namespace friday {

std::string preview(std::span<const std::byte> bytes, size_t most) {
  std::string text;
  for (std::byte b : bytes.first(std::min(bytes.size(), most))) {
    const char c = static_cast<char>(b);
    if (c == '\n') text += "\\n";
    else if (c == '\r') text += "\\r";
    else if (c >= 32 && c < 127) text += c;
    else text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text + (bytes.size() > most ? "..." : "");
}

std::string call_with_arguments(unsigned call, std::span<const uint64_t> arguments) {
  std::string text = call_text(call) + "(";
  for (unsigned i = 0; i < arguments.size(); i++) text += (i ? ", " : "") + argument_text(call, i, arguments);
  return text + ")";
}

namespace {

std::string yield_text(const EventView& event) {
  const uint64_t count = event.arguments().empty() ? 0 : event.arguments()[0];
  switch (event->call) {
    case format::kYieldPause: return fmt::format("at pause {}", count);
    case format::kYieldSpin: return fmt::format("in a loop of {} instructions", count);
    case format::kYieldInstruction: return "behind an instruction";
    case format::kYieldResumed: return "resumed";
    case format::kYieldCall: return "behind a call";
    case format::kYieldLoop: return fmt::format("at loop site {}", count);
    default: return "?";
  }
}

}  // namespace

std::string what_text(const EventView& event) {
  if (event.type() == format::kYield) return yield_text(event);
  if (event.type() == format::kSignal) return signal_text(event->call);
  if (event.type() == format::kInstruction) {
    switch (event->call) {
      case format::kRdtsc: return "rdtsc";
      case format::kRdtscp: return "rdtscp";
      case format::kRdrand: return "rdrand";
      case format::kRdseed: return "rdseed";
      case format::kCpuid: return "cpuid";
      case format::kRdpid: return "rdpid";
      case format::kLsl: return "lsl";
      default: return "?";
    }
  }
  return event.has_call() ? call_with_arguments(event->call, event.arguments()) : std::string();
}

std::string result_text(const EventView& event) {
  if (event.type() == format::kRelease) return " ...";
  if (!event.has_call() && event.type() != format::kInstruction) return {};
  const int64_t r = event->result;
  if (r < 0 && r >= -4095 && event.has_call()) return fmt::format(" = -1 {}", errno_text(static_cast<int>(-r)));
  if (r > 0xffffff || r < 0) return fmt::format(" = {:#x}", static_cast<uint64_t>(r));
  return fmt::format(" = {}", r);
}

std::string clock_text(const EventView& event) {
  if (!event.is_clock()) return {};
  return fmt::format("  {}.{:0{}}", event.clock_seconds(), event.clock_fraction(),
                     event->call == SYS_gettimeofday ? 6 : 9);
}

std::string address_text(const EventView& event, PartView part) {
  if (part.kind() != format::kMemory || !event.has_call() || part.bytes().size() < sizeof(sa_family_t)) return {};
  const std::string_view call = call_name(event->call);
  const bool second = call == "accept" || call == "accept4" || call == "getsockname" || call == "getpeername";
  const size_t argument = second ? 1 : 4;
  if ((!second && call != "recvfrom") || argument >= event.arguments().size()) return {};
  if (part.address() != event.arguments()[argument]) return {};
  format::SocketAddress address{};
  address.length = static_cast<uint32_t>(std::min(part.bytes().size(), sizeof address.bytes));
  memcpy(address.bytes, part.bytes().data(), address.length);
  return text(parse_address(address));
}

std::string event_text(const EventView& event) {
  constexpr size_t kGlance = 32;
  std::string text = what_text(event) + result_text(event) + clock_text(event);
  for (PartView part : event.parts())
    if (const std::string address = address_text(event, part); !address.empty()) return text + "  " + address;
  for (PartView part : event.parts()) {
    if (part.kind() == format::kPath) return text + fmt::format("  \"{}\"", printable(part.text()));
    if ((part.kind() == format::kMemory || part.kind() == format::kOutput) && !part.bytes().empty())
      return text + fmt::format("  \"{}\"", preview(part.bytes(), kGlance));
  }
  return text;
}

std::string event_line(const EventView& event) {
  return fmt::format("thread {} {}{}{}", event.thread(), record_type_name(event.type()),
                     what_text(event).empty() ? "" : " ", event_text(event));
}

}  // namespace friday
