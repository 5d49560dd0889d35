// Files of a directory that a stranger has filled, and text on its way to a terminal.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/beneath.h"
#include "core/base/files.h"
#include "core/base/printable.h"

namespace friday {
namespace {

namespace fs = std::filesystem;

class Strange : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/friday-beneath-XXXXXX";
    ASSERT_TRUE(mkdtemp(pattern.data()));
    root_ = pattern;
    fs::create_directories(root_ / "inside/deep");
    fs::create_directory(root_ / "outside");
    ASSERT_TRUE(write_file_atomically((root_ / "inside/deep/file").string(), "contents"));
    ASSERT_TRUE(write_file_atomically((root_ / "outside/file").string(), "a secret"));
  }
  void TearDown() override { fs::remove_all(root_); }
  Beneath at(const std::string& name) { return {(root_ / "inside").string(), name}; }
  std::string why_not(const std::string& name) {
    auto opened = open_beneath(at(name));
    return opened ? "" : std::string(name_of(opened.error().code)) + ": " + opened.error().message;
  }

  fs::path root_;
};

TEST_F(Strange, OpensRegularFiles) {
  EXPECT_EQ(*read_beneath(at("deep/file"), 8), "contents");
  EXPECT_EQ(*read_beneath((root_ / "inside/deep/file").string(), 8), "contents");
  EXPECT_THAT(read_beneath(at("deep/file"), 7).error().message, testing::HasSubstr("has 8 bytes, where at most 7"));
  EXPECT_THAT(why_not("deep/none"), testing::StartsWith("not found: "));
}

TEST_F(Strange, FollowsLinksOnlyInTheUsersOwnWord) {
  fs::create_directory_symlink(root_ / "inside", root_ / "named");
  EXPECT_EQ(*read_beneath({(root_ / "named").string(), "deep/file"}, 8), "contents");
  fs::create_directory_symlink(root_ / "outside", root_ / "inside/way");
  fs::create_symlink(root_ / "outside/file", root_ / "inside/link");
  fs::create_symlink("deep/file", root_ / "inside/within");
  EXPECT_THAT(why_not("way/file"),
              testing::AllOf(testing::StartsWith("bad input: "),
                             testing::HasSubstr("inside/way is a symbolic link where a directory should be")));
  EXPECT_THAT(why_not("link"), testing::HasSubstr("inside/link is a symbolic link"));
  EXPECT_THAT(why_not("within"), testing::HasSubstr("inside/within is a symbolic link"));
  EXPECT_THAT(why_not("../outside/file"), testing::HasSubstr("leads out of"));
  EXPECT_THAT(why_not("deep/file/more"), testing::HasSubstr("deep/file is a regular file where a directory should be"));
}

TEST_F(Strange, OpensNothingThatBlocks) {
  ASSERT_EQ(mkfifo((root_ / "inside/fifo").c_str(), 0600), 0);
  EXPECT_THAT(why_not("fifo"), testing::HasSubstr("inside/fifo is a FIFO where a regular file should be"));
  EXPECT_THAT(why_not("deep"), testing::HasSubstr("inside/deep is a directory"));
  EXPECT_THAT(check_below({root_.string(), "inside"}).error().message, testing::HasSubstr("inside/fifo is a FIFO"));
  EXPECT_TRUE(check_below(at("deep")));
  EXPECT_TRUE(check_below(at("none")));
  fs::create_symlink("file", root_ / "inside/deep/link");
  EXPECT_FALSE(check_below(at("deep")));
}

TEST_F(Strange, WritesThroughNoLink) {
  EXPECT_TRUE(write_beneath(at("made/for/it"), "new"));
  EXPECT_EQ(*read_file((root_ / "inside/made/for/it").string()), "new");
  fs::create_directory_symlink(root_ / "outside", root_ / "inside/way");
  EXPECT_FALSE(write_beneath(at("way/file"), "new"));
  EXPECT_FALSE(make_directory_beneath(at("way/folder")));
  // A link in the place of the file, or of the temporary one, is replaced.
  fs::create_symlink(root_ / "outside/file", root_ / "inside/deep/link");
  fs::create_symlink(root_ / "outside/file", root_ / fmt::format("inside/deep/link.{}.tmp", getpid()));
  EXPECT_TRUE(write_beneath(at("deep/link"), "new"));
  EXPECT_EQ(*read_file((root_ / "inside/deep/link").string()), "new");
  EXPECT_EQ(*read_file((root_ / "outside/file").string()), "a secret");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "outside"), fs::directory_iterator()), 1);
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a plain name, naïve Ελλ 漢字 😀 \\x1b"), "a plain name, naïve Ελλ 漢字 😀 \\x1b");
  EXPECT_EQ(printable("\x1b[2J\x07\x7f\r\n\t"), "\\x1b[2J\\x07\\x7f\\x0d\\n\\x09");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xe2\x80\xae \xef\xbb\xbf \xf3\xa0\x81\x81"),
            "\\u009b31m \\u202e \\ufeff \\U000e0041");
  EXPECT_EQ(printable_lines("one\ttab\ntwo\r"), "one\ttab\ntwo\\x0d");
}

TEST(Printable, EscapesWhatIsNoText) {
  EXPECT_EQ(printable("\xff\xfe\x80 \xc3"), "\\xff\\xfe\\x80 \\xc3");
  EXPECT_EQ(printable("\xc0\xaf \xe0\x80\xaf \xed\xa0\x80 \xf4\x90\x80\x80"),
            "\\xc0\\xaf \\xe0\\x80\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
}

TEST(Printable, LeavesJsonAsItIsForWhoParsesIt) {
  EXPECT_EQ(printable_json("{\n \"a\": \"\\u001b \xc2\x9b \x7f \xf3\xa0\x81\x81 é\"\n}"),
            "{\n \"a\": \"\\u001b \\u009b \\u007f \\udb40\\udc41 é\"\n}");
}

}  // namespace
}  // namespace friday
