// How arguments of system calls are written: by name where they have one, and never with anything of the value lost.
#include "core/trace/arguments.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <csignal>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/trace/calls.h"
#include "core/trace/event_text.h"

namespace friday {
namespace {

std::string written(unsigned call, std::vector<uint64_t> arguments) { return call_with_arguments(call, arguments); }

TEST(Arguments, AreWrittenAsManPagesDo) {
  EXPECT_EQ(written(SYS_openat, {0xffffff9c, 0x7ffd1000, O_WRONLY | O_CREAT | O_CLOEXEC, 0644}),
            "openat(AT_FDCWD, 0x7ffd1000, O_WRONLY|O_CREAT|O_CLOEXEC, 0644)");
  EXPECT_EQ(written(SYS_open, {0x7ffd1000, 0, 0x7f2f633a6a07}), "open(0x7ffd1000, O_RDONLY, 0x7f2f633a6a07)");
  EXPECT_EQ(written(SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0xffffffff, 0}),
            "mmap(0, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)");
  EXPECT_EQ(written(SYS_mprotect, {0x7f0000000000, 4096, PROT_NONE}), "mprotect(0x7f0000000000, 4096, PROT_NONE)");
  EXPECT_EQ(written(SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP}),
            "socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP)");
  EXPECT_EQ(written(SYS_socket, {AF_NETLINK, SOCK_RAW, 6}), "socket(AF_NETLINK, SOCK_RAW, 6)");
  EXPECT_EQ(written(SYS_setsockopt, {6, IPPROTO_TCP, TCP_NODELAY, 0x7ffd1000, 4}),
            "setsockopt(6, IPPROTO_TCP, TCP_NODELAY, 0x7ffd1000, 4)");
  EXPECT_EQ(written(SYS_setsockopt, {6, SOL_SOCKET, SO_REUSEADDR, 0x7ffd1000, 4}),
            "setsockopt(6, SOL_SOCKET, SO_REUSEADDR, 0x7ffd1000, 4)");
  EXPECT_EQ(written(SYS_fcntl, {5, F_SETFL, O_RDWR | O_NONBLOCK}), "fcntl(5, F_SETFL, O_RDWR|O_NONBLOCK)");
  EXPECT_EQ(written(SYS_fcntl, {5, F_SETFD, 1}), "fcntl(5, F_SETFD, FD_CLOEXEC)");
  EXPECT_EQ(written(SYS_fcntl, {5, F_DUPFD_CLOEXEC, 10}), "fcntl(5, F_DUPFD_CLOEXEC, 10)");
  EXPECT_EQ(written(SYS_futex, {0x7f2f63479a4c, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 0x7fffffff, 0, 3, 0}),
            "futex(0x7f2f63479a4c, FUTEX_WAKE|FUTEX_PRIVATE_FLAG, 0x7fffffff, 0, 3, 0)");
  EXPECT_EQ(written(SYS_kill, {0xffffffffffffffff, SIGTERM}), "kill(-1, SIGTERM)");
  EXPECT_EQ(written(SYS_kill, {77, 0}), "kill(77, 0)");
  EXPECT_EQ(written(SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0}),
            "clone(CLONE_VM|CLONE_VFORK|SIGCHLD, 0, 0, 0, 0)");
  EXPECT_EQ(written(SYS_clone, {SIGCHLD, 0, 0, 0, 0}), "clone(SIGCHLD, 0, 0, 0, 0)");
  EXPECT_EQ(written(SYS_recvfrom, {3, 0x7ffd1000, 304, MSG_DONTWAIT | MSG_TRUNC, 0, 0}),
            "recvfrom(3, 0x7ffd1000, 304, MSG_TRUNC|MSG_DONTWAIT, 0, 0)");
  EXPECT_EQ(written(SYS_access, {0x7ffd1000, F_OK}), "access(0x7ffd1000, F_OK)");
  EXPECT_EQ(written(SYS_access, {0x7ffd1000, R_OK | X_OK}), "access(0x7ffd1000, R_OK|X_OK)");
  EXPECT_EQ(written(SYS_epoll_wait, {5, 0x7ffd1000, 64, 0xffffffff}), "epoll_wait(5, 0x7ffd1000, 64, -1)");
  EXPECT_EQ(written(SYS_lseek, {3, static_cast<uint64_t>(-60), SEEK_CUR}), "lseek(3, -60, SEEK_CUR)");
  EXPECT_EQ(written(SYS_clock_gettime, {99, 0}), "clock_gettime(99, 0)") << "a number without a name";
}

TEST(Arguments, KeepTheBitsThatHaveNoName) {
  EXPECT_EQ(written(SYS_openat, {3, 0, uint64_t{1} << 40 | O_RDWR, 0}), "openat(3, 0, O_RDWR|0x10000000000, 0)");
  EXPECT_EQ(written(SYS_openat, {3, 0, 3, 0}), "openat(3, 0, 0x3, 0)");
  EXPECT_EQ(written(SYS_mmap, {0, 0, 0, 0x0f, 3, 0}), "mmap(0, 0, PROT_NONE, 0xf, 3, 0)");
  EXPECT_EQ(written(SYS_unlinkat, {3, 0, 1}), "unlinkat(3, 0, 0x1)");
}

// Two values are never written alike: a report of a divergence would show two equal lines otherwise.
TEST(Arguments, DifferWhereTheirTextsDiffer) {
  std::mt19937_64 random(11);
  const auto value = [&]() -> uint64_t {
    const uint64_t bits = random();
    switch (random() % 6) {
      case 0: return bits % 70;
      case 1: return uint64_t{1} << (bits % 64);
      case 2: return bits & 0xffffffff;
      case 3: return bits & random() & random();
      case 4: return ~uint64_t{0} << (bits % 64);
      default: return bits;
    }
  };
  for (const CallRule& rule : call_rules()) {
    std::vector<uint64_t> arguments(6);
    for (unsigned index = 0; index < rule.arity; index++) {
      std::map<std::string, uint64_t> seen;
      for (uint64_t& argument : arguments) argument = value();
      for (int i = 0; i < 300; i++) {
        arguments[index] = value();
        const auto [known, is_new] = seen.try_emplace(argument_text(rule.number, index, arguments), arguments[index]);
        // An int is written alike with a sign and without: the kernel takes no more of the register.
        const bool is_same = static_cast<uint32_t>(known->second) == static_cast<uint32_t>(arguments[index]) &&
                             (known->second >> 32 == 0 || known->second >> 32 == 0xffffffff) &&
                             (arguments[index] >> 32 == 0 || arguments[index] >> 32 == 0xffffffff);
        EXPECT_TRUE(known->second == arguments[index] || is_same)
            << rule.name << " " << index << ": " << known->first << " is " << known->second << " and "
            << arguments[index];
      }
    }
  }
}

}  // namespace
}  // namespace friday
