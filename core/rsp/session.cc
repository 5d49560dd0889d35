// Packet dispatch, connection, threads, registers and memory. Execution control is in session_run.cc.
#include "core/rsp/session.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "core/rsp/libraries.h"
#include "core/rsp/signals.h"
#include "core/rsp/tls.h"

namespace friday {
namespace {

// memory or binary data that fits into one reply, escaped or in hexadecimal
constexpr size_t kMostBytes = (kRspPacketSize - 16) / 2;

}  // namespace

RspSession::RspSession(NodeControl& node, RspHost& host, Send send)
    : node_(node), host_(host), send_(std::move(send)), files_(node, host.sysroot(node.id())) {}

std::string RspSession::error_reply(const Error& error) { return "E." + describe(error); }

// The first entry whose prefix matches handles the packet; frequent packets come first.
const std::vector<RspSession::Command>& RspSession::commands() {
  using S = RspSession;
  static const std::vector<Command> table = {
      {"m", &S::read_memory},
      {"p", &S::read_register},
      {"g", &S::read_registers},
      {"X", &S::write_memory_binary},
      {"M", &S::write_memory_hex},
      {"P", &S::write_register},
      {"G", &S::write_registers},
      {"Z", &S::set_stop_point},
      {"z", &S::clear_stop_point},
      {"H", &S::select_thread},
      {"T", &S::thread_alive},
      {"vCont?", &S::resume_kinds},
      {"vCont;", &S::resume_actions},
      {"vFile:", &S::file_request},
      {"vKill;", &S::kill_process},
      {"vRun", &S::no_new_program},
      {"vAttach", &S::no_new_program},
      {"qXfer:", &S::transfer},
      {"qGetTLSAddr:", &S::thread_local_storage},
      {"qfThreadInfo", &S::first_threads},
      {"qsThreadInfo", &S::more_threads},
      {"qThreadExtraInfo,", &S::thread_extra},
      {"qRcmd,", &S::monitor},
      {"qSupported", &S::supported},
      {"qAttached", &S::attached},
      {"qSymbol:", &S::ok},
      {"qC", &S::current_thread},
      {"QStartNoAckMode", &S::start_no_ack},
      {"c", &S::resume_all},
      {"C", &S::resume_all},
      {"s", &S::step_one},
      {"S", &S::step_one},
      {"bc", &S::reverse_continue},
      {"bs", &S::reverse_step},
      {"?", &S::why_stopped},
      {"D", &S::detach},
      {"k", &S::kill},
      {"R", &S::nothing},
      {"!", &S::ok},
  };
  return table;
}

namespace {
// Whether the program cannot write to this memory, such as code and constants. Its content is then the same at each
// position of the node. A gdb needs it to set breakpoints.
bool never_changes(NodeControl& node, uint64_t address) {
  const auto mappings = node.mappings();
  return mappings && std::ranges::any_of(*mappings, [&](const Mapping& each) {
           return each.low <= address && address < each.high && !(each.protection & PROT_WRITE);
         });
}

// Whether a packet reads or writes what a client shows as the present state: registers, memory, the list of threads.
bool shows_state(NodeControl& node, std::string_view packet) {
  if (packet.starts_with("qXfer:threads:") || packet.starts_with("qfThreadInfo")) return true;
  if (packet.empty() || std::string_view("gGpPmMX").find(packet.front()) == std::string_view::npos) return false;
  TextCursor cursor(packet.substr(1));
  const auto address = packet.front() == 'm' ? cursor.hex() : std::nullopt;
  return !address || !never_changes(node, *address);
}
}  // namespace

void RspSession::handle(std::string_view packet) {
  if (closing_) return;
  FRIDAY_LOG(rsp, trace, "<- {}", packet);
  if (waiting_) return send_(kBadPacket);  // while the node runs, only the interrupt byte is allowed
  if (!refusal_.empty() && shows_state(node_, packet)) return send_("E." + refusal_);
  for (const Command& command : commands()) {
    TextCursor cursor(packet);
    if (!cursor.take(command.prefix)) continue;
    // "qC" must not match "qCRC:...".
    if (command.prefix == "qC" && !cursor.at_end()) continue;
    if (Reply reply = (this->*command.handler)(cursor)) {
      FRIDAY_LOG(rsp, trace, "-> {}", *reply);
      send_(*reply);
    }
    if (command.prefix == "QStartNoAckMode") no_ack_ = true;  // takes effect after the reply to this packet
    return;
  }
  send_("");  // the reply for unsupported packets, and the required reply to vMustReplyEmpty
}

RspSession::Reply RspSession::ok(TextCursor&) { return "OK"; }
RspSession::Reply RspSession::nothing(TextCursor&) { return {}; }
RspSession::Reply RspSession::attached(TextCursor&) { return "1"; }
RspSession::Reply RspSession::start_no_ack(TextCursor&) { return "OK"; }

RspSession::Reply RspSession::no_new_program(TextCursor&) {
  return "E.This connection serves one recorded node; it starts and attaches to no other program.";
}

RspSession::Reply RspSession::supported(TextCursor& cursor) {
  cursor.take(":");
  while (!cursor.at_end()) {
    std::string_view feature = cursor.until(';');
    if (feature == "multiprocess+") multiprocess_ = true;
    if (feature == "swbreak+") knows_swbreak_ = true;
    if (feature == "hwbreak+") knows_hwbreak_ = true;
  }
  std::string reply = fmt::format(
      "PacketSize={:x};QStartNoAckMode+;multiprocess+;swbreak+;hwbreak+;vContSupported+;qXfer:features:read+;"
      "qXfer:auxv:read+;qXfer:exec-file:read+;qXfer:libraries-svr4:read+;qXfer:threads:read+;qXfer:siginfo:read+",
      kRspPacketSize);
  RspAbilities abilities = host_.abilities(node_.id());
  if (abilities.conditions) reply += ";ConditionalBreakpoints+";
  if (abilities.reverse) reply += ";ReverseContinue+;ReverseStep+";
  return reply;
}

std::string RspSession::thread_text(ThreadId thread) const {
  return fmt::format("{}{:x}", multiprocess_ ? "p1." : "", uint64_t{thread.value} + 1);
}

std::optional<RspSession::ThreadRef> RspSession::parse_thread(TextCursor& cursor) const {
  if (cursor.take("p")) {
    if (!cursor.take("-1")) {
      auto process = cursor.hex();
      if (!process || *process > 1) return {};
    }
    if (!cursor.take(".")) return ThreadRef{.all = true};
  }
  if (cursor.take("-1")) return ThreadRef{.all = true};
  auto number = cursor.hex();
  if (!number || *number > UINT32_MAX) return {};
  if (*number == 0) return ThreadRef{};
  return ThreadRef{.id = ThreadId{static_cast<uint32_t>(*number - 1)}};
}

ThreadId RspSession::current() {
  if (last_stop_ && node_.registers(last_stop_->thread)) return last_stop_->thread;
  auto threads = node_.threads();
  return threads.empty() ? ThreadId{} : threads.front().id;
}

ThreadId RspSession::selected() { return general_thread_ ? *general_thread_ : current(); }

RspSession::Reply RspSession::select_thread(TextCursor& cursor) {
  bool general = cursor.take("g");
  if (!general && !cursor.take("c")) return kBadPacket;
  auto thread = parse_thread(cursor);
  if (!thread || !cursor.at_end()) return kBadPacket;
  (general ? general_thread_ : run_thread_) = thread->id;
  return "OK";
}

RspSession::Reply RspSession::thread_alive(TextCursor& cursor) {
  auto thread = parse_thread(cursor);
  if (!thread || !thread->id || !cursor.at_end()) return kBadPacket;
  return node_.registers(*thread->id) ? "OK" : kBadThread;
}

RspSession::Reply RspSession::current_thread(TextCursor&) { return "QC" + thread_text(current()); }

RspSession::Reply RspSession::first_threads(TextCursor&) {
  std::string reply;
  for (const ThreadInfo& thread : node_.threads()) reply += (reply.empty() ? "m" : ",") + thread_text(thread.id);
  return reply.empty() ? "l" : reply;
}

RspSession::Reply RspSession::more_threads(TextCursor&) { return "l"; }

RspSession::Reply RspSession::thread_extra(TextCursor& cursor) {
  auto wanted = parse_thread(cursor);
  if (!wanted || !wanted->id) return kBadPacket;
  for (const ThreadInfo& thread : node_.threads())
    if (thread.id == *wanted->id) return to_hex(thread.name.empty() ? "?" : thread.name);
  return kBadThread;
}

RspSession::Reply RspSession::thread_local_storage(TextCursor& cursor) {
  auto thread = parse_thread(cursor);
  bool commas = cursor.take(",");
  auto offset = cursor.hex();
  commas &= cursor.take(",");
  auto link_map = cursor.hex();
  if (!thread || !commas || !offset || !link_map) return kBadPacket;
  auto address = thread_local_address(node_, thread->id.value_or(selected()), Addr{*link_map}, *offset);
  return address ? fmt::format("{:x}", address->value) : error_reply(address.error());
}

RspSession::Reply RspSession::monitor(TextCursor& cursor) {
  auto command = from_hex(cursor.rest());
  if (!command) return kBadPacket;
  std::string_view text(reinterpret_cast<const char*>(command->data()), command->size());
  auto result = host_.monitor(node_.id(), text);
  std::string output = result ? *result : describe(result.error());
  if (!output.empty() && !output.ends_with('\n')) output += '\n';
  for (size_t at = 0; at < output.size(); at += kMostBytes)
    send_("O" + to_hex(std::string_view(output).substr(at, kMostBytes)));
  return "OK";
}

RspSession::Reply RspSession::file_request(TextCursor& cursor) { return files_.handle(cursor.rest(), kMostBytes); }

// ---- qXfer

std::string RspSession::thread_list() {
  std::string xml = "<?xml version=\"1.0\"?>\n<threads>\n";
  for (const ThreadInfo& thread : node_.threads())
    xml += fmt::format("<thread id=\"{}\" name=\"{}\">tid {}{}</thread>\n", thread_text(thread.id),
                       escape_xml(thread.name), thread.tid, thread.parked ? ", parked" : "");
  return xml + "</threads>\n";
}

Result<std::string> RspSession::object(std::string_view name, std::string_view annex) {
  auto text_of = [](auto& value) {
    auto bytes = std::as_bytes(std::span(value));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (name == "features" && annex == "target.xml") return target_description();
  if (name == "threads") return thread_list();
  if (name == "exec-file") return node_.executable();
  if (name == "libraries-svr4") return library_list(node_);
  if (name == "auxv") {
    FRIDAY_TRY(auxv, node_.auxv());
    return text_of(auxv);
  }
  if (name == "siginfo" && last_stop_ && last_stop_->siginfo && last_stop_->thread == selected()) {
    std::string bytes(sizeof(siginfo_t), '\0');
    memcpy(bytes.data(), &*last_stop_->siginfo, sizeof(siginfo_t));
    return bytes;
  }
  return fail(ErrorCode::not_found, "no object {} {}", name, annex);
}

// Handles qXfer:OBJECT:read:ANNEX:OFFSET,LENGTH.
RspSession::Reply RspSession::transfer(TextCursor& cursor) {
  std::string_view name = cursor.until(':');
  if (!cursor.take("read:")) return "";
  std::string_view annex = cursor.until(':');
  auto offset = cursor.hex();
  bool comma = cursor.take(",");
  auto length = cursor.hex();
  if (!offset || !comma || !length || !cursor.at_end()) return kBadPacket;
  std::string full_name = std::string(name) + ':' + std::string(annex);
  if (*offset == 0 || full_name != object_name_) {
    auto content = object(name, annex);
    if (!content) return "E00";
    object_ = std::move(*content);
    object_name_ = full_name;
  }
  if (*offset >= object_.size()) return "l";
  std::string part = object_.substr(*offset, std::min<uint64_t>(*length, kMostBytes));
  return (*offset + part.size() < object_.size() ? "m" : "l") + part;
}

// ---- registers

Result<RegisterFile> RspSession::load(ThreadId thread, bool extended) {
  RegisterFile file;
  FRIDAY_TRY(general, node_.registers(thread));
  file.general = general;
  if (extended) {
    FRIDAY_TRY(state, node_.extended_state(thread));
    file.extended = std::move(state);
    fill_initial_state(file.extended);
  }
  return file;
}

Result<void> RspSession::store(ThreadId thread, const RegisterFile& file, bool general, bool extended) {
  if (general) {
    FRIDAY_TRY(before, node_.registers(thread));
    rip_before_.try_emplace(thread, before.rip);
    FRIDAY_TRY_VOID(node_.set_registers(thread, file.general));
  }
  if (extended) FRIDAY_TRY_VOID(node_.set_extended_state(thread, file.extended));
  return {};
}

RspSession::Reply RspSession::read_registers(TextCursor& cursor) {
  if (!cursor.at_end()) return "";
  auto file = load(selected(), true);
  if (!file) return kBadThread;
  std::string reply;
  for (unsigned number = 0; number < kRegisterCount; ++number) file->append(reply, number);
  return reply;
}

RspSession::Reply RspSession::write_registers(TextCursor& cursor) {
  auto bytes = from_hex(cursor.rest());
  ThreadId thread = selected();
  auto file = load(thread, true);
  if (!bytes) return kBadPacket;
  if (!file) return kBadThread;
  std::span<const std::byte> rest(*bytes);
  for (unsigned number = 0; number < kRegisterCount && !rest.empty(); ++number) {
    size_t size = register_size(number);
    if (rest.size() < size) return kBadPacket;
    file->set(number, rest.first(size));  // skips a register that this machine does not have
    rest = rest.subspan(size);
  }
  if (!rest.empty()) return kBadPacket;
  return store(thread, *file, true, true) ? "OK" : kBadThread;
}

RspSession::Reply RspSession::read_register(TextCursor& cursor) {
  auto number = cursor.hex();
  if (!number || !cursor.at_end() || *number >= kRegisterCount) return kBadPacket;
  auto file = load(selected(), is_extended(static_cast<unsigned>(*number)));
  if (!file) return kBadThread;
  std::string reply;
  file->append(reply, static_cast<unsigned>(*number));
  return reply;
}

RspSession::Reply RspSession::write_register(TextCursor& cursor) {
  auto number = cursor.hex();
  if (!number || *number >= kRegisterCount || !cursor.take("=")) return kBadPacket;
  auto value = from_hex(cursor.rest());
  if (!value) return kBadPacket;
  bool extended = is_extended(static_cast<unsigned>(*number));
  ThreadId thread = selected();
  auto file = load(thread, extended);
  if (!file) return kBadThread;
  if (!file->set(static_cast<unsigned>(*number), *value)) return kBadPacket;
  return store(thread, *file, !extended, extended) ? "OK" : kBadThread;
}

// ---- memory

// If a range is only partly readable, returns the bytes before the first unreadable page.
RspSession::Reply RspSession::read_memory(TextCursor& cursor) {
  auto address = cursor.hex();
  bool comma = cursor.take(",");
  auto length = cursor.hex();
  if (!address || !comma || !length || !cursor.at_end()) return kBadPacket;
  if (*length == 0) return "";
  std::vector<std::byte> data(std::min<uint64_t>(*length, kMostBytes));
  if (node_.read(Addr{*address}, data)) return to_hex(data);
  constexpr size_t kPage = 4096;
  size_t done = 0;
  while (done < data.size()) {
    uint64_t from = *address + done;
    size_t part = std::min(data.size() - done, kPage - from % kPage);
    if (from < *address || !node_.read(Addr{from}, std::span(data).subspan(done, part))) break;
    done += part;
  }
  return done ? to_hex(std::span(data).first(done)) : kBadAddress;
}

std::string RspSession::write_bytes(Addr address, std::span<const std::byte> data) {
  if (data.empty()) return "OK";
  return node_.write(address, data) ? "OK" : kBadAddress;
}

RspSession::Reply RspSession::write_memory_hex(TextCursor& cursor) {
  auto address = cursor.hex();
  bool marks = cursor.take(",");
  auto length = cursor.hex();
  marks &= cursor.take(":");
  auto data = from_hex(cursor.rest());
  if (!address || !length || !marks || !data || data->size() != *length) return kBadPacket;
  return write_bytes(Addr{*address}, *data);
}

RspSession::Reply RspSession::write_memory_binary(TextCursor& cursor) {
  auto address = cursor.hex();
  bool marks = cursor.take(",");
  auto length = cursor.hex();
  marks &= cursor.take(":");
  if (!address || !length || !marks || cursor.rest().size() != *length) return kBadPacket;
  return write_bytes(Addr{*address}, std::as_bytes(std::span(cursor.rest())));
}

}  // namespace friday
