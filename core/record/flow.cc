#include "core/record/flow.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace friday {
namespace {

using Kind = FlowInstruction::Kind;
constexpr size_t kNone = std::numeric_limits<size_t>::max();

// Instructions of which either all are executed or none. The blocks and their edges by number.
struct Block {
  size_t first = 0, last = 0;  // indices of instructions; `last`: behind the last one
  std::vector<size_t> to{}, from{};
  size_t order = kNone;      // in a reverse postorder from the function's start; kNone: nothing leads here
  size_t dominator = kNone;  // the nearest block through which each way here leads
};

class Graph {
 public:
  explicit Graph(std::span<const FlowInstruction> code) : code_(code) {
    make_blocks();
    connect();
    order();
    dominate();
  }

  std::vector<NaturalLoop> loops(uint64_t most) const {
    std::vector<NaturalLoop> found;
    for (size_t header = 0; header < blocks_.size(); header++)
      for (const size_t latch : blocks_[header].from)
        if (dominates(header, latch))
          if (auto loop = loop_of(header, latch, most)) found.push_back(std::move(*loop));
    return found;
  }

 private:
  std::optional<size_t> index_of(uint64_t address) const {
    const auto at = std::ranges::lower_bound(code_, address, {}, &FlowInstruction::address);
    if (at == code_.end() || at->address != address) return std::nullopt;
    return static_cast<size_t>(at - code_.begin());
  }

  size_t block_of(size_t instruction) const {
    const auto behind = std::ranges::upper_bound(blocks_, instruction, {}, &Block::first);
    return static_cast<size_t>(behind - blocks_.begin()) - 1;
  }

  void make_blocks() {
    std::vector<bool> leads(code_.size());
    leads[0] = true;
    for (size_t i = 0; i < code_.size(); i++) {
      if (code_[i].kind == Kind::plain) continue;
      if (i + 1 < code_.size()) leads[i + 1] = true;
      if (code_[i].target)
        if (const auto at = index_of(code_[i].target)) leads[*at] = true;
    }
    for (size_t i = 0; i < code_.size(); i++) {
      if (leads[i]) blocks_.push_back({.first = i});
      blocks_.back().last = i + 1;
    }
  }

  void connect(size_t from, size_t to) {
    blocks_[from].to.push_back(to);
    blocks_[to].from.push_back(from);
  }

  void connect() {
    std::vector<size_t> unknown;
    for (size_t b = 0; b < blocks_.size(); b++) {
      const FlowInstruction& last = code_[blocks_[b].last - 1];
      if (last.kind == Kind::leaves) unknown.push_back(b);
      if ((last.kind == Kind::plain || last.kind == Kind::branch) && b + 1 < blocks_.size()) connect(b, b + 1);
      if (last.kind == Kind::branch || last.kind == Kind::jump)
        if (const auto at = index_of(last.target)) connect(b, block_of(*at));
    }
    if (unknown.empty()) return;
    std::vector<size_t> lost;
    for (size_t b = 1; b < blocks_.size(); b++)
      if (blocks_[b].from.empty() && !code_[blocks_[b].first].padding) lost.push_back(b);
    constexpr size_t kMost = 1 << 16;  // edges; a function with more gets none of them
    if (unknown.size() * lost.size() > kMost) return;
    for (const size_t from : unknown)
      for (const size_t to : lost) connect(from, to);
  }

  // Numbers the blocks in a reverse postorder of a depth-first search.
  void order() {
    struct Visit {
      size_t block, next;
    };
    std::vector<Visit> way{{0, 0}};
    std::vector<bool> seen(blocks_.size());
    seen[0] = true;
    while (!way.empty()) {
      Visit& visit = way.back();
      const auto& to = blocks_[visit.block].to;
      if (visit.next < to.size()) {
        const size_t next = to[visit.next++];
        if (!seen[next]) way.push_back({next, 0});
        seen[next] = true;
      } else {
        ordered_.push_back(visit.block);
        way.pop_back();
      }
    }
    std::ranges::reverse(ordered_);
    for (size_t i = 0; i < ordered_.size(); i++) blocks_[ordered_[i]].order = i;
  }

