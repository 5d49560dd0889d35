#include "core/trace/columns.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <unordered_map>

#include <fmt/format.h>

#include "core/base/leb128.h"
#include "core/trace/reader.h"
#include "core/trace/record.h"

namespace friday {

namespace {

using namespace format;

// ---- Columns

enum Column : unsigned {
  kForms,       // of each record, a byte: RecordForm
  kChecksums,   // those that are not valid
  kShapes,      // what an event is (Shape): a number of a table
  kShapeTable,  // the table's new entries
  kThreads,     // of events behind which something else was expected: thread, index and number in the thread
  kEventForms,  // a byte: EventForm
  kResults,
  kHashes,
  kEntries,
  kReturns,
  kClocks,
  kFirstArguments,
  kArguments,
  kPartForms,  // a byte: PartForm
  kPartKinds,
  kSizes,
  kAddresses,
  kTransferForms,  // a byte: TransferForm
  kChannels,
  kOffsets,
  kLengths,
  kTransferKinds,  // direction, representation, flags and message
  kPeers,
  kPeerTable,
  kSmall,      // short contents of memory, as the difference to those of the same call before
  kBulk,       // longer ones
  kPartBytes,  // contents of other parts
  kWords,      // other records, word by word
  kRecordBytes,
  kColumnCount,
};

// What differs from what was expected. A byte of zero: nothing.
enum RecordForm : uint8_t {
  kOther = 1,         // it is no event
  kWithChecksum = 2,  // its checksum is not valid
  kNewThread = 4,     // it is not the next event of the thread of the event before
};
enum EventForm : uint8_t { kNewResult = 1, kNewArguments = 2, kHashShift = 2 };  // with a HashForm, shifted
enum HashForm : uint8_t { kZero = 0, kAsBefore = 1, kExplicit = 2, kOfPayload = 3 };
enum PartForm : uint8_t { kNewKind = 1, kNewAddress = 2, kSizeShift = 2 };  // with a SizeForm, shifted
enum SizeForm : uint8_t { kAsResult = 0, kAsLast = 1, kOtherSize = 2 };
enum TransferForm : uint8_t {
  kNewChannel = 1,
  kNewFlags = 2,  // other flags, message, direction or representation
  kNewOffset = 4,
  kNewLength = 8,
  kTransferHashShift = 4,  // a HashForm, shifted
};

constexpr uint8_t kColumnsFormat = 1;
constexpr size_t kMostSmall = 96;   // contents of memory up to this are compared with those before
constexpr size_t kMostWords = 512;  // the same of records that are no events
// Level 3 takes twice as long on a recording of Redis and saves 1 %.
constexpr int kColumnsLevel = 1;

// Damaged input of the decoder. Thrown and caught within this file only, because a coder that reads and writes by the
// same functions cannot return an error from each.
struct Damaged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : left_(bytes) {}
  std::span<const std::byte> take(uint64_t count) {
    if (count > left_.size()) throw Damaged("a column ends too soon");
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  uint64_t number() {
    if (const auto value = take_leb128(left_)) return *value;
    throw Damaged("a column ends too soon, or has a number that is too long");
  }

 private:
  std::span<const std::byte> left_;
};

// Takes records apart into columns. Each function moves on by what it codes and returns its value.
class Encoder {
 public:
  static constexpr bool kEncodes = true;

  explicit Encoder(std::span<const std::byte> records) : records_(records) {
    constexpr size_t kUsual = 64 << 10;  // bytes of a column of a full block
    for (std::vector<std::byte>& column : columns_) column.reserve(std::min(kUsual, records.size()));
  }

  bool more() const { return at_ < records_.size(); }
  size_t at() const { return at_; }
  const std::byte* record(size_t from) const { return records_.data() + from; }

