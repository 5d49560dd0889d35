// A real gdb against the endpoint, on real processes.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rsp_host.h"

namespace friday {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// A gdb as a child process; write() feeds its input, output() is what it has said so far.
class Gdb {
 public:
  explicit Gdb(const std::vector<std::string>& arguments) {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) || pipe2(output, O_CLOEXEC)) abort();
    UniqueFd child_input(input[0]), child_output(output[1]);
    input_.reset(input[1]);
    output_.reset(output[0]);
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    pid_ = fork();
    if (pid_ == 0) {
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      setpgid(0, 0);
      std::vector<char*> argv = {const_cast<char*>("gdb"), const_cast<char*>("-nx"), const_cast<char*>("-q")};
      for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      dup2(child_input.get(), 0);
      dup2(child_output.get(), 1);
      dup2(child_output.get(), 2);
      execvp("gdb", argv.data());
      _exit(127);
    }
  }
  ~Gdb() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  int fd() const { return output_.get(); }
  const std::string& output() {
    char buffer[65536];
    for (ssize_t got; !at_end_ && (got = ::read(output_.get(), buffer, sizeof buffer)) >= 0;) {
      if (got == 0) at_end_ = true;
      text_.append(buffer, static_cast<size_t>(got));
    }
    return text_;
  }
  bool says(const char* text) { return output().find(text) != std::string::npos; }
  bool ended() {
    output();
    if (!at_end_) return false;
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = 0;
    return true;
  }
  void write(std::string_view text) { EXPECT_TRUE(write_all(input_.get(), std::as_bytes(std::span(text)))); }
  void end_input() { input_.reset(); }

 private:
  UniqueFd input_, output_;
  std::string text_;
  bool at_end_ = false;
  pid_t pid_ = 0;
};

class RspGdbTest : public testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/friday-rsp-XXXXXX";
    ASSERT_TRUE(mkdtemp(directory));
    directory_ = directory;
  }
  void TearDown() override {
    host_.reset();
    rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/node"; }

  void launch(const char* mode) {
    node_ = PtraceNode::launched({RSP_TARGET, mode});
    host_ = std::make_unique<RspTestHost>(*node_);
    auto listening = host_->endpoint().listen_unix(path());
    ASSERT_TRUE(listening) << listening.error().message;
  }

  std::vector<std::string> batch(std::vector<std::string> commands, const std::string& connect) {
    std::vector<std::string> arguments = {"-batch", "-ex",  "set pagination off", "-ex", "set confirm off",
                                          "-ex",    connect};
    for (auto& command : commands) {
      arguments.push_back("-ex");
      arguments.push_back(std::move(command));
    }
    return arguments;
  }

  // Runs gdb with these commands to its end and returns what it printed.
  std::string debug(std::vector<std::string> commands, std::string connect = "") {
    if (connect.empty()) connect = "target remote " + path();
    Gdb gdb(batch(std::move(commands), connect));
    EXPECT_TRUE(host_->serve([&] { return gdb.ended(); }, {gdb.fd()}, 60)) << gdb.output();
    return gdb.output();
  }

  std::string directory_;
  std::unique_ptr<PtraceNode> node_;
  std::unique_ptr<RspTestHost> host_;
};

