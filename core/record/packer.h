// Compresses traces while they are recorded: what a program has left behind moves block by block from nodes/N/trace,
// where it becomes a hole, to nodes/N/trace.zst (core/trace/packed.h). One thread of low priority does this. The
// collector's thread only hands over small messages through a pipe and reads atomics: it never waits for the other one,
// which may not get the processor for long.
//
// Killing it at any moment loses nothing: a block is dropped from the trace when the disk has its compressed form.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/trace/packed.h"

namespace friday {

class Packer {
 public:
  // One trace. What is public may be read by the collector at any time.
  struct Trace {
    explicit Trace(Beneath plain_form) : file(std::move(plain_form)) {}
    std::atomic<uint64_t> removed = 0;  // bytes taken out of the plain file
    std::atomic<uint64_t> stored = 0;   // bytes of the compressed one

   private:
    friend class Packer;
    bool handed_over = false;  // of the collector alone
    Beneath file;
    UniqueFd plain;
    std::optional<PackedWriter> writer;
    uint64_t goal = 0;
    bool finish = false, given_up = false;
  };

  Packer() = default;
  ~Packer() { finish(true); }
  Packer(const Packer&) = delete;

  // `plain` is the trace's descriptor in what follows; it is duplicated when the first block moves.
  Trace* add(const Beneath& file);
  // The program will not look at anything before `committed` again.
  void left(Trace& trace, int plain, uint64_t committed);
  // Nobody writes to it any more: the rest follows, then the plain file goes. False: nobody does it, the trace stays as
  // it is.
  bool ended(Trace& trace, int plain, uint64_t committed);

  // Whether room may still be won.
  bool busy() const { return asked_ != done_.load(std::memory_order_acquire); }
  // Readable after something was done; to be emptied by settled().
  int wake_fd() const { return woken_.get(); }
  void settled();

  // What was not done as it should be, and why; complete after finish().
  const std::vector<std::string>& notices() const { return notices_; }

  // Does what is left at the caller's own priority; with `hurry` leaves it as it is, which any reader understands.
  void finish(bool hurry);

 private:
  struct Message {
    Trace* trace;  // null: no more to come
    uint64_t committed;
    bool ended;
  };
  bool hand_over(Trace& trace, int plain, uint64_t committed, bool ended);
  bool start();
  bool send(const Message& message);
  void run();
  bool take_messages(bool wait);
  void pack(Trace& trace);
  bool move_block(Trace& trace);
  void close(Trace& trace);

  std::vector<std::unique_ptr<Trace>> traces_;
  UniqueFd reading_, writing_, woken_;
  std::thread thread_;
  uint64_t asked_ = 0;              // messages sent
  std::atomic<uint64_t> done_ = 0;  // messages whose work is done
  std::atomic<bool> stop_ = false;
  // Of the thread alone, until it has ended.
  std::deque<Trace*> work_;
  uint64_t taken_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::string> notices_;
};

}  // namespace friday