  template <typename T>
  T field(Column column, T predicted) {
    const T value = load<T>(0);
    at_ += sizeof(T);
    number(column, zigzag(static_cast<uint64_t>(static_cast<std::make_signed_t<T>>(value - predicted))));
    return value;
  }
  // A field whose value follows from others.
  template <typename T>
  void known(T) {
    at_ += sizeof(T);
  }
  template <typename T>
  T peek(size_t ahead = 0) const {
    return load<T>(ahead);
  }
  uint64_t number(Column column, uint64_t value) {
    put_leb128(columns_[column], value);
    return value;
  }
  uint8_t byte(Column column, uint8_t value) {
    columns_[column].push_back(std::byte{value});
    return value;
  }
  std::span<const std::byte> bytes(Column column, size_t count) {
    const auto taken = records_.subspan(at_, count);
    columns_[column].insert(columns_[column].end(), taken.begin(), taken.end());
    at_ += count;
    return taken;
  }
  // Bytes as their difference to others, of the same number.
  std::span<const std::byte> bytes_against(Column column, std::span<const std::byte> before) {
    const auto taken = records_.subspan(at_, before.size());
    for (size_t n = 0; n < before.size(); n++) columns_[column].push_back(taken[n] ^ before[n]);
    at_ += before.size();
    return taken;
  }
  void pad(size_t count) { at_ += count; }
  void patch(size_t, uint32_t, uint32_t) {}

  std::array<std::vector<std::byte>, kColumnCount>& columns() { return columns_; }

 private:
  template <typename T>
  T load(size_t ahead) const {
    T value;
    memcpy(&value, records_.data() + at_ + ahead, sizeof value);
    return value;
  }

  std::span<const std::byte> records_;
  size_t at_ = 0;
  std::array<std::vector<std::byte>, kColumnCount> columns_;
};

// The reverse, with the same functions: puts records together.
class Decoder {
 public:
  static constexpr bool kEncodes = false;

  Decoder(std::span<std::byte> out, std::array<std::vector<std::byte>, kColumnCount> columns)
      : out_(out), data_(std::move(columns)) {
    for (const auto& column : data_) columns_.emplace_back(column);
  }

  bool more() const { return at_ < out_.size(); }
  size_t at() const { return at_; }
  const std::byte* record(size_t from) const { return out_.data() + from; }

  template <typename T>
  T field(Column column, T predicted) {
    const T value = static_cast<T>(predicted + static_cast<T>(unzigzag(columns_[column].number())));
    known(value);
    return value;
  }
  template <typename T>
  void known(T value) {
    memcpy(room(sizeof value).data(), &value, sizeof value);
  }
  uint64_t number(Column column, uint64_t) { return columns_[column].number(); }
  uint8_t byte(Column column, uint8_t) { return std::to_integer<uint8_t>(columns_[column].take(1)[0]); }
  std::span<const std::byte> bytes(Column column, size_t count) {
    const auto to = room(count);
    std::ranges::copy(columns_[column].take(count), to.begin());
    return to;
  }
  std::span<const std::byte> bytes_against(Column column, std::span<const std::byte> before) {
    const auto to = room(before.size());
    const auto difference = columns_[column].take(before.size());
    for (size_t n = 0; n < before.size(); n++) to[n] = difference[n] ^ before[n];
    return to;
  }
  void pad(size_t count) { std::ranges::fill(room(count), std::byte{}); }
  // Sets the size and the checksum of the record that began at `from`.
  void patch(size_t from, uint32_t size, uint32_t checksum) {
    memcpy(out_.data() + from + offsetof(RecordHeader, size), &size, sizeof size);
    memcpy(out_.data() + from + offsetof(RecordHeader, checksum), &checksum, sizeof checksum);
  }

 private:
  std::span<std::byte> room(size_t count) {
    if (count > out_.size() - at_) throw Damaged("there are more records than the block has room for");
    const auto to = out_.subspan(at_, count);
    at_ += count;
    return to;
  }

