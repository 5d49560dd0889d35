// Structures in the program's memory by which it talks to the kernel, with the fields that the shim uses. Each has the
// layout of the kernel's own structure in include/uapi/linux.
#pragma once

#include <stdint.h>

namespace friday::shim {

struct IoVec {  // struct iovec
  uint64_t base, length;
};
struct MsgHeader {  // struct msghdr
  uint64_t name;
  uint32_t name_length, pad0;
  uint64_t iov, iov_count;
  uint64_t control, control_length;
  uint32_t flags, pad1;
};
struct MmsgHeader {  // struct mmsghdr
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
struct AioEvent {  // struct io_event, include/uapi/linux/aio_abi.h
  uint64_t data, control;
  int64_t result, result2;
};
enum : uint16_t { kAioRead = 0, kAioWrite = 1, kAioReadVector = 7, kAioWriteVector = 8 };  // IOCB_CMD_PREAD, ...

struct XattrArguments {  // struct xattr_args
  uint64_t value;
  uint32_t size, flags;
};

// Sizes in bytes: of struct sockaddr_storage, of the bytes in the longest struct file_handle (MAX_HANDLE_SZ).
inline constexpr uint32_t kLongestAddress = 128, kLongestHandle = 128;

// _LINUX_CAPABILITY_VERSION_1: with it, the sets of capget(2) and capset(2) have 32 bits, with all others 64.
constexpr uint32_t kCapabilitiesOne = 0x19980330;

// Sizes in bytes: of each fd_set of a select(2), of a node mask of `bits` bits (get_mempolicy(2), where the kernel uses
// one bit less than it is told), and of the struct file_handle at `address`.
inline uint64_t fdset_bytes(const uint64_t* arguments) { return (arguments[0] + 63) / 64 * 8; }
inline uint64_t nodes_bytes(uint64_t bits) { return (bits + 62) / 64 * 8; }
inline uint64_t handle_bytes(uint64_t address) { return 8 + *(const uint32_t*)address; }

inline constexpr uint64_t kPageSize = 4096, kUserEnd = 0x7ffffffff000;  // TASK_SIZE_MAX

// Whether [address, address + size) can be memory of the program: NULL cannot. This says nothing about whether it is
// mapped, so whatever reads it before the call has succeeded also uses probed().
inline bool readable(uint64_t address, uint64_t size) {
  if (address < kPageSize || address + size < address || address + size > kUserEnd) return false;
  return true;
}

// MSG_OOB and so on, of <sys/socket.h>.
enum MessageFlag : uint64_t {
  kMsgOutOfBand = 1,
  kMsgPeek = 2,
  kMsgTruncated = 0x20,  // MSG_TRUNC
  kMsgDontWait = 0x40,
  kMsgErrorQueue = 0x2000,
  kMsgNoSignal = 0x4000,
  kMsgMore = 0x8000,
  kMsgZeroCopy = 0x4000000,
};

}  // namespace friday::shim
