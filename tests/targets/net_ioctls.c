// What network programs ask the kernel about interfaces: ioctls, some of which write through pointers inside their argument,
// netlink, raw and packet sockets.
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/ip_icmp.h>
#include <sched.h>
#include <ifaddrs.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <linux/if_tun.h>

#include "check.h"

static void interfaces(int fd) {
  struct ifreq list[16];
  memset(list, 0, sizeof list);
  struct ifconf all = {.ifc_len = sizeof list, .ifc_req = list};
  CHECK(ioctl(fd, SIOCGIFCONF, &all) == 0 && all.ifc_len >= (int)sizeof list[0]);
  int found = 0;
  for (unsigned i = 0; i < (unsigned)all.ifc_len / sizeof list[0]; i++) found += strcmp(list[i].ifr_name, "lo") == 0;
  CHECK(found == 1);
  all = (struct ifconf){0};
  CHECK(ioctl(fd, SIOCGIFCONF, &all) == 0 && all.ifc_len >= (int)sizeof list[0]);

  struct ifreq lo = {.ifr_name = "lo"};
  CHECK(ioctl(fd, SIOCGIFADDR, &lo) == 0 && ((struct sockaddr_in *)&lo.ifr_addr)->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  CHECK(ioctl(fd, SIOCGIFNETMASK, &lo) == 0 && ioctl(fd, SIOCGIFBRDADDR, &lo) == 0 && ioctl(fd, SIOCGIFDSTADDR, &lo) == 0);
  CHECK(ioctl(fd, SIOCGIFFLAGS, &lo) == 0 && (lo.ifr_flags & IFF_LOOPBACK) && ioctl(fd, SIOCGIFMETRIC, &lo) == 0);
  CHECK(ioctl(fd, SIOCGIFMTU, &lo) == 0 && lo.ifr_mtu > 1000 && ioctl(fd, SIOCGIFHWADDR, &lo) == 0 && lo.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK);
  CHECK(ioctl(fd, SIOCGIFTXQLEN, &lo) == 0 && ioctl(fd, SIOCGIFMAP, &lo) == 0 && ioctl(fd, SIOCGIFINDEX, &lo) == 0);
  lo.ifr_ifindex = (int)if_nametoindex("lo");
  CHECK(ioctl(fd, SIOCGIFNAME, &lo) == 0 && strcmp(lo.ifr_name, "lo") == 0);
  char name[IF_NAMESIZE];
  CHECK(if_indextoname((unsigned)lo.ifr_ifindex, name) && strcmp(name, "lo") == 0);
  struct arpreq arp = {.arp_pa = {.sa_family = AF_INET}, .arp_dev = "lo"};
  CHECK(ioctl(fd, SIOCGARP, &arp) == 0 || errno == ENXIO || errno == ENODEV);
  CHECK(ioctl(fd, SIOCSIFFLAGS, &(struct ifreq){.ifr_name = "none-such"}) == -1);
  CHECK(ioctl(fd, 0x8b01 /* SIOCGIWNAME */, &lo) == -1);  // not known to Friday; as it fails, it has written nothing
}

static void about_device(int fd) {
  struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
  struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
  struct {
    struct ethtool_gstrings head;
    char names[64][ETH_GSTRING_LEN];
  } features = {.head = {.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = 0}};
  struct {
    struct ethtool_sset_info head;
    unsigned count;
  } set = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1 << ETH_SS_FEATURES}};
  struct ethtool_ts_info times = {.cmd = ETHTOOL_GET_TS_INFO};
  struct {
    struct ethtool_link_settings head;
    unsigned masks[3 * 127];
  } settings = {.head = {.cmd = ETHTOOL_GLINKSETTINGS}};
  void *commands[] = {&driver, &link, &set, &features, &times, &settings};
  for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_data = commands[i]};
    CHECK(ioctl(fd, SIOCETHTOOL, &lo) == 0 || errno == EOPNOTSUPP || errno == EPERM);
  }
  printf("driver '%s' link %u features %u times %u\n", driver.driver, link.data, set.count, times.so_timestamping);
}

// Queries that some devices answer, of all that there are.
static void about_all_devices(int fd) {
  static struct {
    struct ethtool_rxnfc head;
    unsigned rules[64];
  } rings = {.head = {.cmd = ETHTOOL_GRXRINGS}}, hashes = {.head = {.cmd = ETHTOOL_GRXFH, .flow_type = TCP_V4_FLOW}}, count = {.head = {.cmd = ETHTOOL_GRXCLSRLCNT}};
  static struct {
    struct ethtool_rxfh head;
    unsigned table[256];
  } spread = {.head = {.cmd = ETHTOOL_GRSSH}};
  static struct {
    struct ethtool_rxfh_indir head;
    unsigned table[256];
  } indirect = {.head = {.cmd = ETHTOOL_GRXFHINDIR}};
  struct ethtool_eee energy = {.cmd = ETHTOOL_GEEE};
  struct ethtool_fecparam correction = {.cmd = ETHTOOL_GFECPARAM};
  struct ethtool_modinfo module = {.cmd = ETHTOOL_GMODULEINFO};
  void* commands[] = {&rings, &hashes, &count, &spread, &indirect, &energy, &correction, &module};
  struct if_nameindex* all = if_nameindex();
  CHECK(all);
  unsigned long sum = 0;
  for (struct if_nameindex* each = all; each->if_index; each++)
    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
      struct ifreq request = {.ifr_data = commands[i]};
      strncpy(request.ifr_name, each->if_name, IFNAMSIZ - 1);
      sum = sum * 31 + (unsigned long)ioctl(fd, SIOCETHTOOL, &request);
      for (unsigned n = 0; n < 16; n++) sum = sum * 31 + ((unsigned char*)commands[i])[n];
    }
  if_freenameindex(all);
  const int quiet = open("/dev/null", O_WRONLY);
  CHECK(quiet >= 0 && write(quiet, &sum, sizeof sum) == sizeof sum && close(quiet) == 0);
}

