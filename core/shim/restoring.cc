// Makes payload again that the recording leaves out (core/replay/restoring.h): whoever sent it copies it into memory
// that all nodes share, and whoever received it takes it from there. The gates see to it that the sender comes first.
#include "core/shim/calls.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/replay.h"

namespace friday::shim {

using namespace format;

namespace {

// Copies bytes [from, from + length) of what is in the buffers, one after the other, as far as they reach.
void copy_gathered(const IoVec* iov, uint64_t count, uint64_t from, uint64_t length, char* to) {
  for (uint64_t i = 0; i < count && length; i++) {
    if (from >= iov[i].length) {
      from -= iov[i].length;
      continue;
    }
    const uint64_t n = min(iov[i].length - from, length);
    memcpy(to, (const char*)iov[i].base + from, n);
    to += n;
    length -= n;
    from = 0;
  }
}

void copy_sent(const CallFrame* frame, const SentPiece& piece) {
  const uint64_t* a = arguments_of(frame);
  const Operand& payload = call_info(frame->rax).inputs[0];
  const uint64_t address = a[payload.argument];
  const IoVec whole = {address, a[payload.other]};
  const MsgHeader* m = payload.shape == Shape::msg    ? (const MsgHeader*)address
                       : payload.shape == Shape::mmsg ? &((const MmsgHeader*)address)[piece.message].header
                                                      : nullptr;
  char* to = (char*)piece.place;
  if (m) copy_gathered((const IoVec*)m->iov, m->iov_count, piece.from, piece.length, to);
  else if (payload.shape == Shape::iov)
    copy_gathered((const IoVec*)address, a[payload.other], piece.from, piece.length, to);
  else if (payload.shape == Shape::buffer) copy_gathered(&whole, 1, piece.from, piece.length, to);
}

}  // namespace

// Bytes that cannot be read any more stay zero; the core notices that by their hash.
void restore_sent(const CallFrame* frame) {
  const SentPiece* pieces = (const SentPiece*)((const NodeSchedule*)control.schedule)->sent;
  for (; pieces[control.sent].event <= control.event; control.sent++)
    if (pieces[control.sent].event == control.event) probed([&] { copy_sent(frame, pieces[control.sent]); });
}

void restore_received(const EventRecord* event, uint64_t address, uint64_t size) {
  const ReceivedPiece* pieces = (const ReceivedPiece*)((const NodeSchedule*)control.schedule)->received;
  while (pieces[control.received].event < event->index) control.received++;
  for (; pieces[control.received].event == event->index; control.received++) {
    const ReceivedPiece& piece = pieces[control.received];
    if (piece.address - address >= size || piece.length > size - (piece.address - address)) return;
    friday_copy_out((void*)piece.address, (const void*)piece.place, piece.length);
  }
}

}  // namespace friday::shim
