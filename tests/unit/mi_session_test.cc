// MiSession and MiMultiplexer against a real gdb.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/mi/multiplexer.h"
#include "core/mi/session.h"
#include "core/mi/typed.h"
#include "tests/unit/mi_pump.h"

namespace friday {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<MiSession> start(MiSessionOptions options = {}) {
  auto session = MiSession::start(std::move(options));
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : nullptr;
}

// Takes asynchronous records, pumping, until a stop comes. Bounded by time, not by turns: gdb writes a record in pieces
// of a few bytes, and a quick reader takes each in a turn of its own.
MiStop wait_for_stop(MiSession& session, Pump& pump) {
  auto end = std::chrono::steady_clock::now() + session.deadline();
  while (session.is_alive() && std::chrono::steady_clock::now() < end) {
    while (auto record = session.take_async())
      if (auto stop = stop_of(*record)) return *stop;
    EXPECT_TRUE(pump.pump_once(1000));
  }
  ADD_FAILURE() << "no stop came";
  return {};
}

struct Conversation : testing::Test {
  std::unique_ptr<MiSession> session = start();
  PollPump pump{{session.get()}};

  ResultRecord run(std::string_view command) {
    auto record = session->run(command, pump);
    EXPECT_TRUE(record) << command << ": " << record.error().message;
    return record ? *std::move(record) : ResultRecord{};
  }
};

TEST_F(Conversation, becomes_ready_with_friday_settings) {
  ASSERT_TRUE(session->wait_ready(pump));
  EXPECT_EQ(value_of(run("-gdb-show mi-async")).value(), "on");
  EXPECT_EQ(value_of(run("-gdb-show confirm")).value(), "off");
  EXPECT_EQ(value_of(run("-gdb-show width")).value(), "unlimited");
  EXPECT_EQ(value_of(run("-gdb-show remote hardware-watchpoint-limit")).value(), "unlimited");
  EXPECT_EQ(value_of(run("-gdb-show breakpoint pending")).value(), "on");
  EXPECT_EQ(value_of(run("-gdb-show sysroot")).value(), "/");
}

TEST_F(Conversation, runs_in_its_own_process_group_without_terminal_size) {
  ASSERT_TRUE(session->wait_ready(pump));
  EXPECT_EQ(::getpgid(session->pid()), session->pid());
  EXPECT_NE(::getpgid(session->pid()), ::getpgrp());
  std::ifstream file("/proc/" + std::to_string(session->pid()) + "/environ", std::ios::binary);
  std::string environment((std::istreambuf_iterator<char>(file)), {});
  environment.insert(0, 1, '\0');
  EXPECT_EQ(environment.find(std::string("\0LINES=", 7)), std::string::npos);
  EXPECT_NE(environment.find(std::string("\0LC_ALL=C.UTF-8", 15)), std::string::npos);
}

std::string link_of(int pid, int fd) {
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, fd)).string();
}

TEST_F(Conversation, a_gdb_holds_no_pipe_of_another) {
  auto other = start();
  PollPump both({session.get(), other.get()});
  ASSERT_TRUE(session->wait_ready(both));
  ASSERT_TRUE(other->wait_ready(both));
  int checked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", other->pid()))) {
    std::string target = std::filesystem::read_symlink(entry.path()).string();
    for (int fd : {0, 1, 2}) EXPECT_NE(target, link_of(session->pid(), fd));
    ++checked;
  }
  EXPECT_GE(checked, 3);
}

TEST_F(Conversation, matches_answers_by_token_in_any_order) {
  MiToken first = session->send("-data-evaluate-expression 1+1");
  MiToken second = session->send("-data-evaluate-expression 2+2");
  MiToken third = session->send("-data-evaluate-expression 3+");
  std::optional<Result<MiReply>> reply;
  while (!(reply = session->take_result(third))) ASSERT_TRUE(pump.pump_once(10000));
  ASSERT_TRUE(*reply);
  EXPECT_TRUE((*reply)->record.is_error());
  EXPECT_EQ(value_of((*session->take_result(second))->record).value(), "4");
  EXPECT_EQ(value_of((*session->take_result(first))->record).value(), "2");
  EXPECT_FALSE(session->take_result(first)) << "an answer is given once";
}

TEST_F(Conversation, callbacks_may_wait_for_further_answers) {
  std::string inner, outer;
  session->send("-data-evaluate-expression 10", [&](Result<MiReply> reply) {
    inner = value_of(session->run("-data-evaluate-expression 20", pump).value()).value();
    outer = value_of(reply->record).value();
  });
  session->send("-data-evaluate-expression 30");
  while (outer.empty()) ASSERT_TRUE(pump.pump_once(10000));
  EXPECT_EQ(inner, "20");
  EXPECT_EQ(outer, "10");
}