static void netlink(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  struct {
    struct nlmsghdr header;
    struct rtgenmsg about;
  } ask = {{sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 5, 0}, {AF_UNSPEC}};
  CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&kernel, sizeof kernel) == 0 && send(fd, &ask, sizeof ask, 0) == sizeof ask);
  int done = 0, links = 0;
  static char reply[32768];
  while (!done) {
    struct iovec room = {reply, sizeof reply};
    struct msghdr in = {.msg_iov = &room, .msg_iovlen = 1, .msg_name = &kernel, .msg_namelen = sizeof kernel};
    ssize_t n = recvmsg(fd, &in, 0);
    CHECK(n > 0);
    for (struct nlmsghdr *h = (struct nlmsghdr *)reply; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
      done |= h->nlmsg_type == NLMSG_DONE;
      links += h->nlmsg_type == RTM_NEWLINK;
    }
  }
  CHECK(links >= 1 && close(fd) == 0);
  struct ifaddrs *list;
  CHECK(getifaddrs(&list) == 0 && list);
  freeifaddrs(list);
}

static unsigned short sum(const void *data, int size) {
  const unsigned short *words = data;
  unsigned total = 0;
  for (int i = 0; i < size / 2; i++) total += words[i];
  total = (total & 0xffff) + (total >> 16);
  return (unsigned short)~(total + (total >> 16));
}

static void raw(void) {
  int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
  if (fd < 0) {
    CHECK(errno == EPERM || errno == EACCES);
  } else {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
    struct icmphdr echo = {.type = ICMP_ECHO, .un.echo = {htons(77), htons(1)}};
    char reply[256];
    socklen_t length = sizeof from;
    echo.checksum = sum(&echo, sizeof echo);
    CHECK(sendto(fd, &echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to) == sizeof echo);
    do CHECK(recvfrom(fd, reply, sizeof reply, 0, (struct sockaddr *)&from, &length) >= 28);
    while (reply[20] != ICMP_ECHOREPLY);
    CHECK(close(fd) == 0);
  }
  fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
  if (fd < 0) {
    CHECK(errno == EPERM || errno == EACCES || errno == EAFNOSUPPORT);
    return;
  }
  struct sockaddr_ll lo = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_ifindex = (int)if_nametoindex("lo")}, from;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int udp = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(bind(fd, (struct sockaddr *)&lo, sizeof lo) == 0 && bind(udp, (struct sockaddr *)&at, sizeof at) == 0);
  CHECK(getsockname(udp, (struct sockaddr *)&at, &length) == 0 && sendto(udp, "seen by all", 11, 0, (struct sockaddr *)&at, sizeof at) == 11);
  char frame[256];
  ssize_t n;
  length = sizeof from;
  do n = recvfrom(fd, frame, sizeof frame, MSG_TRUNC, (struct sockaddr *)&from, &length);
  while (n != 14 + 20 + 8 + 11);
  CHECK(from.sll_ifindex == lo.sll_ifindex && memcmp(frame + n - 11, "seen by all", 11) == 0);
  struct tpacket_stats statistics;
  length = sizeof statistics;
  CHECK(getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) == 0 && close(fd) == 0 && close(udp) == 0);
}

static unsigned short sum_of(const unsigned char* bytes, unsigned count) {
  unsigned sum = 0;
  for (unsigned i = 0; i < count; i += 2) sum += (unsigned)bytes[i] << 8 | bytes[i + 1];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (unsigned short)~sum;
}

// The masks of link modes are behind the structure, in as many words as the kernel first says that it wants.
static void link_settings(int fd, const char* name) {
  struct {
    struct ethtool_link_settings head;
    unsigned masks[3 * 127];
  } settings = {.head = {.cmd = ETHTOOL_GLINKSETTINGS}};
  struct ifreq device = {.ifr_data = (char*)&settings};
  strcpy(device.ifr_name, name);
  CHECK(ioctl(fd, SIOCETHTOOL, &device) == 0 && settings.head.link_mode_masks_nwords < 0);
  const int words = -settings.head.link_mode_masks_nwords;
  settings.head.link_mode_masks_nwords = (signed char)words;
  memset(settings.masks, 0xaa, sizeof settings.masks);
  CHECK(ioctl(fd, SIOCETHTOOL, &device) == 0 && settings.head.link_mode_masks_nwords == words);
  for (int i = 0; i < 3 * words; i++) CHECK(settings.masks[i] != 0xaaaaaaaa);
  CHECK(settings.masks[3 * words] == 0xaaaaaaaa);
}

