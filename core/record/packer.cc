#include "core/record/packer.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ranges>

#include "core/base/background.h"
#include "core/base/poll_set.h"
#include "core/base/refusals.h"
#include "core/trace/columns.h"
#include "core/trace/leaving_out.h"
#include "core/trace/record.h"
#include "core/trace/standing_still.h"

namespace friday {

namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 5ms;              // between two looks whether the files may change again
constexpr auto kLongestStandstill = 60s;  // at the end; then the traces stay as they are
constexpr uint64_t kNotedToTheEnd = ~uint64_t{0};

}  // namespace

void Packer::begin_generation(const Uuid& kept_once) { repeats_ = std::make_shared<Repeats>(recording_, kept_once); }

Packer::Trace* Packer::add(const Beneath& file, int plain, const LiveRegenerable::Of& of) {
  traces_.push_back(std::make_unique<Trace>(file));
  Trace& trace = *traces_.back();
  trace.of = of;
  trace.repeats = repeats_;
  if (lean_) hand_over(trace, plain, 0, News::added);
  return &trace;
}

void Packer::left(Trace& trace, int plain, uint64_t committed) {
  if (committed >= format::kHeaderSize + kPackBlock && hand_over(trace, plain, committed, News::left))
    trace.may_have_holes = true;
}

bool Packer::ended(Trace& trace, int plain, uint64_t committed) {
  return hand_over(trace, plain, committed, News::ended) || trace.may_have_holes;
}

void Packer::stays(Trace& trace, int plain, uint64_t committed) {
  if (lean_) hand_over(trace, plain, committed, News::stays);
}

// `trace.plain` is set before the first message that lets the packer thread use it, and is not changed here afterwards.
bool Packer::hand_over(Trace& trace, int plain, uint64_t committed, News news) {
  if (!start()) return false;
  if (!trace.handed_over) trace.plain.reset(fcntl(plain, F_DUPFD_CLOEXEC, 3));
  trace.handed_over = true;
  return send({&trace, committed, news});
}

// Starts the packer thread, at most one attempt. Returns false if there is no thread.
bool Packer::start() {
  if (thread_.joinable()) return true;
  if (!notices_.empty()) return false;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    reading_.reset(ends[0]);
    writing_.reset(ends[1]);
    woken_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (auto opened = open_standing_still(recording_)) still_ = std::move(*opened);
    thread_ = background_thread([this] { run(); });
  }
  if (!thread_.joinable())
    notices_.push_back(
        "traces are not compressed: the system gives no thread or no pipe for it (limits of processes, of open files "
        "or of address space)");
  return thread_.joinable();
}

bool Packer::send(const Message& message) {
  // A full pipe holds thousands of messages. If this one does not fit, the next message covers its work, or the trace
  // stays plain.
  const bool sent = write(writing_.get(), &message, sizeof message) == sizeof message;
  if (sent && frees_room(message.news)) asked_++;
  return sent;
}

void Packer::settled() {
  uint64_t count;
  (void)!read(woken_.get(), &count, sizeof count);
}

bool Packer::take_messages(bool wait) {
  if (wait) {
    PollSet one;
    one.add(reading_.get());
    (void)one.wait(-1);  // after an error the read finds nothing, and the caller asks again
  }
  Message message;
  bool more = true;
  while (read(reading_.get(), &message, sizeof message) == sizeof message) {
    if (!message.trace) {
      more = false;
      continue;
    }
    if (frees_room(message.news)) taken_++;
    Trace& trace = *message.trace;
    if (lean_ && !trace.number) {
      trace.number = regenerable_.add(trace.of);
      by_number_.push_back(&trace);
      if (const auto before = regenerable_.parent(*trace.number); before && trace.of.is_part)
        trace.before = by_number_[*before];
      noted_.push_back(&trace);
    }
    if (message.news == News::added) continue;
    trace.given_up |= message.news == News::stays;
    trace.goal = std::max(trace.goal, message.committed);
    trace.finish |= message.news == News::ended || message.news == News::stays;
    if (std::ranges::find(work_, &trace) == work_.end()) work_.push_back(&trace);
  }
  return more;
}

