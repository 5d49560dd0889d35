// Records of bitcode: as they are written into objects, read back, and refused when damaged.
#include <gmock/gmock.h>

#include "core/cut/bitcode/link_inputs.h"
#include "core/cut/bitcode/link_object.h"
#include "core/cut/bitcode/record.h"
#include "core/cut/bitcode/record_read.h"

namespace friday::cut {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Record module_record() {
  Record record{.source = "dir/a.c", .directory = "/src", .arguments = {"-O2", "", "-D X=\"y z\""}};
  store_bitcode(record, std::string(10'000, 'b') + "the end");
  return record;
}

Record link_record() {
  Record record{.kind = Record::Kind::link, .directory = "/src", .arguments = {"ld", "-o", "a"}};
  record.stored = encode_inputs({{"/tmp/a.o", true}, {"/tmp/b.o", false, std::string("\0bytes", 6)}});
  return record;
}

TEST(Records, ComeBackAsTheyWere) {
  const std::string file = link_object(encode(module_record()) + encode(link_record()), false);
  const auto records = records_in(file, "a.o");
  ASSERT_TRUE(records) << records.error().message;
  ASSERT_EQ(records->size(), 2u);
  const Record& module = records->at(0);
  EXPECT_EQ(module.kind, Record::Kind::module);
  EXPECT_EQ(module.source, "dir/a.c");
  EXPECT_EQ(module.directory, "/src");
  EXPECT_THAT(module.arguments, ElementsAre("-O2", "", "-D X=\"y z\""));
  EXPECT_EQ(fingerprint_text(module), fingerprint_text(module_record()));
  EXPECT_EQ(fingerprint_text(module).size(), 32u);
  EXPECT_EQ(bitcode_of(module).value(), std::string(10'000, 'b') + "the end");
  const std::vector<KeptInput> kept = decode_inputs(records->at(1).stored);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_TRUE(kept[0].has_records);
  EXPECT_FALSE(kept[1].has_records);
  EXPECT_EQ(kept[1].path, "/tmp/b.o");
  EXPECT_EQ(kept[1].bytes, std::string("\0bytes", 6));
}

TEST(Records, AFileWithoutThemHasNone) {
  const auto records = records_in(link_object("", false), "a.o");
  ASSERT_TRUE(records);
  EXPECT_TRUE(records->empty());
}

TEST(Records, ThatAreCutShortOrChangedAreRefused) {
  const std::string whole = encode(module_record());
  for (size_t size = 1; size < whole.size(); size += 13) {
    const auto records = records_in(link_object(whole.substr(0, size), false), "a.o");
    ASSERT_FALSE(records) << size;
    EXPECT_THAT(records.error().message, HasSubstr("build it again"));
  }
  for (size_t at = 0; at < whole.size(); at++) {
    if (at >= 40 && at < 56) continue;  // the fingerprint: bitcode_of() compares it
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    const auto records = records_in(link_object(changed, false), "a.o");
    // A plain length that is wrong is found when the bitcode is unpacked.
    EXPECT_FALSE(records && bitcode_of(records->at(0))) << at;
  }
  std::string changed = whole;
  changed[45] ^= 1;
  EXPECT_FALSE(bitcode_of(records_in(link_object(changed, false), "a.o")->at(0)));
}

TEST(Records, OfOtherFilesAreRefused) {
  EXPECT_FALSE(records_in("a text", "a.c"));
  EXPECT_FALSE(records_in("", "empty"));
  EXPECT_FALSE(records_in(link_object("something else", false), "a.o"));
}

TEST(LinkInputs, AreToldApart) {
  EXPECT_EQ(kind_of(link_object("x", false)), InputKind::recorded);
  EXPECT_EQ(kind_of("!<arch>\n"), InputKind::archive);
  EXPECT_EQ(kind_of("!<thin>\n"), InputKind::archive);
  EXPECT_EQ(kind_of("BC\xC0\xDE"), InputKind::recorded);
  EXPECT_EQ(kind_of("INPUT(libc.so.6)"), InputKind::other);
  EXPECT_EQ(kind_of(""), InputKind::other);
  std::string object = link_object("x", true);
  for (size_t size = 0; size < object.size(); size += 7) kind_of(object.substr(0, size));  // reads nothing outside
  const size_t name = object.find(kSection);
  object[name + 1] = 'D';
  EXPECT_EQ(kind_of(object), InputKind::object);
}

TEST(LinkInputs, OutputsAreFound) {
  EXPECT_EQ(output_of({"ld", "-o", "a", "x.o"}), "a");
  EXPECT_EQ(output_of({"ld", "--output=b"}), "b");
  EXPECT_EQ(output_of({"ld", "-oc"}), "c");
  EXPECT_EQ(output_of({"ld", "x.o"}), "a.out");
}

TEST(LinkInputs, DamagedListsGiveNothing) {
  const std::string whole = link_record().stored;
  for (size_t size = 1; size < whole.size(); size++)
    EXPECT_TRUE(decode_inputs(whole.substr(0, size)).empty() || size == 24) << size;
}

}  // namespace
}  // namespace friday::cut
