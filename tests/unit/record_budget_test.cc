// Which payload fits into a budget.
#include "core/record/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/trace/leaving_out.h"

namespace friday {
namespace {

constexpr uint64_t kTicks = 1000;  // a second
constexpr SentFromCall kSender{.node = {1}};

// What a node receives: messages of channels, in blocks.
class Node {
 public:
  explicit Node(LeanOptions options) : options_(std::move(options)), budget_(options_, kTicks, names()) {}

  void receive(double at, uint64_t channel, uint64_t size) { receive(at, channel, size, kSender, block_); }
  void receive_of_a_stranger(double at, uint64_t channel, uint64_t size) { receive(at, channel, size, {}, foreign_); }
  void receive(double at, uint64_t channel, uint64_t size, const SentFromCall& from, std::vector<Regenerable>& list) {
    list.push_back(
        {{offset_, size, from}, 1'000'000, 0, true, channel, static_cast<uint64_t>(at * static_cast<double>(kTicks))});
    received_[channel] += size;
    offset_ += size + 100;
  }
  // Ends the block, of whose other content `events` bytes are stored.
  void store(uint64_t events) {
    uint64_t kept = 0;
    const std::vector<LeftOut> chosen = budget_.choose(block_, foreign_);
    block_.insert(block_.end(), foreign_.begin(), foreign_.end());
    std::ranges::sort(block_, {}, &LeftOut::offset);
    for (const Regenerable& bytes : block_) kept += bytes.size;
    for (const LeftOut& range : chosen) {
      const auto at = std::ranges::upper_bound(block_, range.offset, {}, &LeftOut::offset) - 1;
      left_out_[at->channel] += range.size;
      kept -= range.size;
    }
    budget_.stored(events + kept);
    stored_ += events + kept;
    block_.clear();
    foreign_.clear();
  }
  uint64_t stored() const { return stored_; }
  double share_left_out(uint64_t channel) {
    return static_cast<double>(left_out_[channel]) / static_cast<double>(received_[channel]);
  }

 private:
  static Budget::NamesOf names() {
    return [](uint64_t channel) {
      return Budget::Names{channel % 2 ? "stream" : "pipe", fmt::format("10.0.0.{}:80", channel)};
    };
  }
  LeanOptions options_;
  Budget budget_;
  std::vector<Regenerable> block_, foreign_;
  std::map<uint64_t, uint64_t> received_, left_out_;
  uint64_t offset_ = 5000, stored_ = 0;
};

TEST(Budget, ChannelsOfLowRateAreKept) {
  Node node({100'000, {}, {}});
  for (int n = 0; n < 6000; n++) {  // a minute
    const double at = n / 100.0;
    node.receive(at, 1, 20'000);                // 2 MB a second
    if (n % 10 == 0) node.receive(at, 2, 300);  // 3 KB a second
    if (n % 100 == 0) node.receive(at, 3, 900);
    if (n % 50 == 0) node.store(5'000);
  }
  EXPECT_GT(node.share_left_out(1), 0.93);
  EXPECT_EQ(node.share_left_out(2), 0);
  EXPECT_EQ(node.share_left_out(3), 0);
  EXPECT_LT(node.stored(), 100'000u * (60 + 10));
}

TEST(Budget, ManyChannelsOfLowRateAreABulkTogether) {
  Node node({100'000, {}, {}});
  std::mt19937 random(3);
  for (int n = 0; n < 60'000; n++) {  // 1,000 channels of 1 KB a second each
    node.receive(n / 1000.0, 10 + random() % 1000, 1000);
    if (n % 1000 == 0) node.receive(n / 1000.0, 1, 100);
    if (n % 4000 == 0) node.store(10'000);
  }
  EXPECT_EQ(node.share_left_out(1), 0);
  EXPECT_LT(node.stored(), 100'000u * (60 + 10 + 10));
  EXPECT_GT(node.stored(), 100'000u * 30);
}

TEST(Budget, ABurstOfAQuietChannelPasses) {
  Node node({100'000, {}, {}});
  for (int n = 0; n < 3000; n++) {
    const double at = n / 100.0;
    node.receive(at, 1, 50'000);
    if (n == 2500)
      for (int more = 0; more < 20; more++) node.receive(at, 2, 1000);
    else if (n % 100 == 0) node.receive(at, 2, 100);
    if (n % 20 == 0) node.store(500);
  }
  EXPECT_EQ(node.share_left_out(2), 0);
  EXPECT_GT(node.share_left_out(1), 0.95);
}

TEST(Budget, WhatHasBeenQuietMayBeLoudForAWhile) {
  Node node({100'000, {}, {}});
  node.receive(0, 1, 100);
  node.store(100);
  for (int n = 0; n < 100; n++) node.receive(600 + n / 100.0, 1, 5000);  // half a megabyte within a second
  node.store(100);
  EXPECT_EQ(node.share_left_out(1), 0);
}

TEST(Budget, NoBudgetAndNoRoom) {
  for (const uint64_t budget : {0, 1}) {
    Node node({budget, {}, {}});
    for (int n = 0; n < 500; n++) {
      node.receive(n / 10.0, 1, 1000);
      node.receive(n / 10.0, 2, 70);
      if (n % 10 == 0) node.store(10'000);
    }
    EXPECT_GT(node.share_left_out(1), budget ? 0.95 : 0.93) << budget;
  }
}

TEST(Budget, PatternsDecideBeforeTheBudget) {
  Node node({100'000, {"10.0.0.5:*"}, {"pipe"}});
  for (int n = 0; n < 2000; n++) {
    const double at = n / 100.0;
    for (const uint64_t channel : {4, 5, 7}) node.receive(at, channel, channel == 4 ? 100 : 20'000);
    if (n % 20 == 0) node.store(1000);
  }
  EXPECT_GT(node.share_left_out(4), 0.6) << "a pipe; the heads of its messages stay";
  EXPECT_EQ(node.share_left_out(5), 0);
  EXPECT_GT(node.share_left_out(7), 0.9);
}

TEST(Budget, OfStrangersOnlyWhatIsNamedIsLetGo) {
  Node node({.budget = 100'000, .keep = {}, .drop = {}, .let_go = {"stream"}});
  for (int n = 0; n < 6000; n++) {
    const double at = n / 100.0;
    node.receive_of_a_stranger(at, 1, 20'000);
    node.receive_of_a_stranger(at, 2, 20'000);
    node.receive(at, 3, 20'000);
    if (n % 100 == 0) node.receive_of_a_stranger(at, 5, 200);
    if (n % 10 == 9) node.store(2'000);
  }
  EXPECT_GT(node.share_left_out(1), 0.9);
  EXPECT_EQ(node.share_left_out(2), 0);  // a pipe, which nobody has named
  EXPECT_GT(node.share_left_out(3), 0.9);
  EXPECT_EQ(node.share_left_out(5), 0) << "a channel of low rate";
}

}  // namespace
}  // namespace friday
