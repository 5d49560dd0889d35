// The language of annotations, and the standard ones.
#include <gtest/gtest.h>

#include "core/cut/annotations.h"

namespace friday::cut {
namespace {

TEST(Annotations, TheStandardOnesAreRead) {
  const auto standard = Annotations::standard();
  ASSERT_TRUE(standard) << standard.error().message;
  EXPECT_GT(standard->size(), 500);
  const Annotation* read = standard->function("read");
  ASSERT_NE(read, nullptr);
  EXPECT_FALSE(read->deterministic);
  ASSERT_EQ(read->writes.size(), 1);
  EXPECT_EQ(read->writes[0].memory.argument, 1);
  EXPECT_EQ(read->writes[0].bytes.values, std::vector<uint32_t>{AnnotatedBytes::kResult});
  EXPECT_TRUE(standard->function("malloc")->allocates());
  EXPECT_TRUE(standard->function("memcpy")->deterministic);
  EXPECT_EQ(standard->function("nobody_knows_me"), nullptr);
  EXPECT_EQ(standard->library("deflateInit2_"), "zlib");
  EXPECT_EQ(standard->library("nobody_knows_me"), "");
}

TEST(Annotations, MistakesAreNamedWithTheirLine) {
  for (const auto& [text, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"[functions]\nf = [\"raeds arg 0\"]", "the nearest is `reads`"},
           {"[functions]\n\nf = [\"reads arg x\"]", "a.toml:3"},
           {"[functions]\nf = [\"reads arg 0: lots\"]", "number of bytes"},
           {"[functions]\nf = [\"moves arg 0 arg 1\"]", "\"to\" is missing"},
           {"[functions]\nf = \"like g\"", "like NAME"},
           {"[function]\nf = []", "the nearest is `functions`"},
           {"[variables]\nv = \"arg 0\"", "own NAME"},
           {"[functions\n", "a.toml:1"}}) {
    Annotations annotations;
    const auto added = annotations.add(text, "a.toml");
    ASSERT_FALSE(added) << text;
    EXPECT_NE(added.error().message.find(part), std::string::npos) << added.error().message;
  }
}

TEST(Annotations, ALaterFileReplacesEntries) {
  Annotations annotations;
  ASSERT_TRUE(annotations.add("[functions]\nf = [\"writes arg 0: 8\"]\ng = \"like f\"", "a.toml"));
  ASSERT_TRUE(annotations.add("[functions]\nf = [\"deterministic\"]", "b.toml"));
  EXPECT_TRUE(annotations.function("f")->deterministic);
  EXPECT_TRUE(annotations.function("f")->writes.empty());
  EXPECT_EQ(annotations.function("g")->writes.size(), 1);
}

}  // namespace
}  // namespace friday::cut
