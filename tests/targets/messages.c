// Messages with everything around them: names, control data, descriptors, credentials, truncation, timeouts, many at once, peeking,
// urgent bytes, segmentation by the kernel, multicast.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "check.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

static int open_udp(struct sockaddr_in *address) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  socklen_t length = sizeof *address;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  CHECK(fd >= 0 && bind(fd, (struct sockaddr *)address, length) == 0 && getsockname(fd, (struct sockaddr *)address, &length) == 0);
  return fd;
}

static void many(void) {
  struct sockaddr_in at_a, at_b, from[8];
  int a = open_udp(&at_a), b = open_udp(&at_b), on = 1;
  CHECK(setsockopt(b, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0 && setsockopt(b, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0);
  struct mmsghdr out[8] = {0}, in[8] = {0};
  struct iovec parts[8][2], rooms[8];
  char text[8][40], got[8][40], control[8][128];
  for (int i = 0; i < 8; i++) {
    snprintf(text[i], 40, "%d datagram of some length", i);
    parts[i][0] = (struct iovec){text[i], 5}, parts[i][1] = (struct iovec){text[i] + 5, (size_t)i * 2};
    out[i].msg_hdr = (struct msghdr){.msg_iov = parts[i], .msg_iovlen = 2, .msg_name = &at_b, .msg_namelen = sizeof at_b};
    rooms[i] = (struct iovec){got[i], 12};
    in[i].msg_hdr = (struct msghdr){.msg_iov = &rooms[i], .msg_iovlen = 1, .msg_name = &from[i], .msg_namelen = sizeof from[i],
                                    .msg_control = control[i], .msg_controllen = i == 3 ? 8 : sizeof control[i]};
  }
  CHECK(sendmmsg(a, out, 8, 0) == 8 && out[7].msg_len == 19);
  struct timespec limit = {5, 0};
  CHECK(recvmmsg(b, in, 3, MSG_PEEK, NULL) == 3);
  for (int i = 0; i < 3; i++) in[i].msg_hdr.msg_controllen = sizeof control[i];
  CHECK(recvmmsg(b, in, 8, MSG_WAITFORONE, &limit) == 8);
  for (int i = 0; i < 8; i++) {
    CHECK(in[i].msg_len == (i < 4 ? 5u + (unsigned)i * 2 : 12u) && (in[i].msg_hdr.msg_flags & MSG_TRUNC) == (i < 4 ? 0 : MSG_TRUNC));
    CHECK(memcmp(got[i], text[i], in[i].msg_len) == 0 && from[i].sin_port == at_a.sin_port);
    if (i == 3) continue;
    struct cmsghdr *c = CMSG_FIRSTHDR(&in[i].msg_hdr);
    CHECK(c && c->cmsg_level == SOL_SOCKET && CMSG_NXTHDR(&in[i].msg_hdr, c)->cmsg_type == IP_PKTINFO);
  }
  CHECK(in[3].msg_hdr.msg_flags & MSG_CTRUNC);
  struct timespec soon = {0, 1000000};
  struct timeval patience = {0, 2000};
  CHECK(setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  CHECK(recvmmsg(b, in, 8, 0, &soon) == -1 && errno == EAGAIN);
  // A name with too little room: its true length comes back, the bytes behind stay.
  char name[32];
  memset(name, 'x', sizeof name);
  CHECK(sendto(a, "short", 5, 0, (struct sockaddr *)&at_b, sizeof at_b) == 5);
  struct msghdr tight = {.msg_iov = rooms, .msg_iovlen = 1, .msg_name = name, .msg_namelen = 4};
  CHECK(recvmsg(b, &tight, 0) == 5 && tight.msg_namelen == sizeof at_a && name[4] == 'x');
  close(a), close(b);
}

static void segments(void) {
  struct sockaddr_in at_a, at_b;
  int a = open_udp(&at_a), b = open_udp(&at_b), size = 100, on = 1;
  static char text[1000], got[2000];
  memset(text, 's', sizeof text);
  const int gro = setsockopt(b, SOL_UDP, UDP_GRO, &on, sizeof on) == 0;
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {.header = {.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof(unsigned short))}};
  *(unsigned short *)CMSG_DATA(&control.header) = (unsigned short)size;
  struct iovec part = {text, sizeof text}, room = {got, sizeof got};
  struct msghdr out = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = &at_b, .msg_namelen = sizeof at_b, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof(unsigned short))};
  ssize_t sent = sendmsg(a, &out, 0);
  CHECK(sent == 1000 || (sent == -1 && (errno == EINVAL || errno == EIO || errno == ENOPROTOOPT)));
  for (ssize_t total = 0; total < sent;) {
    struct msghdr in = {.msg_iov = &room, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(b, &in, 0);
    CHECK(n > 0 && (gro || n == 100));
    total += n;
  }
  close(a), close(b);
}

static void multicast(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)}, group;
  struct ip_mreqn member = {.imr_multiaddr.s_addr = inet_addr("239.255.77.77"), .imr_ifindex = (int)if_nametoindex("lo")};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  socklen_t length = sizeof address;
  char text[16];
  CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && getsockname(fd, (struct sockaddr *)&address, &length) == 0);
  if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) == 0 && setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &member, sizeof member) == 0) {
    group = address;
    group.sin_addr = member.imr_multiaddr;
    CHECK(sendto(fd, "to all", 6, 0, (struct sockaddr *)&group, sizeof group) == 6 && recv(fd, text, sizeof text, 0) == 6);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &member, sizeof member) == 0);
  }
  close(fd);
}

