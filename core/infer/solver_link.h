// The program friday-infer as a child process, and the protocol that it speaks (protocol.h). Owned by who infers for
// one node. The process is killed when it takes too long or too much memory, and with its owner.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/infer/input_check.h"
#include "core/infer/protocol.h"

namespace friday::infer {

struct SolverLimits {
  std::chrono::milliseconds run{20'000};  // for finding out how one stretch of code was run through
  uint64_t memory = 2ull << 30;           // of the solver, in bytes
  uint64_t instructions = 50'000'000;     // of one path
  uint32_t paths = 2000;                  // of one stretch
  uint32_t largest_table = 4096;          // Begin::largest_table
};

// A value of a register or of memory. `bytes`: at most 8 of a register.
struct Value {
  Of of = Of::memory;
  uint32_t number = 0;
  uint64_t address = 0;
  std::vector<std::byte> bytes;
};

struct RunEnd {
  Done done;
  std::vector<Value> patches;  // of the state at the beginning
};

struct RunFailure {
  Why why;
  uint64_t address;  // of the instruction
  std::string text;
};

class SolverLink {
 public:
  // `program`: path of friday-infer. `memory`: a descriptor of /proc/PID/mem. Fails with not_found if there is no such
  // program, which is an optional part.
  static Result<SolverLink> start(const std::string& program, int memory, const SolverLimits& limits);
  SolverLink(SolverLink&& other) noexcept;
  SolverLink& operator=(SolverLink&&) = delete;
  ~SolverLink();

  Result<void> original(uint64_t address, std::span<const std::byte> code);
  Result<void> summary(uint64_t address, Function function);
  Result<void> unknown(uint64_t address, uint64_t length, uint64_t first);
  Result<void> known(uint64_t address, uint64_t length);
  // `judge` is asked, once for each path at whose end all demands hold, whether that is the right one, and may look()
  // then. The outer Result fails if it does, if the solver has died or does not keep to the protocol.
  using Judge = std::function<Result<bool>(End end)>;
  Result<std::expected<RunEnd, RunFailure>> run(uint32_t thread, const Registers& registers,
                                                std::span<const Value> demands, const Judge& judge);
  Result<Look> look(uint64_t address, uint64_t length);
  Result<void> adopt();
  // Which memory has begun to depend on symbols, or does not any more, since the last call.
  Result<std::vector<ShadowChange>> shadow();
  Result<std::vector<Symbol>> values(uint64_t first, uint64_t count, std::chrono::milliseconds time);

 private:
  struct Message {
    Kind kind;
    std::vector<std::byte> bytes;
  };
  SolverLink(pid_t pid, UniqueFd socket, const SolverLimits& limits)
      : pid_(pid), socket_(std::move(socket)), limits_(limits) {}
  Result<void> send(Kind kind, std::span<const std::byte> bytes, int descriptor = -1);
  Result<void> send_of(Kind kind, const auto& value, std::span<const std::byte> behind = {});
  Result<Message> receive(std::chrono::milliseconds time);
  Error died();

  pid_t pid_ = -1;
  UniqueFd socket_;
  SolverLimits limits_;
};

}  // namespace friday::infer