  std::span<std::byte> out_;
  size_t at_ = 0;
  std::array<std::vector<std::byte>, kColumnCount> data_;
  std::vector<Bytes> columns_;
};

// ---- What is known from the records before

// Of a part of an event: the part at the same place of the last event with the same shape and first argument.
struct PartBefore {
  uint32_t kind = 0, size = 0;
  uint64_t address = 0;
  int argument = -1;  // its address was that of this argument, and `beyond` more
  uint64_t beyond = 0;
  uint64_t channel = 0, about = 0;
  std::vector<std::byte> contents;  // if they are short
};

struct EventBefore {
  std::array<uint64_t, 15> arguments{};
  uint64_t result = 0, hash = 0;
  std::vector<PartBefore> parts;
};

struct Flow {
  uint64_t next = 0, hash = 0;  // offset and hash of the next transfer
};

// Type, flags, call and counts of an event.
struct Shape {
  uint16_t type, flags, call, counts;
  auto operator<=>(const Shape&) const = default;
};

// A clock that the program reads: nanoseconds run with the ticks.
struct ClockBefore {
  uint64_t seconds = 0, fraction = 0, ticks = 0;
  uint64_t rate = 0;  // units of `fraction` a tick, in 2^-32
};

template <typename Coder>
class Transcoder {
 public:
  Transcoder(Coder& coder, uint64_t offset) : io_(coder), offset_(offset) {}

  void run() {
    while (io_.more()) record();
  }

 private:
  void record();
  void other();
  Shape shape();
  void event(bool new_thread);
  bool is_next(const EventRecord& event);
  void place(bool is_new);
  uint8_t event_form(const EventBefore& before, const Shape& what, unsigned argument_count);
  uint64_t expected_or(bool other, Column column, uint64_t expected);
  uint64_t hash_of(uint8_t form, uint64_t before, uint64_t payload);
  void clock(const Shape& shape, uint64_t first);
  void part(PartBefore& last, std::span<const uint64_t> arguments, uint64_t result);
  void transfer(PartBefore& last, uint32_t size, uint64_t result);
  void peer();
  // Whether the hash of a transfer could be that of the first bytes that the event has stored. Only of the first one of
  // an event: others do not begin there, and a hostile block could have all bytes hashed by each of many.
  bool is_hashed(const TransferPart& part) const {
    return part.representation == kInline && part.direction == kIn && !memory_.empty() && transfers_ == 0;
  }
  uint64_t hash_of_payload(uint64_t length) const;
  uint32_t checksum(size_t from, uint32_t size) const {
    return record_checksum({io_.record(from), size}, offset_ + from);
  }