static void local(void) {
  int pair[2], on = 1;
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) == 0 && setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
  char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(3 * sizeof(int))] = {0}, text[32];
  int fds[3] = {pair[0], pair[1], 0};
  struct ucred me = {getpid(), getuid(), getgid()};
  struct iovec part = {"with rights", 11}, room = {text, sizeof text};
  struct msghdr out = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space}, in = {.msg_iov = &room, .msg_iovlen = 1};
  struct cmsghdr *c = CMSG_FIRSTHDR(&out);
  *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof me)};
  memcpy(CMSG_DATA(c), &me, sizeof me);
  c = CMSG_NXTHDR(&out, c);
  *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
  memcpy(CMSG_DATA(c), fds, sizeof fds);
  CHECK(sendmsg(pair[0], &out, 0) == 11);
  struct mmsghdr batch[2] = {{.msg_hdr = out}, {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
  CHECK(sendmmsg(pair[0], batch, 2, 0) == 2);
  char got[sizeof space];
  in.msg_control = got, in.msg_controllen = sizeof got;
  CHECK(recvmsg(pair[1], &in, MSG_CMSG_CLOEXEC) == 11 && in.msg_controllen == sizeof got && !(in.msg_flags & MSG_CTRUNC));
  int seen = 0, received[3];
  for (c = CMSG_FIRSTHDR(&in); c; c = CMSG_NXTHDR(&in, c)) {
    if (c->cmsg_type == SCM_CREDENTIALS) CHECK(memcmp(CMSG_DATA(c), &me, sizeof me) == 0 && ++seen);
    if (c->cmsg_type == SCM_RIGHTS) CHECK(memcpy(received, CMSG_DATA(c), sizeof received) && ++seen);
  }
  CHECK(seen == 2 && (fcntl(received[0], F_GETFD) & FD_CLOEXEC));
  for (int i = 0; i < 3; i++) CHECK(close(received[i]) == 0);
  struct iovec rooms[3] = {{text, 4}, {text + 4, 20}, {text, 1}};
  struct mmsghdr ins[3] = {{.msg_hdr = {.msg_iov = rooms, .msg_iovlen = 2, .msg_control = got, .msg_controllen = CMSG_SPACE(sizeof me)}},
                           {.msg_hdr = {.msg_iov = rooms + 2, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = rooms, .msg_iovlen = 1}}};
  CHECK(recvmmsg(pair[1], ins, 3, 0, NULL) == 2 && ins[0].msg_len == 11 && (ins[0].msg_hdr.msg_flags & MSG_CTRUNC) && ins[1].msg_len == 1);
  CHECK(recvmmsg(pair[1], ins, 3, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
  close(pair[0]), close(pair[1]);
}

static void urgent(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0);
  CHECK(connect(client, (struct sockaddr *)&address, length) == 0);
  int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  char text[16];
  CHECK(server >= 0 && send(client, "ab!", 3, MSG_OOB) == 3);
  CHECK(recv(server, text, 16, MSG_PEEK) == 2 && recv(server, text + 8, 1, MSG_OOB | MSG_PEEK) == 1 && text[8] == '!');
  CHECK(recv(server, text, 16, 0) == 2 && sockatmark(server) == 1 && recv(server, text, 1, MSG_OOB) == 1 && text[0] == '!');
  CHECK(recv(server, text, 1, MSG_OOB) == -1 && send(client, "chunks", 6, MSG_MORE) == 6 && send(client, "end", 3, 0) == 3);
  CHECK(recv(server, text, 9, MSG_WAITALL) == 9 && memcmp(text, "chunksend", 9) == 0);
  struct iovec parts[2] = {{"one", 3}, {"two", 3}};
  struct mmsghdr out[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}}, {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}}};
  CHECK(sendmmsg(client, out, 2, 0) == 2 && recv(server, text, 9, MSG_WAITALL) == 9 && memcmp(text, "onetwoone", 9) == 0);
  CHECK(send(client, "cut", 3, 0) == 3 && recv(server, NULL, 3, MSG_TRUNC) == 3);
  // Options of odd lengths, and one whose length counts instructions.
  struct tcp_info info;
  length = 7;
  CHECK(getsockopt(server, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length == 7);
  length = sizeof info;
  CHECK(getsockopt(server, IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
  char algorithm[16];
  length = sizeof algorithm;
  CHECK(getsockopt(server, IPPROTO_TCP, TCP_CONGESTION, algorithm, &length) == 0);
  int value = -1;
  length = 1;
  CHECK(getsockopt(server, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && length == 1);
  length = (socklen_t)-1;
  CHECK(getsockopt(server, SOL_SOCKET, SO_TYPE, &value, &length) == -1 && errno == EINVAL);
  struct sock_filter accept_all = {BPF_RET | BPF_K, 0, 0, 0xffffffff}, kept[4] = {0};
  struct sock_fprog program = {1, &accept_all};
  const int filtered = setsockopt(server, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
  CHECK(filtered || errno == EPERM);
  length = 4;
  CHECK(getsockopt(server, SOL_SOCKET, SO_GET_FILTER, kept, &length) == 0 && (!filtered || (length == 1 && kept[0].k == 0xffffffff)));
  CHECK(shutdown(client, SHUT_WR) == 0 && recv(server, text, 1, 0) == 0);
  close(client), close(server), close(listener);
}

static void groups(void) {
  int pair[2];
  gid_t list[64];
  socklen_t length = 0;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  int done = getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, list, &length);  // says how much room it wants
  CHECK(done == 0 || errno == ERANGE || errno == ENODATA);
  printf("%d %u\n", done, length);
  length = sizeof list;
  CHECK(getsockopt(pair[0], SOL_SOCKET, SO_PEERGROUPS, list, &length) == 0 || errno == ENODATA);
  close(pair[0]), close(pair[1]);
}

int main(void) {
  many();
  segments();
  multicast();
  local();
  urgent();
  groups();
  return success();
}