TEST_F(Conversation, console_takes_quotes_backslashes_and_lines) {
  EXPECT_EQ(session->console("echo a\\tb \"c\" \\\\ é\\n", pump).value(), "a\tb \"c\" \\ é\n");
  EXPECT_EQ(session->console("python\nprint('first')\nprint(\"sec\\x6fnd\")", pump).value(), "first\nsecond\n");
  EXPECT_EQ(session->console("printf \"x\\\"y|%c\\n\", 64", pump).value(), "x\"y|@\n");
}

TEST_F(Conversation, console_commands_with_a_body_take_it_from_their_text) {
  EXPECT_EQ(session->console("set $i = 0\nwhile $i < 3\n  output $i\n  set $i = $i + 1\nend", pump).value(), "012");
  EXPECT_EQ(session->console("define greet\necho hello\nend", pump).value(), "");
  EXPECT_EQ(session->console("greet", pump).value(), "hello");
  // Without its body, such a command must not swallow the commands that follow.
  for (const char* bare : {"while 0", "if 1", "define nothing", "python", "py", "comm"}) {
    auto ignored = session->console(bare, pump, 5s);
    EXPECT_EQ(session->console("echo next", pump, 5s).value_or("lost"), "next") << bare;
  }
  auto error = session->console("echo one\nprint nosuch\necho two", pump);
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().message, "No symbol table is loaded.  Use the \"file\" command.");
}

TEST_F(Conversation, console_gives_all_of_a_long_output) {
  auto text = session->console("python print('x' * 10000)", pump);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, std::string(10000, 'x') + "\n");
  text = session->console("python for i in range(20000): print(i)", pump);
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->starts_with("0\n1\n2\n"));
  EXPECT_TRUE(text->ends_with("\n19999\n"));
}

TEST_F(Conversation, console_text_belongs_to_its_own_command) {
  MiToken first = session->send(MiSession::console_command("echo one"));
  MiToken second = session->send(MiSession::console_command("echo two"));
  std::optional<Result<MiReply>> reply;
  while (!(reply = session->take_result(second))) ASSERT_TRUE(pump.pump_once(10000));
  EXPECT_EQ((*reply)->text, "two");
  EXPECT_EQ((*session->take_result(first))->text, "one");
}

TEST_F(Conversation, errors_keep_the_words_of_gdb) {
  auto unknown = session->run("-no-such-command", pump);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "Undefined MI command: no-such-command");
  EXPECT_EQ(unknown.error().code, ErrorCode::usage);
  auto symbol = session->console("print nosuch", pump);
  ASSERT_FALSE(symbol);
  EXPECT_EQ(symbol.error().message, "No symbol table is loaded.  Use the \"file\" command.");
  auto python = session->console("python raise ValueError('why')", pump);
  ASSERT_FALSE(python);
  EXPECT_NE(python.error().message.find("ValueError: why"), std::string::npos) << python.error().message;
  auto lines = session->run("-data-evaluate-expression 1\n-gdb-exit", pump);
  ASSERT_FALSE(lines);
  EXPECT_EQ(lines.error().code, ErrorCode::usage);
  EXPECT_TRUE(session->is_alive());
}

TEST_F(Conversation, commands_larger_than_a_pipe_are_written_as_gdb_reads) {
  std::string text(1 << 20, 'y');
  auto length = session->console("python print(len('" + text + "'))", pump);
  ASSERT_TRUE(length) << length.error().message;
  EXPECT_EQ(*length, "1048576\n");
}

TEST_F(Conversation, a_deadline_leaves_the_session_usable) {
  ASSERT_TRUE(session->wait_ready(pump));
  for (const char* endless :
       {"python while True: pass", "while 1\n  set $i = 1\nend", "python import time; time.sleep(1000)"}) {
    auto begin = std::chrono::steady_clock::now();
    auto result = session->console(endless, pump, 200ms);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("did not answer"), std::string::npos) << result.error().message;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    EXPECT_EQ(session->console("echo usable", pump, 10s).value_or("not usable"), "usable") << endless;
    EXPECT_EQ(value_of(run("-data-evaluate-expression 5")).value(), "5");
  }
}

struct FailingPump : Pump {
  Result<void> pump_once(int) override { return fail(ErrorCode::interrupted, "interrupted"); }
};

