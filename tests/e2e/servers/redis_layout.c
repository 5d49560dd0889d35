/* The layout of the few structures of a Redis 7.0 server on Linux x86-64 that hold what it knows of its cluster, for a redis-server
 * without debug information. Compiled with -g -fno-eliminate-unused-debug-types to a file that bears the server's build id, it is what
 * `--symbols` gives gdb beside the stripped program: types only, no address. CLUSTER_OFFSET is where `server.cluster` lies in this
 * very server.
 */

#include <stdint.h>

enum { SLOTS = 16384, NAME = 40 };

struct clusterNode {
  long long ctime;
  char name[NAME];
  int flags;
  uint64_t configEpoch;
  unsigned char slots[SLOTS / 8];
  uint16_t* slot_info_pairs;
  int slot_info_pairs_count;
  int numslots;
  int numslaves;
  struct clusterNode** slaves;
  struct clusterNode* slaveof;
};

struct clusterState {
  struct clusterNode* myself;
  uint64_t currentEpoch;
  int state;
  int size;
  void* nodes;
  void* nodes_black_list;
  struct clusterNode* migrating_slots_to[SLOTS];
  struct clusterNode* importing_slots_from[SLOTS];
  struct clusterNode* slots[SLOTS];
};

struct clusterLink {
  long long ctime;
  void* conn;
  char* sndbuf;
  char* rcvbuf;
};

struct redisServer {
  char before[CLUSTER_OFFSET];
  struct clusterState* cluster;
};
