// The conversation with one client: a packet comes in, replies go out through a callback. No sockets here; the endpoint
// (endpoint.h) moves the bytes. Runs on the thread that traces the node.
//
// Towards gdb every node is process 1, which no debuggee of its own can be, and thread n of the node is thread n+1 of
// it. Whatever a client sends, a reply or silence is the answer, never a failure of this side.
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

// Longest packet either way, as announced. gdb reads memory and files in pieces of this size.
constexpr size_t kRspPacketSize = 0x20000;

class RspSession {
 public:
  using Send = std::function<void(std::string_view payload)>;

  RspSession(NodeControl& node, RspHost& host, Send send);

  void handle(std::string_view packet);
  void interrupt();                       // the byte 0x03
  void report(const StopReport& report);  // the node stopped; told to the client only if it waits for that
  void say(std::string_view text);        // printed by a client that waits for the node
  void close();                           // the client is gone: takes its stop points back

  bool waiting() const { return waiting_; }  // a stop reply is owed
  bool closing() const { return closing_; }  // the last reply has been given
  bool no_ack() const { return no_ack_; }

  // What the last stop of the node was, for a session that begins later.
  void set_last_stop(const StopReport& report) { last_stop_ = report; }

 private:
  using Reply = std::optional<std::string>;  // empty: none, or not yet
  struct ThreadRef {
    bool all = false;
    std::optional<ThreadId> id{};  // empty: any, or all
  };
  struct Command {
    std::string_view prefix;
    Reply (RspSession::*handler)(TextCursor&);
  };
  static const std::vector<Command>& commands();
  static constexpr char kBadPacket[] = "E01", kBadThread[] = "E03", kBadAddress[] = "E14";
  static std::string error_reply(const Error& error);  // gdb shows its text, except where it expects data

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
  ThreadId current();   // the thread of the last stop
  ThreadId selected();  // the thread of the last Hg
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
  bool no_ack_ = false, waiting_ = false, closing_ = false, closed_ = false;
  std::optional<ThreadId> general_thread_, run_thread_;
  std::optional<StopReport> last_stop_;
  std::map<ThreadId, uint64_t> rip_before_;  // of threads whose registers the client wrote since the stop
  std::vector<StopPointRequest> stop_points_;
  std::string object_name_, object_;  // what qXfer is reading, as it was when the client began
};

}  // namespace friday
