// The store of file copies: once by content, private, complete or not at all.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <filesystem>

#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/sparse.h"
#include "core/record/file_store.h"
#include "core/trace/file_hash.h"

namespace friday {
namespace {

namespace fs = std::filesystem;

class Store : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/friday-store-XXXXXX";
    ASSERT_TRUE(mkdtemp(pattern.data()));
    root_ = pattern;
    fs::create_directory(root_ / "files");
  }
  void TearDown() override { fs::remove_all(root_); }

  UniqueFd file(const std::string& name, std::string_view content) {
    EXPECT_TRUE(write_file_atomically((root_ / name).string(), content));
    return UniqueFd(open((root_ / name).c_str(), O_RDONLY | O_CLOEXEC));
  }
  std::vector<std::string> copies() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / "files")) names.push_back(entry.path().filename().string());
    return names;
  }
  FileStore store() { return FileStore((root_ / "files").string()); }

  fs::path root_;
};

TEST_F(Store, NamesCopiesByContent) {
  auto files = store();
  UniqueFd a = file("a", "the same text"), b = file("b", "the same text"), c = file("c", "another text");
  std::vector<StoredFile> added;
  for (const UniqueFd* fd : {&a, &b, &c}) {
    auto file = files.add(fd->get(), false);
    ASSERT_TRUE(file);
    added.push_back(**file);
  }
  EXPECT_EQ(added[0].hash, added[1].hash);
  EXPECT_NE(added[0].hash, added[2].hash);
  EXPECT_EQ(added[0].size, 13u);
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits("the same text", 13));
  EXPECT_THAT(copies(), testing::UnorderedElementsAre(hex_of(canonical.digest, 16), hex_of(added[2].hash.data(), 16)));
  EXPECT_EQ(*read_file((root_ / "files" / hex_of(canonical.digest, 16)).string()), "the same text");
  struct stat st;
  ASSERT_EQ(stat((root_ / "files" / hex_of(canonical.digest, 16)).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(Store, SeesThatAFileChanged) {
  auto files = store();
  UniqueFd before = file("a", "first version");
  const auto old = (*files.add(before.get(), false))->hash;
  UniqueFd after = file("a", "second version");
  EXPECT_NE((*files.add(after.get(), false))->hash, old);
  EXPECT_EQ(copies().size(), 2u);
}

// A program can set the modification time back, as archivers do, but not the status change time.
TEST_F(Store, SeesAChangeBehindAnOldTime) {
  auto files = store();
  UniqueFd opened = file("a", "one text");
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(futimens(opened.get(), old), 0);
  const auto before = (*files.add(opened.get(), false))->hash;
  ASSERT_EQ(pwrite(UniqueFd(open((root_ / "a").c_str(), O_WRONLY | O_CLOEXEC)).get(), "two", 3, 0), 3);
  ASSERT_EQ(futimens(opened.get(), old), 0);
  auto after = files.add(opened.get(), false);
  EXPECT_NE((*after)->hash, before);
  EXPECT_FALSE((*after)->settled);
}

TEST_F(Store, AFileThatIsMappedWritableIsNeverSettled) {
  auto files = store();
  UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct stat st;
  ASSERT_EQ(fstat(self.get(), &st), 0);
  timespec now;
  ASSERT_EQ(clock_gettime(CLOCK_REALTIME, &now), 0);
  EXPECT_EQ((*files.add(self.get(), false))->settled, now.tv_sec - std::max(st.st_mtim.tv_sec, st.st_ctim.tv_sec) >= 2);
  EXPECT_FALSE((*files.add(self.get(), false, true))->settled);
}

TEST_F(Store, LooksForSitesWhenFirstAsked) {
  auto files = store();
  UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  auto plain = files.add(self.get(), false);
  ASSERT_TRUE(plain);
  EXPECT_FALSE((*plain)->analysed);
  auto analysed = files.add(self.get(), true);
  ASSERT_TRUE(analysed);
  EXPECT_TRUE((*analysed)->analysed && (*analysed)->analysis.is_elf);
  EXPECT_EQ(copies().size(), 1u);
}

TEST_F(Store, TwoStoresShareOneDirectory) {
  auto one = store(), two = store();
  UniqueFd a = file("a", std::string(100000, 'x'));
  ASSERT_TRUE(one.add(a.get(), false) && two.add(a.get(), false));
  EXPECT_EQ(copies().size(), 1u);
}

// A copy that another recorder began and never finished is replaced.
TEST_F(Store, ReplacesAShortCopy) {
  UniqueFd a = file("a", "complete content");
  const std::string name = hex_of((*store().add(a.get(), false))->hash.data(), 16);
  ASSERT_EQ(truncate((root_ / "files" / name).c_str(), 3), 0);
  ASSERT_TRUE(store().add(a.get(), false));
  EXPECT_EQ(*read_file((root_ / "files" / name).string()), "complete content");
}

TEST_F(Store, RefusesWhatIsNoFile) {
  auto files = store();
  UniqueFd directory(open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(files.add(directory.get(), false));
  EXPECT_FALSE(files.add(null.get(), false));
  EXPECT_FALSE(files.add(-1, false));
  EXPECT_TRUE(copies().empty());
}

TEST_F(Store, AnEmptyFileNeedsNoCopy) {
  auto files = store();
  UniqueFd empty = file("empty", "");
  auto added = files.add(empty.get(), true);
  ASSERT_TRUE(added);
  EXPECT_EQ((*added)->hash, (std::array<uint8_t, 16>{}));
}

TEST_F(Store, SaysWhenACopyCannotBeMade) {
  fs::remove_all(root_ / "files");
  auto files = store();
  UniqueFd a = file("a", "content");
  auto failed = files.add(a.get(), true);
  ASSERT_TRUE(failed);
  EXPECT_TRUE((*failed)->analysed) << "its call sites are wanted all the same";
  EXPECT_EQ((*failed)->hash, (std::array<uint8_t, 16>{}));
  EXPECT_THAT((*failed)->problem, testing::HasSubstr((root_ / "files").string()));
  fs::create_directory(root_ / "files");
  auto again = files.add(a.get(), false);
  ASSERT_TRUE(again) << "an earlier failure must not be remembered as a success";
  EXPECT_NE((*again)->hash, (std::array<uint8_t, 16>{}));
  EXPECT_EQ((*again)->problem, "");
  EXPECT_EQ(copies().size(), 1u);
}

TEST_F(Store, TellsHowFarACopyHasComeAndIsQuietAboutShortOnes) {
  constexpr uint64_t kSize = 5u << 20, kHole = 64u << 20;
  UniqueFd from = file("a", std::string(kSize, 'x'));
  UniqueFd whole(open((root_ / "a").c_str(), O_RDWR | O_CLOEXEC)),
      to(open((root_ / "b").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(whole.get(), kSize + kHole), 0);
  ASSERT_EQ(pwrite(whole.get(), "end", 3, kSize + kHole), 3);
  std::vector<uint64_t> told;
  const auto tell = [&](const std::string& what, uint64_t done, uint64_t total) {
    EXPECT_EQ(what, "reading a");
    EXPECT_EQ(total, kSize + kHole + 3);
    told.push_back(done);
  };
  Progress often(tell, std::chrono::milliseconds(0)), seldom(tell);
  often.begin("reading a", kSize + kHole + 3);
  ASSERT_TRUE(hash_of_contents(whole.get(), kSize + kHole + 3, &often));
  ASSERT_GT(told.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  EXPECT_EQ(told.back(), kSize + kHole + 3) << "holes are part of it";
  told.clear();
  often.begin("reading a", kSize + kHole + 3);
  ASSERT_TRUE(copy_contents(whole.get(), to.get(), kSize + kHole + 3, &often));
  EXPECT_TRUE(told.empty() || told.back() == kSize + kHole + 3) << "none where the file system shares the blocks";
  told.clear();
  seldom.begin("reading a", kSize + kHole + 3);
  ASSERT_TRUE(hash_of_contents(whole.get(), kSize + kHole + 3, &seldom));
  EXPECT_TRUE(told.empty());
}

}  // namespace
}  // namespace friday
