// What a call has written that came to memory which it could not write. It may have failed with EFAULT and have written
// what lies before. Or it returns what it has written in whole blocks, and the beginning of the next block is in memory
// behind that: a receive from a pipe or a Unix socket, epoll_wait(2), the control data of recvmsg(2).
#include "core/shim/calls.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

// A block of a Unix stream socket has up to 84 KiB (unix_stream_sendmsg() in net/unix/af_unix.c), one of a pipe a page.
constexpr uint64_t kMostOfBlock = 128 << 10;

constexpr uint64_t kMostOfControl = 4096;  // bytes of control data, if it is not known how much room there is

// How many bytes a call that returns the number of bytes (Shape::ret) was to write at most.
uint64_t asked(const CallFrame* frame, const Operand& out) {
  const uint64_t* a = arguments_of(frame);
  return frame->rax == sys::sched_getaffinity ? a[1] : a[out.argument + 1];
}

void write_reached(EventWriter& writer, const IoVec* iov, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    IoVec one;
    if (!probed([&] { one = iov[i]; })) return;
    write_reached(writer, one.base, one.length);
  }
}

void write_reached(EventWriter& writer, const MsgHeader* message, uint32_t name_room) {
  MsgHeader m;
  if (!probed([&] { m = *message; })) return;
  write_reached(writer, (const IoVec*)m.iov, m.iov_count);
  if (m.name) write_reached(writer, m.name, name_room ? name_room : min(m.name_length, kLongestAddress));
  if (m.control) write_reached(writer, m.control, m.control_length);
  write_reached(writer, (uint64_t)message, sizeof m);
}

void write_reached_length(EventWriter& writer, const CallFrame* frame, const Operand& out, uint32_t offered) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t unit = counts_instructions(frame) ? 8 : 1;
  write_reached(writer, a[out.other], 4);
  if (a[out.argument]) write_reached(writer, a[out.argument], offered * unit);
}

// ---- Behind the result of a call that has succeeded

// Whether [from, from + size) has a page that cannot be read. The pages are read, because that costs the program no
// memory where it has not used them yet, which a store would.
bool has_hole(uint64_t from, uint64_t size) {
  if (size == 0) return false;
  if (!readable(from, size)) return true;
  return !probed([&] {
    for (uint64_t at = from; at < from + size; at = page_up(at + 1))
      __atomic_load_n((const uint8_t*)at, __ATOMIC_RELAXED);
  });
}

void write_behind_messages(EventWriter& writer, const MmsgHeader* messages, uint64_t count, long result) {
  for (long i = 0; i < result; i++)
    if (const MsgHeader& m = messages[i].header; m.control)
      write_behind(writer, m.control + m.control_length, kMostOfControl);
  if ((uint64_t)result == count) return;
  const MsgHeader& next = messages[result].header;
  write_behind(writer, (const IoVec*)next.iov, next.iov_count, 0);
  const bool bad_name = next.name && has_hole(next.name, min(next.name_length, kLongestAddress));
  const bool bad_control = next.control && has_hole(next.control, min(next.control_length, kMostOfBlock));
  if (bad_name || bad_control) write_reached(writer, &next, 0);
}

}  // namespace

bool reached_in_part(const CallFrame* frame, long result) {
  return result == -EFAULT || (frame->rax == sys::mincore && result == -ENOMEM);
}

void write_reached(EventWriter& writer, uint64_t address, uint64_t size) {
  if (!readable(address, size)) size = address >= kPageSize && address < kUserEnd ? kUserEnd - address : 0;
  uint64_t end = address;
  while (end < address + size && probed([&] { __atomic_fetch_or((uint8_t*)end, 0, __ATOMIC_RELAXED); }))
    end = min(page_up(end + 1), address + size);
  if (end != address) writer.memory((void*)address, end - address);
}

void write_behind(EventWriter& writer, uint64_t from, uint64_t size) {
  size = min(size, kMostOfBlock);
  if (page_up(from) < from + size && has_hole(from, size)) write_reached(writer, from, size);
}

