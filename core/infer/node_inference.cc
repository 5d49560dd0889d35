#include "core/infer/node_inference.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/infer/input_check.h"
#include "core/infer/register_file.h"
#include "core/infer/summaries.h"
#include "core/stop/registers.h"
#include "core/trace/calls.h"

namespace friday::infer {

namespace {

// Registers by which a system call gets its number and its arguments (syscall(2)), as in Registers::general.
constexpr uint32_t kCallNumber = 0, kCallArguments[] = {7, 6, 2, 10, 8, 9};

std::vector<std::byte> bytes_of(uint64_t value, size_t count) {
  const auto bytes = std::as_bytes(std::span(&value, 1)).first(count);
  return {bytes.begin(), bytes.end()};
}

// Of many arguments the kernel looks at the lower half only, and the recording has them with their sign.
size_t significant_bytes(uint64_t value) {
  return value >> 32 == 0 || value == static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value))) ? 4 : 8;
}

// What the recording says of the call at which the code arrives.
std::vector<Value> demands_of(EventView next) {
  std::vector<Value> demands;
  if (!next.has_call()) return demands;
  demands.push_back({Of::general_register, kCallNumber, 0, bytes_of(next->call, 4)});
  for (unsigned i = 0; i < next->argument_count && i < std::size(kCallArguments); i++) {
    const uint64_t value = next.argument(i);
    demands.push_back({Of::general_register, kCallArguments[i], 0, bytes_of(value, significant_bytes(value))});
  }
  return demands;
}

std::string text_of(const RunFailure& failure) {
  switch (failure.why) {
    case Why::impossible:
      return "no bytes lead where the recording says; the code that handles them is not the code that was recorded";
    case Why::too_long: return "the code that handles it runs longer than the limit for one stretch";
    case Why::too_many_paths: return "too many paths through the code that handles it were tried in vain";
    case Why::time: return "finding it out takes longer, or more memory, than the limit";
    case Why::instruction: return fmt::format("the instruction at {:#x} is not known", failure.address);
    case Why::address: return fmt::format("the instruction at {:#x} uses memory that is not there", failure.address);
    case Why::protocol: return "friday-infer was asked for something impossible";
  }
  return "?";
}

}  // namespace

Result<NodeInference> NodeInference::begin(ReplaySession& session, ReplayNode& node, std::vector<MissingBytes> missing,
                                           const InferenceOptions& options) {
  FRIDAY_TRY(index, TraceIndex::build(node.reader()));
  FRIDAY_TRY(memory, open_file(memory_directory(node.process().pid()) + "/mem", O_RDONLY));
  FRIDAY_TRY(solver, SolverLink::start(options.program, memory.get(), options.limits));
  std::ranges::stable_sort(missing, {}, &MissingBytes::event);
  NodeInference inference(session, node, std::move(missing), std::move(index), std::move(solver), options);
  inference.next_stop_ = inference.missing_.front().event;
  if (!node.set_control(&shim::Control::stop_in_handlers, 1u)) return std::unexpected(process_gone(node.id()));
  return inference;
}

Error NodeInference::problem(uint64_t event, const std::string& text) const {
  return {ErrorCode::unsupported,
          fmt::format("node {} ({}), event {}: what it received, and nobody has, cannot be inferred: {}", node_.id(),
                      printable(node_.info().name), event, text),
          node_.id().value, event};
}

std::optional<uint64_t> NodeInference::next_of_thread(uint32_t number, uint64_t event) const {
  const TraceIndex::Thread* thread = index_.thread(number);
  if (!thread) return std::nullopt;
  const auto next = std::ranges::upper_bound(thread->events, event);
  return next == thread->events.end() ? std::nullopt : std::optional(*next);
}

