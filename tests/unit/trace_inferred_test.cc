// The file of what was inferred of payload that nobody has: what is read is what was written, damage is noticed, and
// memory depends on such bytes from a place of the node to another.
#include "core/trace/inferred.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "core/base/files.h"
#include "core/base/scratch.h"

namespace friday {
namespace {

class Inferred : public testing::Test {
 protected:
  void SetUp() override {
    auto made = ScratchDirectory::make();
    ASSERT_TRUE(made);
    scratch_ = *std::move(made);
    // Two blocks; the first lacks two ranges, the second one.
    list_.blocks = {{.offset = 4096, .size = 1000, .left_out = {0, 2, 11}},
                    {.offset = 5096, .size = 500, .left_out = {2, 1, 22}}};
    list_.left_out = {{4200, 3, {}}, {4300, 2, {}}, {5100, 4, {}}};
    contents_.bytes = bytes_of("abcdefghi");
    contents_.sureness = {Sureness::free, Sureness::inferred, Sureness::determined, Sureness::free, Sureness::free,
                          Sureness::free, Sureness::free,     Sureness::received,   Sureness::free};
    contents_.unchecked = {7, 9};
    contents_.touched = {3, 4, 8};
    contents_.spans = {{3, 0x1000, 16, true}, {5, 0x1008, 4, false}, {9, 0x1000, 16, false}};
  }
  static std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  Beneath file() const { return {scratch_.path(), "inferred-0"}; }
  std::string path() const { return scratch_.path() + "/inferred-0"; }

  ScratchDirectory scratch_;
  PackedList list_;
  InferredContents contents_;
};

TEST_F(Inferred, WhatIsReadIsWhatWasWritten) {
  ASSERT_TRUE(write_inferred(file(), list_, contents_));
  const auto payload = InferredPayload::open(file(), list_);
  ASSERT_TRUE(payload);
  const InferredContents& read = payload->contents();
  EXPECT_EQ(read.bytes, contents_.bytes);
  EXPECT_EQ(read.sureness, contents_.sureness);
  EXPECT_EQ(read.unchecked, contents_.unchecked);
  EXPECT_EQ(read.touched, contents_.touched);
  EXPECT_EQ(read.spans, contents_.spans);
  EXPECT_TRUE(payload->computes(4));
  EXPECT_FALSE(payload->computes(5));
}

TEST_F(Inferred, ItIsOfOneTraceOnly) {
  ASSERT_TRUE(write_inferred(file(), list_, contents_));
  PackedList other = list_;
  other.blocks[1].left_out.payload++;
  EXPECT_FALSE(InferredPayload::open(file(), other));
  EXPECT_FALSE(InferredPayload::open({scratch_.path(), "inferred-1"}, list_));
}

TEST_F(Inferred, DamageIsNoticed) {
  ASSERT_TRUE(write_inferred(file(), list_, contents_));
  const auto size = std::filesystem::file_size(path());
  std::ifstream in(path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_EQ(whole.size(), size);
  std::mt19937 random(3);
  for (size_t at = 0; at < size; at++) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_FALSE(InferredPayload::open(file(), list_)) << at;
  }
  for (size_t length = 0; length < size; length++) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole.substr(0, length);
    EXPECT_FALSE(InferredPayload::open(file(), list_)) << length;
  }
}

TEST_F(Inferred, MemoryDependsFromOnePlaceToAnother) {
  ASSERT_TRUE(write_inferred(file(), list_, contents_));
  const auto payload = InferredPayload::open(file(), list_);
  ASSERT_TRUE(payload);
  InferredMemory memory(*payload);
  EXPECT_FALSE(memory.depends(1, 0x1000, 16));
  EXPECT_TRUE(memory.depends(2, 0x1000, 1)) << "the code that runs then may have made it so already";
  EXPECT_TRUE(memory.depends(3, 0x100f, 1));
  EXPECT_FALSE(memory.depends(3, 0x1010, 8));
  EXPECT_FALSE(memory.depends(5, 0x1008, 4));
  EXPECT_TRUE(memory.depends(5, 0x1007, 4));
  EXPECT_FALSE(memory.depends(9, 0x1000, 16));
  EXPECT_TRUE(memory.depends(4, 0x1008, 4)) << "back at an earlier place";
}

TEST_F(Inferred, AHashProvesWhatWasReceived) {
  list_.blocks[0].left_out.payload = XXH3_64bits("abcde", 5);
  note_what_hashes_prove(list_, contents_);
  for (size_t i = 0; i < 5; i++) EXPECT_EQ(contents_.sureness[i], Sureness::received) << i;
  EXPECT_EQ(contents_.sureness[5], Sureness::free);
}

}  // namespace
}  // namespace friday