void Packer::run() {
  bool more = true;
  while (!stop_ && (more || !work_.empty())) {
    more &= take_messages(work_.empty());
    if (!work_.empty() && !pack_first()) std::this_thread::sleep_for(kPause);
  }
}

// Returns false if somebody copies the files.
bool Packer::pack_first() {
  if (!try_moving(still_)) return false;
  pack(*work_.front());
  end_moving(still_);
  return true;
}

// Compresses one block of the first trace in the queue, which then moves to the end of the queue. Blocks of a part come
// after those of the part before, as the bytes of a stream do.
void Packer::pack(Trace& trace) {
  work_.pop_front();
  if (trace.before && std::ranges::find(work_, trace.before) != work_.end()) {
    work_.push_back(&trace);
    return;
  }
  if (move_block(trace)) work_.push_back(&trace);
  else if (trace.finish) close(trace), trace.settled = true;
  if (work_.empty()) done_.store(taken_, std::memory_order_release);
  const uint64_t one = 1;
  (void)!write(woken_.get(), &one, sizeof one);
}

// Returns false if no more blocks can be moved now.
bool Packer::move_block(Trace& trace) {
  const uint64_t end = trace.writer ? trace.writer->end() : format::kHeaderSize;
  uint64_t size = trace.goal > end ? std::min(kPackBlock, trace.goal - end) : 0;
  if (trace.given_up || size == 0 || (size < kPackBlock && !trace.finish)) return false;
  trace.given_up = true;  // cleared when the block is complete
  if (!trace.writer) {
    auto writer = PackedWriter::create(packed(trace.file));
    if (!writer) return false;
    trace.writer.emplace(std::move(*writer));
  }
  if (lean_) note_all();
  buffer_.resize(size);
  if (!read_exactly(trace.plain.get(), buffer_, end)) return false;
  size = trace.cutter.cut(buffer_);
  if (!store_block(trace, std::span(buffer_).first(size))) return false;
  trace.stored = trace.writer->stored();
  // On a file system without holes the plain file keeps its size until the end.
  // Whole pages; of the first one, what lies before the block has moved already.
  const uint64_t first = std::max<uint64_t>(end & ~(kPageBytes - 1), format::kHeaderSize);
  if (fallocate(trace.plain.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                static_cast<off_t>(end + size - first)) == 0)
    trace.removed += size;
  else if (notices_.empty()) notices_.push_back(describe_refusal(Refusal::punch_hole, strerror(errno)));
  trace.given_up = false;
  return true;
}

// Appends the next block of the trace to its compressed form.
bool Packer::store_block(Trace& trace, std::span<std::byte> block) {
  const uint64_t offset = trace.writer->end(), before = trace.writer->stored();
  std::vector<LeftOut> left_out, repeated;
  if (lean_ && whole_records(block) == block.size()) {
    left_out = find_left_out(trace, block, offset);
    const uint64_t kept = trace.repeats->bytes();
    repeated = trace.repeats->find(block, offset, left_out);
    beside_ += trace.repeats->bytes() - kept;
  }
  const uint64_t payload = take_out(block, offset, left_out), again = take_out(block, offset, repeated);
  bool done = trace.writer->append(block, {left_out, payload}, {repeated, again}).has_value();
  if (!done && (!left_out.empty() || !repeated.empty())) {
    left_out.clear();
    done = read_exactly(trace.plain.get(), block, offset) && trace.writer->append(block);
  }
  if (!done) return false;
  for (const LeftOut& range : left_out) trace.left_out += range.size;
  if (trace.budget) trace.budget->stored(trace.writer->stored() - before);
  return true;
}

std::vector<LeftOut> Packer::find_left_out(Trace& trace, std::span<const std::byte> block, uint64_t offset) {
  if (!trace.number) return {};
  if (!trace.budget)
    trace.budget = std::make_unique<Budget>(
        *lean_, trace.ticks_per_second,
        [this, number = *trace.number](uint64_t channel) { return regenerable_.names(number, channel); });
  const auto found = regenerable_.find(*trace.number, block, offset, records_behind(trace, offset + block.size()),
                                       !lean_->let_go.empty());
  trace.foreign += found.received;
  for (const Regenerable& bytes : found.regenerable) trace.foreign -= bytes.size;
  return trace.budget->choose(found.regenerable, found.foreign);
}

