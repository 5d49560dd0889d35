// Structures that the kernel reads and writes in the program's memory, as far as the shim looks into them.
#pragma once

#include <stdint.h>

namespace friday::shim {

struct IoVec {
  uint64_t base, length;
};
struct MsgHeader {
  uint64_t name;
  uint32_t name_length, pad0;
  uint64_t iov, iov_count;
  uint64_t control, control_length;
  uint32_t flags, pad1;
};
struct MmsgHeader {
  MsgHeader header;
  uint32_t length, pad;
};

struct AioControl {  // struct iocb, include/uapi/linux/aio_abi.h
  uint64_t data;
  uint32_t key, flags;
  uint16_t opcode, priority;
  uint32_t fd;
  uint64_t buffer, bytes, offset, reserved;
  uint32_t more_flags, event_fd;
};
enum : uint16_t { kAioRead = 0, kAioWrite = 1, kAioReadVector = 7, kAioWriteVector = 8 };

struct XattrArguments {
  uint64_t value;
  uint32_t size, flags;
};

constexpr uint32_t kCapabilitiesOne = 0x19980330;  // the version of capget(2) and capset(2) whose sets have one word

inline uint64_t fdset_bytes(const uint64_t* arguments) { return (arguments[0] + 63) / 64 * 8; }
inline uint64_t nodes_bytes(uint64_t bits) { return (bits + 62) / 64 * 8; }
inline uint64_t handle_bytes(uint64_t address) { return 8 + *(const uint32_t*)address; }

// Pointers that are plainly none, NULL above all. A program may pass others that lead nowhere, to which the kernel
// answers EFAULT: whatever reads before a call has succeeded is probed() besides.
inline bool readable(uint64_t address, uint64_t size) {
  if (address < 4096 || address + size < address || address + size > 0x7ffffffff000) return false;
  return true;
}

}  // namespace friday::shim