  size_t common_dominator(size_t a, size_t b) const {
    while (a != b) {
      while (blocks_[a].order > blocks_[b].order) a = blocks_[a].dominator;
      while (blocks_[b].order > blocks_[a].order) b = blocks_[b].dominator;
    }
    return a;
  }

  // The algorithm of Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm (2001).
  void dominate() {
    blocks_[0].dominator = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (const size_t b : std::span(ordered_).subspan(1)) {
        size_t nearest = kNone;
        for (const size_t from : blocks_[b].from) {
          if (blocks_[from].dominator == kNone) continue;
          nearest = nearest == kNone ? from : common_dominator(nearest, from);
        }
        changed = changed || nearest != blocks_[b].dominator;
        blocks_[b].dominator = nearest;
      }
    }
  }

  bool dominates(size_t above, size_t below) const {
    if (blocks_[below].order == kNone || blocks_[above].order == kNone) return false;
    while (blocks_[below].order > blocks_[above].order) below = blocks_[below].dominator;
    return below == above;
  }

  uint64_t size_of(const Block& block) const {
    const FlowInstruction& last = code_[block.last - 1];
    return last.address + last.length - code_[block.first].address;
  }

  // The blocks from which `latch`, which leads back, can be reached without a way through `header`. None if they are
  // too large.
  std::optional<NaturalLoop> loop_of(size_t header, size_t latch, uint64_t most) const {
    NaturalLoop loop{.size = size_of(blocks_[header])};
    std::vector<size_t> body{header};
    const auto take = [&](size_t block) {
      if (blocks_[block].order == kNone || std::ranges::find(body, block) != body.end()) return;
      body.push_back(block);
      loop.size += size_of(blocks_[block]);
    };
    take(latch);
    for (size_t i = 1; i < body.size() && loop.size <= most; i++)
      for (const size_t from : blocks_[body[i]].from) take(from);
    if (loop.size > most) return std::nullopt;
    std::ranges::sort(body);
    for (const size_t b : body) {
      loop.parts.push_back({blocks_[b].first, blocks_[b].last, dominates(b, latch)});
      for (size_t i = blocks_[b].first; i < blocks_[b].last; i++) loop.calls = loop.calls || code_[i].call;
    }
    return loop;
  }

  std::span<const FlowInstruction> code_;
  std::vector<Block> blocks_;
  std::vector<size_t> ordered_;
};

}  // namespace

FlowInstruction flow_instruction(uint64_t address, const ZydisDecodedInstruction& decoded) {
  FlowInstruction in{.address = address, .length = decoded.length, .padding = decoded.mnemonic == ZYDIS_MNEMONIC_NOP};
  const bool direct = decoded.raw.imm[0].is_relative;
  switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_COND_BR: in.kind = Kind::branch; break;
    case ZYDIS_CATEGORY_UNCOND_BR: in.kind = direct ? Kind::jump : Kind::leaves; break;
    case ZYDIS_CATEGORY_RET: in.kind = Kind::ends; break;
    case ZYDIS_CATEGORY_CALL: in.call = true; break;
    default:
      if (decoded.mnemonic == ZYDIS_MNEMONIC_UD2 || decoded.mnemonic == ZYDIS_MNEMONIC_HLT) in.kind = Kind::ends;
  }
  if (in.kind == Kind::branch || in.kind == Kind::jump)
    in.target = address + decoded.length + static_cast<uint64_t>(decoded.raw.imm[0].value.s);
  return in;
}

std::vector<NaturalLoop> natural_loops(std::span<const FlowInstruction> code, uint64_t most) {
  constexpr size_t kMost = 1'000'000;
  return code.empty() || code.size() > kMost ? std::vector<NaturalLoop>() : Graph(code).loops(most);
}

}  // namespace friday
