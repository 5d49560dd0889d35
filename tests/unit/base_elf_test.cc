// The view of ELF files, on the C library that this test runs with and on damaged copies of it.
#include "core/base/elf.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <string>

#include <gtest/gtest.h>

#include "core/base/files.h"

namespace friday {
namespace {

// The file of the C library, and the distance of its addresses from those in the file.
struct Libc {
  std::string content;
  uint64_t bias = 0;
  Libc() {
    Dl_info about{};
    EXPECT_NE(dladdr(reinterpret_cast<void*>(&::getenv), &about), 0);
    bias = reinterpret_cast<uint64_t>(about.dli_fbase);
    auto file = read_file(about.dli_fname);
    EXPECT_TRUE(file);
    content = std::move(file).value_or("");
  }
};

TEST(ElfTest, finds_names_and_symbols_of_a_library) {
  const Libc libc;
  const Elf elf(libc.content);
  ASSERT_NE(elf.header, nullptr);
  EXPECT_EQ(elf.soname(), "libc.so.6");
  const auto found = elf.dynamic_symbol("getenv");
  ASSERT_TRUE(found);
  EXPECT_EQ(libc.bias + *found, reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "getenv")));
  EXPECT_FALSE(elf.dynamic_symbol("getenv_"));
  EXPECT_FALSE(elf.dynamic_symbol("geten"));
  EXPECT_TRUE(elf.dynamic(DT_STRTAB));
  EXPECT_FALSE(elf.dynamic(DT_FLAGS_1 + 0x1234));
}

TEST(ElfTest, functions_are_found_where_they_are_defined_and_where_others_take_them) {
  Dl_info about{};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "_ZSt9terminatev"), &about), 0);
  const auto file = read_file(about.dli_fname);
  ASSERT_TRUE(file);
  const Elf elf(*file);
  const auto found = elf.functions_named({"_ZSt9terminatev", "abort", "there_is_no_such_function"});
  EXPECT_EQ(found.code, std::unordered_set<uint64_t>{elf.dynamic_symbol("_ZSt9terminatev").value_or(0)});
  const auto abort_words = elf.functions_named({"abort"}).words, malloc_words = elf.functions_named({"malloc"}).words;
  EXPECT_FALSE(abort_words.empty() || malloc_words.empty());
  for (const uint64_t word : abort_words) EXPECT_TRUE(found.words.contains(word) && !malloc_words.contains(word));
}

// Statically linked programs have unwind entries, but no table of them.
TEST(ElfTest, unwind_entries_are_found_without_their_table) {
  Libc libc;
  const std::vector<uint64_t> by_table = Elf(libc.content).function_starts();
  ASSERT_GT(by_table.size(), 1000u);
  auto* header = reinterpret_cast<Elf64_Ehdr*>(libc.content.data());
  auto* segments = reinterpret_cast<Elf64_Phdr*>(libc.content.data() + header->e_phoff);
  for (unsigned i = 0; i < header->e_phnum; i++)
    if (segments[i].p_type == PT_GNU_EH_FRAME) segments[i].p_type = PT_NULL;
  EXPECT_EQ(Elf(libc.content).function_starts(), by_table);
}

// Whatever the file leaves out or states wrongly, nothing outside it is read: the sanitizers' builds see a read that
// is.
TEST(ElfTest, a_file_cut_off_anywhere_has_less_and_is_not_read_past_its_end) {
  const Libc libc;
  const Elf good(libc.content);
  ASSERT_NE(good.header, nullptr);
  const size_t whole = libc.content.size(), headers = sizeof(Elf64_Ehdr) + good.segments.size() * sizeof(Elf64_Phdr);
  for (size_t size : {size_t{0}, size_t{63}, size_t{64}, size_t{700}, size_t{4096}, whole / 2, whole - 1}) {
    const std::string part(libc.content.data(), size);
    const Elf elf(part);
    EXPECT_EQ(elf.header != nullptr, size >= headers) << size;
    (void)elf.dynamic_symbol("no such symbol");
    (void)elf.soname();
    (void)elf.build_id();
    (void)elf.function_starts();
    EXPECT_FALSE(elf.section("no such section"));
  }
}

TEST(ElfTest, a_dynamic_section_with_wrong_values_names_no_symbol) {
  const Libc libc;
  const Elf good(libc.content);
  ASSERT_TRUE(good.dynamic_symbol("getenv"));
  uint64_t at = 0, size = 0;
  for (const Elf64_Phdr& s : good.segments)
    if (s.p_type == PT_DYNAMIC) at = s.p_offset, size = s.p_filesz;
  for (const int64_t tag : {DT_SYMTAB, DT_STRTAB, DT_STRSZ, DT_SONAME, DT_HASH})
    for (const uint64_t value :
         {uint64_t{0}, uint64_t{1}, good.dynamic(DT_STRTAB).value(), ~uint64_t{0}, ~uint64_t{7}}) {
      std::string bad = libc.content;
      for (uint64_t i = 0; i < size / sizeof(Elf64_Dyn); i++) {
        auto* entry = reinterpret_cast<Elf64_Dyn*>(bad.data() + at) + i;
        if (entry->d_tag == tag) entry->d_un.d_val = value;
      }
      const Elf elf(bad);
      (void)elf.dynamic_symbol("no such symbol");
      (void)elf.soname();
    }
}

}  // namespace
}  // namespace friday
