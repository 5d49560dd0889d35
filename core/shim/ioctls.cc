// ioctl(2): what a request reads and writes in the program's memory. Newer request codes contain direction and size
// (include/uapi/asm-generic/ioctl.h); the older ones are listed here.
#include "core/shim/calls.h"

namespace friday::shim {

// Sources of the numbers: asm-generic/ioctls.h for terminals, linux/sockios.h for sockets and interfaces, linux/fs.h
// for files, all in include/uapi of the kernel.
// clang-format off
int ioctl_output_bytes(uint64_t code) {
  switch (code) {
    case 0x5402: case 0x5403: case 0x5404: case 0x5406: case 0x5407: case 0x5408: case 0x5409: case 0x540a: case 0x540b:
    case 0x540c: case 0x540d: case 0x540e: case 0x5410: case 0x5412: case 0x5414: case 0x5416: case 0x5417: case 0x5418:
    case 0x541a: case 0x541d: case 0x541f: case 0x5420: case 0x5421: case 0x5422: case 0x5423: case 0x5425: case 0x5427:
    case 0x5428: case 0x5437: case 0x5441: case 0x5450: case 0x5451: case 0x5452: case 0x5457:
      return 0;                // TCSETS*, TCSBRK, TCFLSH, TIOCSCTTY, TIOCSWINSZ, FIONBIO, TIOCGPTPEER, FIOCLEX, FIOASYNC, ...
    case 0x540f: case 0x5411: case 0x5415: case 0x5419: case 0x541b: case 0x5424: case 0x5429:
      return 4;                // TIOCGPGRP, TIOCOUTQ, TIOCMGET, TIOCGSOFTCAR, FIONREAD, TIOCGETD, TIOCGSID
    case 0x5401: case 0x5456: return 36;  // TCGETS, TIOCGLCKTRMIOS
    case 0x5405: return 18;    // TCGETA
    case 0x5413: case 0x5460: return 8;   // TIOCGWINSZ, FIOQSIZE
    case 0x541e: return 72;    // TIOCGSERIAL
    case 0x545d: return 80;    // TIOCGICOUNT
    case 0x8901: case 0x8902: case 0x890b: case 0x890c: case 0x8914: case 0x8916: case 0x8918: case 0x891a: case 0x891c: case 0x891e:
    case 0x8920: case 0x8922: case 0x8923: case 0x8924: case 0x8926: case 0x8930: case 0x8931: case 0x8932: case 0x8934: case 0x8936:
    case 0x8937: case 0x8943: case 0x8949: case 0x894c: case 0x8953: case 0x8955: case 0x8971: case 0x89a0: case 0x89a1: case 0x89a2:
    case 0x89a3:
      return 0;                // FIOSETOWN, SIOCADDRT, SIOCSIF*, SIOCSMIIREG, SIOCGSKNS, SIOCSARP, SIOCBRADDBR, ...
    case 0x8903: case 0x8904: case 0x8905: case 0x894b: return 4;  // FIOGETOWN, SIOCGPGRP, SIOCATMARK, SIOCOUTQNSD
    case 0x8906: case 0x8907: case 0x8912: return 16;  // SIOCGSTAMP, SIOCGSTAMPNS, SIOCGIFCONF
    case 0x8910: case 0x8913: case 0x8915: case 0x8917: case 0x8919: case 0x891b: case 0x891d: case 0x891f: case 0x8921: case 0x8925:
    case 0x8927: case 0x8929: case 0x8933: case 0x8935: case 0x8938: case 0x8942: case 0x8947: case 0x8948: case 0x8970: case 0x89b0:
    case 0x89b1: case 0x8946: case 0x400454ca: case 0x800454d2:
      return 40;               // SIOCGIF*, SIOCGMIIPHY, SIOCETHTOOL, TUNSETIFF, TUNGETIFF: struct ifreq
    case 0x8954: return 68;    // SIOCGARP
    case 0x1: case 0x2: case 0x125e: case 0x1268: case 0x1278: case 0x1279: case 0x127a: case 0x127b: case 0x127c: case 0xb704:
      return 4;                // FIBMAP, FIGETBSZ, BLKROGET, BLKSSZGET, BLKIOMIN, ..., NS_GET_OWNER_UID
    case 0x1260: case 0x1263: case 0x1265: return 8;   // BLKGETSIZE, BLKRAGET, BLKFRAGET
    case 0x1267: case 0x127e: return 2;                // BLKSECTGET, BLKROTATIONAL
    case 0x125d: case 0x1261: case 0x1262: case 0x1264: case 0x1277: case 0x127d: case 0x127f: case 0xb701: case 0xb702: case 0xb703:
      return 0;                // BLKROSET, BLKFLSBUF, BLKDISCARD, ..., NS_GET_USERNS, NS_GET_PARENT, NS_GET_NSTYPE
  }
  if (code >= 0xff01 && code <= 0xff0a) return 0;      // PIDFD_GET_*_NAMESPACE
  // Requests of devices whose arguments have pointers, or lists behind them: KVM, vhost, VFIO, DRM, V4L2, USB.
  switch (code >> 8 & 0xff) {
    case 0xae: case 0xaf: case ';': case 'd': case 'V': case 'U': return -1;
  }
  // Codes with direction and size (_IOR, _IOW, _IOWR).
  const uint64_t direction = code >> 30 & 3, size = code >> 16 & 0x3fff;
  return direction & 2 ? (int)size : direction ? 0 : -1;
}
// clang-format on

namespace {

// ---- ethtool(8): linux/ethtool.h

// The structure behind the pointer of a command's request: `fixed` bytes, and `unit` bytes times the 32-bit word with
// index `count`. `sets`: what is behind the fixed bytes is read, otherwise it is written.
struct EthtoolCommand {
  uint8_t number;
  uint16_t fixed;
  uint8_t count, unit;
  bool sets;
};
// clang-format off
constexpr EthtoolCommand kEthtool[] = {
    {0x01, 44, 0, 0, false},   {0x02, 44, 0, 0, true},    // GSET, SSET
    {0x03, 196, 0, 0, false},  {0x04, 12, 2, 1, false},   // GDRVINFO, GREGS
    {0x05, 20, 0, 0, false},   {0x06, 20, 0, 0, true},    // GWOL, SWOL
    {0x07, 8, 0, 0, false},    {0x08, 8, 0, 0, true},     // GMSGLVL, SMSGLVL
    {0x09, 8, 0, 0, false},    {0x0a, 8, 0, 0, false},    // NWAY_RST, GLINK
    {0x0b, 16, 3, 1, false},   {0x0c, 16, 3, 1, true},    // GEEPROM, SEEPROM
    {0x0e, 92, 0, 0, false},   {0x0f, 92, 0, 0, true},    // GCOALESCE, SCOALESCE
    {0x10, 36, 0, 0, false},   {0x11, 36, 0, 0, true},    // GRINGPARAM, SRINGPARAM
    {0x12, 16, 0, 0, false},   {0x13, 16, 0, 0, true},    // GPAUSEPARAM, SPAUSEPARAM
    {0x14, 8, 0, 0, false},    {0x15, 8, 0, 0, true},     // GRXCSUM, SRXCSUM
    {0x16, 8, 0, 0, false},    {0x17, 8, 0, 0, true},     // GTXCSUM, STXCSUM
    {0x18, 8, 0, 0, false},    {0x19, 8, 0, 0, true},     // GSG, SSG
    {0x1a, 16, 3, 8, false},   {0x1b, 12, 2, 32, false},  // TEST, GSTRINGS
    {0x1c, 8, 0, 0, true},     {0x1d, 8, 1, 8, false},    // PHYS_ID, GSTATS
    {0x1e, 8, 0, 0, false},    {0x1f, 8, 0, 0, true},     // GTSO, STSO
    {0x20, 8, 1, 1, false},    {0x21, 8, 0, 0, false},    // GPERMADDR, GUFO
    {0x22, 8, 0, 0, true},     {0x23, 8, 0, 0, false},    // SUFO, GGSO
    {0x24, 8, 0, 0, true},     {0x25, 8, 0, 0, false},    // SGSO, GFLAGS
    {0x26, 8, 0, 0, true},     {0x27, 8, 0, 0, false},    // SFLAGS, GPFLAGS
    {0x28, 8, 0, 0, true},     {0x2b, 8, 0, 0, false},    // SPFLAGS, GGRO
    {0x2c, 8, 0, 0, true},     {0x2d, 192, 0, 0, false},  // SGRO, GRXRINGS
    {0x2e, 192, 0, 0, false},  {0x2f, 192, 0, 0, false},  // GRXCLSRLCNT, GRXCLSRULE
    {0x31, 192, 0, 0, true},   {0x32, 192, 0, 0, true},   // SRXCLSRLDEL, SRXCLSRLINS
    {0x33, 136, 0, 0, true},   {0x34, 8, 0, 0, true},     // FLASHDEV, RESET
    {0x38, 8, 1, 4, false},    {0x39, 8, 1, 4, true},     // GRXFHINDIR, SRXFHINDIR
    {0x3a, 8, 1, 16, false},   {0x3b, 8, 1, 8, true},     // GFEATURES, SFEATURES
    {0x3c, 36, 0, 0, false},   {0x3d, 36, 0, 0, true},    // GCHANNELS, SCHANNELS
    {0x3e, 16, 0, 0, true},    {0x3f, 16, 0, 0, false},   // SET_DUMP, GET_DUMP_FLAG
    {0x40, 16, 3, 1, false},   {0x41, 44, 0, 0, false},   // GET_DUMP_DATA, GET_TS_INFO
    {0x42, 44, 0, 0, false},   {0x43, 16, 3, 1, false},   // GMODULEINFO, GMODULEEEPROM
    {0x44, 40, 0, 0, false},   {0x45, 40, 0, 0, true},    // GEEE, SEEE
    {0x48, 16, 3, 1, false},   {0x49, 16, 3, 1, true},    // GTUNABLE, STUNABLE
    {0x4a, 8, 1, 8, false},    {0x4e, 16, 3, 1, false},   // GPHYSTATS, PHY_GTUNABLE
    {0x4f, 16, 3, 1, true},    {0x50, 16, 0, 0, false},   // PHY_STUNABLE, GFECPARAM
    {0x51, 16, 0, 0, true},                               // SFECPARAM
};
// clang-format on

// The size in bytes for commands whose layout depends on their contents; -1: no such command.
int ethtool_odd_bytes(const uint32_t* about) {
  constexpr uint32_t kOfContext = 0x20000000;  // FLOW_RSS
  switch (about[0]) {
    case 0x29:
    case 0x2a: return about[1] & kOfContext ? 192 : 16;            // GRXFH, SRXFH
    case 0x30: return about[46] ? 188 + (int)about[46] * 4 : 192;  // GRXCLSRLALL: followed by the rules' locations
    case 0x37: {                                                   // GSSET_INFO: a word for each bit of the mask
      int bytes = 16;
      for (uint64_t mask = *(const uint64_t*)(about + 2); mask; mask &= mask - 1) bytes += 4;
      return bytes;
    }
    case 0x46:
    case 0x47: return 24 + (int)about[2] * 4 + (int)about[3];  // GRSSH, SRSSH: a table and a key
    case 0x4c:
    case 0x4d: {
      // GLINKSETTINGS, SLINKSETTINGS: followed by three masks of so many words (link_mode_masks_nwords). If the program
      // has asked with another number, the kernel answers with its own, negative, and no masks follow.
      const int words = (int32_t)about[3] >> 24;  // the last byte, signed
      return 48 + (words > 0 ? words * 12 : 0);
    }
    default: return -1;
  }
}

// How many bytes behind the pointer a command has written, or with `before` how many it is going to read; -1: not
// known.
int ethtool_bytes(const uint32_t* about, bool before) {
  for (const EthtoolCommand& c : kEthtool)
    if (c.number == about[0]) return c.fixed + (c.unit && c.sets == before ? (int)about[c.count] * c.unit : 0);
  if (!before) return ethtool_odd_bytes(about);
  constexpr int kCommand = 4;
  return about[0] == 0x2a || about[0] == 0x47 || about[0] == 0x4d /* SRXFH, SRSSH, SLINKSETTINGS */ ? ethtool_odd_bytes(
                                                                                                          about)
                                                                                                    : kCommand;
}

}  // namespace

bool ioctl_inner_output(const uint64_t* a, Block* inner) {
  *inner = {0, 0, true};
  const uint64_t* about = (const uint64_t*)a[2];
  switch (a[1] & 0xffffffff) {
    case 0x8912: *inner = {about[1], (uint32_t)about[0], true}; break;  // SIOCGIFCONF: struct ifconf
    case 0x89b0:
    case 0x89b1: *inner = {about[2], 12, true}; break;  // SIOC[GS]HWTSTAMP
    case 0xc020660b:                                    // FS_IOC_FIEMAP: the extents behind
      if (((const uint32_t*)about)[6]) *inner = {a[2] + 32, ((const uint32_t*)about)[5] * 56ull, true};
      break;
    case 0xc0c0583b: *inner = {a[2] + 192, ((const uint32_t*)about)[3] * 64ull, true}; break;  // FS_IOC_GETFSMAP
    case 0xc0046686: *inner = {a[2] + 4, ((const uint16_t*)about)[1], true}; break;            // FS_IOC_MEASURE_VERITY
    case 0xc0096616: *inner = {a[2] + 8, about[0], true}; break;                   // FS_IOC_GET_ENCRYPTION_POLICY_EX
    case 0xc0189436: *inner = {a[2] + 24, (about[2] & 0xffff) * 32, true}; break;  // FIDEDUPERANGE: the targets behind
    case 0x8946: {                                                                 // SIOCETHTOOL
      const int bytes = ethtool_bytes((const uint32_t*)about[2], false);
      *inner = {about[2], (uint64_t)(bytes < 0 ? 0 : bytes), bytes >= 0};
      break;
    }
  }
  return inner->known;
}

// ---- What a request reads

namespace {

// How many bytes the request reads at its argument.
uint64_t input_bytes(uint64_t code) {
  switch (code) {
    case 0x5402:
    case 0x5403:
    case 0x5404:
    case 0x5457: return 36;  // TCSETS, TCSETSW, TCSETSF, TIOCSLCKTRMIOS
    case 0x5406:
    case 0x5407:
    case 0x5408: return 18;  // TCSETA, TCSETAW, TCSETAF
    case 0x5410:
    case 0x5416:
    case 0x5417:
    case 0x5418:
    case 0x541a:
    case 0x5420:
    case 0x5421:
    case 0x5423:
    case 0x5452:
    case 0x8901:
    case 0x8902:
    case 0x1:
    case 0x125d:
      return 4;  // TIOCSPGRP, TIOCMBIS, TIOCMBIC, TIOCMSET, TIOCSSOFTCAR, TIOCPKT, FIONBIO, TIOCSETD, FIOASYNC,
                 // FIOSETOWN, ...
    case 0x5412: return 1;   // TIOCSTI
    case 0x5414: return 8;   // TIOCSWINSZ
    case 0x541f: return 72;  // TIOCSSERIAL
    case 0x890b:
    case 0x890c: return 120;  // SIOCADDRT, SIOCDELRT: struct rtentry
    case 0x8912:
    case 0x1277:
    case 0x127d:
    case 0x127f: return 16;  // SIOCGIFCONF, BLKDISCARD, BLKSECDISCARD, BLKZEROOUT
    case 0x8953:
    case 0x8954:
    case 0x8955: return 68;      // SIOCDARP, SIOCGARP, SIOCSARP
    case 0x400454ca: return 40;  // TUNSETIFF: struct ifreq
  }
  if ((code >= 0x8910 && code <= 0x8949) || (code >= 0x8970 && code <= 0x8971) || (code >= 0x89a0 && code <= 0x89b1))
    return 40;                                      // struct ifreq
  return code >> 30 & 1 ? code >> 16 & 0x3fff : 0;  // _IOW, _IOWR
}

}  // namespace

uint64_t ioctl_input_hash(const uint64_t* a) {
  const uint64_t code = a[1] & 0xffffffff, bytes = input_bytes(code);
  if (!bytes) return 0;
  uint64_t hash = hash_bytes((const void*)a[2], bytes, 0);
  const uint64_t* about = (const uint64_t*)a[2];
  switch (code) {
    case 0x8946: {  // SIOCETHTOOL
      const int inner = ethtool_bytes((const uint32_t*)about[2], true);
      return inner > 0 ? hash_bytes((const void*)about[2], (uint64_t)inner, hash) : hash;
    }
    case 0x89b0: return hash_bytes((const void*)about[2], 12, hash);                // SIOCSHWTSTAMP
    case 0xc0189436: return hash_bytes(about + 3, (about[2] & 0xffff) * 32, hash);  // FIDEDUPERANGE: the targets behind
    default: return hash;
  }
}

uint32_t ioctl_command(const uint64_t* a) {
  uint32_t command = 0;
  if ((a[1] & 0xffffffff) == 0x8946 /* SIOCETHTOOL */) probed([&] { command = **(const uint32_t**)(a[2] + 16); });
  return command;
}

}  // namespace friday::shim