// With `target remote` alone gdb gets program, libraries and their symbols through the endpoint (vFile).
TEST_F(RspGdbTest, BreakpointsStepsAndCalls) {
  launch("plain");
  std::string out = debug({"break work if i == 2",
                           "continue",
                           "backtrace",
                           "print i",
                           "print outer.name",
                           "info sharedlibrary",
                           "info symbol __vdso_time",
                           "info proc mappings",
                           "next",
                           "next",
                           "print counter",
                           "step",
                           "print square(12)",
                           "print (int)abs(-5)",
                           "backtrace 1",
                           "finish",
                           "print counter = 40",
                           "tbreak square",
                           "continue",
                           "info registers rip",
                           "x/2i $pc",
                           "delete",
                           "info line",
                           "monitor hello",
                           "continue"});
  EXPECT_THAT(out, HasSubstr("work (i=2) at "));
  EXPECT_THAT(out, HasSubstr("#1  0x"));
  EXPECT_THAT(out, ContainsRegex("in main \\(argc=2, argv=0x[0-9a-f]+\\)"));
  EXPECT_THAT(out, HasSubstr("$1 = 2\n"));
  EXPECT_THAT(out, HasSubstr("$2 = \"friday\\000"));
  EXPECT_THAT(out, ContainsRegex("libc.so.6"));
  EXPECT_THAT(out, HasSubstr("$3 = 3\n"));
  EXPECT_THAT(out, HasSubstr("square (x=2)"));
  EXPECT_THAT(out, HasSubstr("$4 = 144\n"));
  EXPECT_THAT(out, HasSubstr("$5 = 5\n"));
  EXPECT_THAT(out, HasSubstr("Value returned is $6 = 4\n"));
  EXPECT_THAT(out, HasSubstr("$7 = 40\n"));
  EXPECT_THAT(out, HasSubstr("Temporary breakpoint 2, square (x=3)"));
  EXPECT_THAT(out, ContainsRegex("rip +0x[0-9a-f]+ +0x[0-9a-f]+ <square"));
  EXPECT_THAT(out, ContainsRegex("=> 0x[0-9a-f]+ <square"));
  EXPECT_THAT(out, HasSubstr("heard: hello"));
  EXPECT_THAT(out, HasSubstr("(process 1) exited with code 054]"));  // 40 + 4 more passes = 44
  EXPECT_THAT(out, HasSubstr("in section .text of system-supplied DSO"));
  EXPECT_THAT(out, ContainsRegex("rw-p +\\[stack\\]"));
  EXPECT_THAT(out, Not(HasSubstr("unable to open")));  // the maps of "process 1" are the node's
  bool called =
      std::any_of(host_->requests.begin(), host_->requests.end(), [](const auto& r) { return !r.moved.empty(); });
  EXPECT_TRUE(called) << "function calls are announced to the host";
}

TEST_F(RspGdbTest, BreakpointInALibrary) {
  launch("signal");
  std::string out = debug({"break main", "continue", "break raise", "continue", "backtrace", "delete", "continue",
                           "print $_siginfo.si_signo", "continue"},
                          "target extended-remote " + path());
  EXPECT_THAT(out, ContainsRegex("Breakpoint 2, .*raise"));
  EXPECT_THAT(out, ContainsRegex("#1 .* main "));
  EXPECT_THAT(out, HasSubstr("Program received signal SIGUSR1"));
  EXPECT_THAT(out, HasSubstr("$1 = 10"));
  EXPECT_THAT(out, HasSubstr("exited with code 013"));
}

TEST_F(RspGdbTest, WatchpointsAreTheHosts) {
  launch("plain");
  std::string out = debug({"break main", "continue", "watch counter", "continue", "continue", "delete", "watch outer",
                           "continue", "delete", "print outer.inner.x"});
  EXPECT_THAT(out, ContainsRegex("Hardware watchpoint 2: counter\n\nOld value = 0\nNew value = 1"));
  EXPECT_THAT(out, ContainsRegex("Old value = 1\nNew value = 2"));
  EXPECT_THAT(out, HasSubstr("Hardware watchpoint 3: outer"));
  auto wide = std::find_if(host_->set_requests.begin(), host_->set_requests.end(), [](const StopPointRequest& request) {
    return request.kind == StopPointRequest::Kind::write_watch && request.length > 8;
  });
  EXPECT_NE(wide, host_->set_requests.end()) << "a struct is one range";
}

TEST_F(RspGdbTest, ConditionsGoToTheHostAsBytecode) {
  launch("plain");
  host_->offered.conditions = true;
  debug({"break work if counter == 3", "continue"});
  auto sent = std::find_if(host_->set_requests.begin(), host_->set_requests.end(),
                           [](const StopPointRequest& request) { return request.conditions.size() == 1; });
  ASSERT_NE(sent, host_->set_requests.end());
  EXPECT_EQ(sent->conditions[0].back(), std::byte{0x27});  // the bytecode's `end`
}

TEST_F(RspGdbTest, VectorRegisters) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "this processor has no AVX";
  launch("vectors");
  std::string out = debug({"break *after_load", "continue", "print $ymm0.v8_float", "print $xmm0.v4_float",
                           "print $mxcsr", "print $st0", "print $fctrl", "print $fs_base != 0",
                           "set var $ymm0.v8_float[5] = 99", "finish", "print lanes"});
  EXPECT_THAT(out, HasSubstr("{1, 2, 3, 4, 5, 6, 7, 8}"));
  EXPECT_THAT(out, HasSubstr("{1, 2, 3, 4}"));
  EXPECT_THAT(out, HasSubstr("[ IM DM ZM OM UM PM ]"));
  EXPECT_THAT(out, HasSubstr("= 895\n"));
  EXPECT_THAT(out, HasSubstr("{1, 2, 3, 4, 5, 99, 7, 8}"));
}