  Coder& io_;
  const uint64_t offset_;
  std::vector<Shape> shapes_;
  std::map<Shape, uint32_t> shape_numbers_;
  std::vector<uint32_t> followed_by_;  // by shape: the one that came behind it last
  uint32_t shape_ = 0;
  uint32_t thread_ = 0;
  uint64_t index_ = 0, time_ = 0;
  std::unordered_map<uint32_t, uint32_t> sequences_;  // by thread
  uint32_t* sequence_ = &sequences_[0];               // of thread_
  std::vector<uint64_t> first_arguments_;             // by shape
  std::unordered_map<uint64_t, EventBefore> before_;  // by shape and first argument
  std::unordered_map<uint64_t, Flow> flows_;          // by channel and direction
  std::map<uint64_t, ClockBefore> clocks_;            // by call and first argument
  using Peer = std::array<std::byte, sizeof(SocketAddress)>;
  std::vector<Peer> peers_;
  std::map<Peer, uint64_t> peer_numbers_;
  std::map<uint16_t, std::vector<std::byte>> others_;  // by type: the last record
  size_t transfers_ = 0;                               // of the event under way, before this one
  // Memory parts of the event under way: where they begin, and their sizes.
  std::vector<std::pair<size_t, uint32_t>> memory_;
};

template <typename Coder>
void Transcoder<Coder>::record() {
  const size_t from = io_.at();
  uint8_t form = 0;
  uint32_t given = 0;
  if constexpr (Coder::kEncodes) {
    const auto header = io_.template peek<RecordHeader>();
    form = is_event(header.type) ? 0 : kOther;
    given = header.checksum;
    if (checksum(from, header.size) != given) form |= kWithChecksum;
    if (!(form & kOther) && !is_next(io_.template peek<EventRecord>())) form |= kNewThread;
  }
  form = io_.byte(kForms, form);
  if (form & kOther) other();
  else event(form & kNewThread);
  const auto size = static_cast<uint32_t>(io_.at() - from);
  if (size % 8 || size < sizeof(RecordHeader)) throw Damaged("a record has an impossible size");
  io_.patch(from, size, 0);
  if (form & kWithChecksum) given = static_cast<uint32_t>(io_.number(kChecksums, given));
  else if constexpr (!Coder::kEncodes) given = checksum(from, size);
  io_.patch(from, size, given);
}

// ---- Records that are no events

template <typename Coder>
void Transcoder<Coder>::other() {
  uint32_t size = 0;
  uint16_t type = 0;
  if constexpr (Coder::kEncodes) {
    size = io_.template peek<uint32_t>();
    type = io_.template peek<uint16_t>(offsetof(RecordHeader, type));
  }
  size = static_cast<uint32_t>(io_.number(kWords, size / 8)) * 8;
  io_.known(size);
  type = io_.template field<uint16_t>(kWords, 0);
  io_.template field<uint16_t>(kWords, 0);
  io_.known(uint32_t{0});
  io_.template field<uint32_t>(kWords, 0);
  if (size < sizeof(RecordHeader)) throw Damaged("a record has an impossible size");
  const size_t rest = size - sizeof(RecordHeader);
  if (rest > kMostWords) {
    io_.bytes(kRecordBytes, rest);
    return;
  }
  std::vector<std::byte>& before = others_[type];
  before.resize(rest);
  for (size_t at = 0; at < rest; at += 8) {
    uint64_t word;
    memcpy(&word, before.data() + at, sizeof word);
    word = io_.template field<uint64_t>(kWords, word);
    memcpy(before.data() + at, &word, sizeof word);
  }
}

// ---- Events

template <typename Coder>
Shape Transcoder<Coder>::shape() {
  Shape found{};
  uint32_t number = 0;
  if constexpr (Coder::kEncodes) {
    const auto event = io_.template peek<EventRecord>();
    uint16_t counts;
    memcpy(&counts, io_.record(io_.at()) + offsetof(EventRecord, call) + 2, sizeof counts);
    found = {event.header.type, event.header.flags, event.call, counts};
    if (!shapes_.empty() && shapes_[followed_by_[shape_]] == found) number = followed_by_[shape_];
    else number = shape_numbers_.try_emplace(found, static_cast<uint32_t>(shapes_.size())).first->second;
  }
  // 0: what followed the last one the last time; else one more than its number.
  const bool expected = !shapes_.empty() && followed_by_[shape_] == number;
  const uint64_t code = io_.number(kShapes, expected ? 0 : number + uint64_t{1});
  number = code == 0 ? (shapes_.empty() ? 0 : followed_by_[shape_]) : static_cast<uint32_t>(code - 1);
  if (code > shapes_.size() + 1) throw Damaged("an event has no shape");
  if (number == shapes_.size()) {
    for (uint16_t* field : {&found.type, &found.flags, &found.call, &found.counts})
      *field = static_cast<uint16_t>(io_.number(kShapeTable, *field));
    if (!is_event(found.type)) throw Damaged("an event is of no type");
    shapes_.push_back(found);
    followed_by_.push_back(number);
    first_arguments_.push_back(0);
  }
  followed_by_[shape_] = number;
  shape_ = number;
  return shapes_[number];
}

template <typename Coder>
void Transcoder<Coder>::event(bool new_thread) {
  const Shape what = shape();
  const unsigned argument_count = what.counts & 15, part_count = what.counts >> 4;
  io_.known(uint32_t{0});  // the size, set at the end
  io_.known(what.type);
  io_.known(what.flags);
  io_.known(uint32_t{0});  // the checksum
  place(new_thread);
  io_.known(what.call);
  io_.known(what.counts);
  // The fields in between are predicted from the first argument, which stands behind them in the record.
  uint64_t first = 0;
  if constexpr (Coder::kEncodes)
    if (argument_count) first = io_.template peek<uint64_t>(sizeof(EventRecord) - offsetof(EventRecord, result));
  if (argument_count)
    first = first_arguments_[shape_] + unzigzag(io_.number(kFirstArguments, zigzag(first - first_arguments_[shape_])));
  first_arguments_[shape_] = first;
  constexpr uint64_t kMostDescriptors = 1 << 16;  // a larger first argument is no descriptor, and hardly comes again
  EventBefore& before = before_[uint64_t{shape_} << 17 | std::min(first, kMostDescriptors)];
  const uint8_t form = io_.byte(kEventForms, event_form(before, what, argument_count));
  const uint64_t result = before.result = expected_or(form & kNewResult, kResults, before.result);
  if (what.flags & kFlagClock) {
    clock(what, first);
  } else {
    if (const uint64_t hash = hash_of(form >> kHashShift, before.hash, 0)) before.hash = hash;
    const uint64_t entry = io_.template field<uint64_t>(kEntries, time_);
    time_ = io_.template field<uint64_t>(kReturns, entry);
  }
  for (unsigned n = 0; n < argument_count; n++) {
    if (n == 0) io_.known(before.arguments[n] = first);
    else before.arguments[n] = expected_or(form & kNewArguments, kArguments, before.arguments[n]);
  }
  before.parts.resize(part_count);
  memory_.clear();
  transfers_ = 0;
  for (PartBefore& last : before.parts) part(last, std::span(before.arguments).first(argument_count), result);
}

template <typename Coder>
bool Transcoder<Coder>::is_next(const EventRecord& event) {
  return event.header.thread == thread_ && event.index == index_ + 1 && event.thread_seq == *sequence_ + 1;
}

// Thread, index and number in the thread.
template <typename Coder>
void Transcoder<Coder>::place(bool is_new) {
  if (!is_new) {
    io_.known(thread_);
    io_.known(++index_);
    io_.known(++*sequence_);
    return;
  }
  thread_ = io_.template field<uint32_t>(kThreads, thread_);
  index_ = io_.template field<uint64_t>(kThreads, index_ + 1);
  sequence_ = &sequences_[thread_];
  *sequence_ = io_.template field<uint32_t>(kThreads, *sequence_ + 1);
}

// The cursor is at the result.
template <typename Coder>
uint8_t Transcoder<Coder>::event_form(const EventBefore& before, const Shape& what, unsigned argument_count) {
  if constexpr (Coder::kEncodes) {
    const uint64_t result = io_.template peek<uint64_t>(), hash = io_.template peek<uint64_t>(8);
    uint8_t form = result == before.result ? 0 : kNewResult;
    constexpr size_t kToArguments = sizeof(EventRecord) - offsetof(EventRecord, result);
    for (unsigned n = 1; n < argument_count; n++)
      if (io_.template peek<uint64_t>(kToArguments + n * 8) != before.arguments[n]) form |= kNewArguments;
    if (!(what.flags & kFlagClock))
      form |= static_cast<uint8_t>((hash == 0 ? kZero : hash == before.hash ? kAsBefore : kExplicit) << kHashShift);
    return form;
  }
  return 0;
}

// The next word: what was expected, or another one that stands in a column.
template <typename Coder>
uint64_t Transcoder<Coder>::expected_or(bool other, Column column, uint64_t expected) {
  if (other) return io_.template field<uint64_t>(column, expected);
  io_.known(expected);
  return expected;
}

template <typename Coder>
uint64_t Transcoder<Coder>::hash_of(uint8_t form, uint64_t before, uint64_t payload) {
  uint64_t hash = 0;
  if (form == kExplicit) {
    memcpy(&hash, io_.bytes(kHashes, sizeof hash).data(), sizeof hash);
    return hash;
  }
  hash = form == kZero ? 0 : form == kAsBefore ? before : payload;
  io_.known(hash);
  return hash;
}

// The reading of a clock: two words in the place of the input hash and of the time of the return.
template <typename Coder>
void Transcoder<Coder>::clock(const Shape& shape, uint64_t first) {
  ClockBefore& last = clocks_[uint64_t{shape.call} << 32 | (first & 0xffffffff)];
  const uint64_t second = shape.call == shim::sys::clock_gettime ? 1'000'000'000 : 1'000'000;
  uint64_t ticks = 0;
  if constexpr (Coder::kEncodes) ticks = io_.template peek<uint64_t>(8);
  ticks = time_ + unzigzag(io_.number(kEntries, zigzag(ticks - time_)));
  const uint64_t passed = ticks - last.ticks;
  const auto advance = static_cast<uint64_t>((static_cast<unsigned __int128>(passed) * last.rate) >> 32);
  uint64_t expected = last.fraction + advance;
  const uint64_t carry = passed >> 40 ? 0 : expected / second;  // a clock that was not read for long is not predicted
  expected -= carry * second;
  const uint64_t seconds = io_.template field<uint64_t>(kClocks, last.seconds + carry);
  io_.known(ticks);
  const uint64_t fraction = io_.template field<uint64_t>(kClocks, expected);
  const uint64_t moved = (seconds - last.seconds) * second + fraction - last.fraction;
  if (last.ticks && passed > 1000 && passed < uint64_t{1} << 40 && moved < uint64_t{1} << 31)
    last.rate = (moved << 32) / passed;
  last = {seconds, fraction, ticks, last.rate};
  time_ = ticks;
}

// ---- Parts

// What the address is expected to be: as far from the same argument as the last time.
uint64_t expected_address(const PartBefore& last, std::span<const uint64_t> arguments) {
  const bool related = last.argument >= 0 && static_cast<size_t>(last.argument) < arguments.size();
  return related ? arguments[static_cast<size_t>(last.argument)] + last.beyond : last.address;
}

void relate(PartBefore& last, std::span<const uint64_t> arguments) {
  constexpr uint64_t kNear = 1 << 20;
  last.argument = -1;
  for (size_t n = 0; n < arguments.size(); n++)
    if (arguments[n] && last.address - arguments[n] < kNear)
      last.argument = static_cast<int>(n), last.beyond = last.address - arguments[n];
}

template <typename Coder>
void Transcoder<Coder>::part(PartBefore& last, std::span<const uint64_t> arguments, uint64_t result) {
  const uint64_t expected = expected_address(last, arguments);
  uint8_t form = 0;
  if constexpr (Coder::kEncodes) {
    const auto header = io_.template peek<PartHeader>();
    form = io_.template peek<uint32_t>() == last.kind ? 0 : kNewKind;
    if (header.address != expected) form |= kNewAddress;
    const uint8_t how = header.size == result ? kAsResult : header.size == last.size ? kAsLast : kOtherSize;
    form |= static_cast<uint8_t>(how << kSizeShift);
  }
  form = io_.byte(kPartForms, form);
  if (form & kNewKind) last.kind = io_.template field<uint32_t>(kPartKinds, last.kind);
  else io_.known(last.kind);
  uint32_t size = form >> kSizeShift == kAsResult ? static_cast<uint32_t>(result) : last.size;
  if (form >> kSizeShift == kOtherSize) size = io_.template field<uint32_t>(kSizes, last.size);
  else io_.known(size);
  last.address = expected_or(form & kNewAddress, kAddresses, expected);
  if (form & kNewAddress) relate(last, arguments);
  const auto kind = static_cast<uint16_t>(last.kind);
  const size_t from = io_.at();
  if (kind == kTransfer && size >= kTransferBytes) {
    transfer(last, size, result);
  } else if (kind == kMemory && size > kMostSmall) {
    io_.bytes(kBulk, size);
  } else if (size <= kMostSmall && (kind == kMemory || kind == kState)) {
    last.contents.resize(size);
    const auto contents = io_.bytes_against(kSmall, last.contents);
    last.contents.assign(contents.begin(), contents.end());
  } else {
    io_.bytes(kPartBytes, size);
  }
  if (kind == kMemory) memory_.emplace_back(from, size);
  io_.pad(padded(size) - size);
  last.size = size;
}

// The hash of a datagram, whose bytes are the first ones that the event has stored.
template <typename Coder>
uint64_t Transcoder<Coder>::hash_of_payload(uint64_t length) const {
  std::vector<std::byte> whole;
  for (const auto& [from, size] : memory_) {
    const uint64_t taken = std::min<uint64_t>(size, length - whole.size());
    if (whole.empty() && taken == length) return run_hash({io_.record(from), taken}, 0);
    whole.insert(whole.end(), io_.record(from), io_.record(from) + taken);
    if (whole.size() == length) break;
  }
  return run_hash(whole, 0);
}

// Direction, representation, flags and message of a transfer: its last word, which says what the others mean.
template <typename Coder>
void Transcoder<Coder>::transfer(PartBefore& last, uint32_t size, uint64_t result) {
  TransferPart now{};
  uint64_t about = 0;
  constexpr size_t kAbout = offsetof(TransferPart, direction);
  uint8_t form = 0;
  if constexpr (Coder::kEncodes) {
    memcpy(&now, io_.record(io_.at()), kTransferBytes);
    about = io_.template peek<uint64_t>(kAbout);
    const Flow& flow = flows_[now.channel << 8 | now.direction];
    if (now.channel != last.channel) form |= kNewChannel;
    if (about != last.about) form |= kNewFlags;
    if (now.offset != flow.next) form |= kNewOffset;
    if (now.length != result || now.true_length != result) form |= kNewLength;
    const HashForm hash = now.hash == 0                                               ? kZero
                          : now.hash == flow.hash                                     ? kAsBefore
                          : is_hashed(now) && now.hash == hash_of_payload(now.length) ? kOfPayload
                                                                                      : kExplicit;
    form |= static_cast<uint8_t>(hash << kTransferHashShift);
  }
  form = io_.byte(kTransferForms, form);
  last.channel = expected_or(form & kNewChannel, kChannels, last.channel);
  if (form & kNewFlags) last.about += unzigzag(io_.number(kTransferKinds, zigzag(about - last.about)));
  memcpy(reinterpret_cast<std::byte*>(&now) + kAbout, &last.about, sizeof last.about);
  Flow& flow = flows_[last.channel << 8 | now.direction];
  const uint64_t offset = expected_or(form & kNewOffset, kOffsets, flow.next);
  now.length = form & kNewLength ? result + unzigzag(io_.number(kLengths, zigzag(now.length - result))) : result;
  const uint8_t hashed = form >> kTransferHashShift;
  if (hashed == kOfPayload && !is_hashed(now)) throw Damaged("a hash is that of no bytes");
  flow.hash = hash_of(hashed, flow.hash, hashed == kOfPayload ? hash_of_payload(now.length) : 0);
  transfers_++;
  io_.known(now.length);
  expected_or(form & kNewLength, kLengths, now.length);
  io_.known(last.about);
  flow.next = now.flags & kPeek ? offset : offset + now.length;
  constexpr uint32_t kWithPeer = kTransferBytes + sizeof(SocketAddress);
  if (size >= kWithPeer) peer();
  io_.bytes(kPartBytes, size - (size >= kWithPeer ? kWithPeer : kTransferBytes));
}

// An address of which the block has had others: its number, or the next one and the address itself.
template <typename Coder>
void Transcoder<Coder>::peer() {
  uint64_t number = peers_.size();
  Peer address{};
  if constexpr (Coder::kEncodes) {
    memcpy(address.data(), io_.record(io_.at()), address.size());
    if (const auto known = peer_numbers_.find(address); known != peer_numbers_.end()) number = known->second;
  }
  constexpr size_t kMostPeers = 1000;
  number = io_.number(kPeers, number);
  if (number > peers_.size()) throw Damaged("an address is not there");
  if (number < peers_.size()) {
    for (size_t at = 0; at < address.size(); at += 4) {
      uint32_t word;
      memcpy(&word, peers_[number].data() + at, sizeof word);
      io_.known(word);
    }
    return;
  }
  std::ranges::copy(io_.bytes(kPeerTable, address.size()), address.begin());
  if (peers_.size() == kMostPeers) peers_.clear(), peer_numbers_.clear();
  peer_numbers_[address] = peers_.size();
  peers_.push_back(address);
}

// The size of the record at the beginning of the bytes; 0: there is no whole one.
size_t record_size(std::span<const std::byte> bytes) {
  RecordHeader header;
  if (bytes.size() < sizeof header) return 0;
  memcpy(&header, bytes.data(), sizeof header);
  return header.size < sizeof header || header.size % 8 || header.size > bytes.size() ? 0 : header.size;
}

// Whether the bytes are whole records and nothing else, of which the columns hold all.
bool are_plain(std::span<const std::byte> records) {
  for (size_t at = 0; at < records.size();) {
    const size_t size = record_size(records.subspan(at));
    const RecordView record(reinterpret_cast<const RecordHeader*>(records.data() + at), at);
    if (size == 0 || record_problem(record, false)) return false;
    if (record.is_event()) {
      for (PartView part : record.event().parts())
        for (size_t n = part.bytes().size(); n < padded(part.bytes().size()); n++)
          if (part.bytes().data()[n] != std::byte{}) return false;
    }
    at += size;
  }
  return true;
}

}  // namespace

size_t whole_records(std::span<const std::byte> bytes) {
  size_t at = 0;
  while (const size_t size = record_size(bytes.subspan(at))) at += size;
  return at;
}

std::optional<std::vector<std::byte>> to_columns(std::span<const std::byte> records, uint64_t offset,
                                                 ZSTD_CCtx_s* context) {
  if (records.empty() || !are_plain(records)) return std::nullopt;
  Encoder encoder(records);
  Transcoder<Encoder>(encoder, offset).run();
  std::vector<std::byte> out{std::byte{kColumnsFormat}};
  size_t most = 0;
  for (const std::vector<std::byte>& column : encoder.columns()) most = std::max(most, column.size());
  const std::unique_ptr<std::byte[]> room(new std::byte[ZSTD_compressBound(most)]);
  for (const std::vector<std::byte>& column : encoder.columns()) {
    const size_t size = column.empty() ? 0
                                       : ZSTD_compressCCtx(context, room.get(), ZSTD_compressBound(most), column.data(),
                                                           column.size(), kColumnsLevel);
    if (ZSTD_isError(size)) return std::nullopt;
    put_leb128(out, column.size());
    put_leb128(out, size);
    out.insert(out.end(), room.get(), room.get() + size);
  }
  return out;
}

std::optional<std::string> from_columns(std::span<const std::byte> columns, uint64_t offset, std::span<std::byte> out) {
  try {
    Bytes in(columns);
    if (in.take(1)[0] != std::byte{kColumnsFormat})
      return "its columns are of a version that this Friday does not know";
    std::array<std::vector<std::byte>, kColumnCount> data;
    uint64_t room = 4 * out.size() + 64;  // more than the columns of so many bytes can take
    for (std::vector<std::byte>& column : data) {
      const uint64_t size = in.number();
      const auto stored = in.take(in.number());
      if (size > room) return "a column is too large";
      room -= size;
      column.resize(size);
      const size_t got = stored.empty() ? 0 : ZSTD_decompress(column.data(), size, stored.data(), stored.size());
      if (ZSTD_isError(got)) return fmt::format("zstd says \"{}\"", ZSTD_getErrorName(got));
      if (got != size) return "a column has another size than was said";
    }
    Decoder decoder(out, std::move(data));
    Transcoder<Decoder>(decoder, offset).run();
    return std::nullopt;
  } catch (const Damaged& damaged) {
    return damaged.what();
  }
}

}  // namespace friday
