// The memory that a path sees: the stopped process's pages, read through a descriptor of /proc/PID/mem when they are
// first touched, under a layer of pages that the path has written (copy on write). The process is never written.
//
// A byte of memory or of a register may have a shadow: which byte of which expression it is. Its plain value is always
// that of the expression under the current model. Shadows outlive a path only if it is adopted.
//
// Reads and writes of pages without shadows go through two small tables of recently used pages; all else is slow and
// says what stood in the way.
#pragma once

#include <array>
#include <bitset>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/infer/solver/expression.h"

namespace friday::infer {

inline constexpr uint64_t kPageSize = 4096;

// Which byte of which expression: expression << 3 | byte. 0: none.
using Shadow = uint32_t;
constexpr Shadow shadow_of(Expr expression, int byte) { return expression << 3 | static_cast<uint32_t>(byte); }
constexpr Expr expression_of(Shadow shadow) { return shadow >> 3; }
constexpr int byte_of(Shadow shadow) { return static_cast<int>(shadow & 7); }

using ShadowPage = std::array<Shadow, kPageSize>;

class Memory {
 public:
  explicit Memory(Expressions& expressions) : expressions_(expressions) {}

  // From now on it is the memory behind this descriptor, which stays the caller's. Shadows stay.
  void attach(int descriptor) { descriptor_ = descriptor; }
  // The process may have run: nothing that was read of it holds any more.
  void process_has_run();
  // What the code was before Friday changed it.
  void set_original(uint64_t address, std::span<const uint8_t> bytes);

  // Bytes of the start state. Each has the shadow of byte 0 of its expression.
  void set_start_shadow(uint64_t address, Expr expression);
  void drop_start_shadows(uint64_t address, uint64_t length);
  // Where memory of the start state has got or lost shadows since the last call; what has lost them comes first.
  struct Change {
    uint64_t address, length;
    bool shadowed;
  };
  std::vector<Change> take_changes();
  // Each shadowed byte of the start state.
  using Visit = std::function<void(uint64_t address, Shadow shadow)>;
  // Those that may depend on one of these symbols, which rise, and others.
  void for_each_start_shadow(const std::vector<uint32_t>& symbols, const Visit& visit);
  void for_each_start_shadow(uint64_t address, uint64_t length, const Visit& visit) const;  // of those in this range
  // A byte as the process has it now; false if it has none.
  bool process_byte(uint64_t address, uint8_t* byte);

  // Undoes all that a path has written.
  void start_path();
  // The path's shadows become those of the start state.
  void adopt();

  // A copy of memory; false if some of it does not exist.
  bool read(uint64_t address, std::span<uint8_t> bytes);
  bool write(uint64_t address, std::span<const uint8_t> bytes);  // takes away the shadows there
  // As many bytes as there are, at most bytes.size().
  size_t read_some(uint64_t address, std::span<uint8_t> bytes);
  bool exists(uint64_t address) { return page_at(address / kPageSize) != nullptr; }
  bool shadowed(uint64_t address, uint64_t length);
  Shadow shadow_at(uint64_t address);
  void set_shadow(uint64_t address, Shadow shadow);  // of memory that was written before

  // The fast ways. Null if it must be done slowly: the page is not known, has shadows, or is left by the access.
  template <typename T>
  const uint8_t* readable(uint64_t address) const {
    const Recent& recent = readable_[address / kPageSize % kRecent];
    if (recent.page != address / kPageSize || address % kPageSize > kPageSize - sizeof(T)) return nullptr;
    return recent.bytes + address % kPageSize;
  }
  template <typename T>
  uint8_t* writable(uint64_t address) const {
    const Recent& recent = writable_[address / kPageSize % kRecent];
    if (recent.page != address / kPageSize || address % kPageSize > kPageSize - sizeof(T)) return nullptr;
    return recent.bytes + address % kPageSize;
  }

  // Code that is translated: writes to its page change code_changes().
  void mark_code(uint64_t address, uint64_t length);
  uint64_t code_changes() const { return code_changes_; }

 private:
  static constexpr uint64_t kRecent = 256;
  static constexpr uint64_t kNoPage = ~0ull;
  struct Recent {
    uint64_t page = kNoPage;
    uint8_t* bytes = nullptr;
  };
  using Bytes = std::array<uint8_t, kPageSize>;
  struct Page {
    std::unique_ptr<Bytes> bytes;               // null: as the process has it
    std::shared_ptr<const ShadowPage> shadows;  // null: none
    std::shared_ptr<ShadowPage> own_shadows;    // if `shadows` is the path's own
    bool code = false;
  };
  struct ProcessPage {
    std::unique_ptr<Bytes> bytes;  // null: the process has no such page
  };

  Bytes* process_page(uint64_t page);
  uint8_t* page_at(uint64_t page);           // for reading
  uint8_t* page_for_writing(uint64_t page);  // null if there is none
  Page& page_of_path(uint64_t page, const Bytes& from);
  void forget_recent(uint64_t page);
  void forget_all_recent();
  void note_change(uint64_t page) {
    changed_.insert(page);
    symbols_.erase(page);
  }
  std::pair<uint32_t, uint32_t> symbols_in(uint64_t page);
  void put_original(uint64_t page, Bytes& bytes) const;
  void show_model(const ShadowPage& shadows, Bytes& bytes);

  Expressions& expressions_;
  int descriptor_ = -1;
  std::map<uint64_t, uint8_t> original_;
  std::unordered_map<uint64_t, ProcessPage> process_;
  std::unordered_map<uint64_t, std::shared_ptr<ShadowPage>> start_;  // by page
  // The smallest and the largest symbol that a page's shadows refer to; not those of a page that has changed since.
  std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> symbols_;
  std::set<uint64_t> changed_;                                 // pages of start_, since take_changes()
  std::unordered_map<uint64_t, std::bitset<kPageSize>> told_;  // which bytes have shadows as that has told
  std::unordered_map<uint64_t, Page> path_;
  std::unordered_map<uint64_t, bool> code_pages_;
  uint64_t code_changes_ = 0;
  std::array<Recent, kRecent> readable_, writable_;
};

}  // namespace friday::infer
