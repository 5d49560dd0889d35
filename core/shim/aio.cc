// Linux AIO: remembers the requests of io_submit(2) until they have completed, and records what they have written to
// memory and moved through channels with the io_getevents(2) that reports them.
#include "core/shim/calls.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

// A copy of a submitted control block, because the program may reuse the block at once.
struct AioRequest {
  uint64_t control, buffer, bytes;  // the block's address; where the bytes go or come from, and how many
  uint64_t channel;                 // number of the channel; 0: none
  int fd;
  uint16_t opcode;
  bool reads() const { return opcode == kAioRead || opcode == kAioReadVector; }
  bool writes() const { return opcode == kAioWrite || opcode == kAioWriteVector; }
};
AioRequest requests[1024];
uint32_t request_count;

AioRequest* find_request(uint64_t control) {
  for (uint32_t slot = 0; slot < request_count; slot++)
    if (requests[slot].control == control) return &requests[slot];
  return nullptr;
}

AioRequest read_request(uint64_t control) {
  const AioControl* c = (const AioControl*)control;
  return {control, c->buffer, c->bytes, 0, (int)c->fd, c->opcode};
}

// The copy of a request. If there was no room for one, the control block itself is read.
AioRequest request_of(uint64_t control) {
  if (const AioRequest* noted = find_request(control)) return *noted;
  AioRequest now = {};
  return probed([&] { now = read_request(control); }) ? now : AioRequest{};
}

void forget(uint64_t control) {
  if (AioRequest* noted = find_request(control)) *noted = requests[--request_count];
}

void write_read(EventWriter& writer, const AioRequest& r, long bytes) {
  if (r.opcode == kAioRead) writer.memory((void*)r.buffer, (size_t)bytes);
  if (r.opcode == kAioReadVector) write_iov(writer, (IoVec*)r.buffer, r.bytes, bytes);
}

void note_moved(EventWriter& writer, const AioRequest& r, uint64_t bytes, uint32_t message) {
  if (!r.channel || channel_number(r.fd) != r.channel) return;
  Moved moved = {r.reads() ? format::kIn : format::kOut, bytes};
  moved.message = message;
  if (r.reads() && bytes == 0 && r.bytes) moved.flags = kEndOfStream;
  const bool datagrams = channel_is_datagram(r.fd);
  const uint64_t seed = datagrams ? 0 : channel_hash(r.fd);
  if (r.writes() || datagrams)
    moved.seen = probed([&] {
      const bool vector = r.opcode == kAioWriteVector || r.opcode == kAioReadVector;
      moved.hash = run_hash(vector ? gathered_contents((const uint64_t*)r.buffer, r.bytes, bytes)
                                   : hash_bytes((const void*)r.buffer, bytes, 0),
                            seed);
    });
  channel_transfer(writer, r.fd, moved);
}

}  // namespace

bool aio_under_way() { return request_count != 0; }

void aio_note_submitted(const uint64_t* a) {
  probed([&] {
    for (uint64_t i = 0; i < a[1]; i++) {
      const uint64_t control = ((const uint64_t*)a[2])[i];
      AioRequest* slot = find_request(control);
      if (!slot && request_count == sizeof requests / sizeof *requests) return;
      const AioRequest request = read_request(control);
      *(slot ? slot : &requests[request_count++]) = request;
    }
  });
}

void aio_forget_refused(const uint64_t* a, long taken) {
  probed([&] {
    for (uint64_t i = failed(taken) ? 0 : (uint64_t)taken; i < a[1]; i++) forget(((const uint64_t*)a[2])[i]);
  });
}

void aio_prepare_channels(const uint64_t* a, long taken) {
  probed([&] {
    for (long i = 0; i < taken; i++) {
      AioRequest* r = find_request(((const uint64_t*)a[2])[i]);
      if (!r || !(r->reads() || r->writes())) continue;
      channel_prepare(r->fd);
      r->channel = channel_number(r->fd);
    }
  });
}

// The kernel stores a key into each control block that it takes, and into the one at which it fails.
void aio_write_keys(EventWriter& writer, uint64_t list, uint64_t count, long result) {
  for (uint64_t i = 0; i < count && (long)i <= (result > 0 ? result : 0); i++) {
    AioControl* c = nullptr;
    uint32_t key = 0;
    if (probed([&] { c = ((AioControl**)list)[i], key = c->key; })) writer.part(kMemory, &key, 4, (uint64_t)&c->key);
  }
}

// The bytes that were read go first: an event's first memory parts are the payloads of its transfers.
void aio_write_events(EventWriter& writer, const void* list, long count) {
  const AioEvent* events = (const AioEvent*)list;
  for (long i = 0; i < count; i++)
    if (events[i].result > 0) write_read(writer, request_of(events[i].control), events[i].result);
  writer.memory(events, (size_t)count * sizeof *events);
  for (long i = 0; i < count; i++) {
    const AioRequest r = request_of(events[i].control);
    forget(events[i].control);
    if (const uint64_t done = (uint64_t)events[i].result; events[i].result > 0 && r.reads()) {
      if (r.opcode == kAioReadVector) write_behind(writer, (const IoVec*)r.buffer, r.bytes, done);
      else if (done < r.bytes) write_behind(writer, r.buffer + done, r.bytes - done);
    }
    if (events[i].result >= 0) note_moved(writer, r, (uint64_t)events[i].result, (uint32_t)i);
  }
}

}  // namespace friday::shim
