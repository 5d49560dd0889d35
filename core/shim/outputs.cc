// What a call has written to the program's memory, according to the table (calls.def): each output becomes a part of
// the event.
#include <linux/fcntl.h>

#include "core/shim/calls.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/process.h"
#include "core/shim/schedule.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

bool fills(int pipe) { return (native(sys::fcntl, pipe, F_GETFL, 0) & O_ACCMODE) == 0; }

bool is_own(uint64_t pid) {
  return pid == (uint64_t)native(sys::getpid) || (pid == (uint32_t)pid && living_thread((uint32_t)pid));
}

void write_iov(EventWriter& writer, const IoVec* iov, uint64_t count, long result) {
  uint64_t left = result > 0 ? (uint64_t)result : 0;
  for (uint64_t i = 0; i < count && left; i++) {
    uint64_t n = min(iov[i].length, left);
    writer.memory((void*)iov[i].base, n);
    left -= n;
  }
}

namespace {

void write_message(EventWriter& writer, const MsgHeader* m, long result, uint32_t name_room) {
  write_iov(writer, (const IoVec*)m->iov, m->iov_count, result);
  writer.memory(&m->name_length, 4);
  writer.memory(&m->control_length, 8);
  writer.memory(&m->flags, 4);
  if (m->name) writer.memory((void*)m->name, min(m->name_length, name_room));
  // It may end in the middle of an item that found no memory.
  if (m->control) write_reached(writer, m->control, m->control_length);
}

// The address and the control data of a message of recvmmsg(2).
void write_about(EventWriter& writer, const MsgHeader& m) {
  // The size of the program's buffer is not known any more; bytes behind it are recorded as they are.
  if (m.name) writer.memory((void*)m.name, min(m.name_length, kLongestAddress));
  if (m.control) write_reached(writer, m.control, m.control_length);
}

// A value-result length and the bytes that it counts, at most `offered`, the value before the call. The kernel stores
// the length even if the address is NULL.
void write_length(EventWriter& writer, const CallFrame* frame, const Operand& out, uint32_t offered) {
  const uint64_t* a = arguments_of(frame);
  const uint32_t* length = (const uint32_t*)a[out.other];
  if (!readable((uint64_t)length, 4)) return;
  writer.memory(length, 4);
  if (!readable(a[out.argument], 1)) return;
  writer.memory((void*)a[out.argument], (size_t)min(*length, offered) * (counts_instructions(frame) ? 8 : 1));
}

// How many of its outputs the call has written. Most calls write none if they fail.
unsigned outputs_written(const CallInfo& info, const CallFrame* frame, long result) {
  constexpr unsigned kAll = sizeof info.outputs / sizeof info.outputs[0];
  if (!failed(result)) return kAll;
  switch (frame->rax) {
    case sys::getsockopt:  // the length that would be needed, as SO_PEERSEC and TCP_SAVED_SYN have it
      return result == -ERANGE || result == -EINVAL;
    case sys::capget:
    case sys::capset: return result == -EINVAL;        // the version that the kernel prefers
    case sys::sched_setattr: return result == -E2BIG;  // the size that the kernel supports
    case sys::io_submit:                               // the key of the request that failed
    case sys::waitid: return 1;                        // a siginfo_t with zeros
  }
  return (info.flags & kAlways) && result != -EINVAL ? kAll : 0;
}

}  // namespace

void write_beginning(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result) {
  const uint64_t* a = arguments_of(frame);
  const Operand& out = info.outputs[0];
  const uint64_t address = a[out.argument];
  if (result <= 0 || !readable(address, 1)) return;
  const long kept = min<long>(result, first_bytes);
  switch (out.shape) {
    case Shape::ret: writer.memory((void*)address, (size_t)kept); break;
    case Shape::ret_cap: writer.memory((void*)address, min((size_t)kept, (size_t)a[out.other])); break;
    case Shape::iov: write_iov(writer, (const IoVec*)address, a[out.other], kept); break;
    case Shape::msg: {
      const MsgHeader* m = (const MsgHeader*)address;
      write_iov(writer, (const IoVec*)m->iov, m->iov_count, kept);
      break;
    }
    case Shape::mmsg:
      for (long i = 0; i < result; i++) {
        const MmsgHeader& m = ((const MmsgHeader*)address)[i];
        write_iov(writer, (const IoVec*)m.header.iov, m.header.iov_count, min<long>(m.length, first_bytes));
      }
      break;
    default: break;  // vmsplice(2): what it has moved is not looked at
  }
}

