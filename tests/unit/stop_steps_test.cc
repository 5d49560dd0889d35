// The steps of plans that bytecode has no instruction for, on memory that holds containers, and on memory that holds
// something else.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include <nlohmann/json.hpp>

#include "core/stop/agent.h"
#include "core/stop/steps.h"

namespace friday {
namespace {

using Json = nlohmann::json;

// Memory from 0x1000 on; nothing else can be read.
struct Bytes final : MemoryReader {
  std::vector<std::byte> bytes = std::vector<std::byte>(1 << 20);
  uint64_t reads = 0;

  Result<void> read(Addr address, std::span<std::byte> out) override {
    reads++;
    const uint64_t at = address.value - 0x1000;
    if (at > bytes.size() || out.size() > bytes.size() - at) return fail(ErrorCode::bad_address, "nothing there");
    std::memcpy(out.data(), bytes.data() + at, out.size());
    return {};
  }
  template <typename T>
  void put(uint64_t address, T value) {
    std::memcpy(bytes.data() + address - 0x1000, &value, sizeof value);
  }
};

Result<uint64_t> take(Bytes& memory, const Json& step, std::initializer_list<uint64_t> inputs) {
  const PlanStep parsed = parse_step(step);
  EXPECT_EQ(parsed.inputs(), inputs.size());
  FRIDAY_TRY(result, take_step(parsed, std::vector(inputs), memory));
  return result.value_or(0);
}

std::string why(const Result<uint64_t>& result) { return result ? "it succeeded" : result.error().message; }

const Json number_key = {{"size", 4}, {"signed", true}};

Json in_tree(bool counts = false, bool repeated = false) {
  return {{"step", "find"},
          {"of", "m"},
          {"found",
           {{"in", "tree"},
            {"key", number_key},
            {"first", 8},
            {"left", 16},
            {"right", 24},
            {"item", 32},
            {"counts", counts},
            {"repeated", repeated}}}};
}

TEST(Steps, ChecksOfNumbers) {
  Bytes memory;
  const Json span = {{"step", "span"}, {"of", "v"}, {"size", 8}}, bounds = {{"step", "bounds"}, {"of", "v"}};
  EXPECT_EQ(take(memory, span, {0x1040, 0x1000}), 8u);
  EXPECT_NE(why(take(memory, span, {0x1000, 0x1040})).find("v starts at 0x1040 and ends at 0x1000"), std::string::npos);
  const auto uneven = take(memory, span, {0x1041, 0x1000});
  ASSERT_FALSE(uneven);
  EXPECT_TRUE(is_inconsistent(uneven.error()));
  EXPECT_EQ(take(memory, bounds, {2, 3}), 2u);
  EXPECT_EQ(why(take(memory, bounds, {3, 3})), "index 3 is outside of v, which holds 3 items");
  EXPECT_EQ(why(take(memory, bounds, {~0ull, 1})), "index -1 is outside of v, which holds 1 item");
  EXPECT_EQ(why(take(memory, bounds, {0, 0})), "v is empty");
  EXPECT_EQ(take(memory, {{"step", "bounds"}, {"of", "s"}, {"end", true}}, {3, 3}), 3u);
  EXPECT_EQ(take(memory, {{"step", "sane"}, {"of", "v"}, {"most", 10}}, {10}), 10u);
  EXPECT_FALSE(take(memory, {{"step", "sane"}, {"of", "v"}, {"most", 10}}, {11}));
  EXPECT_EQ(why(take(memory, {{"step", "require"}, {"of", "p points to nothing"}}, {0})), "p points to nothing");
}

TEST(Steps, ComparesTexts) {
  Bytes memory;
  std::memcpy(memory.bytes.data(), "abcabd", 7);
  const Json both = {{"step", "compare"}, {"of", "s"}};
  const auto sign = [&](const Json& step, std::initializer_list<uint64_t> inputs) {
    return static_cast<int64_t>(take(memory, step, inputs).value_or(99));
  };
  EXPECT_EQ(sign(both, {0x1000, 3, 0x1003, 3}), -1);
  EXPECT_EQ(sign(both, {0x1003, 3, 0x1000, 3}), 1);
  EXPECT_EQ(sign(both, {0x1000, 2, 0x1003, 2}), 0);
  EXPECT_EQ(sign(both, {0x1000, 2, 0x1003, 3}), -1);
  EXPECT_EQ(sign({{"step", "compare"}, {"of", "s"}, {"right", "616263"}}, {0x1000, 3}), 0);
  EXPECT_EQ(sign({{"step", "compare"}, {"of", "s"}, {"left", "62"}}, {0x1000, 3}), 1);
  EXPECT_EQ(sign(both, {0x1000, 0, 0, 0}), 0) << "an empty text has no address";
  memory.reads = 0;
  EXPECT_EQ(sign({{"step", "compare"}, {"of", "s"}, {"right", "61"}, {"only_equal", true}}, {0x1000, 6}), 1);
  EXPECT_EQ(memory.reads, 0u) << "texts of different lengths are not equal";
  EXPECT_FALSE(take(memory, both, {0x1000, 1ull << 40, 0x1000, 1ull << 40}));
  EXPECT_EQ(take(memory, {{"step", "length"}, {"of", "s"}}, {0x1002}), 4u);
  memory.bytes.assign(memory.bytes.size(), std::byte{'x'});
  EXPECT_FALSE(take(memory, {{"step", "length"}, {"of", "s"}}, {0x1002})) << "it goes on behind the last page";
}

// A tree of the numbers between two indexes of a sorted list, which is as balanced as can be.
uint64_t grow(Bytes& memory, const std::vector<int>& keys, size_t low, size_t high, uint64_t& next) {
  if (low >= high) return 0;
  const size_t middle = (low + high) / 2;
  const uint64_t node = next;
  next += 40;
  memory.put(node + 32, keys[middle]);
  memory.put(node + 16, grow(memory, keys, low, middle, next));
  memory.put(node + 24, grow(memory, keys, middle + 1, high, next));
  return node;
}

TEST(Steps, FindsInTreesWhatAMapFinds) {
  std::mt19937 dice(7);
  for (int round = 0; round < 30; round++) {
    Bytes memory;
    std::multimap<int, int> expected;
    std::vector<int> keys;
    for (unsigned i = 0; i < dice() % 200; i++) keys.push_back(static_cast<int>(dice() % 100) - 50);
    std::ranges::sort(keys);
    for (int key : keys) expected.emplace(key, 0);
    uint64_t next = 0x1100;
    memory.put(0x1008, grow(memory, keys, 0, keys.size(), next));
    for (int key = -60; key < 60; key++) {
      const auto given = static_cast<uint64_t>(static_cast<int64_t>(key));
      const auto found = take(memory, in_tree(false, true), {0x1000, given});
      ASSERT_TRUE(found) << why(found);
      ASSERT_EQ(*found != 0, expected.contains(key)) << key;
      if (*found) {
        int there = 0;
        ASSERT_TRUE(memory.read(Addr{*found}, std::as_writable_bytes(std::span(&there, 1))));
        ASSERT_EQ(there, key);
      }
      ASSERT_EQ(take(memory, in_tree(true, true), {0x1000, given}), expected.count(key)) << key;
    }
  }
}

TEST(Steps, DamagedLinksEndASearch) {
  Bytes memory;
  memory.put<uint64_t>(0x1008, 0x1100);  // a tree whose only node is its own child, on both sides
  memory.put<uint64_t>(0x1110, 0x1100), memory.put<uint64_t>(0x1118, 0x1100), memory.put(0x1120, 5);
  EXPECT_NE(why(take(memory, in_tree(), {0x1000, 6})).find("m is deeper than a balanced tree is"), std::string::npos);
  EXPECT_NE(why(take(memory, in_tree(true, true), {0x1000, 5})).find("m does not end after 1000000 items"),
            std::string::npos);
  memory.put<uint64_t>(0x1118, 0xdead0000);
  EXPECT_NE(why(take(memory, in_tree(), {0x1000, 6})).find("leads to memory that cannot be read"), std::string::npos);

  Json hash = {
      {"step", "find"}, {"of", "u"}, {"found", {{"in", "hash"}, {"key", number_key}, {"first", 0}, {"item", 8}}}};
  memory.put<uint64_t>(0x1000, 0x1100), memory.put<uint64_t>(0x1100, 0x1100), memory.put(0x1108, 5);
  EXPECT_EQ(take(memory, hash, {0x1000, 5}), 0x1108u);
  memory.reads = 0;
  const auto endless = take(memory, hash, {0x1000, 6});
  EXPECT_NE(why(endless).find("u does not end after 1000000 items"), std::string::npos);
  EXPECT_LT(memory.reads, 1'000'010u);
  hash["found"].update({{"by_value", true}, {"buckets", 16}, {"bucket_count", 24}});
  memory.put<uint64_t>(0x1010, 0x2000), memory.put<uint64_t>(0x1018, 0);
  EXPECT_EQ(take(memory, hash, {0x1000, 6}), 0u) << "a table without buckets holds nothing";
  memory.put<uint64_t>(0x1018, 1ull << 60);
  EXPECT_FALSE(take(memory, hash, {0x1000, 1u << 30}));
}

TEST(Steps, ReadsShortTextsOfBothLayouts) {
  Bytes memory;
  const Json search = {
      {"step", "find"},
      {"of", "m"},
      {"left", "6b6579"},
      {"found",
       {{"in", "hash"},
        {"key", {{"text", {{"data", 16}, {"length", 8}, {"size", 24}, {"long_bit", 1}, {"short_data", 1}}}}},
        {"first", 0},
        {"item", 16}}}};
  memory.put<uint64_t>(0x1000, 0x1100);
  memory.put<uint8_t>(0x1110, 3 << 1);  // a short text: its length and the bit that says so
  std::memcpy(memory.bytes.data() + 0x111, "key", 3);
  EXPECT_EQ(take(memory, search, {0x1000}), 0x1110u);
  memory.put<uint64_t>(0x1110, 33), memory.put<uint64_t>(0x1118, 3), memory.put<uint64_t>(0x1120, 0x1800);
  std::memcpy(memory.bytes.data() + 0x800, "key", 3);
  EXPECT_EQ(take(memory, search, {0x1000}), 0x1110u) << "a long text";
  memory.put<uint64_t>(0x1118, 1ull << 50);
  EXPECT_FALSE(take(memory, search, {0x1000}));
}

TEST(Steps, DescriptionsOfAnotherFormAreRefused) {
  for (const Json& step : {Json{{"step", "nothing"}, {"of", ""}}, Json{{"step", "span"}, {"of", ""}, {"size", 0}},
                           Json{{"step", "bounds"}}, Json{{"step", "find"}, {"of", ""}},
                           Json{{"step", "find"}, {"of", ""}, {"left", "61"}, {"found", in_tree()["found"]}}})
    EXPECT_ANY_THROW(parse_step(step)) << step;
  Json wide = in_tree();
  wide["found"]["key"]["size"] = 16;
  EXPECT_ANY_THROW(parse_step(wide));
  wide = in_tree();
  wide["found"]["left"] = 1u << 30;
  EXPECT_ANY_THROW(parse_step(wide));
}

TEST(Steps, BytecodeTakesThem) {
  Bytes memory;
  const std::vector<PlanStep> steps = {parse_step({{"step", "bounds"}, {"of", "v"}})};
  const auto run = [&](std::vector<uint8_t> code) {
    return run_agent(std::as_bytes(std::span(code)), memory, user_regs_struct{}, steps);
  };
  EXPECT_EQ(run({0x22, 2, 0x22, 3, 0x80, 0, 0, 0x27})->value, 2u);  // const8 2, const8 3, step 0, end
  EXPECT_EQ(run({0x22, 3, 0x22, 3, 0x80, 0, 0, 0x27}).error().code, ErrorCode::bad_address);
  EXPECT_EQ(run({0x22, 3, 0x80, 0, 0, 0x27}).error().code, ErrorCode::bad_input) << "the stack holds too little";
  EXPECT_EQ(run({0x22, 2, 0x22, 3, 0x80, 0, 1, 0x27}).error().code, ErrorCode::bad_input) << "there is no such step";
}

}  // namespace
}  // namespace friday
