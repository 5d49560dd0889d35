// A node as its gdb sees and changes it. gdb writes registers one after another, be it to call a function or to change
// a variable that lives in one. Here the writes are collected: a call begins with all of them when gdb resumes the
// node, and ends when gdb has put everything back; any other change takes effect when gdb's command is done.
//
// All else goes straight to the node. Used on the session's thread.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/replay/node.h"

namespace friday {

class ClientView final : public NodeControl {
 public:
  explicit ClientView(ReplayNode& node) : node_(&node) {}

  // The node was built anew.
  void rebind(ReplayNode& node) {
    node_ = &node;
    edits_.clear();
  }

  // gdb resumes the node: a thread whose stack pointer went down is sent into a call, all other writes take effect.
  Result<void> commit();
  // gdb's command is done. Ends a call that did not come back; true if there was one.
  Result<bool> end_command();
  // Whether gdb has changed the node's memory or registers since the last time this was asked.
  bool take_changed() { return std::exchange(changed_, false); }

  NodeId id() const override { return node_->id(); }
  std::vector<ThreadInfo> threads() override { return node_->threads(); }
  Result<void> read(Addr address, std::span<std::byte> out) override { return node_->read(address, out); }
  Result<void> write(Addr address, std::span<const std::byte> data) override {
    changed_ = true;
    return node_->write(address, data);
  }
  Result<void> read_raw(Addr address, std::span<std::byte> out) override { return node_->read_raw(address, out); }
  Result<void> write_raw(Addr address, std::span<const std::byte> data) override {
    return node_->write_raw(address, data);
  }
  Result<user_regs_struct> registers(ThreadId thread) override;
  Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) override;
  Result<std::vector<std::byte>> extended_state(ThreadId thread) override;
  Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) override;
  Result<int64_t> inject(long number, std::span<const uint64_t> arguments) override {
    return node_->inject(number, arguments);
  }
  Result<void> single_step(ThreadId thread) override { return node_->single_step(thread); }
  Result<std::vector<Mapping>> mappings() override { return node_->mappings(); }
  Result<std::vector<std::byte>> auxv() override { return node_->auxv(); }
  std::string executable() override { return node_->executable(); }
  bool is_fridays(Addr address) override { return node_->is_fridays(address); }

 private:
  struct Edit {
    std::optional<user_regs_struct> before, wanted;
    std::optional<std::vector<std::byte>> extended;
  };
  Result<void> apply(ThreadId thread, const Edit& edit, bool resuming);

  ReplayNode* node_;
  std::map<ThreadId, Edit> edits_;
  bool changed_ = false;
};

}  // namespace friday