void write_outputs(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                   const Offered& offered) {
  if (reached_in_part(frame, result)) return write_reached(writer, info, frame, offered);
  unsigned left = outputs_written(info, frame, result);
  const uint64_t* a = arguments_of(frame);
  for (const Operand& out : info.outputs) {
    if (out.shape == Shape::none || left-- == 0) break;
    uint64_t address = a[out.argument];
    if (out.shape == Shape::length && failed(result)) write_reached(writer, a[out.other], 4);
    else if (out.shape == Shape::length) write_length(writer, frame, out, offered.length);
    if (out.shape == Shape::length || !readable(address, 1)) continue;
    void* p = (void*)address;
    switch (out.shape) {
      case Shape::ret:
        if (result > 0) writer.memory(p, (size_t)result);
        break;
      case Shape::ret_n:
        if (result > 0) writer.memory(p, min((size_t)result, (size_t)(uint32_t)a[out.other]) * out.size);
        break;
      case Shape::ret_cap:
        if (result > 0) writer.memory(p, min((size_t)result, (size_t)a[out.other]));
        break;
      case Shape::fix: writer.memory(p, out.size); break;
      case Shape::count: writer.memory(p, a[out.other] * out.size); break;
      case Shape::argument: writer.memory(p, a[out.other]); break;
      case Shape::pages: writer.memory(p, (a[out.other] + 4095) / 4096); break;
      case Shape::fdset: writer.memory(p, fdset_bytes(a)); break;
      case Shape::iov: write_iov(writer, (IoVec*)p, a[out.other], result); break;
      case Shape::msg: write_message(writer, (MsgHeader*)p, result, offered.name); break;
      case Shape::mmsg_len:
        for (long i = 0; i < result; i++) writer.memory(&((MmsgHeader*)p)[i].length, 4);
        break;
      case Shape::mmsg:
        for (long i = 0; i < result; i++) {
          const MmsgHeader& m = ((MmsgHeader*)p)[i];
          write_iov(writer, (const IoVec*)m.header.iov, m.header.iov_count, m.length);
        }
        if (result > 0) writer.memory(p, (size_t)result * sizeof(MmsgHeader));
        for (long i = 0; i < result; i++) write_about(writer, ((MmsgHeader*)p)[i].header);
        break;
      case Shape::message_text:
        if (result >= 0) writer.memory(p, (size_t)result + 8);
        break;
      case Shape::handle:
        if (!failed(result) || result == -EOVERFLOW) {
          writer.memory(p, result ? 8 : handle_bytes(address));
          writer.memory((void*)a[3], a[4] & 1 /* AT_HANDLE_MNT_ID_UNIQUE */ ? 8 : 4);
        }
        break;
      case Shape::aio_events:
        if (result > 0) aio_write_events(writer, p, result);
        break;
      case Shape::iocbs: aio_write_keys(writer, address, a[out.other], result); break;
      case Shape::nodes: writer.memory(p, nodes_bytes(a[out.other])); break;
      case Shape::spliced:
        if (fills((int)a[0])) write_iov(writer, (IoVec*)p, a[out.other], result);
        break;
      case Shape::own_iov:
        if (is_own(a[0])) write_iov(writer, (IoVec*)p, a[out.other], result);
        break;
      case Shape::xattr: {
        const XattrArguments* x = (const XattrArguments*)p;
        if (result > 0) writer.memory((void*)x->value, min((uint32_t)result, x->size));
        break;
      }
      case Shape::caps: writer.memory(p, *(uint32_t*)a[0] == kCapabilitiesOne ? 12 : 24); break;
      default: break;
    }
  }
  if (result > 0 && !failed(result)) write_behind(writer, info, frame, result, offered);
}

Offered note_offered(const CallInfo& info, const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  Offered offered;
  for (const Operand& out : info.outputs) {
    if (out.shape == Shape::none) break;
    const bool message = out.shape == Shape::msg;
    if (out.shape == Shape::length && readable(a[out.other], 4))
      probed([&] { offered.length = *(const uint32_t*)a[out.other]; });
    if (message && readable(a[out.argument], 1))
      probed([&] {
        const MsgHeader* m = (const MsgHeader*)a[out.argument];
        offered.name = m->name_length, offered.control = m->control_length;
      });
  }
  return offered;
}

}  // namespace friday::shim
