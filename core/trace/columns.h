// A compact form of consecutive records of a trace, from which the same bytes come back. The fields of the records are
// put into columns: one for each field, so that what is alike stands together. Before, each value is compared with what
// can be told from the records before it (the next index, the arguments of the last call of the same kind, the next
// offset in a channel), and only the difference is kept. Checksums are not kept where they are valid. The columns are
// compressed one by one by zstd(1).
//
// A block knows nothing of other blocks. docs/trace-format.md has the idea; the code is the only description of the
// columns themselves, since one function both writes and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct ZSTD_CCtx_s;

namespace friday {

// The end of the last whole record among the bytes of a trace that begin at a record; 0: there is none. Fails to see
// nothing: a record that cannot be one (of an impossible size) counts as not whole.
size_t whole_records(std::span<const std::byte> bytes);

// Encodes whole records, which begin at `offset` in their trace. None if they are no records.
std::optional<std::vector<std::byte>> to_columns(std::span<const std::byte> records, uint64_t offset,
                                                 ZSTD_CCtx_s* context);

// Decodes to_columns(), into `out`, which has the size of the records. Returns a description of the error, if there is
// one; `columns` need not be trusted.
std::optional<std::string> from_columns(std::span<const std::byte> columns, uint64_t offset, std::span<std::byte> out);

}  // namespace friday