Result<void> NodeInference::go_on() {
  const uint64_t number = *next_stop_;
  next_stop_ = number + 1 < index_.event_count() ? std::optional(number + 1) : std::nullopt;
  FRIDAY_TRY(current, event(number));
  if (current.type() == format::kRelease) return {};  // the thread waits in its call, and nothing of it runs
  FRIDAY_TRY(lives, complete(current));
  if (!lives) return next_stop_.reset(), Result<void>();
  // With the event the handler of a signal may have been entered, which is an event, too.
  const uint64_t done = std::max(number + 1, std::min(node_.events_done(), index_.event_count()));
  for (uint64_t each = number; each < done; each++) {
    FRIDAY_TRY(completed, event(each));
    if (completed.thread() != current.thread() && !shadow_.empty())
      return std::unexpected(problem(each, "another thread ran in the middle of a call"));
    FRIDAY_TRY_VOID(note_memory(completed));
    FRIDAY_TRY_VOID(note_missing(completed));
  }
  next_stop_ = done < index_.event_count() ? std::optional(done) : std::nullopt;
  FRIDAY_TRY_VOID(note_shadow(done));
  const auto next = next_of_thread(current.thread(), done - 1);
  if (!shadow_.empty() && next) {
    FRIDAY_TRY(then, event(*next));
    FRIDAY_TRY_VOID(run_to(then, done));
  }
  if (shadow_.empty() && std::ranges::all_of(registers_, [](const auto& each) { return each.second == 0; }))
    next_stop_ = known_of_ < missing_.size() ? std::optional(missing_[known_of_].event) : std::nullopt;
  return {};
}

Result<bool> NodeInference::complete(EventView current) {
  const auto next = next_of_thread(current.thread(), current->index);
  if (current.type() == format::kThreadExit || !next) return true;
  if (current.type() == format::kSignal) return enter_handler(current->index);
  FRIDAY_TRY(then, event(*next));
  if (then.type() == format::kSignal && *next == current->index + 1) return enter_handler(*next);
  return step(current);
}

Result<bool> NodeInference::step(EventView current) {
  const ThreadId thread{current.thread()};
  FRIDAY_TRY_VOID(session_.stop_at(node_.id(), ~uint64_t{0}));
  FRIDAY_TRY(stop, session_.step(node_.id(), thread));
  if (node_.state() == NodeState::ended) return false;
  if (stop.kind == Stop::Kind::step && stop.node == node_.id() && stop.thread == thread) return true;
  return std::unexpected(stopped_otherwise(current->index, stop));
}

// Goes on to the first instruction of a signal's handler: a step over the call would run through it.
Result<bool> NodeInference::enter_handler(uint64_t signal) {
  FRIDAY_TRY_VOID(session_.stop_at(node_.id(), signal + 1));
  for (;;) {
    FRIDAY_TRY(stop, session_.run());
    if (node_.state() == NodeState::ended) return false;
    if (stop.kind != Stop::Kind::event || stop.node != node_.id())
      return std::unexpected(stopped_otherwise(signal, stop));
    if (node_.events_done() > signal) break;
  }
  // There the thread is still in the shim.
  FRIDAY_TRY(signalled, event(signal));
  return step(signalled);
}

Error NodeInference::stopped_otherwise(uint64_t event, const Stop& stop) const {
  if (stop.kind == Stop::Kind::divergence) return {ErrorCode::diverged, describe(*stop.divergence)};
  return problem(event,
                 fmt::format("the replay stopped there for another reason: {} {}", name_of(stop.kind), stop.message));
}

// Where the frame ends that the kernel builds for a handler (arch/x86/include/uapi/asm/sigcontext.h): behind the state
// of the vector registers, whose size stands in it. `frame`: the stack pointer when the handler is entered.
Result<uint64_t> NodeInference::end_of_frame(uint64_t frame) {
  uint64_t state = 0;
  FRIDAY_TRY_VOID(node_.read(Addr{frame + sizeof(uint64_t) + offsetof(ucontext_t, uc_mcontext.fpregs)},
                             std::as_writable_bytes(std::span(&state, 1))));
  struct {
    uint32_t magic, all_bytes;
  } software{};  // struct _fpx_sw_bytes
  constexpr uint64_t kSoftwareAt = 464;
  FRIDAY_TRY_VOID(node_.read(Addr{state + kSoftwareAt}, std::as_writable_bytes(std::span(&software, 1))));
  return state + (software.magic ? software.all_bytes : sizeof(_libc_fpstate));
}

