#include "core/trace/file_hash.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "core/base/fd.h"
#include "core/base/sparse.h"

namespace friday {

Result<XXH128_hash_t> hash_of_contents(int fd, uint64_t size, Progress* progress) {
  static constexpr std::byte kZeros[64 << 10]{};  // small enough to stay in the L1 and L2 caches
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> buffer(256u << 10);
  for (uint64_t at = 0; at < size;) {
    const Extent data = next_data(fd, at, size);
    for (uint64_t more; at < data.from; at += more) {
      more = std::min<uint64_t>(sizeof kZeros, data.from - at);
      XXH3_128bits_update(state.get(), kZeros, more);
      if (progress) progress->add(more);
    }
    while (at < data.to) {
      auto piece = std::span(buffer).first(std::min<uint64_t>(buffer.size(), data.to - at));
      FRIDAY_TRY_VOID(read_exactly(fd, piece, at));
      XXH3_128bits_update(state.get(), piece.data(), piece.size());
      at += piece.size();
      if (progress) progress->add(piece.size());
    }
  }
  return XXH3_128bits_digest(state.get());
}

}  // namespace friday
