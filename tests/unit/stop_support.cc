#include "tests/unit/stop_support.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/files.h"

namespace friday {

Result<void> PatchedNode::read(Addr address, std::span<std::byte> out) {
  FRIDAY_TRY_VOID(inner_.read_raw(address, out));
  patches_.show_original(address, out);
  return {};
}

Result<void> PatchedNode::write(Addr address, std::span<const std::byte> data) {
  std::vector<std::byte> bytes(data.begin(), data.end());
  patches_.keep_patches(address, bytes);
  return inner_.write_raw(address, bytes);
}

namespace {

std::unique_ptr<PtraceNode> launch(const std::vector<std::string>& arguments, std::string& output_path) {
  char name[] = "/tmp/friday-stop-test-XXXXXX";
  int fd = mkstemp(name);
  close(fd);
  output_path = name;
  PtraceNode::Options options;
  options.output = name;
  return PtraceNode::launched(arguments, options);
}

}  // namespace

Debuggee::Debuggee(std::vector<std::string> arguments)
    : process(launch(arguments, output_path)), node(*process, patches), thread(process->threads().at(0).id) {}

Debuggee::~Debuggee() { unlink(output_path.c_str()); }

void Debuggee::report(const Error& error) { ADD_FAILURE() << describe(error); }

uint64_t Debuggee::symbol(const std::string& name) {
  auto address = process->symbol(name);
  if (!address) report(address.error());
  return address ? address->value : 0;
}

PadArea Debuggee::map_pads(uint64_t near, uint64_t size) {
  auto page = [](uint64_t address) { return address & ~uint64_t{4095}; };
  uint64_t protection = PROT_READ | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS;
  for (uint64_t away = near == 0 ? 0 : uint64_t{1} << 24; away < uint64_t{1} << 31; away += uint64_t{1} << 24) {
    uint64_t hint = near == 0 ? 0 : page(near) + away;
    uint64_t arguments[] = {hint, size, protection, near == 0 ? flags : flags | MAP_FIXED_NOREPLACE, ~uint64_t{0}, 0};
    auto base = node.inject(SYS_mmap, arguments);
    if (base && *base > 0) return {Addr{static_cast<uint64_t>(*base)}, size};
  }
  ADD_FAILURE() << "no room for pads";
  return {};
}

bool Debuggee::go() {
  if (at_breakpoint_) {
    auto values = registers();
    auto over = breakpoints.step_over(thread, values);
    EXPECT_OK(over);
    if (over && *over == StepOver::in_registers) EXPECT_OK(node.set_registers(thread, values));
  }
  at_breakpoint_ = false;
  for (;;) {
    EXPECT_OK(watches.flush());
    auto stop = process->continue_and_wait();
    if (!stop) {
      report(stop.error());
      return false;
    }
    last = *stop;
    if (stop->kind != NodeStop::Kind::signal) return false;
    thread = stop->thread;
    auto address = Addr{reinterpret_cast<uint64_t>(stop->info.si_addr)};
    if (stop->signal == SIGSEGV && watches.protects(address)) {
      auto outcome = watches.on_fault(thread, address);
      EXPECT_OK(outcome);
      if (!outcome || outcome->how == FaultOutcome::How::not_ours) return false;
      if (on_watch) on_watch(*outcome);
      continue;
    }
    auto values = registers();
    if (stop->signal != SIGTRAP || !breakpoints.hit(values)) return false;
    EXPECT_OK(node.set_registers(thread, values));
    at_breakpoint_ = true;
    return true;
  }
}

void Debuggee::run_to(uint64_t address) {
  BreakpointOwner self{BreakpointOwner::Kind::internal, 999};
  EXPECT_OK(breakpoints.insert(Addr{address}, self));
  while (go() && registers().rip != address) {}
  EXPECT_EQ(registers().rip, address) << "stopped by " << last.signal;
  EXPECT_OK(breakpoints.remove(Addr{address}, self));
}

std::string Debuggee::finish() {
  while (process->alive() && go()) {}
  EXPECT_TRUE(last.kind == NodeStop::Kind::exited) << "signal " << last.signal << " at " << last.info.si_addr << " rip "
                                                   << (process->alive() ? fmt::format("{:#x}", registers().rip) : "");
  auto text = read_file(output_path);
  return text.value_or("");
}

}  // namespace friday