// What the event has written into the program's memory is known.
Result<void> NodeInference::note_memory(EventView current) {
  if (shadow_.empty()) return {};
  for (PartView part : current.parts()) {
    if (part.kind() == format::kMemory) FRIDAY_TRY_VOID(solver_.known(part.address(), part.bytes().size()));
    if (part.child() && !shadow_.empty())
      return std::unexpected(problem(current->index, "a process is forked while others of its memory depend on it"));
  }
  if (current.is_clock()) FRIDAY_TRY_VOID(solver_.known(current.clock_address(), 2 * sizeof(uint64_t)));
  if (current.type() != format::kSignal) return note_mapping(current);
  // The frame has the registers of the code that was interrupted, whose dependence is not followed through it.
  if (registers_[current.thread()])
    return std::unexpected(problem(current->index, "a signal's handler runs while registers depend on it"));
  FRIDAY_TRY(registers, node_.registers(ThreadId{current.thread()}));
  FRIDAY_TRY(end, end_of_frame(registers.rsp));
  return solver_.known(registers.rsp, end - registers.rsp);
}

Result<void> NodeInference::note_mapping(EventView current) {
  if (!(current->header.flags & format::kFlagNative) || current->result < 0 || !current.has_call()) return {};
  const auto result = static_cast<uint64_t>(current->result);
  switch (current->call) {
    case SYS_mmap: return solver_.known(result, current.argument(1));
    case SYS_munmap: return solver_.known(current.argument(0), current.argument(1));
    case SYS_madvise:
      return current.argument(2) == 4 /* MADV_DONTNEED */ ? solver_.known(current.argument(0), current.argument(1))
                                                          : Result<void>();
    case SYS_mremap:
      if (shadow_.overlaps(current.argument(0), current.argument(0) + current.argument(1)) &&
          result != current.argument(0))
        return std::unexpected(problem(current->index, "memory that depends on it is moved by mremap"));
      return {};
    default: return {};
  }
}

Result<void> NodeInference::note_missing(EventView current) {
  for (; known_of_ < missing_.size() && missing_[known_of_].event == current->index; known_of_++) {
    const MissingBytes& bytes = missing_[known_of_];
    FRIDAY_TRY_VOID(solver_.unknown(bytes.address, bytes.size, symbols_));
    symbols_ += bytes.size;
  }
  return {};
}

// Which memory depends on missing bytes from now on.
Result<void> NodeInference::note_shadow(uint64_t events_done) {
  if (symbols_ == 0) return {};
  FRIDAY_TRY(changes, solver_.shadow());
  for (const ShadowChange& each : changes) {
    if (each.length > ~each.address) return fail(ErrorCode::component_died, "friday-infer names memory that cannot be");
    found_.spans.push_back({events_done, each.address, each.length, each.depends != 0});
    if (each.depends) shadow_.add(each.address, each.address + each.length);
    else shadow_.remove(each.address, each.address + each.length);
  }
  return {};
}

// The program's own code, where Friday has changed it, and which of its functions are known as a whole.
Result<void> NodeInference::tell_code() {
  for (const PatchWindow& window : node_.patched_bytes().windows_between(Addr{0}, Addr{~uint64_t{0}}))
    if (told_.insert(window.low).second) FRIDAY_TRY_VOID(solver_.original(window.low, window.original));
  if (summaries_told_) return {};
  summaries_told_ = true;
  for (const auto& [address, function] : find_summaries(node_)) FRIDAY_TRY_VOID(solver_.summary(address, function));
  return {};
}

