// The shared object that checked programs are linked with (observing.h). Each byte of memory that belongs to a variable
// or to an allocation has a number in shadow memory: whose it is. An access looks its first byte up, and the pair of
// access and memory goes into a table in a file of the directory that FRIDAY_OBSERVED names (observation.h). Memory
// that nobody has named, such as that of the C library, is not noted.
//
// Threads share all of it; a number is one word, so none is torn.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/cut/bitcode/observation.h"

namespace {

using namespace friday::cut;
using Number = std::atomic<uint32_t>;

constexpr uint64_t kPageBits = 12, kTableBits = 18, kEntries = uint64_t{1} << kTableBits;
struct ShadowPage {
  Number bytes[1 << kPageBits];
};
struct ShadowTable {
  std::atomic<ShadowPage*> pages[kEntries];
};
std::atomic<ShadowTable*> tables[kEntries];  // of 48 bits of address, 18 each, and 12 in a page

struct ObservedModule {
  char fingerprint[32];
  uint32_t number;
};

char* file;  // the observations; null if nobody wants them
std::atomic<uint32_t> modules{0};

void give_up(const char* what) {
  fprintf(stderr, "friday: process %d is not checked: %s: %s\n", static_cast<int>(getpid()), what, strerror(errno));
  file = nullptr;
}

template <typename T>
T* made(std::atomic<T*>& place) {
  T* known = place.load(std::memory_order_acquire);
  if (known) return known;
  void* const memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (place.compare_exchange_strong(known, static_cast<T*>(memory))) return static_cast<T*>(memory);
  munmap(memory, sizeof(T));
  return known;
}

void fill(uint64_t address, uint64_t bytes, uint32_t number) {
  while (bytes > 0) {
    const uint64_t offset = address & ((1 << kPageBits) - 1), page = address >> kPageBits;
    const uint64_t count = bytes < (1 << kPageBits) - offset ? bytes : (1 << kPageBits) - offset;
    if (page >> kTableBits >= kEntries) return;
    ShadowTable* const table = made(tables[page >> kTableBits]);
    ShadowPage* const shadow = table ? made(table->pages[page & (kEntries - 1)]) : nullptr;
    if (!shadow) return give_up("no shadow memory");
    for (uint64_t i = 0; i < count; i++) shadow->bytes[offset + i].store(number, std::memory_order_relaxed);
    address += count;
    bytes -= count;
  }
}

uint32_t memory_at(uint64_t address) {
  const uint64_t page = address >> kPageBits;
  if (page >> kTableBits >= kEntries) return 0;
  ShadowTable* const table = tables[page >> kTableBits].load(std::memory_order_acquire);
  ShadowPage* const shadow = table ? table->pages[page & (kEntries - 1)].load(std::memory_order_acquire) : nullptr;
  return shadow ? shadow->bytes[address & ((1 << kPageBits) - 1)].load(std::memory_order_relaxed) : 0;
}

void note(uint64_t pair) {
  auto* const pairs = reinterpret_cast<std::atomic<uint64_t>*>(file + kObservationHead);
  uint64_t at = pair * 0x9e3779b97f4a7c15 >> 43;
  for (uint64_t tried = 0; tried < kObservationPairs; tried++, at++) {
    std::atomic<uint64_t>& place = pairs[at % kObservationPairs];
    uint64_t known = place.load(std::memory_order_relaxed);
    if (known == pair || (known == 0 && (place.compare_exchange_strong(known, pair) || known == pair))) return;
  }
  errno = ENOSPC;
  give_up("the table of observations is full");
}

void open_file() {
  const char* const directory = getenv("FRIDAY_OBSERVED");
  if (!directory || !*directory) return;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  char path[4096];
  snprintf(path, sizeof path, "%s/%d-%llx%09lx.observed", directory, static_cast<int>(getpid()),
           static_cast<unsigned long long>(now.tv_sec), now.tv_nsec);
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return give_up(path);
  void* memory = MAP_FAILED;
  if (ftruncate(fd, kObservationBytes) == 0)
    memory = mmap(nullptr, kObservationBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return give_up(path);
  file = static_cast<char*>(memory);
  memcpy(file, kObservationMagic, sizeof kObservationMagic);
}

}  // namespace

extern "C" {

void friday_observe_module(ObservedModule* module) {
  const int before = errno;
  const uint32_t number = ++modules;
  if (number == 1) open_file();
  if (number >= kMostModules) {
    errno = ENOSPC;
    if (file) give_up("it has too many modules");
  }
  module->number = number % kMostModules;
  if (file)
    memcpy(file + uint64_t{number} * sizeof module->fingerprint, module->fingerprint, sizeof module->fingerprint);
  errno = before;
}

void friday_observe_object(uint32_t module, uint32_t object, const void* address, uint64_t bytes) {
  if (file) fill(reinterpret_cast<uint64_t>(address), bytes, observed_memory(module, false, object));
}

void friday_observe_end(const void* address, uint64_t bytes) {
  if (file) fill(reinterpret_cast<uint64_t>(address), bytes, 0);
}

void friday_observe_allocated(uint32_t module, uint32_t call, void* address) {
  if (file && address)
    fill(reinterpret_cast<uint64_t>(address), malloc_usable_size(address), observed_memory(module, true, call));
}

// Of an allocator whose description says how many bytes it gives, or that it gives a text.
void friday_observe_new(uint32_t module, uint32_t call, void* address, uint64_t bytes) {
  if (file && address) fill(reinterpret_cast<uint64_t>(address), bytes, observed_memory(module, true, call));
}
void friday_observe_text(uint32_t module, uint32_t call, const char* address) {
  if (file && address)
    fill(reinterpret_cast<uint64_t>(address), strlen(address) + 1, observed_memory(module, true, call));
}

void friday_observe_freed(void* address) {
  if (file && address) fill(reinterpret_cast<uint64_t>(address), malloc_usable_size(address), 0);
}

void friday_observe_access(uint32_t module, uint32_t access, const void* address, uint64_t bytes) {
  if (!file || bytes == 0) return;
  const uint32_t memory = memory_at(reinterpret_cast<uint64_t>(address));
  if (memory) note(observed_pair(module, access, memory));
}
}