TEST_F(Conversation, an_interrupted_wait_leaves_the_session_usable) {
  ASSERT_TRUE(session->wait_ready(pump));
  FailingPump failing;
  auto result = session->console("python while True: pass", failing);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::interrupted);
  for (int i = 0; i < 20; ++i) {  // an idle gdb must not lose the next command to a late SIGINT either
    EXPECT_FALSE(session->run("-data-evaluate-expression 1", failing));
    EXPECT_EQ(session->console("echo usable", pump, 10s).value_or("not usable"), "usable");
  }
}

TEST_F(Conversation, a_killed_gdb_is_component_died_for_every_open_command) {
  ASSERT_TRUE(session->wait_ready(pump));
  ASSERT_TRUE(session->console("python import os; os.write(2, b'last words of gdb\\n') and None", pump));
  MiToken endless = session->send(MiSession::console_command("python import time; time.sleep(1000)"));
  MiToken behind = session->send("-data-evaluate-expression 1");
  ::kill(session->pid(), SIGKILL);
  while (session->is_alive()) ASSERT_TRUE(pump.pump_once(10000));
  for (MiToken token : {endless, behind}) {
    auto result = session->take_result(token);
    ASSERT_TRUE(result && !*result);
    EXPECT_EQ(result->error().code, ErrorCode::component_died);
    EXPECT_NE(result->error().message.find("signal 9"), std::string::npos) << result->error().message;
    EXPECT_NE(result->error().message.find("last words of gdb"), std::string::npos) << result->error().message;
  }
  auto later = session->run("-data-evaluate-expression 1", pump);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, ErrorCode::component_died);
}

TEST(MiSessionStart, a_missing_gdb_names_the_package) {
  for (const char* gdb : {"/nonexistent/gdb", "no-such-gdb-anywhere"}) {
    auto session = MiSession::start({.gdb = gdb});
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().code, ErrorCode::not_found);
    EXPECT_NE(session.error().message.find("Debian's package gdb"), std::string::npos);
    EXPECT_NE(session.error().message.find(gdb), std::string::npos);
  }
}

TEST(MiSessionStart, a_program_that_is_no_gdb_fails_clearly) {
  auto session = start({.gdb = "/bin/false"});
  PollPump pump({session.get()});
  auto ready = session->wait_ready(pump);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, ErrorCode::component_died);
  EXPECT_NE(ready.error().message.find("exit code 1"), std::string::npos) << ready.error().message;
}

