#include "core/cut/bitcode/record_read.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>
#include <zstd.h>

#include "core/base/elf.h"
#include "core/base/files.h"

namespace friday::cut {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of one bitcode, or of a whole section
constexpr uint32_t kZstd = 2;                       // ELFCOMPRESS_ZSTD, which glibc 2.36 lacks

Result<std::string> unpack(uint32_t kind, std::string_view packed, uint64_t bytes, const std::string& path) {
  if (bytes > kMostBytes)
    return fail(ErrorCode::bad_input, "{} says that its bitcode has {} bytes, and at most {} are read", path, bytes,
                kMostBytes);
  std::string plain(bytes, '\0');
  bool whole = false;
  if (kind == kZstd) {
    whole = ZSTD_decompress(plain.data(), plain.size(), packed.data(), packed.size()) == bytes;
  } else if (kind == ELFCOMPRESS_ZLIB) {
    uLongf size = bytes;
    whole = uncompress(reinterpret_cast<Bytef*>(plain.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()) == Z_OK &&
            size == bytes;
  }
  if (!whole) return fail(ErrorCode::bad_input, "the compressed bitcode in {} is damaged: build it again", path);
  return plain;
}

// The section, uncompressed if the linker was told --compress-debug-sections.
Result<std::string> section_of(const Elf& elf, const std::string& path) {
  const Elf64_Shdr* header = elf.find_section(kSection);
  if (!header) return std::string();
  const std::string_view bytes = elf.section(kSection).value_or("");
  if (!(header->sh_flags & SHF_COMPRESSED)) return std::string(bytes);
  Elf64_Chdr chdr;
  if (bytes.size() < sizeof chdr)
    return fail(ErrorCode::bad_input, "the section {} of {} is cut short: build it again", kSection, path);
  memcpy(&chdr, bytes.data(), sizeof chdr);
  return unpack(chdr.ch_type, bytes.substr(sizeof chdr), chdr.ch_size, path);
}

std::vector<std::string> strings_of(std::string_view text) {
  std::vector<std::string> strings;
  for (size_t end; (end = text.find('\0')) != std::string_view::npos; text.remove_prefix(end + 1))
    strings.emplace_back(text.substr(0, end));
  return strings;
}

// The record at the beginning of `bytes`, which is taken away.
Result<Record> take_record(std::string_view& bytes, const std::string& path) {
  RecordHead head;
  if (bytes.size() < sizeof head || !bytes.starts_with(kMagic))
    return fail(
        ErrorCode::bad_input,
        "{} has a section {} that holds something else than records of this version of friday cc: build it again", path,
        kSection);
  memcpy(&head, bytes.data(), sizeof head);
  const bool fits = head.record_bytes <= bytes.size() && head.stored_bytes <= head.record_bytes &&
                    head.record_bytes == sizeof head + head.text_bytes + head.stored_bytes;
  if (!fits || head.checksum != checksum_of(bytes.substr(sizeof head, head.record_bytes - sizeof head)))
    return fail(ErrorCode::bad_input, "a record of bitcode in {} is cut short or damaged: build it again", path);
  std::vector<std::string> strings = strings_of(bytes.substr(sizeof head, head.text_bytes));
  const bool known = head.kind == static_cast<uint32_t>(Record::Kind::module) ||
                     head.kind == static_cast<uint32_t>(Record::Kind::link);
  if (!known || strings.size() < 2)
    return fail(ErrorCode::bad_input, "a record of bitcode in {} is damaged: build it again", path);
  Record record;
  record.kind = static_cast<Record::Kind>(head.kind);
  record.source = strings[0];
  record.directory = strings[1];
  record.arguments.assign(strings.begin() + 2, strings.end());
  record.stored = bytes.substr(sizeof head + head.text_bytes, head.stored_bytes);
  record.plain_bytes = head.plain_bytes;
  memcpy(record.fingerprint.data(), head.fingerprint, sizeof head.fingerprint);
  bytes.remove_prefix(head.record_bytes);
  return record;
}

}  // namespace

Result<std::vector<Record>> records_in(std::string_view file, const std::string& path) {
  const Elf elf(file);
  if (!elf.header)
    return fail(ErrorCode::bad_input, "{} is no program, shared object or object file of x86-64 Linux", path);
  FRIDAY_TRY(section, section_of(elf, path));
  std::vector<Record> records;
  for (std::string_view rest = section; !rest.empty();) {
    FRIDAY_TRY(record, take_record(rest, path));
    records.push_back(std::move(record));
  }
  return records;
}

Result<std::vector<Record>> read_records(const std::string& path) {
  FRIDAY_TRY(file, read_file(path));
  return records_in(file, path);
}

Result<std::string> bitcode_of(const Record& record) {
  FRIDAY_TRY(bitcode, unpack(kZstd, record.stored, record.plain_bytes, record.source));
  Record again;
  store_fingerprint(again, bitcode);
  if (again.fingerprint != record.fingerprint)
    return fail(ErrorCode::bad_input,
                "the bitcode of {} is damaged: it has another fingerprint than its record says. Build it again",
                record.source);
  return std::move(bitcode);
}

}  // namespace friday::cut
