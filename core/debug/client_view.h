// A node as its gdb sees and changes it. gdb writes registers one at a time, both to call a function and to change a
// variable that is in a register. This class collects the writes. If gdb then resumes the node, they start a call of a
// function, which ends when gdb has restored all registers. Otherwise they take effect when gdb's command is done.
//
// Everything else is passed to the node at once. Use on the session's thread only.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/replay/memory_copy.h"
#include "core/replay/node.h"

namespace friday {

class ClientView final : public NodeControl {
 public:
  explicit ClientView(ReplayNode& node) : node_(&node) {}

  // Call when the node was rebuilt.
  void rebind(ReplayNode& node) {
    node_ = &node;
    edits_.clear();
    stored_ = workspace_written_ = false;
    writes_.clear();
    dead_stack_.clear();
  }

  // Call when gdb resumes the node. A thread whose stack pointer was lowered starts a call of a function; all other
  // writes take effect.
  Result<void> commit();
  // Call when gdb's command is done. All writes take effect, and calls that have not returned are ended; returns
  // whether there were any.
  Result<bool> end_command();
  // Whether gdb has changed the program's memory or registers since the last time this was asked, but for what it
  // changes in order to call a function. After a call that has failed gdb puts registers back.
  bool take_stored(bool call_has_failed = false) {
    const bool stored = (std::exchange(stored_, false) && !call_has_failed) || !writes_.empty();
    writes_.clear();
    return stored;
  }
  // The same while gdb may be preparing a call. What it has written below the stack pointer of a thread may be the
  // call's arguments, and stays for the next question.
  bool take_settled();
  // Whether gdb has written to the workspace since the last time this was asked. That alters nothing, but what was read
  // there is out of date.
  bool take_workspace_write() { return std::exchange(workspace_written_, false); }
  // Why the last change was refused, and none was since the last time this was asked.
  std::optional<Error> take_refusal() { return std::exchange(refusal_, std::nullopt); }

  NodeId id() const override { return node_->id(); }
  std::vector<ThreadInfo> threads() override { return node_->threads(); }
  Result<void> read(Addr address, std::span<std::byte> out) override { return node_->read(address, out); }
  Result<void> write(Addr address, std::span<const std::byte> data) override;
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
  // Bytes that gdb has written over.
  struct Write {
    Addr address;
    std::vector<std::byte> before;
  };
  Result<void> check_can_change();
  Result<void> apply(ThreadId thread, const Edit& edit, bool resuming);
  void note_stored();
  bool is_programs(Addr address) const;
  void note_write(Addr address, size_t size);
  bool is_on_dead_stack(const Write& write);
  void keep_dead_stack(ThreadId thread, uint64_t stack_pointer);

  ReplayNode* node_;
  std::map<ThreadId, Edit> edits_;
  bool stored_ = false;             // registers
  bool workspace_written_ = false;  // at a place in Friday's own areas
  std::optional<Error> refusal_;
  std::vector<Write> writes_;                 // since the last take_stored(), in this order; not those for a call
  std::map<ThreadId, DeadStack> dead_stack_;  // by thread that executes a call, as it was before gdb prepared that
};

}  // namespace friday