TEST_F(RspGdbTest, ThreadsAndTheirVariables) {
  launch("threads");
  std::string out = debug({"break all_started", "continue", "info threads", "thread apply all -q print tls_value",
                           "thread apply all -q print tls_more", "thread apply all -q print linked_value", "thread 3",
                           "print tls_value = 77", "backtrace", "delete", "continue"});
  EXPECT_THAT(out, ContainsRegex("Thread 1\\.1 \"rsp_target\" \\(tid [0-9]+\\)"));
  for (const char* name : {"worker-1", "worker-2", "worker-3"}) EXPECT_THAT(out, HasSubstr(name));
  for (const char* value : {" = 40\n", " = 41\n", " = 42\n", " = 43\n"}) EXPECT_THAT(out, HasSubstr(value));
  for (const char* value : {" = 1000\n", " = 2000\n", " = 3000\n"}) EXPECT_THAT(out, HasSubstr(value));
  for (const char* value : {" = 7\n", " = 8\n", " = 9\n", " = 10\n"}) EXPECT_THAT(out, HasSubstr(value));
  EXPECT_THAT(out, HasSubstr("= 77\n"));
  EXPECT_THAT(out, ContainsRegex("#[0-9]+ .* in worker \\(argument"));
  EXPECT_THAT(out, HasSubstr("exited with code 03]"));
}

TEST_F(RspGdbTest, VariablesOfALibraryThatWasLoadedLater) {
  launch("dlopen");
  std::string out = debug(
      {"break all_started", "continue", "thread apply all -s print loaded_value", "thread 1", "print loaded_value"});
  EXPECT_THAT(out, HasSubstr(" = 207\n"));
  EXPECT_THAT(out, ContainsRegex("Cannot find thread-local storage for Thread 1.1"));  // not allocated yet
}

TEST_F(RspGdbTest, StepsInAThreadedProgram) {
  launch("threads");
  std::string out =
      debug({"break worker", "continue", "next", "next", "next", "print number", "stepi", "stepi", "info threads"});
  EXPECT_THAT(out, ContainsRegex("Breakpoint 1, worker"));
  EXPECT_THAT(out, HasSubstr("$1 = "));
}

TEST_F(RspGdbTest, CrashesAndTheirSignal) {
  launch("crash");
  std::string out = debug({"continue", "print $_siginfo._sifields._sigfault.si_addr", "backtrace", "continue"});
  EXPECT_THAT(out, HasSubstr("Program received signal SIGSEGV"));
  EXPECT_THAT(out, HasSubstr("$1 = (void *) 0x0"));
  EXPECT_THAT(out, HasSubstr("Program terminated with signal SIGSEGV"));
}

TEST_F(RspGdbTest, DetachLeavesTheNodeWithItsOwner) {
  launch("plain");
  std::string out = debug({"break work", "continue", "detach"});
  EXPECT_THAT(out, HasSubstr("[Inferior 1 (process 1) detached]"));
  EXPECT_TRUE(node_->alive());
  EXPECT_EQ(host_->stop_point_count(), 0u);
  EXPECT_EQ(host_->disconnections, 1);
  out = debug({"print counter", "backtrace"});  // and another one may come
  EXPECT_THAT(out, ContainsRegex("work \\(i=0\\)"));
  EXPECT_EQ(host_->disconnections, 2);
}

TEST_F(RspGdbTest, KillAndRunAreRefused) {
  launch("plain");
  std::string out = debug({"kill", "run"}, "target extended-remote " + path());
  EXPECT_GE(host_->kills, 1) << out;
  EXPECT_THAT(out, HasSubstr("Can't kill process"));
  EXPECT_TRUE(node_->alive());
}

TEST_F(RspGdbTest, ASecondGdbIsToldWhy) {
  launch("plain");
  Gdb first({"-ex", "set confirm off", "-ex", "target remote " + path()});
  ASSERT_TRUE(host_->serve([&] { return host_->endpoint().has_client(); }));
  std::string out = debug({"print 1"});
  EXPECT_THAT(out, HasSubstr("already being debugged by another client"));
  EXPECT_TRUE(host_->endpoint().has_client());
  first.end_input();
  EXPECT_TRUE(host_->serve([&] { return first.ended(); }, {first.fd()}));
}

TEST_F(RspGdbTest, OverTheLoopbackPort) {
  launch("plain");
  auto port = host_->endpoint().listen_loopback();
  ASSERT_TRUE(port);
  std::string out = debug({"break work", "continue"}, fmt::format("target remote :{}", *port));
  EXPECT_THAT(out, HasSubstr("Breakpoint 1, work (i=0)"));
}