void write_behind(EventWriter& writer, const IoVec* iov, uint64_t count, uint64_t done) {
  // The first buffer in which memory ends, of what is behind. The block then lies in those before it, too.
  uint64_t left = kMostOfBlock, first = 0, from = done;
  while (first < count && from >= iov[first].length) from -= iov[first++].length;
  uint64_t last = first, at = from;
  for (; last < count && left; last++, at = 0) {
    const uint64_t size = min(iov[last].length - at, left);
    if (has_hole(iov[last].base + at, size)) break;
    left -= size;
  }
  if (last == count || !left) return;
  for (uint64_t i = first; i <= last; i++, from = 0)
    write_reached(writer, iov[i].base + from, min(iov[i].length - from, kMostOfBlock));
}

void write_reached(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Offered& offered) {
  const uint64_t* a = arguments_of(frame);
  for (const Operand& out : info.outputs) {
    const uint64_t address = a[out.argument], other = a[out.other];
    switch (out.shape) {
      case Shape::none: return;
      case Shape::ret: write_reached(writer, address, asked(frame, out)); break;
      case Shape::ret_n: write_reached(writer, address, (uint32_t)other * (uint64_t)out.size); break;
      case Shape::fix: write_reached(writer, address, out.size); break;
      case Shape::count: write_reached(writer, address, other * out.size); break;
      case Shape::ret_cap:
      case Shape::argument: write_reached(writer, address, other); break;
      case Shape::message_text: write_reached(writer, address, other + 8); break;
      case Shape::pages: write_reached(writer, address, (other + kPageSize - 1) / kPageSize); break;
      case Shape::fdset: write_reached(writer, address, fdset_bytes(a)); break;
      case Shape::nodes: write_reached(writer, address, nodes_bytes(other)); break;
      case Shape::length: write_reached_length(writer, frame, out, offered.length); break;
      case Shape::iov: write_reached(writer, (const IoVec*)address, other); break;
      case Shape::own_iov:
        if (is_own(a[0])) write_reached(writer, (const IoVec*)address, other);
        break;
      case Shape::spliced:
        if (fills((int)a[0])) write_reached(writer, (const IoVec*)address, other);
        break;
      case Shape::msg: write_reached(writer, (const MsgHeader*)address, offered.name); break;
      case Shape::mmsg:  // the first one has failed: others that were received before would be the result
        write_reached(writer, &((const MmsgHeader*)address)->header, 0);
        break;
      case Shape::caps: write_reached(writer, address, 24); break;
      case Shape::handle:
        write_reached(writer, address, 8 + kLongestHandle);
        write_reached(writer, a[3], 8);
        break;
      case Shape::xattr: {
        XattrArguments x;
        if (probed([&] { x = *(const XattrArguments*)address; })) write_reached(writer, x.value, x.size);
        break;
      }
      case Shape::aio_events: write_reached(writer, address, a[2] * sizeof(AioEvent)); break;
      case Shape::iocbs: aio_write_keys(writer, address, other, 0); break;
      default: break;
    }
  }
}

void write_behind(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                  const Offered& offered) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t done = (uint64_t)result;
  const auto rest = [&](uint64_t address, uint64_t all) {
    if (done < all) write_behind(writer, address + done, all - done);
  };
  for (const Operand& out : info.outputs) {
    const uint64_t address = a[out.argument], other = a[out.other];
    switch (out.shape) {
      case Shape::none: return;
      case Shape::ret: rest(address, asked(frame, out)); break;
      case Shape::ret_cap: rest(address, other); break;
      case Shape::ret_n:
        if (done < other) write_behind(writer, address + done * out.size, (other - done) * out.size);
        break;
      case Shape::iov: write_behind(writer, (const IoVec*)address, other, done); break;
      case Shape::own_iov:
        if (is_own(a[0])) write_behind(writer, (const IoVec*)address, other, done);
        break;
      case Shape::spliced:
        if (fills((int)a[0])) write_behind(writer, (const IoVec*)address, other, done);
        break;
      case Shape::msg: {
        const MsgHeader* m = (const MsgHeader*)address;
        write_behind(writer, (const IoVec*)m->iov, m->iov_count, done);
        if (m->control && m->control_length < offered.control)
          write_behind(writer, m->control + m->control_length, offered.control - m->control_length);
        break;
      }
      case Shape::mmsg: write_behind_messages(writer, (const MmsgHeader*)address, other, result); break;
      case Shape::aio_events:
        if (done < a[2]) write_behind(writer, address + done * sizeof(AioEvent), (a[2] - done) * sizeof(AioEvent));
        break;
      default: break;
    }
  }
}

}  // namespace friday::shim
