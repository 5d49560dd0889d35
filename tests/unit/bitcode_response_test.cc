#include "core/cut/bitcode/response.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace friday::cut {
namespace {

using testing::ElementsAre;

class Responses : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  // The word that names a response file with this text.
  std::string response(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    return "@" + (directory_ / name).string();
  }
  std::filesystem::path directory_ =
      std::filesystem::path(testing::TempDir()) / ("responses-" + std::to_string(getpid()));
};

TEST_F(Responses, StandInPlaceOfTheirNames) {
  EXPECT_THAT(expand_responses({"-c", response("a", "-O2 x.c\n\t-g"), "-o", "x"}),
              ElementsAre("-c", "-O2", "x.c", "-g", "-o", "x"));
}

TEST_F(Responses, QuotesAndBackslashesHoldWordsTogether) {
  EXPECT_THAT(expand_responses({response("a", R"('a b' "c 'd'" e\ f "g\"h" '' i"j"k)")}),
              ElementsAre("a b", "c 'd'", "e f", "g\"h", "", "ijk"));
}

TEST_F(Responses, MayNameOthers) {
  const std::string inner = response("inner", "-lfoo");
  EXPECT_THAT(expand_responses({response("outer", "a " + inner + " b")}), ElementsAre("a", "-lfoo", "b"));
}

TEST_F(Responses, ThatAreMissingStayWords) {
  EXPECT_THAT(expand_responses({"@missing", "@"}), ElementsAre("@missing", "@"));
}

TEST_F(Responses, ThatNameThemselvesEnd) {
  const std::string self = "@" + (directory_ / "self").string();
  response("self", "x " + self);
  EXPECT_GT(expand_responses({self}).size(), 100u);
}

}  // namespace
}  // namespace friday::cut