TEST_F(RspGdbTest, InterruptFromAnMiFrontEnd) {
  launch("spin");
  Gdb gdb({"--interpreter=mi3", "-ex", "set mi-async on", "-ex", "set confirm off"});
  auto wait_for = [&](const char* text) { return host_->serve([&] { return gdb.says(text); }, {gdb.fd()}); };
  gdb.write("-target-select remote " + path() + "\n-break-insert spin\n-exec-continue\n");
  ASSERT_TRUE(wait_for("reason=\"breakpoint-hit\"")) << gdb.output();
  gdb.write("-exec-continue\n");
  ASSERT_TRUE(host_->serve([&] { return node_->running(); }));
  gdb.write("-exec-interrupt\n");
  EXPECT_TRUE(wait_for("signal-name=\"SIGINT\"")) << gdb.output();
  EXPECT_EQ(host_->interrupts, 1);
  gdb.write("-data-evaluate-expression counter\n-gdb-exit\n");
  EXPECT_TRUE(host_->serve([&] { return gdb.ended(); }, {gdb.fd()}));
}

TEST_F(RspGdbTest, ConnectsToANodeThatRuns) {
  launch("spin");
  ASSERT_TRUE(node_->run_to(*node_->symbol("spin")));
  ASSERT_TRUE(node_->resume());
  std::string out =
      debug({"print keep_spinning", "backtrace", "print keep_spinning = 0", "print (int)atoi(\"4\")", "continue"});
  EXPECT_EQ(host_->interrupts, 1);
  EXPECT_THAT(out, HasSubstr("$1 = 1\n"));
  EXPECT_THAT(out, ContainsRegex("#1 .* main "));
  EXPECT_THAT(out, HasSubstr("$3 = 4\n"));
  EXPECT_THAT(out, HasSubstr("[Inferior 1 (process 1) exited with code"));
}

TEST_F(RspGdbTest, ReverseIsOfferedOnlyWhenTheHostCan) {
  launch("plain");
  EXPECT_THAT(debug({"reverse-continue"}), HasSubstr("does not support this command"));
  EXPECT_TRUE(host_->requests.empty());
  host_->offered.reverse = true;
  std::string out = debug({"break work", "continue", "reverse-continue"});
  EXPECT_THAT(out, HasSubstr("No more reverse-execution history"));
  EXPECT_EQ(host_->requests.back().direction, ResumeRequest::Direction::reverse_continue);
}

// Not a test of speed but of the order of things: prints what a packet and a stop cost on this machine.
TEST_F(RspGdbTest, Cost) {
  launch("plain");
  ASSERT_TRUE(node_->run_to(*node_->symbol("work")));
  std::string reply;
  RspSession session(*node_, *host_, [&](std::string_view text) { reply = text; });
  host_->hold = true;
  constexpr int kRounds = 1000;
  using Clock = std::chrono::steady_clock;
  auto microseconds = [](Clock::duration spent) {
    return std::chrono::duration<double, std::micro>(spent).count() / kRounds;
  };
  auto measure = [&](const std::string& packet) {
    auto begin = Clock::now();
    for (int i = 0; i < kRounds; ++i) session.handle(packet);
    EXPECT_NE(reply[0], 'E') << packet;
    return microseconds(Clock::now() - begin);
  };
  session.report({.kind = StopReport::Kind::step});
  double memory = measure(fmt::format("m{:x},8", node_->symbol("counter")->value));
  double big = measure(fmt::format("m{:x},1000", node_->symbol("counter")->value & ~0xfffull));
  double general = measure("p10"), all = measure("g");
  Clock::duration stepping{}, telling{};
  for (int i = 0; i < kRounds; ++i) {
    auto begin = Clock::now();
    session.handle("vCont;s:1");
    auto resumed = Clock::now();
    ASSERT_TRUE(node_->single_step({0}));
    auto stopped = Clock::now();
    session.report({.kind = StopReport::Kind::step});
    ASSERT_EQ(reply[0], 'T');
    stepping += stopped - resumed;
    telling += Clock::now() - stopped + (resumed - begin);
  }
  fmt::print(
      "[ measured ] us: m8 {:.2f}, m4096 {:.2f}, p {:.2f}, g {:.2f}, resume and stop {:.2f} beside {:.1f} of the "
      "step\n",
      memory, big, general, all, microseconds(telling), microseconds(stepping));
}

}  // namespace
}  // namespace friday
