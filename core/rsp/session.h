// The dialogue with one client: packets come in, and replies go out through a callback. It uses no sockets; the
// endpoint (endpoint.h) moves the bytes. Runs on the thread that traces the node.
//
// gdb sees every node as process 1, a pid that no debuggee of its own can have, and thread n of the node as thread n+1
// of that process. Whatever a client sends, it gets a reply or none; nothing that it sends makes the session fail.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rsp/files.h"
#include "core/rsp/host.h"
#include "core/rsp/registers.h"
#include "core/rsp/text.h"
#include "core/stop/node_control.h"

namespace friday {

// Longest packet in either direction, as announced to gdb, which reads memory and files in pieces of this size.
constexpr size_t kRspPacketSize = 0x20000;

class RspSession {
 public:
  using Send = std::function<void(std::string_view payload)>;

  RspSession(NodeControl& node, RspHost& host, Send send);

  void handle(std::string_view packet);
  void interrupt();                       // the byte 0x03 arrived
  void report(const StopReport& report);  // the node stopped; the client is told only if it waits for that
  void say(std::string_view text);        // the client prints the text; only while it waits for the node
  void close();                           // the client is gone: removes its stop points
  // Until the client resumes the node, answers its questions for registers, memory and threads with this error, because
  // it does not know where the node stands now and cannot be told. A client that waits for a stop will be told, so it
  // is not refused.
  void refuse(std::string why) {
    if (!waiting_) refusal_ = std::move(why);
  }

  bool waiting() const { return waiting_; }  // the client waits for a stop reply
  bool closing() const { return closing_; }  // the last reply has been sent
  bool no_ack() const { return no_ack_; }

  // Sets the last stop of the node, for a session that begins after it.
  void set_last_stop(const StopReport& report) { last_stop_ = report; }

 private:
  using Reply = std::optional<std::string>;  // empty: no reply, or not yet
  struct ThreadRef {
    bool all = false;
    std::optional<ThreadId> id{};  // empty: any thread, or all threads
  };
  struct Command {
    std::string_view prefix;
    Reply (RspSession::*handler)(TextCursor&);
  };
  static const std::vector<Command>& commands();
  static constexpr char kBadPacket[] = "E01", kBadThread[] = "E03", kBadAddress[] = "E14";
  static std::string error_reply(const Error& error);  // gdb shows the error's text, except where it expects data

  // Connection and threads.
  Reply supported(TextCursor&);
  Reply start_no_ack(TextCursor&);
  Reply ok(TextCursor&);
  Reply nothing(TextCursor&);
  Reply attached(TextCursor&);
  Reply select_thread(TextCursor&);
  Reply thread_alive(TextCursor&);
  Reply current_thread(TextCursor&);
  Reply first_threads(TextCursor&);
  Reply more_threads(TextCursor&);
  Reply thread_extra(TextCursor&);
  Reply thread_local_storage(TextCursor&);
  Reply monitor(TextCursor&);
  Reply transfer(TextCursor&);
  Reply file_request(TextCursor&);
  Reply no_new_program(TextCursor&);
  // Registers and memory.
  Reply read_registers(TextCursor&);
  Reply write_registers(TextCursor&);
  Reply read_register(TextCursor&);
  Reply write_register(TextCursor&);
  Reply read_memory(TextCursor&);
  Reply write_memory_hex(TextCursor&);
  Reply write_memory_binary(TextCursor&);
  // Stop points and execution.
  Reply set_stop_point(TextCursor&);
  Reply clear_stop_point(TextCursor&);
  Reply resume_actions(TextCursor&);
  Reply resume_kinds(TextCursor&);
  Reply resume_all(TextCursor&);
  Reply step_one(TextCursor&);
  Reply reverse_continue(TextCursor&);
  Reply reverse_step(TextCursor&);
  Reply why_stopped(TextCursor&);
  Reply detach(TextCursor&);
  Reply kill(TextCursor&);
  Reply kill_process(TextCursor&);

  std::optional<ThreadRef> parse_thread(TextCursor& cursor) const;
  std::optional<StopPointRequest> parse_stop_point(TextCursor& cursor) const;
  std::optional<ThreadAction> parse_action(std::string_view text) const;
  std::string thread_text(ThreadId thread) const;
  std::string thread_list();
  ThreadId current();   // the thread that stopped last
  ThreadId selected();  // the thread selected by the last Hg packet
  Result<RegisterFile> load(ThreadId thread, bool extended);
  Result<void> store(ThreadId thread, const RegisterFile& file, bool general, bool extended);
  std::string write_bytes(Addr address, std::span<const std::byte> data);
  Reply resume(ResumeRequest request);
  std::vector<ThreadId> take_moved();
  Result<std::string> object(std::string_view name, std::string_view annex);
  std::string stop_reply(const StopReport& report);
  std::string signal_reply(const StopReport& report);

  NodeControl& node_;
  RspHost& host_;
  Send send_;
  RspFiles files_;
  bool multiprocess_ = false, knows_swbreak_ = false, knows_hwbreak_ = false;
  std::string refusal_;  // why the state of the node is not shown; empty: it is
  bool no_ack_ = false, waiting_ = false, closing_ = false, closed_ = false;
  std::optional<ThreadId> general_thread_, run_thread_;
  std::optional<StopReport> last_stop_;
  std::map<ThreadId, uint64_t> rip_before_;  // by thread whose registers the client has written since the stop
  std::vector<StopPointRequest> stop_points_;
  std::string object_name_, object_;  // the object that qXfer is transferring; a copy, so that all parts are consistent
};

}  // namespace friday
