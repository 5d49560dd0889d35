// What receivers of watched messages have received and handled, against a list that is looked through.
#include "core/record/receipts.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace friday {
namespace {

using News = Receipts::News;

struct Area {
  std::unique_ptr<shim::ShapeArea> area = std::make_unique<shim::ShapeArea>();
  shim::ShapedEnd& end(uint64_t inode) { return *shim::shaped_end(*area, inode); }
};

TEST(Receipts, ReceivedThenHandled) {
  Area area;
  Receipts receipts(*area.area);
  receipts.expect(7, 1, 100);
  receipts.expect(7, 2, 150);
  EXPECT_EQ(area.end(7).wanted_received, 100u);
  EXPECT_EQ(area.end(7).wanted_handled, 100u);
  EXPECT_TRUE(receipts.look(7).empty());
  area.end(7).received = 120;
  EXPECT_EQ(receipts.look(7), (std::vector<News>{{1, false}}));
  EXPECT_EQ(area.end(7).wanted_received, 150u);
  EXPECT_EQ(area.end(7).wanted_handled, 100u);
  area.end(7).received = area.end(7).handled = 150;
  EXPECT_EQ(receipts.look(7), (std::vector<News>{{2, false}, {1, true}, {2, true}}));
  EXPECT_TRUE(receipts.ends().empty());
}

TEST(Receipts, WhatIsForgottenIsNotWaitedFor) {
  Area area;
  Receipts receipts(*area.area);
  receipts.expect(7, 1, 100);
  receipts.expect(7, 2, 150);
  receipts.forget(1);
  area.end(7).received = area.end(7).handled = 150;
  EXPECT_EQ(receipts.look(7), (std::vector<News>{{2, false}, {2, true}}));
  receipts.expect(8, 3, 10);
  receipts.forget(3);
  EXPECT_TRUE(receipts.ends().empty());
}

// Each message is told once as received and once as handled, when it is, whatever the order of events.
TEST(Receipts, AsAListSays) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; round++) {
    Area area;
    Receipts receipts(*area.area);
    struct Message {
      uint64_t inode, end;
    };
    std::map<uint64_t, Message> messages;
    std::map<uint64_t, uint64_t> sent;
    std::set<uint64_t> received, handled;
    for (int step = 0; step < 100; step++) {
      const uint64_t inode = 1 + random() % 3;
      shim::ShapedEnd& end = area.end(inode);
      const auto choice = random() % 4;
      if (choice == 0) {
        const uint64_t ticket = messages.size() + 1;
        messages[ticket] = {inode, sent[inode] += 1 + random() % 50};
        receipts.expect(inode, ticket, sent[inode]);
      } else if (choice == 1) {
        end.received = std::min(sent[inode], end.received + random() % 60);
      } else if (choice == 2) {
        end.handled = std::min(end.received, end.handled + random() % 60);
      } else {
        for (const auto& [ticket, is_handled] : receipts.look(inode))
          EXPECT_TRUE((is_handled ? handled : received).insert(ticket).second);
        for (const auto& [ticket, message] : messages) {
          if (message.inode != inode) continue;
          EXPECT_EQ(received.contains(ticket), message.end <= end.received);
          EXPECT_EQ(handled.contains(ticket), message.end <= end.handled);
        }
      }
    }
  }
}

}  // namespace
}  // namespace friday