Result<void> NodeInference::run_to(EventView next, uint64_t events_done) {
  const ThreadId thread{next.thread()};
  if (!next.has_call() && next.type() != format::kInstruction && next.type() != format::kSignal)
    return std::unexpected(problem(next->index, "the code that handles it waits in a loop for another thread"));
  FRIDAY_TRY_VOID(tell_code());
  FRIDAY_TRY(general, node_.registers(thread));
  FRIDAY_TRY(extended, node_.extended_state(thread));
  Inputs inputs = Inputs::unknown;
  const auto judge = [&](End end) -> Result<bool> {
    if (next.type() == format::kSignal) return true;  // which comes wherever the code is
    if ((next.type() == format::kInstruction) != (end == End::instruction)) return false;
    FRIDAY_TRY(compared, compare_inputs(next, [&](uint64_t at, uint64_t length) { return solver_.look(at, length); }));
    inputs = compared;
    return inputs != Inputs::different;
  };
  FRIDAY_TRY(end, solver_.run(thread.value, register_file(general, extended), demands_of(next), judge));
  if (!end) {
    const std::string& more = end.error().text;
    return std::unexpected(problem(next->index, text_of(end.error()) + (more.empty() ? "" : " (" + more + ")")));
  }
  const Done& done = end->done;
  FRIDAY_LOG(replay, debug, "node {}: code before event {}: {} instructions, {} of them with what nobody has, {} paths",
             node_.id(), next->index, done.instructions, done.touched, done.paths);
  if (done.unchecked)
    return std::unexpected(
        problem(next->index, "the arguments of the call there depend on it in a way that is too hard"));
  FRIDAY_TRY_VOID(apply(end->patches, thread));
  FRIDAY_TRY_VOID(solver_.adopt());
  registers_[thread.value] = done.registers_shadowed;
  if (done.touched) found_.touched.push_back(events_done);
  FRIDAY_TRY_VOID(note_shadow(events_done + 1));
  // The frame of a signal has registers that no code uses any more, such as those with which memcpy(3) has copied.
  if (inputs == Inputs::depend || (next.has_call() && next->call == SYS_rt_sigreturn)) {
    found_.unchecked.push_back(next->index);
    session_.leave_unchecked(node_.id(), next->index);
  }
  return {};
}

Result<void> NodeInference::apply(const std::vector<Value>& patches, ThreadId thread) {
  FRIDAY_TRY(standing, node_.standing(thread));
  user_regs_struct registers = standing.hardware;
  bool changed = false;
  for (const Value& patch : patches) {
    if (patch.of == Of::memory) {
      if (!node_.process().write(patch.address, patch.bytes.data(), patch.bytes.size()))
        return std::unexpected(process_gone(node_.id()));
    } else {
      uint64_t value = general_register(registers, patch.number);
      memcpy(&value, patch.bytes.data(), patch.bytes.size());
      set_general_register(registers, patch.number, value);
      changed = true;
    }
  }
  const ReplayNode::Thread* found = node_.thread_of(thread);
  if (changed && (!found || !TracedProcess::set_registers(found->tid, registers)))
    return std::unexpected(process_gone(node_.id()));
  return {};
}

Result<InferredNode> NodeInference::finish() {
  uint64_t all = 0;
  for (const MissingBytes& bytes : missing_) all += bytes.size;
  std::vector<Symbol> symbols;
  if (symbols_) {
    FRIDAY_TRY(found, solver_.values(0, symbols_, options_.sureness));
    symbols = std::move(found);
  }
  symbols.resize(all);  // what was never received is free
  const auto [file, at] = session_.exchanged();
  auto next = symbols.begin();
  for (const MissingBytes& bytes : missing_) {
    std::vector<std::byte> values;
    for (uint64_t i = 0; i < bytes.size; i++, ++next) {
      values.push_back(std::byte{next->value});
      found_.sureness.push_back(next->sure == Sure::proved     ? Sureness::determined
                                : next->sure == Sure::inferred ? Sureness::inferred
                                                               : Sureness::free);
    }
    if (::pwrite(file, values.data(), values.size(), static_cast<off_t>(at + bytes.place)) !=
        static_cast<ssize_t>(values.size()))
      return fail_errno(errno, "cannot keep what was inferred");
  }
  std::ranges::sort(found_.unchecked);
  std::ranges::stable_sort(found_.spans, {}, &InferredSpan::events);
  return std::move(found_);
}

}  // namespace friday::infer
