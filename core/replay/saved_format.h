// What stands in a file of checkpoints/ (saved_checkpoint.h): arrays of these, in the form of core/trace/cache.h, in
// the order of the fields of File.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "core/replay/kernel_state.h"
#include "core/replay/page_store.h"
#include "core/replay/snapshot.h"
#include "core/shim/shim_abi.h"
#include "core/trace/cache.h"
#include "core/trace/recording.h"

namespace friday::saved {

inline constexpr uint64_t kVersion = 1;

struct Head {
  uint64_t version = kVersion;
  uint64_t abi = shim::kAbiVersion;
  uint64_t events = 0;   // that all nodes together have completed
  uint64_t in_turn = 0;  // GroupSnapshot::in_turn: the node's id + 1; 0: none
};

// How many entries of the arrays that follow belong to this node; they stand in the order of the nodes.
struct Node {
  uint32_t id = 0;
  uint32_t state = 0;  // NodeState
  uint32_t how = 0;    // NodeOutcome::How
  int32_t detail = 0;
  uint64_t forks = 0, events = 0;
  uint64_t text = 0;  // bytes of NodeOutcome::text
  uint64_t threads = 0, maps = 0, pages = 0, windows = 0;
  uint64_t has_spin = 0, spin_thread = 0, spin_steps = 0, spin_hash = 0, spin_looks = 0;
  format::SpinPoint spin{};
  KernelState kernel;
};

struct Thread {
  user_regs_struct registers{};
  uint64_t number = 0;
  uint64_t held = 0;  // a wait status + 1; 0: none
  uint64_t blocked = 0;
  uint64_t signal_stack[3] = {};
  uint64_t extended = 0;  // bytes of its vector registers
};

enum class MapKind : uint64_t {
  kept,            // the memory is there when the node starts
  anonymous,       //
  grows_down,      // a stack
  file,            // a private mapping of a file of the recording
  shared,          // of a shared object
  private_object,  // a private mapping of a shared object
};

struct Map {
  uint64_t low = 0, high = 0, offset = 0;
  MapKind kind = MapKind::anonymous;
  uint64_t protection = 0;
  uint64_t object = 0;  // its number among the shared objects
  uint8_t file[16] = {};
};

struct Page {
  uint64_t address = 0;  // in an object: the offset
  uint64_t number = 0;   // in the page store
  PageHash hash{};
};

// An object in memory that nodes share.
struct Object {
  uint64_t sharing = 0, number = 0;  // FileHeader::sharing and the number in the recording; both 0: it has no name
  uint64_t size = 0, pages = 0;
};

struct File {
  std::vector<Head> head;  // one
  std::vector<Node> nodes;
  std::vector<char> texts;
  std::vector<Thread> threads;
  std::vector<std::byte> extended;
  std::vector<Map> maps;
  std::vector<Page> pages;        // of the nodes
  std::vector<uint64_t> windows;  // where the shim has patched the program
  std::vector<Object> objects;
  std::vector<Page> object_pages;
  std::vector<uint64_t> ended_now;  // GroupSnapshot::ended_now
  std::vector<shim::Progress> progress;

  // Calls `each` with all of them, in order.
  template <typename T, typename Each>
  static void for_all(T& file, Each each) {
    each(file.head), each(file.nodes), each(file.texts), each(file.threads), each(file.extended), each(file.maps);
    each(file.pages), each(file.windows), each(file.objects), each(file.object_pages), each(file.ended_now);
    each(file.progress);
  }
};

// Where the checkpoint after so many events stands.
inline Beneath place_of(const Recording& recording, uint64_t events) {
  return recording.inside("checkpoints/" + std::to_string(events));
}
// What the file must have been made from: the same for each copy of a recording, plain or packed.
uint64_t identity_of(const Recording& recording);
// Fails with bad_input if it is damaged. Only the form is checked.
Result<File> read(const Recording& recording, uint64_t events);

}  // namespace friday::saved
