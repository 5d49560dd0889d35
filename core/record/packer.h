// Compresses traces during recording: what a program has finished writing moves, block by block, from nodes/N/trace,
// where it leaves a hole, to nodes/N/trace.zst (core/trace/packed.h). One low-priority thread does the work. The
// collector's thread only sends it small messages through a pipe and reads atomics; it never waits for the packer's
// thread, which may get no processor time for long.
//
// A lean packer also looks at the traces as they grow, and leaves out what recorded processes have received from each
// other (core/trace/live_regenerable.h), as far as a budget wants it (budget.h), and what they receive again
// (repeats.h).
//
// Killing the process at any moment loses nothing: a block is removed from the trace only after its compressed form is
// on disk.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"
#include "core/record/budget.h"
#include "core/record/repeats.h"
#include "core/trace/live_regenerable.h"
#include "core/trace/packed.h"

namespace friday {

class Packer {
 public:
  // One trace. The collector may read the public members at any time.
  struct Trace {
    explicit Trace(Beneath plain_form) : file(std::move(plain_form)) {}
    std::atomic<uint64_t> removed = 0;   // bytes removed from the plain file
    std::atomic<uint64_t> stored = 0;    // size of the compressed file
    std::atomic<uint64_t> left_out = 0;  // bytes of payload that the compressed file lacks
    std::atomic<bool> settled = false;   // nothing more is done to its files
    std::atomic<uint64_t> foreign = 0;  // of a lean packer: bytes of payload that no replay of another node makes again

   private:
    friend class Packer;
    bool handed_over = false, may_have_holes = false;  // used by the collector only
    // Of a lean packer: its number in LiveRegenerable, and up to where it was noted there; the part before, and
    // whether that was noted to its end; and what comes again in its generation.
    LiveRegenerable::Of of;
    std::optional<size_t> number;
    Trace* before = nullptr;
    bool noted_before = false;
    std::shared_ptr<Repeats> repeats;
    uint64_t noted = format::kHeaderSize;
    uint64_t ticks_per_second = 1;
    std::unique_ptr<Budget> budget;
    Beneath file;
    UniqueFd plain;
    std::optional<PackedWriter> writer;
    BlockCutter cutter;
    uint64_t goal = 0;
    bool finish = false, given_up = false;
  };

  // `recording`: its directory.
  Packer(const std::string& recording, std::optional<LeanOptions> lean)
      : recording_(recording), lean_(std::move(lean)) {}
  ~Packer() { finish(true); }
  Packer(const Packer&) = delete;

  // Registers a trace. Here and below, `plain` is the trace's descriptor, which is duplicated when the first block
  // moves, by a lean packer at once.
  Trace* add(const Beneath& file, int plain, const LiveRegenerable::Of& of);
  // Traces that are added from now on have a file of repeated payload of their own, with this uuid. A lean packer needs
  // one from the beginning on.
  void begin_generation(const Uuid& kept_once);
  // Call when the program will not access anything before `committed` any more.
  void left(Trace& trace, int plain, uint64_t committed);
  // Call when nobody writes to the trace any more: compresses the rest and then removes the plain file. Returns false
  // if that cannot be asked for and the trace has no holes; then it stays as it is.
  bool ended(Trace& trace, int plain, uint64_t committed);
  // Call instead of ended() if the trace shall stay as it is.
  void stays(Trace& trace, int plain, uint64_t committed);

  // Whether the files of a trace that has ended will stay as they are.
  bool is_done(const Trace& trace) const { return !trace.handed_over || trace.settled; }

  // Whether work in progress may still free disk space.
  bool busy() const { return asked_ != done_.load(std::memory_order_acquire); }
  // Readable after some work was done; settled() resets it.
  int wake_fd() const { return woken_.get(); }
  void settled();

  // Size of what is stored beside the traces, in bytes.
  uint64_t beside() const { return beside_; }
  // Somebody has removed so much of it.
  void removed_beside(uint64_t bytes) { beside_ -= bytes; }

  // What could not be done, and why; complete after finish().
  const std::vector<std::string>& notices() const { return notices_; }

  // Does the remaining work at the caller's priority. With `hurry`, leaves it undone; every reader accepts that.
  void finish(bool hurry);

 private:
  enum class News { added, left, ended, stays };
  static bool frees_room(News news) { return news == News::left || news == News::ended; }
  struct Message {
    Trace* trace;  // null: no more messages follow
    uint64_t committed;
    News news;
  };
  bool hand_over(Trace& trace, int plain, uint64_t committed, News news);
  bool start();
  bool send(const Message& message);
  void run();
  bool pack_first();
  bool take_messages(bool wait);
  void pack(Trace& trace);
  bool move_block(Trace& trace);
  bool store_block(Trace& trace, std::span<std::byte> block);
  void note_all();
  void note(Trace& trace);
  std::span<const std::byte> records_behind(const Trace& trace, uint64_t offset);
  std::vector<LeftOut> find_left_out(Trace& trace, std::span<const std::byte> block, uint64_t offset);
  void close(Trace& trace);
  void leave(Trace& trace);

  const std::string recording_;
  const std::optional<LeanOptions> lean_;
  std::shared_ptr<Repeats> repeats_;  // of the present generation; used by the collector only
  std::vector<std::unique_ptr<Trace>> traces_;
  UniqueFd reading_, writing_, woken_;
  UniqueFd still_;  // standing_still.h
  std::thread thread_;
  uint64_t asked_ = 0;              // number of messages sent
  std::atomic<uint64_t> done_ = 0;  // number of messages whose work is done
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> beside_ = 0;
  // Used only by the thread until it has ended.
  std::deque<Trace*> work_;
  uint64_t taken_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<Trace*> by_number_;
  std::vector<Trace*> noted_;  // the traces that may still have something to note
  std::vector<std::byte> looked_at_;
  LiveRegenerable regenerable_;
  std::vector<std::string> notices_;
};

}  // namespace friday
