// A ring of a packet socket: memory that the kernel writes whenever a packet comes. The recording ends where it is mapped, and the program
// goes on. Before that: a TCP socket that is not mapped, and bytes that are not taken without a copy, or are, as the kernel has it.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/tcp.h>
#include <net/ethernet.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "check.h"

static void tcp(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  void* place = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(place == MAP_FAILED ? errno == ENODEV || errno == EINVAL : munmap(place, 4096) == 0);
  char room[64] = "before";
  struct tcp_zerocopy_receive receive = {.copybuf_address = (unsigned long)room, .copybuf_len = sizeof room};
  socklen_t length = sizeof receive;
  (void)getsockopt(fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &receive, &length);
  CHECK(!strcmp(room, "before") && close(fd) == 0);
}

int main(void) {
  tcp();
  int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL));
  if (fd < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL));
  if (fd < 0) return 77;  // not allowed here
  struct tpacket_req request = {.tp_block_size = 4096, .tp_block_nr = 1, .tp_frame_size = 2048, .tp_frame_nr = 2};
  CHECK(setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) == 0);
  struct tpacket_hdr* ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(ring != MAP_FAILED && ring->tp_status == TP_STATUS_KERNEL);
  return success();
}
