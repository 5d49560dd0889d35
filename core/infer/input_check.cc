#include "core/infer/input_check.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstring>
#include <iterator>
#include <span>

#include "core/trace/calls.h"
#include "core/trace/record.h"

namespace friday::infer {

namespace {

constexpr uint64_t kMost = 16 << 20;     // bytes of one operand
constexpr uint64_t kMostVectors = 1024;  // UIO_MAXIOV
constexpr uint64_t kStringStep = 64;     // bytes that are looked at together
constexpr uint64_t kLowest = 4096;       // no memory lies below

// The hash of a call's inputs, as core/shim/inputs.cc computes it.
class InputHash {
 public:
  InputHash(EventView event, const LookAt& look_at) : event_(event), look_at_(look_at) {}

  Result<Inputs> compare() {
    for (const CallInput& input : call_inputs(event_->call)) {
      FRIDAY_TRY(known, add(input));
      if (depends_) return Inputs::depend;
      if (!known) return Inputs::unknown;
    }
    return hash_ == event_->input_hash ? Inputs::same : Inputs::different;
  }

 private:
  // False if the hash cannot be told.
  Result<bool> add(const CallInput& input) {
    const uint64_t address = event_.argument(input.operands[0]);
    const uint64_t count = event_.argument(input.operands[1]);
    if (input.shape == "BUF") return address < kLowest || count == 0 ? true : add_run(address, count);
    if (input.shape == "STR") return address < kLowest ? true : add_string(address);
    if (input.shape == "FIX") return address < kLowest ? true : add_bytes(address, count_of(input, 1));
    if (input.shape == "CNT") return address < kLowest ? true : add_bytes(address, count * count_of(input, 2));
    if (input.shape == "IOV") return address < kLowest ? true : add_vectors(address, count);
    if (input.shape == "MSG") return address < kLowest ? true : add_message(address);
    return false;
  }
  static uint64_t count_of(const CallInput& input, size_t operand) { return input.operands[operand]; }

  Result<bool> take(uint64_t address, uint64_t length, std::vector<std::byte>& bytes) {
    if (length > kMost) return false;
    FRIDAY_TRY(look, look_at_(address, length));
    depends_ |= look.depends;
    bytes.insert(bytes.end(), look.bytes.begin(), look.bytes.end());
    return look.exists;
  }
  template <typename T>
  Result<bool> take(uint64_t address, T& into) {
    std::vector<std::byte> bytes;
    FRIDAY_TRY(known, take(address, sizeof into, bytes));
    if (known) memcpy(&into, bytes.data(), sizeof into);
    return known && !depends_;
  }

  Result<bool> add_bytes(uint64_t address, uint64_t length) {
    std::vector<std::byte> bytes;
    FRIDAY_TRY(known, take(address, length, bytes));
    hash_ = block_hash(bytes, hash_);
    return known;
  }
  Result<bool> add_run(uint64_t address, uint64_t length) {
    std::vector<std::byte> bytes;
    FRIDAY_TRY(known, take(address, length, bytes));
    hash_ = run_hash(bytes, hash_);
    return known;
  }
  Result<bool> add_string(uint64_t address) {
    std::vector<std::byte> bytes;
    while (bytes.size() < kMost) {
      // Up to the end of the step in memory: the one behind it may not exist.
      const uint64_t at = address + bytes.size();
      FRIDAY_TRY(known, take(at, kStringStep - at % kStringStep, bytes));
      if (!known || depends_) return false;
      const auto* text = reinterpret_cast<const char*>(bytes.data());
      if (const size_t length = strnlen(text, bytes.size()); length < bytes.size()) {
        hash_ = block_hash(std::span(bytes).first(length), hash_);
        return true;
      }
    }
    return false;
  }
  Result<bool> add_vectors(uint64_t address, uint64_t count) {
    if (count > kMostVectors) return false;
    std::vector<std::byte> all;
    for (uint64_t i = 0; i < count; i++) {
      iovec each;
      FRIDAY_TRY(known, take(address + i * sizeof each, each));
      if (!known) return false;
      if (each.iov_len == 0) continue;
      FRIDAY_TRY(there, take(reinterpret_cast<uint64_t>(each.iov_base), each.iov_len, all));
      if (!there) return false;
    }
    if (!all.empty()) hash_ = run_hash(all, hash_);
    return true;
  }
  Result<bool> add_message(uint64_t address) {
    msghdr message;
    FRIDAY_TRY(known, take(address, message));
    if (!known) return false;
    const auto name = reinterpret_cast<uint64_t>(message.msg_name),
               control = reinterpret_cast<uint64_t>(message.msg_control);
    if (name && message.msg_namelen) {
      FRIDAY_TRY(there, add_bytes(name, message.msg_namelen));
      if (!there) return false;
    }
    FRIDAY_TRY(there, add_vectors(reinterpret_cast<uint64_t>(message.msg_iov), message.msg_iovlen));
    if (!there || !control || !message.msg_controllen) return there;
    return add_bytes(control, message.msg_controllen);
  }

  const EventView event_;
  const LookAt& look_at_;
  uint64_t hash_ = 0;
  bool depends_ = false;
};

}  // namespace

Result<Inputs> compare_inputs(EventView event, const LookAt& look_at) {
  if (!event.has_call() || event.is_clock() || call_inputs(event->call).empty()) return Inputs::unknown;
  return InputHash(event, look_at).compare();
}

}  // namespace friday::infer
