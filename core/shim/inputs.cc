// The hash of what a call reads from the program's memory: stored in the call's event while recording, and compared at
// replay. Which memory a call reads follows from its number (INS of calls.def) or, for CODED inputs, from a code among
// its arguments.
#include <linux/fcntl.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/prctl.h>
#include <linux/sem.h>

#include "core/shim/calls.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"

namespace friday::shim {

uint64_t hash_at(uint64_t address, uint64_t size, uint64_t hash) {
  return size && readable(address, 1) ? hash_bytes((void*)address, size, hash) : hash;
}

namespace {

constexpr uint64_t kUnreadable = 0xbad;  // the hash if some of the memory cannot be read

// The buffers of an iovec, as one run of bytes, which become `contents`.
uint64_t hash_iov(const IoVec* iov, uint64_t count, uint64_t hash, Contents* contents = nullptr) {
  uint64_t length = 0;
  for (uint64_t i = 0; i < count; i++) length += iov[i].length;
  const Contents all = {length ? gathered_contents(&iov->base, count, length) : 0, length};
  if (contents) *contents = all;
  return length ? run_hash(all.hash, hash) : hash;
}

uint64_t hash_message(const MsgHeader* m, uint64_t hash, Contents* contents = nullptr) {
  if (m->name && m->name_length) hash = hash_bytes((void*)m->name, m->name_length, hash);
  hash = hash_iov((const IoVec*)m->iov, m->iov_count, hash, contents);
  if (m->control && m->control_length) hash = hash_bytes((void*)m->control, m->control_length, hash);
  return hash;
}

// Where a message will be received: addresses and sizes of its buffers, not their contents.
uint64_t hash_room(const MsgHeader* m, uint64_t hash) {
  const uint64_t words[] = {m->name, m->name ? m->name_length : 0, m->iov, m->iov_count, m->control, m->control_length};
  hash = hash_bytes(words, sizeof words, hash);
  return m->iov_count ? hash_bytes((void*)m->iov, m->iov_count * sizeof(IoVec), hash) : hash;
}

uint64_t hash_aio(uint64_t list, uint64_t count, uint64_t hash) {
  for (uint64_t i = 0; i < count; i++) {
    const AioControl* c = ((const AioControl**)list)[i];
    hash = hash_bytes(c, sizeof *c, hash);
    if (c->opcode == kAioWrite) hash = hash_bytes((void*)c->buffer, c->bytes, hash);
    if (c->opcode == kAioWriteVector) hash = hash_iov((IoVec*)c->buffer, c->bytes, hash);
  }
  return hash;
}

uint64_t hash_string(uint64_t address, uint64_t hash) {
  return readable(address, 1) ? hash_bytes((void*)address, length_of((char*)address), hash) : hash;
}

// A list of strings with a NULL at its end, such as execve(2) reads.
uint64_t hash_strings(uint64_t list, uint64_t hash) {
  if (!readable(list, 8)) return hash;
  uint64_t count = 0;
  for (const uint64_t* each = (const uint64_t*)list; *each; each++, count++) hash = hash_string(*each, hash);
  return hash_bytes(&count, sizeof count, hash);
}

// ---- By a code among the arguments

uint64_t hash_fcntl(const uint64_t* a) {
  switch ((uint32_t)a[1]) {
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return hash_at(a[2], 32, 0);  // struct flock
    case F_SETOWN_EX:
    case F_SET_RW_HINT:
    case F_SET_FILE_RW_HINT: return hash_at(a[2], 8, 0);
    default: return 0;
  }
}

uint64_t hash_prctl(const uint64_t* a) {
  switch (a[0]) {
    case PR_SET_NAME: return hash_string(a[1], 0);
    case PR_SET_MM: return a[1] == PR_SET_MM_AUXV || a[1] == PR_SET_MM_MAP ? hash_at(a[2], a[3], 0) : 0;
    case PR_SET_VMA: return hash_string(a[4], 0);  // the name
    default: return 0;
  }
}

// Whether the futex(2) has a timeout of the program's. The shim's own (futex.cc) is in a thread's area.
bool has_timeout(const uint64_t* a) {
  const bool own = a[3] - kAreasAddress < (uint64_t)kMaxThreads * kAreaStride;
  return futex_waits(a) && a[3] && !own;
}

// System V IPC: include/uapi/linux/ipc.h, sem.h, shm.h, msg.h.
uint64_t hash_control(uint64_t command, uint64_t address, uint64_t size) {
  return (command & 0xff) == IPC_SET ? hash_at(address, size, 0) : 0;
}

// SETALL reads a short for each semaphore. Their number cannot be asked for at replay, so it is in the upper bits of
// the hash. If the program may change but not read the set, only the first semaphore is compared.
uint64_t hash_semctl(const uint64_t* a) {
  constexpr unsigned kCountAt = 48;
  constexpr uint64_t kMostSemaphores = 0xffff;
  if ((a[2] & 0xff) != SETALL) return hash_control(a[2], a[3], 104);
  uint64_t about[13] = {};  // struct semid64_ds
  if (control.mode == kModeReplay) about[10] = replay_peek()->input_hash >> kCountAt;
  else if (failed(native(sys::semctl, a[0], 0, IPC_STAT, about))) about[10] = 1;
  if (!about[10]) about[10] = kMostSemaphores;  // kUnreadable was recorded
  const uint64_t count = min(about[10] /* sem_nsems */, kMostSemaphores);
  return (hash_at(a[3], 2 * count, 0) & ((1ull << kCountAt) - 1)) | count << kCountAt;
}

uint64_t hash_keyctl(const uint64_t* a) {
  switch (a[0]) {
    case KEYCTL_JOIN_SESSION_KEYRING: return hash_string(a[1], 0);
    case KEYCTL_UPDATE:
    case KEYCTL_INSTANTIATE: return hash_at(a[2], a[3], 0);
    case KEYCTL_SEARCH: return hash_string(a[3], hash_string(a[2], 0));
    case KEYCTL_INSTANTIATE_IOV: return hash_at(a[2], a[3] * sizeof(IoVec), 0);
    case KEYCTL_DH_COMPUTE: return hash_at(a[1], 12, 0);
    case KEYCTL_PKEY_QUERY: return hash_string(a[3], 0);
    case KEYCTL_PKEY_ENCRYPT:
    case KEYCTL_PKEY_DECRYPT:
    case KEYCTL_PKEY_SIGN:
    case KEYCTL_PKEY_VERIFY: return hash_string(a[2], hash_at(a[1], 20, 0));
    case KEYCTL_RESTRICT_KEYRING: return hash_string(a[3], hash_string(a[2], 0));
    default: return 0;
  }
}

uint64_t hash_fsconfig(const uint64_t* a) {
  const uint64_t hash = hash_string(a[2], 0);
  switch ((uint32_t)a[1]) {
    case FSCONFIG_SET_STRING:
    case FSCONFIG_SET_PATH:
    case FSCONFIG_SET_PATH_EMPTY: return hash_string(a[3], hash);
    case FSCONFIG_SET_BINARY: return hash_at(a[3], (uint32_t)a[4], hash);
    default: return hash;
  }
}

// The buffer's size, and its first bytes, which a few options read.
uint64_t hash_getsockopt(const uint64_t* a) {
  if (!readable(a[4], 4)) return 0;
  const uint32_t length = *(const uint32_t*)a[4];
  constexpr uint32_t kMost = 64;
  return hash_at(a[3], min(length, kMost), hash_bytes(&length, sizeof length, 0));
}

uint64_t hash_coded(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::rt_sigreturn: return signal_frame_hash(frame);
    case sys::ioctl: return ioctl_input_hash(a);
    case sys::shmctl: return hash_control(a[1], a[2], 112);
    case sys::getsockopt: return hash_getsockopt(a);
    case sys::execve: return hash_strings(a[2], hash_strings(a[1], hash_string(a[0], 0)));
    case sys::semctl: return hash_semctl(a);
    case sys::msgctl: return hash_control(a[1], a[2], 120);
    case sys::fcntl: return hash_fcntl(a);
    case sys::prctl: return hash_prctl(a);
    case sys::ptrace: return tracing_input_hash(a);
    case sys::futex: return hash_at(a[3], 16, 0);
    case sys::mq_open: return hash_at(a[1] & O_CREAT ? a[3] : 0, 64, hash_string(a[0], 0));
    case sys::keyctl: return hash_keyctl(a);
    case sys::execveat: return hash_strings(a[3], hash_strings(a[2], hash_string(a[1], 0)));
    case sys::futex_waitv: return hash_at(a[3], 16, hash_at(a[0], (uint32_t)a[1] * 24ull, 0));
    case sys::futex_wait: return hash_at(a[4], 16, 0);
    case sys::futex_requeue: return hash_at(a[0], 48, 0);
    case sys::fsconfig: return hash_fsconfig(a);
    case sys::landlock_add_rule: return hash_at(a[2], a[1] == 2 /* LANDLOCK_RULE_NET_PORT */ ? 16 : 12, 0);
    default: return 0;
  }
}

uint64_t hash_of_inputs(const CallInfo& info, const CallFrame* frame, Contents* contents) {
  const uint64_t* a = arguments_of(frame);
  uint64_t hash = 0;
  for (const Operand& in : info.inputs) {
    if (in.shape == Shape::none) break;
    if (in.shape == Shape::coded) return hash_coded(frame);
    uint64_t address = a[in.argument];
    if (!readable(address, 1)) continue;
    switch (in.shape) {
      case Shape::buffer:
        if (a[in.other]) {
          const uint64_t bytes = hash_bytes((void*)address, a[in.other], 0);
          if (&in == info.inputs) *contents = {bytes, a[in.other]};
          hash = run_hash(bytes, hash);
        }
        break;
      case Shape::string: hash = hash_bytes((void*)address, length_of((char*)address), hash); break;
      case Shape::fix: hash = hash_bytes((void*)address, in.size, hash); break;
      case Shape::count: hash = hash_bytes((void*)address, a[in.other] * in.size, hash); break;
      case Shape::iov: hash = hash_iov((IoVec*)address, a[in.other], hash, contents); break;
      case Shape::fdset: hash = hash_bytes((void*)address, fdset_bytes(a), hash); break;
      case Shape::nodes: hash = hash_bytes((void*)address, nodes_bytes(a[in.other]), hash); break;
      case Shape::msg: hash = hash_message((MsgHeader*)address, hash, contents); break;
      case Shape::mmsg:
        for (uint64_t i = 0; i < a[in.other]; i++) hash = hash_message(&((MmsgHeader*)address)[i].header, hash);
        break;
      case Shape::msg_room: hash = hash_room((MsgHeader*)address, hash); break;
      case Shape::mmsg_room:
        for (uint64_t i = 0; i < a[in.other]; i++) hash = hash_room(&((MmsgHeader*)address)[i].header, hash);
        break;
      case Shape::handle: hash = hash_bytes((void*)address, handle_bytes(address), hash); break;
      case Shape::iocbs: hash = hash_aio(address, a[in.other], hash); break;
      case Shape::message_text: hash = hash_bytes((void*)address, a[in.other] + 8, hash); break;
      case Shape::sized: {
        const uint32_t size = *(const uint32_t*)address;
        hash = hash_bytes((void*)address, size < 4 ? 4 : min(size, 4096u), hash);
        break;
      }
      case Shape::caps: hash = hash_bytes((void*)address, *(uint32_t*)a[0] == kCapabilitiesOne ? 12 : 24, hash); break;
      case Shape::mask: {  // pselect6(2): a pointer to the mask and the mask's size
        const uint64_t* mask = (const uint64_t*)address;
        hash = hash_at(mask[0], 8, hash_bytes(mask, 16, hash));
        break;
      }
      case Shape::xattr: {
        const XattrArguments* x = (const XattrArguments*)address;
        if (x->value && x->size) hash = hash_bytes((void*)x->value, x->size, hash);
        break;
      }
      default: break;
    }
  }
  return hash;
}

}  // namespace

uint64_t input_hash(const CallInfo& info, const CallFrame* frame, Contents* contents) {
  if (info.inputs[0].shape == Shape::none || (frame->rax == sys::futex && !has_timeout(arguments_of(frame)))) return 0;
  uint64_t hash;
  Contents unused;
  if (!contents) contents = &unused;
  if (probed([&] { hash = hash_of_inputs(info, frame, contents); })) return hash;
  *contents = {};
  return kUnreadable;
}

}  // namespace friday::shim
