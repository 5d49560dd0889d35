// The traces of the collector's nodes: creates each file with room ahead of the program that writes it, adds room when
// that is used up and --max-size allows it, and at the end truncates the file and hands it to the packer.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <csignal>

#include <xxhash.h>

#include "core/base/log.h"
#include "core/record/collector_node.h"

namespace friday {

using format::FileHeader;

namespace {

constexpr uint64_t kRoom = 16u << 20;            // added to a trace at a time
constexpr int64_t kSoonUsedNs = 10'000'000'000;  // a trace that uses up its room faster than this is written quickly
constexpr uint64_t kLeastLean = 64u << 10;       // a trace below this is not worth to be made lean
constexpr uint64_t kLeastRoom = 1u << 20;        // the minimum for a new trace
constexpr uint64_t kStandbyRoom = 64u << 10;     // for one in which nothing will stand but its end

void wake(uint32_t* word) {
  __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Creates the file's pages by writing zeros, where it has none. Mapping existing pages into a program takes an eighth
// of the time of a fault that must create them, and the program holds its token during the fault. Pages that this does
// not reach in time are left to the fault.
void fill(int file, uint64_t from, uint64_t size) {
  constexpr int64_t kLongestNs = 10'000'000;  // other requests to the collector wait meanwhile
  static const char zeros[1 << 18] = {};
  const int64_t begun = now_ns(CLOCK_MONOTONIC);
  for (const uint64_t end = from + size; from < end && now_ns(CLOCK_MONOTONIC) - begun < kLongestNs;) {
    const ssize_t n = pwrite(file, zeros, std::min<uint64_t>(sizeof zeros, end - from), static_cast<off_t>(from));
    if (n <= 0) return;
    from += static_cast<uint64_t>(n);
  }
}

}  // namespace

Result<void> Collector::create_trace(Node& node, ImageRoom image) {
  const uint64_t left = room_left();
  uint64_t room = left < node.image_bytes ? 0 : node.image_bytes + std::min(kRoom, left - node.image_bytes);
  if (node.on_standby) room = kStandbyRoom;
  else if (room < node.image_bytes + kLeastRoom)
    return fail(ErrorCode::io, "the recording has the size that --max-size allows");
  const Beneath file = node.directory.below("trace");
  const std::string path = file.path();
  UniqueFd trace = std::move(image.file);
  if (trace && !name_beneath(trace.get(), file)) trace.reset();
  const uint64_t ready = trace ? image.ready : 0;
  if (!trace) {
    FRIDAY_TRY(created, create_beneath(file));
    trace = std::move(created);
  }
  if (const uint64_t missing = room > ready ? room - ready : 0) {
    const int error = posix_fallocate(trace.get(), static_cast<off_t>(ready), static_cast<off_t>(missing));
    if (error) return cannot_write(error, path);
  }
  room = std::max(room, ready);
  FileHeader header{};
  memcpy(header.magic, format::kMagic, sizeof header.magic);
  header.version = format::kVersion;
  header.header_size = format::kHeaderSize;
  header.features = format::kFeatureChecksums | format::kFeatureClockWords;
  if (node.schedule) {
    header.features |= format::kFeatureSchedule;
    header.first_bytes = options_.first_bytes;
  }
  if (node.forked) header.features |= format::kFeatureForkChild;
  else if (!node.schedule) header.features |= format::kFeatureImage;
  if (node.part > 1 || node.late) header.features |= format::kFeaturePart;
  header.on_standby = node.on_standby;
  header.clock_kind = clock_kind_;
  header.abi_version = shim::kAbiVersion;
  unsigned at = 0;
  for (size_t i = 0; i + 1 < boot_id_.size() && at < 16;) {
    if (boot_id_[i] == '-') {
      i++;
      continue;
    }
    header.boot_id[at++] = static_cast<uint8_t>(std::stoi(boot_id_.substr(i, 2), nullptr, 16));
    i += 2;
  }
  memcpy(header.node_uuid, node.uuid, 16);
  memcpy(header.parent_uuid, node.parent_uuid, 16);
  header.ticks_per_second = ticks_per_second_;
  header.sharing = sharing_;
  header.committed = format::kHeaderSize;
  header.allocated = room;
  node.room_given = now_ns(CLOCK_MONOTONIC);
  header.packing = options_.compress && !node.on_standby;
  // Use pwrite: a store through the mapping would fault, and the fault's readahead would create and clear MiBs of pages
  // that a short-lived child never uses.
  if (pwrite(trace.get(), &header, sizeof header, 0) != sizeof header) return cannot_write(errno, path);
  void* mapped = mmap(nullptr, format::kHeaderSize, PROT_READ | PROT_WRITE, MAP_SHARED, trace.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map a trace header");
  node.header = static_cast<FileHeader*>(mapped);
  node.trace = std::move(trace);
  if (options_.compress && !node.on_standby) {
    LiveRegenerable::Of of{.is_part = node.part > 1, .generation = node.generation};
    std::ranges::copy(node.uuid, of.node.begin());
    if (node.forked || of.is_part) std::ranges::copy(node.parent_uuid, of.parent.begin());
    node.packed = packer_.add(file, node.trace.get(), of);
  }
  return {};
}

// Makes room for the image of the next part, while the process goes on. If it cannot, the process finds out why when it
// begins the part.
void Collector::make_room_ahead(Node& node, uint64_t bytes) {
  if (!node.header) return;
  ImageRoom& ahead = node.room_ahead;
  constexpr uint64_t kPage = 4096;
  const uint64_t room = (bytes + kRoom) & ~(kPage - 1), more = room > ahead.ready ? room - ahead.ready : 0;
  const bool allowed = bytes < room && more <= room_left();
  if (allowed && !ahead.file)
    if (auto file = create_unnamed_beneath(node.directory)) ahead.file = std::move(*file);
  if (allowed && ahead.file && more &&
      posix_fallocate(ahead.file.get(), static_cast<off_t>(ahead.ready), static_cast<off_t>(more)) == 0)
    ahead.ready = room;
  if (ahead.ready < room) ahead = {};
  __atomic_store_n(&node.header->image_room, ahead.file ? bytes : ~uint64_t{0}, __ATOMIC_RELEASE);
}

// A process that asks again gets new room.
void Collector::drop_room_ahead(Node& node) {
  if (!node.room_ahead.file) return;
  node.room_ahead = {};
  __atomic_store_n(&node.header->image_room, uint64_t{0}, __ATOMIC_RELEASE);
}

// How many bytes --max-size still allows. Counts what the traces occupy on disk, including room given ahead.
uint64_t Collector::room_left() const {
  if (options_.max_size == 0) return UINT64_MAX;
  uint64_t used = packer_.beside();
  for (const auto& node : nodes_) {
    used += (node->header ? node->header->allocated : node->bytes) + node->room_ahead.ready;
    if (node->packed) used += node->packed->stored - node->packed->removed;
  }
  return used < options_.max_size ? (options_.max_size - used) & ~uint64_t{4095} : 0;
}

void Collector::give_room(Node& node) {
  node.waits_for_room = false;
  if (!node.header || node.header->closed) return;
  if (node.packed && !node.image)
    packer_.left(*node.packed, node.trace.get(), __atomic_load_n(&node.header->committed, __ATOMIC_ACQUIRE));
  const uint64_t now = node.header->allocated;
  const uint64_t left = room_left();
  const uint64_t more = left < kLeastRoom ? 0 : std::min(kRoom, left);
  const int error =
      more == 0 ? EFBIG : posix_fallocate(node.trace.get(), static_cast<off_t>(now), static_cast<off_t>(more));
  if (error && packer_.busy()) {  // the packer may still free space
    node.waits_for_room = true;
    return;
  }
  if (error) {
    node.header->closed = error == EFBIG                       ? format::kEndSizeLimit
                          : error == ENOSPC || error == EDQUOT ? format::kEndDiskFull
                                                               : format::kEndRefused;
  } else {
    const int64_t time = now_ns(CLOCK_MONOTONIC);
    if (time - std::exchange(node.room_given, time) < kSoonUsedNs && node.wait_status < 0)
      fill(node.trace.get(), now, more);
    __atomic_store_n(&node.header->allocated, now + more, __ATOMIC_RELEASE);
  }
  wake(&node.header->room);
}

// Appends the end record to the trace of a process that has executed another program: nobody was left in it to write
// the record.
void Collector::end_by_execution(Node& node, const std::string& text) {
  node.end_reason = format::kEndExec;
  node.end_text = text;
  const uint64_t end = node.header->committed;
  if (node.header->ended || end + sizeof(format::EndRecord) > node.header->allocated) return;
  format::EndRecord record{};
  record.header.size = sizeof record;
  record.header.type = format::kEndRecord;
  record.event = node.header->events;
  record.ticks = clock_kind_ == format::kClockTsc ? __rdtsc() : static_cast<uint64_t>(now_ns(CLOCK_MONOTONIC));
  record.reason = format::kEndExec;
  record.detail = node.end_detail;
  text.copy(record.text, sizeof record.text - 1);
  static_assert(sizeof record <= format::kHashBlock);  // one block, so its hash is the plain one
  record.header.checksum = static_cast<uint32_t>(XXH3_64bits_withSeed(&record, sizeof record, end));
  if (pwrite(node.trace.get(), &record, sizeof record, static_cast<off_t>(end)) != sizeof record) return;
  __atomic_store_n(&node.header->committed, end + sizeof record, __ATOMIC_RELEASE);
  node.header->ended = 1;
}

void Collector::close_node(Node& node) {
  if (node.closed) return;
  leave_cut(node);
  if (node.image) {
    node.close_when_imaged = true;
    node.close_at = 0;
    return;
  }
  node.closed = true;
  node.room_ahead = {};
  if (Node* const next = std::exchange(node.next_part, nullptr)) close_node(*next);
  FRIDAY_LOG(record, info, "node {} {} is complete: {} events", node.id, node.origin.name,
             node.header ? node.header->events : 0);
  std::erase(open_, &node);
  if (node.header) {
    // Its last event is the entry of a successful execve, and the new program has not said hello.
    const bool executed =
        !node.executes.empty() && node.pid && node.end_reason == 0 && node.header->events == node.execution_event;
    if (executed && node.execution_problem.empty())
      node.execution_problem = fmt::format("{} was executed, and did not load the shim", node.executes);
    if (executed) node.end_detail = 1, end_by_execution(node, node.executes);
    uint64_t end = node.header->committed;
    const bool nothing = node.header->events == 0 && node.pid == 0;
    // A process that still lives continues to store; if the file were truncated, it would get SIGBUS. So it is told to
    // stop recording.
    const bool gone = node.hung_up || node.replaced || nothing;
    if (!gone) __atomic_store_n(&node.header->closed, uint32_t{format::kEndStopped}, __ATOMIC_RELEASE);
    // signal that the shim announced, for processes whose status only their own parent learns
    const int own_death = static_cast<int>(node.header->dies_of);
    if (node.hung_up && !node.header->ended && node.wait_status < 0 && own_death > 0 && own_death <= SIGRTMAX)
      node.wait_status = W_EXITCODE(0, own_death);
    node.events = node.header->events;
    node.shared_memory = node.in_group();
    node.bytes = gone ? end : node.header->allocated;
    const bool pack = gone && node.packed && end >= (options_.lean ? kLeastLean : format::kHeaderSize + kPackBlock);
    if (gone && ftruncate(node.trace.get(), static_cast<off_t>(end)) != 0)
      node.end_text += " (the trace could not be trimmed)";
    if (gone && !(pack && packer_.ended(*node.packed, node.trace.get(), end))) {
      if (node.packed) packer_.stays(*node.packed, node.trace.get(), end);
      node.header->packing = 0;
      seal_header(std::as_writable_bytes(std::span(reinterpret_cast<char*>(node.header), format::kHeaderSize)));
    }
    munmap(node.header, format::kHeaderSize);
    node.header = nullptr;
    if (nothing) {  // a child that was announced, but whose fork failed
      for (const char* name : {"trace", "node.json"}) remove_beneath(node.directory.below(name));
      remove_beneath(node.directory);
      node.dropped = true;
      node.bytes = 0;
      return;
    }
    if (gone) node.trace.reset();
  }
  write_description(node);
  node.socket.reset();
}

}  // namespace friday
