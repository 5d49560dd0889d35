// The files by which an order is forced onto programs on standby: what is written is read, and damage is told.
#include "core/trace/live_order.h"

#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/base/scratch.h"

namespace friday {
namespace {

TEST(LiveOrderTest, IsReadAsItWasWritten) {
  auto directory = ScratchDirectory::make();
  ASSERT_TRUE(directory);
  const std::string& place = directory->path();
  EXPECT_EQ(read_live_order(place).error().code, ErrorCode::not_found);
  EXPECT_EQ(read_live_order_state(place).error().code, ErrorCode::not_found);
  ASSERT_TRUE(write_live_order(place, {"7-1", R"({"steps":[1,2]})"}));
  const auto order = read_live_order(place);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->id, "7-1");
  EXPECT_EQ(order->order, R"({"steps":[1,2]})");
  const LiveOrderState state{"7-1", LiveOrderState::Stage::over, false, "nobody sent \"it\""};
  ASSERT_TRUE(write_live_order_state(place, state));
  const auto read = read_live_order_state(place);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, state);
  remove_live_order(place);
  remove_live_order_state(place);
  EXPECT_EQ(read_live_order(place).error().code, ErrorCode::not_found);
  EXPECT_EQ(read_live_order_state(place).error().code, ErrorCode::not_found);
}

TEST(LiveOrderTest, DamageIsTold) {
  auto directory = ScratchDirectory::make();
  ASSERT_TRUE(directory);
  for (const char* text : {"", "{", "[]", "{}", R"({"id":5})", R"({"id":"1","stage":"soon","came_true":true,"why":""})",
                           R"({"id":"1","stage":"over","came_true":1,"why":""})", R"({"id":"1","stage":"over"})"}) {
    ASSERT_TRUE(write_file_atomically(directory->path() + "/order-state.json", text));
    const auto read = read_live_order_state(directory->path());
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::bad_input) << text;
  }
}

}  // namespace
}  // namespace friday
