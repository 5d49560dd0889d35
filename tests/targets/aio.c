// Linux AIO by raw calls, as libaio makes them: reads, vectors, writes, fsync, eventfd, the ring, cancelling.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "check.h"

static aio_context_t context;
static int fd;

static struct iocb request(int opcode, void *buffer, size_t bytes, long offset) {
  struct iocb c = {.aio_lio_opcode = opcode, .aio_fildes = fd, .aio_buf = (unsigned long)buffer, .aio_nbytes = bytes, .aio_offset = offset};
  c.aio_key = 0xabcd;  // the kernel clears it
  c.aio_data = 1000 + opcode;
  return c;
}

// As libaio: by the ring when it says what it is, else by the call.
struct ring {
  unsigned id, count, head, tail, magic, compatible, incompatible, header_bytes;
  struct io_event events[];
};
static long reap(long least, struct io_event *events) {
  struct ring *ring = (struct ring *)context;
  if (ring->magic == 0xa10a10a1 && ring->head != ring->tail && least == 1) {
    events[0] = ring->events[ring->head];
    __atomic_store_n(&ring->head, (ring->head + 1) % ring->count, __ATOMIC_RELEASE);
    return 1;
  }
  struct timespec limit = {5, 0};
  return syscall(SYS_io_getevents, context, least, 8, events, &limit);
}

int main(void) {
  CHECK(syscall(SYS_io_setup, 0, &context) == -1 && errno == EINVAL);
  if (syscall(SYS_io_setup, 64, &context) != 0) {
    CHECK(errno == ENOSYS || errno == EAGAIN);
    return success();
  }
  fd = open("aio-file", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && unlink("aio-file") == 0);
  static char out[8192], in[8192], parts[2][100];
  for (unsigned i = 0; i < sizeof out; i++) out[i] = (char)(i * 7 + i / 251);

  struct iocb write_it = request(IOCB_CMD_PWRITE, out, sizeof out, 0), *list[3] = {&write_it};
  struct io_event events[8];
  CHECK(syscall(SYS_io_submit, context, 1, list) == 1 && write_it.aio_key == 0);
  CHECK(reap(1, events) == 1 && events[0].res == sizeof out && events[0].data == 1000 + IOCB_CMD_PWRITE && events[0].obj == (unsigned long)&write_it);

  struct iovec vector[2] = {{parts[0], 100}, {parts[1], 100}};
  struct iocb read_it = request(IOCB_CMD_PREAD, in, sizeof in, 0), read_parts = request(IOCB_CMD_PREADV, vector, 2, 50);
  struct iocb sync_it = request(IOCB_CMD_FDSYNC, NULL, 0, 0);
  int counter = eventfd(0, EFD_NONBLOCK);
  read_it.aio_flags = read_parts.aio_flags = IOCB_FLAG_RESFD;
  read_it.aio_resfd = read_parts.aio_resfd = counter;
  list[0] = &read_it, list[1] = &read_parts, list[2] = &sync_it;
  CHECK(syscall(SYS_io_submit, context, 3, list) >= 2);
  struct pollfd ready = {counter, POLLIN, 0};
  unsigned long long done = 0, more;
  while (done < 2) {
    CHECK(poll(&ready, 1, 5000) == 1 && read(counter, &more, 8) == 8);
    done += more;
  }
  for (long n = 0, got; n < 3; n += got) CHECK((got = reap(1, events)) >= 1);
  CHECK(memcmp(in, out, sizeof in) == 0 && memcmp(parts[0], out + 50, 100) == 0 && memcmp(parts[1], out + 150, 100) == 0);

  // A block that is used for something else as soon as it is submitted, as the kernel allows.
  memset(in, 0, sizeof in);
  struct iocb once = request(IOCB_CMD_PREAD, in, 500, 1000);
  list[0] = &once;
  CHECK(syscall(SYS_io_submit, context, 1, list) == 1);
  memset(&once, 0xff, sizeof once);
  CHECK(reap(1, events) == 1 && events[0].res == 500 && memcmp(in, out + 1000, 500) == 0);

  struct iocb gone = request(IOCB_CMD_PREAD, in, 1, 0);
  gone.aio_fildes = 9999;
  list[0] = &gone;
  CHECK(syscall(SYS_io_submit, context, 1, list) == -1 && errno == EBADF);
  CHECK(syscall(SYS_io_cancel, context, &read_it, events) == -1 && (errno == EINVAL || errno == EAGAIN || errno == EINPROGRESS));
  struct timespec now = {0, 0};
  CHECK(syscall(SYS_io_getevents, context, 0, 8, events, &now) == 0);
  printf("%lld\n", done);
  CHECK(syscall(SYS_io_destroy, context) == 0 && syscall(SYS_io_destroy, context) == -1 && errno == EINVAL && close(counter) == 0);
  return success();
}
