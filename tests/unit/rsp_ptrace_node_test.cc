// PtraceNode itself: what the other tests of core/rsp and core/stop stand on.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/ptrace_node.h"

namespace friday {
namespace {

std::unique_ptr<PtraceNode> launch(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RSP_TARGET);
  return PtraceNode::launched(arguments);
}

TEST(PtraceNode, SaysWhyItDidNotStart) {
  EXPECT_THAT([] { PtraceNode::launched({"/nonexistent/program"}); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("cannot run /nonexistent/program")));
}

TEST(PtraceNode, RunsToTheEnd) {
  auto node = launch({"plain"});
  auto stop = node->continue_and_wait();
  ASSERT_TRUE(stop) << stop.error().message;
  EXPECT_EQ(stop->kind, NodeStop::Kind::exited);
  EXPECT_EQ(stop->status, 7);
  EXPECT_FALSE(node->alive());
  EXPECT_EQ(node->registers({0}).error().code, ErrorCode::node_ended);
}

TEST(PtraceNode, StopsAtAFunctionAndSeesItsMemory) {
  auto node = launch({"plain"});
  auto work = node->symbol("work");
  ASSERT_TRUE(work) << work.error().message;
  for (int pass = 0; pass < 3; ++pass) {
    auto stop = node->run_to(*work);
    ASSERT_TRUE(stop) << stop.error().message;
    auto registers = node->registers(stop->thread);
    ASSERT_TRUE(registers);
    EXPECT_EQ(registers->rip, work->value);
    EXPECT_EQ(registers->rdi, static_cast<uint64_t>(pass));
    int counter = -1;
    ASSERT_TRUE(node->read(*node->symbol("counter"), std::as_writable_bytes(std::span(&counter, 1))));
    EXPECT_EQ(counter, pass);
  }
}

TEST(PtraceNode, InjectsASystemCallUnseen) {
  auto node = launch({"plain"});
  ASSERT_TRUE(node->run_to(*node->symbol("work")));
  auto before = node->registers({0});
  uint64_t arguments[] = {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0};
  auto mapped = node->inject(SYS_mmap, arguments);
  ASSERT_TRUE(mapped) << mapped.error().message;
  ASSERT_GT(*mapped, 0);
  auto after = node->registers({0});
  EXPECT_EQ(memcmp(&*before, &*after, sizeof *before), 0);
  EXPECT_EQ(*node->inject(SYS_getpid, {}), node->pid());
  uint64_t bad[] = {1, 1};
  EXPECT_EQ(*node->inject(SYS_munmap, bad), -EINVAL);
  EXPECT_EQ(node->continue_and_wait()->status, 7);
}

TEST(PtraceNode, StopsAllThreadsTogether) {
  auto node = launch({"threads"});
  auto stop = node->run_to(*node->symbol("all_started"));
  ASSERT_TRUE(stop) << stop.error().message;
  auto threads = node->threads();
  ASSERT_EQ(threads.size(), 4u);
  EXPECT_EQ(threads[0].id, stop->thread);
  std::set<std::string> names;
  for (const auto& thread : threads) {
    names.insert(thread.name);
    EXPECT_TRUE(node->registers(thread.id));
    EXPECT_GE(node->extended_state(thread.id)->size(), 576u);
  }
  EXPECT_TRUE(names.contains("worker-2"));
  EXPECT_EQ(node->continue_and_wait()->status, 3);
}

TEST(PtraceNode, InterruptsASpin) {
  auto node = launch({"spin"});
  ASSERT_TRUE(node->run_to(*node->symbol("spin")));
  ASSERT_TRUE(node->resume());
  EXPECT_FALSE(node->poll()->has_value());
  node->interrupt();
  auto stop = node->wait();
  ASSERT_TRUE(stop) << stop.error().message;
  EXPECT_EQ(stop->kind, NodeStop::Kind::interrupt);
}

TEST(PtraceNode, ReportsAndDeliversSignals) {
  auto node = launch({"signal"});
  auto stop = node->continue_and_wait();
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->signal, SIGUSR1);
  EXPECT_EQ(node->continue_and_wait(stop->thread, SIGUSR1)->status, 11);
  auto crash = launch({"crash"});
  auto fault = crash->continue_and_wait();
  EXPECT_EQ(fault->signal, SIGSEGV);
  EXPECT_EQ(fault->info.si_addr, nullptr);
  EXPECT_EQ(crash->continue_and_wait(fault->thread, SIGSEGV)->kind, NodeStop::Kind::killed);
}

TEST(PtraceNode, SingleStepsOneInstruction) {
  auto node = launch({"plain"});
  ASSERT_TRUE(node->run_to(*node->symbol("work")));
  auto before = node->registers({0})->rip;
  ASSERT_TRUE(node->single_step({0}));
  auto after = node->registers({0})->rip;
  EXPECT_NE(before, after);
  EXPECT_LE(after - before, 15u);
}

TEST(PtraceNode, ListsMappings) {
  auto node = launch({"plain"});
  auto maps = node->mappings();
  ASSERT_TRUE(maps);
  bool stack = false, program = false;
  for (const auto& map : *maps) {
    stack |= map.path == "[stack]" && map.stack;
    program |= map.path == node->executable() && (map.protection & PROT_EXEC);
  }
  EXPECT_TRUE(stack && program);
}

}  // namespace
}  // namespace friday