TEST(MiSessionStart, destruction_leaves_no_process) {
  int pid = 0;
  {
    auto session = start();
    pid = session->pid();
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(MiSessionStart, a_busy_gdb_ends_with_its_killed_owner) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  pid_t owner = ::fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    auto session = MiSession::start();
    if (!session) ::_exit(1);
    PollPump pump({session->get()});
    int pid = (*session)->wait_ready(pump) ? (*session)->pid() : 0;
    (*session)->send(MiSession::console_command("python while True: pass"));
    if (::write(ends[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    for (;;) ::pause();
  }
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  int gdb = 0;
  ASSERT_EQ(::read(read_end.get(), &gdb, sizeof gdb), static_cast<ssize_t>(sizeof gdb));
  ASSERT_GT(gdb, 0);
  UniqueFd death(static_cast<int>(::syscall(SYS_pidfd_open, gdb, 0)));
  ASSERT_TRUE(death);
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  pollfd entry{.fd = death.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&entry, 1, 10'000), 1) << "gdb still runs";
}

TEST(MiSessionProgram, stops_are_typed) {
  auto session = start({.arguments = {MI_FAULTS}});
  PollPump pump({session.get()});
  ASSERT_TRUE(session->wait_ready(pump));
  auto inserted = session->run("-break-insert step", pump);
  ASSERT_TRUE(inserted) << inserted.error().message;
  auto breakpoints = breakpoints_of(inserted->fields);
  ASSERT_EQ(breakpoints.size(), 1u);
  ASSERT_EQ(breakpoints[0].locations.size(), 1u);
  EXPECT_EQ(breakpoints[0].locations[0].function, "step");

  ASSERT_TRUE(session->run("-exec-arguments segv", pump));
  ASSERT_TRUE(session->run("-exec-run", pump));
  MiStop stop = wait_for_stop(*session, pump);
  EXPECT_EQ(stop.reason, MiStopReason::breakpoint_hit);
  EXPECT_EQ(stop.breakpoint, breakpoints[0].number);
  ASSERT_TRUE(stop.frame);
  EXPECT_EQ(stop.frame->function, "step");
  ASSERT_EQ(stop.frame->arguments.size(), 1u);
  EXPECT_EQ(stop.frame->arguments[0], std::make_pair(std::string("n"), std::string("1")));

  auto frames = frames_of(session->run("-stack-list-frames", pump).value());
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1].function, "main");
  auto threads = threads_of(session->run("-thread-info", pump).value());
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_TRUE(threads[0].current);

  // Some virtual machines have debug registers that report nothing, which gdb does not notice.
  ASSERT_TRUE(session->run("-gdb-set can-use-hw-watchpoints 0", pump));
  ASSERT_TRUE(session->run("-break-watch state.value", pump));
  ASSERT_TRUE(session->run("-exec-continue", pump));
  stop = wait_for_stop(*session, pump);
  EXPECT_EQ(stop.reason, MiStopReason::watchpoint_trigger);
  EXPECT_EQ(stop.watch_expression, "state.value");
  EXPECT_EQ(stop.old_value + ">" + stop.new_value, "1>2");

  ASSERT_TRUE(session->run("-break-delete", pump));
  ASSERT_TRUE(session->run("-exec-continue", pump));
  stop = wait_for_stop(*session, pump);
  EXPECT_EQ(stop.reason, MiStopReason::signal_received);
  EXPECT_EQ(stop.signal, "SIGSEGV");
  auto memory = session->run("-data-evaluate-expression *(int*)8", pump);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::bad_address);

  ASSERT_TRUE(session->run("-exec-arguments fail", pump));
  ASSERT_TRUE(session->run("-exec-run", pump));
  stop = wait_for_stop(*session, pump);
  EXPECT_EQ(stop.reason, MiStopReason::exited);
  EXPECT_EQ(stop.exit_code, 42);
}

TEST(MiMultiplexerTest, broadcasts_and_keeps_failures_apart) {
  MiMultiplexer gdbs;
  PollPump pump(gdbs);
  std::vector<NodeId> nodes;
  for (uint32_t node = 0; node < 4; ++node) {
    gdbs.add(NodeId{node}, start());
    nodes.push_back(NodeId{node});
  }
  EXPECT_EQ(gdbs.count(), 4u);
  EXPECT_EQ(gdbs.fds().size(), 4u);
  for (NodeId node : nodes) ASSERT_TRUE(gdbs.session(node)->wait_ready(pump));
  for (NodeId node : nodes) ASSERT_TRUE(gdbs.session(node)->run(fmt::format("-gdb-set var $node = {}", node), pump));

  // In parallel: four sleeps of a second end long before four seconds.
  auto begin = std::chrono::steady_clock::now();
  auto slept = gdbs.console(nodes, "python import time; time.sleep(1)", pump);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3000ms);
  ASSERT_EQ(slept.size(), 4u);

  ASSERT_TRUE(gdbs.session(NodeId{2}));
  ::kill(gdbs.session(NodeId{2})->pid(), SIGKILL);
  nodes.push_back(NodeId{9});
  auto texts = gdbs.console(nodes, "output $node * 100 / $node", pump);  // node 0 divides by zero
  ASSERT_EQ(texts.size(), 5u);
  EXPECT_EQ(texts.at(NodeId{0}).error().message, "Division by zero");
  EXPECT_EQ(texts.at(NodeId{0}).error().node, 0u);
  EXPECT_EQ(texts.at(NodeId{1}).value(), "100");
  EXPECT_EQ(texts.at(NodeId{2}).error().code, ErrorCode::component_died);
  EXPECT_EQ(texts.at(NodeId{2}).error().node, 2u);
  EXPECT_EQ(texts.at(NodeId{3}).value(), "100");
  EXPECT_EQ(texts.at(NodeId{9}).error().code, ErrorCode::not_found);

  gdbs.remove(NodeId{2});
  EXPECT_EQ(gdbs.count(), 3u);
}

TEST(MiMultiplexerTest, a_deadline_hits_only_the_late_node) {
  MiMultiplexer gdbs;
  PollPump pump(gdbs);
  gdbs.add(NodeId{0}, start());
  gdbs.add(NodeId{1}, start());
  std::vector<NodeId> nodes = gdbs.nodes();
  for (NodeId node : nodes) ASSERT_TRUE(gdbs.session(node)->wait_ready(pump));
  for (NodeId node : nodes)
    ASSERT_TRUE(gdbs.session(node)->run(fmt::format("-gdb-set var $wait = {}", node.value * 1000), pump));
  auto texts = gdbs.console(
      nodes, "python import time; time.sleep(int(gdb.convenience_variable('wait'))); print('awake')", pump, 500ms);
  EXPECT_EQ(texts.at(NodeId{0}).value(), "awake\n");
  ASSERT_FALSE(texts.at(NodeId{1}));
  EXPECT_NE(texts.at(NodeId{1}).error().message.find("did not answer"), std::string::npos);
  EXPECT_EQ(gdbs.session(NodeId{1})->console("echo again", pump).value(), "again");
}

}  // namespace
}  // namespace friday