// A datagram to a neighbour on the device comes out of the descriptor, and is sent back into it as the neighbour's answer.
static void through_tun(int fd, const char* name) {
  const int s = socket(AF_INET, SOCK_DGRAM, 0);
  struct ifreq device = {0};
  strcpy(device.ifr_name, name);
  struct sockaddr_in *address = (struct sockaddr_in*)&device.ifr_addr, there = {.sin_family = AF_INET, .sin_port = htons(7)};
  address->sin_family = AF_INET, address->sin_addr.s_addr = htonl(0x0a630001);
  there.sin_addr.s_addr = htonl(0x0a630002);
  CHECK(s >= 0 && ioctl(s, SIOCSIFADDR, &device) == 0);
  link_settings(s, name);
  address->sin_addr.s_addr = htonl(0xffffff00);
  CHECK(ioctl(s, SIOCSIFNETMASK, &device) == 0 && ioctl(s, SIOCGIFFLAGS, &device) == 0);
  device.ifr_flags |= IFF_UP;
  CHECK(ioctl(s, SIOCSIFFLAGS, &device) == 0);
  CHECK(connect(s, (struct sockaddr*)&there, sizeof there) == 0 && send(s, "question", 8, 0) == 8);
  unsigned char packet[256], swap[4];
  ssize_t size;
  do CHECK((size = read(fd, packet, sizeof packet)) > 0);  // others: what the kernel itself says on a new device
  while (size != 36 || packet[9] != 17 || memcmp(packet + 28, "question", 8));
  memcpy(swap, packet + 12, 4), memcpy(packet + 12, packet + 16, 4), memcpy(packet + 16, swap, 4);
  memcpy(swap, packet + 20, 2), memcpy(packet + 20, packet + 22, 2), memcpy(packet + 22, swap, 2);
  memcpy(packet + 28, "answered", 8);
  packet[26] = packet[27] = packet[10] = packet[11] = 0;  // no sum of the datagram
  const unsigned short sum = sum_of(packet, 20);
  packet[10] = (unsigned char)(sum >> 8), packet[11] = (unsigned char)sum;
  char text[16];
  CHECK(write(fd, packet, 36) == 36 && recv(s, text, sizeof text, 0) == 8 && memcmp(text, "answered", 8) == 0);
  CHECK(close(s) == 0);
}

// In a network of its own, where this machine allows one: 9, or 8 without a device.
static int tun(void) {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return 8;
  int fd = open("/dev/net/tun", O_RDWR);
  if (fd < 0) return 8;
  struct ifreq request = {.ifr_name = "fri%d", .ifr_flags = IFF_TUN | IFF_NO_PI}, got;
  unsigned features;
  CHECK(ioctl(fd, TUNGETFEATURES, &features) == 0 || errno == EPERM);
  if (ioctl(fd, TUNSETIFF, &request) != 0) {
    CHECK(errno == EPERM || errno == EINVAL || errno == EBUSY);
    return 8;
  }
  CHECK(strcmp(request.ifr_name, "fri%d") != 0 && ioctl(fd, TUNGETIFF, &got) == 0 && strcmp(got.ifr_name, request.ifr_name) == 0);
  through_tun(fd, request.ifr_name);
  CHECK(close(fd) == 0);
  return 9;
}

static void queues(void) {
  int pair[2], bytes = -1;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[0], "twelve bytes", 12) == 12);
  CHECK(ioctl(pair[1], FIONREAD, &bytes) == 0 && bytes == 12 && ioctl(pair[0], TIOCOUTQ, &bytes) == 0 && bytes >= 12);
  int on = 1, owner = getpid();
  CHECK(ioctl(pair[0], FIONBIO, &on) == 0 && ioctl(pair[0], FIOCLEX) == 0 && ioctl(pair[0], FIONCLEX) == 0);
  CHECK(ioctl(pair[0], FIOSETOWN, &owner) == 0 && ioctl(pair[0], FIOGETOWN, &owner) == 0 && owner == getpid() && ioctl(pair[0], SIOCGPGRP, &owner) == 0);
  CHECK(ioctl(pair[0], FIOASYNC, &on) == 0 && (on = 0, ioctl(pair[0], FIOASYNC, &on)) == 0);
  CHECK(ioctl(pair[0], 0xdead) == -1 && close(pair[0]) == 0 && close(pair[1]) == 0);
}

int main(void) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  CHECK(fd >= 0);
  interfaces(fd);
  about_device(fd);
  about_all_devices(fd);
  close(fd);
  netlink();
  raw();
  int status;
  const pid_t child = fork();
  if (child == 0) _exit(tun());
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && (WEXITSTATUS(status) == 8 || WEXITSTATUS(status) == 9));
  printf("%s\n", WEXITSTATUS(status) == 9 ? "a packet went through a TUN device" : "machine: no TUN device can be made here");
  queues();
  return success();
}
