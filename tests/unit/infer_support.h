// For tests of friday-infer: small C programs, compiled when the test runs, stopped behind the call that brings them
// bytes, and a client of the protocol that speaks with the real program. A target is a function `void target(unsigned
// char* in)`; the rest of its program announces the C library's functions, reads `in`, and calls it. What it does is
// seen by its calls of say(a, b), which is a system call that does not exist.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/infer/protocol.h"

namespace friday::infer::test {

constexpr uint64_t kAnnounce = 5000, kSay = 5001;  // numbers of system calls

// The path of a program that is compiled of this target with these options of gcc; empty if the compiler fails. Each is
// made once for a test program.
std::string compiled_target(const std::string& code, const std::string& options);

// A child that is stopped by ptrace. It is killed by the destructor.
class Child {
 public:
  // Runs `program` until it has received `input` in its read() from standard input.
  Child(const std::string& program, const std::vector<uint8_t>& input);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  bool alive() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  uint64_t input() const { return input_; }  // address of `in`
  const std::vector<Summary>& functions() const { return functions_; }
  user_regs_struct registers() const;
  Registers all_registers() const;
  std::vector<uint8_t> read(uint64_t address, size_t size) const;
  void write(uint64_t address, const std::vector<uint8_t>& bytes) const;
  void set_register(uint32_t number, uint64_t value) const;
  // On to the entry of its next system call. Nothing if it ended.
  std::optional<user_regs_struct> next_call();
  // Behind the call at whose entry it is.
  void leave_call();
  int memory() const { return memory_; }

 private:
  bool go(int request);  // to the next stop by a system call; false if it ended

  pid_t pid_ = -1;
  int memory_ = -1;
  uint64_t input_ = 0;
  std::vector<Summary> functions_;
};

struct Answered {
  bool died = true;
  Kind kind{};
  Done done{};
  Failed failed{};
  std::string text;
  std::vector<std::pair<Patch, std::vector<uint8_t>>> patches;
};

// friday-infer, for one child.
class Solver {
 public:
  struct Limits {
    uint32_t milliseconds = 20'000;
    uint64_t instructions = 50'000'000, memory = 2ull << 30;
    uint32_t paths = 2000, table = 4096;
  };
  explicit Solver(const Child& child) : Solver(child, Limits{}) {}
  Solver(const Child& child, const Limits& limits);
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;
  ~Solver();

  void send(Kind kind, const void* bytes, size_t size, const std::vector<uint8_t>& behind = {});
  void unknown(uint64_t address, uint64_t length, uint64_t first);
  void known(uint64_t address, uint64_t length);
  struct Demanded {
    uint32_t number;
    uint64_t value;
    size_t bytes = 8;
  };
  // `judge`, if set: the core's judgement of ends at which all demands hold.
  using Judge = std::function<bool(const Arrived&)>;
  Answered run(uint32_t thread, const Registers& registers, const std::vector<Demanded>& demands,
               const Judge& judge = nullptr);
  // For a judge: memory at that end, and whether it holds expressions.
  std::pair<Looked, std::vector<uint8_t>> look(uint64_t address, uint64_t length);
  void adopt() { send(Kind::adopt, nullptr, 0); }
  std::vector<Range> shadow();  // all there are, out of the changes that are told
  std::vector<Symbol> values(uint64_t first, uint64_t count);

 private:
  bool receive(Kind* kind, std::vector<uint8_t>* bytes);

  pid_t pid_ = -1;
  int socket_ = -1;
  std::set<uint64_t> shadowed_;  // addresses
};

// The demands of a call, as the core makes them: its number and its first arguments.
std::vector<Solver::Demanded> demands_of_call(const user_regs_struct& registers, size_t arguments);
// Writes the patches into the child.
void apply(const Child& child, const Answered& answered);

}  // namespace friday::infer::test
