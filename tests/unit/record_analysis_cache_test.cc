// What was decoded is kept across recordings: exactly, within bounds, and never believed when it is damaged or foreign.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/files.h"
#include "core/record/analysis_cache.h"

namespace friday {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/friday-cache-XXXXXX";
    ASSERT_TRUE(mkdtemp(pattern.data()));
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  static ContentHash hash(uint8_t first) { return {first, 1, 2, 3}; }
  static CodeAnalysis analysis(size_t sites) {
    CodeAnalysis a;
    a.is_elf = true;
    a.build_id = {1, 2, 3};
    for (size_t i = 0; i < sites; i++) a.sites.push_back({i * 16, 3, 5, 7});
    return a;
  }
  fs::path only_entry() const { return fs::directory_iterator(root_)->path(); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }

  fs::path root_;
};

TEST_F(Cache, GivesBackWhatWasKept) {
  const AnalysisCache cache(root_.string());
  EXPECT_FALSE(cache.find(hash(1), 100));
  cache.keep(hash(1), 100, analysis(50));
  const auto found = AnalysisCache(root_.string()).find(hash(1), 100);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->is_elf);
  EXPECT_EQ(found->build_id, analysis(50).build_id);
  ASSERT_EQ(found->sites.size(), 50u);
  EXPECT_EQ(found->sites[49].offset, 49u * 16);
  EXPECT_EQ(found->sites[49].detail, 7u);
  EXPECT_FALSE(cache.find(hash(2), 100));
  EXPECT_FALSE(cache.find(hash(1), 101));
}

TEST_F(Cache, DoesNotBelieveADamagedEntry) {
  const AnalysisCache cache(root_.string());
  cache.keep(hash(1), 100, analysis(3));
  const std::string good = *read_file(only_entry().string());
  for (size_t at = 0; at < good.size(); at++) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    ASSERT_TRUE(write_file_atomically(only_entry().string(), bad));
    EXPECT_FALSE(cache.find(hash(1), 100)) << "byte " << at;
  }
  for (size_t size : {size_t{0}, size_t{10}, good.size() - 8, good.size() - 1}) {
    ASSERT_TRUE(write_file_atomically(only_entry().string(), good.substr(0, size)));
    EXPECT_FALSE(cache.find(hash(1), 100)) << size << " bytes";
  }
  cache.keep(hash(1), 100, analysis(3));  // replaces it
  EXPECT_TRUE(cache.find(hash(1), 100));
}

TEST_F(Cache, DoesNotBelieveWhatOthersMayWrite) {
  const AnalysisCache cache(root_.string());
  cache.keep(hash(1), 100, analysis(3));
  ASSERT_EQ(chmod(only_entry().c_str(), 0620), 0);
  EXPECT_FALSE(cache.find(hash(1), 100));
  ASSERT_EQ(chmod(only_entry().c_str(), 0600), 0);
  EXPECT_TRUE(cache.find(hash(1), 100));
  const fs::path elsewhere = root_ / "elsewhere", entry = only_entry();
  fs::rename(entry, elsewhere);
  fs::create_symlink(elsewhere, entry);
  EXPECT_FALSE(cache.find(hash(1), 100));
}

TEST_F(Cache, IsBounded) {
  const AnalysisCache cache(root_.string(), 64 << 10);  // each entry takes at least a block of 4 KiB
  for (uint8_t i = 0; i < 100; i++) cache.keep(hash(i), 100, analysis(10));
  EXPECT_LE(entries(), 16u);
  EXPECT_GE(entries(), 8u);
  EXPECT_TRUE(cache.find(hash(99), 100));
}

TEST_F(Cache, OfTheUserIsPrivate) {
  ASSERT_EQ(setenv("XDG_CACHE_HOME", root_.c_str(), 1), 0);
  AnalysisCache::of_user().keep(hash(1), 100, analysis(3));
  struct stat st;
  ASSERT_EQ(stat((root_ / "friday" / "code").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  EXPECT_TRUE(AnalysisCache::of_user().find(hash(1), 100));
  ASSERT_EQ(chmod((root_ / "friday").c_str(), 0777), 0);  // others could put entries there
  EXPECT_FALSE(AnalysisCache::of_user().find(hash(1), 100));
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "/dev/null", 1), 0);
  AnalysisCache::of_user().keep(hash(1), 100, analysis(3));
  EXPECT_FALSE(AnalysisCache::of_user().find(hash(1), 100));
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(Cache, KeepsNothingWithoutADirectory) {
  const AnalysisCache none;
  none.keep(hash(1), 100, analysis(3));
  EXPECT_FALSE(none.find(hash(1), 100));
}

}  // namespace
}  // namespace friday
