// The pages of the checkpoints that a recording holds (saved_checkpoint.h), each once: the file checkpoints/pages, page
// after page. Who refers to a page knows its number and its hash, which is compared whenever the page is read, because
// the file is a stranger's. Pages are only ever appended, by one writer at a time, so a reader may read meanwhile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/trace/recording.h"

namespace friday {

using PageHash = std::array<uint64_t, 2>;  // XXH3-128
PageHash hash_of_page(std::span<const std::byte> page);

class PageStore {
 public:
  // Fails with not_found if there is none.
  static Result<PageStore> open(const Recording& recording);
  // Makes it if there is none. Fails with unsupported while another process writes to it.
  static Result<PageStore> open_to_write(const Recording& recording);

  // Number `number` holds a page with this hash, so it need not be added again.
  void note(const PageHash& hash, uint64_t number) { known_.try_emplace(hash, number); }
  // Returns the number of the page. It is in the file after flush().
  Result<uint64_t> add(std::span<const std::byte> page, const PageHash& hash);
  Result<void> flush();
  // How many pages were written through this object.
  uint64_t written() const { return written_; }

  // Reads pages `number` and following, as many as `out` has room for. Fails with bad_input where there are none.
  Result<void> read(uint64_t number, std::span<std::byte> out) const;

 private:
  explicit PageStore(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::map<PageHash, uint64_t> known_;
  uint64_t next_ = 0, written_ = 0;
  std::vector<std::byte> buffer_;  // pages that are not in the file yet
};

}  // namespace friday