// The whole records from `offset` on that have been noted already, some of them.
std::span<const std::byte> Packer::records_behind(const Trace& trace, uint64_t offset) {
  constexpr uint64_t kAhead = 1u << 20;
  const uint64_t end = trace.noted == kNotedToTheEnd ? trace.goal : trace.noted;
  looked_at_.resize(end > offset ? std::min(kAhead, end - offset) : 0);
  if (looked_at_.empty() || !read_exactly(trace.plain.get(), looked_at_, offset)) return {};
  return std::span(looked_at_).first(whole_records(looked_at_));
}

// Notes what all traces say of sends, as far as they go now.
void Packer::note_all() {
  for (Trace* trace : noted_) note(*trace);
  regenerable_.settle();
  std::erase_if(noted_, [](const Trace* trace) { return !trace->plain || trace->noted == kNotedToTheEnd; });
}

void Packer::note(Trace& trace) {
  constexpr uint64_t kStep = 1u << 20;
  format::FileHeader header;
  if (!trace.plain || !read_exactly(trace.plain.get(), std::as_writable_bytes(std::span(&header, 1)), 0)) return;
  trace.ticks_per_second = std::max<uint64_t>(header.ticks_per_second, 1);
  if (trace.noted == format::kHeaderSize) trace.noted = std::max(trace.noted, header.image_end);
  // What a part says of channels goes on from all that the part before says, which is complete once this one has begun.
  if (trace.before && header.committed > std::max<uint64_t>(format::kHeaderSize, header.image_end) &&
      !std::exchange(trace.noted_before, true))
    note(*trace.before);
  // Records that the program has committed stay as they are.
  while (trace.noted < header.committed) {
    looked_at_.resize(std::min(kStep, header.committed - trace.noted));
    if (!read_exactly(trace.plain.get(), looked_at_, trace.noted)) return;
    size_t size = whole_records(looked_at_);
    regenerable_.note(*trace.number, std::span(looked_at_).first(size));
    if (size == 0) size = reinterpret_cast<const format::RecordHeader*>(looked_at_.data())->size;  // no send has such
    if (size < sizeof(format::RecordHeader) || size > header.committed - trace.noted) {
      trace.noted = kNotedToTheEnd;  // no record; readers say so
      return;
    }
    trace.noted += size;
  }
  if (trace.finish && trace.noted >= trace.goal) trace.noted = kNotedToTheEnd;
  if (!header.packing && header.checksum)
    trace.plain.reset();  // it stays as it is, and the message about that was lost
}

void Packer::close(Trace& trace) {
  if (trace.given_up || !trace.writer) {
    if (lean_) leave(trace);
    return;
  }
  trace.given_up = true;
  std::vector<std::byte> page(format::kHeaderSize);
  if (!read_exactly(trace.plain.get(), page, 0)) return;
  auto* header = reinterpret_cast<format::FileHeader*>(page.data());
  header->allocated = header->committed;
  header->packing = 0;
  seal_header(page);
  if (!trace.writer->finish(page)) return;
  remove_beneath(trace.file);
  trace.removed = trace.writer->end();
  trace.stored = trace.writer->stored();
  trace.writer.reset();
  leave(trace);
}

// Nothing more will be asked of the trace. What it says of sends, and its parent of the channels that it has inherited,
// is noted before.
void Packer::leave(Trace& trace) {
  if (trace.number) {
    std::vector<Trace*> line = {&trace};
    while (const auto parent = regenerable_.parent(*line.back()->number)) line.push_back(by_number_[*parent]);
    for (Trace* each : std::views::reverse(line)) note(*each);
    regenerable_.forget(*trace.number);
  }
  trace.plain.reset();
  trace.repeats.reset();
}

void Packer::finish(bool hurry) {
  if (!thread_.joinable()) return;
  stop_ = true;
  send({nullptr, 0, News::left});
  thread_.join();
  if (!hurry) {
    take_messages(false);
    auto waited = 0ms;
    while (!work_.empty() && waited < kLongestStandstill)
      if (!pack_first()) std::this_thread::sleep_for(kPause), waited += kPause;
  }
}

}  // namespace friday
