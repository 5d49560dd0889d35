#include "core/trace/calls.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "core/shim/call_flags.h"
#include "core/trace/code_names.h"

namespace friday {

namespace {

constexpr std::string_view rule_text(std::string_view rule) {
  if (rule == "kEmulated") return "emulated";
  return rule == "kNative" ? "native" : "unhandled";
}

// Formats operands as "OUTS(FIX(1, 144)), INS(STR(0))", leaving out empty lists.
constexpr std::string_view operands_text(std::string_view text) {
  constexpr std::string_view no_outputs = "OUTS(), ", no_inputs = "INS()";
  if (text.starts_with(no_outputs)) text.remove_prefix(no_outputs.size());
  if (text == no_inputs) return "";
  if (text.ends_with(", INS()")) text.remove_suffix(7);
  return text;
}

constexpr size_t kMostCalls = 1024;

constexpr auto kNamesOfCalls = [] {
  std::array<std::string_view, kMostCalls> table{};
#define CALL(number, name, arguments, rule, flags, outputs, inputs) table[number] = #name;
#include "core/shim/calls.def"
  return table;
}();

constexpr CallRule kRules[] = {
#define CALL(number, name, arguments, rule, flags, outputs, inputs) \
  {number, #name, sizeof arguments - 1, rule_text(#rule), operands_text(#outputs ", " #inputs)},
#define BY_CODE(number, name, arguments, flags, inputs, what) \
  {number, #name, sizeof arguments - 1, "emulated", operands_text(what ", " #inputs)},
#define SPECIAL(number, name, arguments, flags, inputs, what) \
  {number, #name, sizeof arguments - 1, "special", operands_text(what ", " #inputs)},
#define REFUSE(number, name, why) {number, #name, 0, "refused", "ENOSYS: " why},
#include "core/shim/calls.def"
};

}  // namespace

std::string_view call_name(unsigned number) {
  return number < kNamesOfCalls.size() ? kNamesOfCalls[number] : std::string_view();
}

std::span<const CallRule> call_rules() { return kRules; }

std::string call_text(unsigned number) {
  std::string_view name = call_name(number);
  return name.empty() ? fmt::format("call {}", number) : std::string(name);
}

namespace {

// Parses codes in the form in which an end record stores them: "0x8946 0x4b".
std::vector<uint64_t> codes_in(std::string_view text) {
  std::vector<uint64_t> codes;
  while (text.starts_with("0x")) {
    uint64_t code = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), code, 16);
    if (error != std::errc{}) break;
    codes.push_back(code);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return codes;
}

}  // namespace

std::string ended_at_call_text(unsigned number, std::string_view about) {
  const bool filter = number == SYS_prctl || number == SYS_seccomp;
  const std::string what = about.starts_with("0x") ? code_text(number, codes_in(about)) : std::string(about);
  const std::string more =
      what.empty() || what == call_name(number) || what == "unknown" ? "" : fmt::format(", {}", what);
  return fmt::format(
      "recording ended at call {} ({}){}, which {}; the program went on", call_text(number), number, more,
      filter                     ? "sets a seccomp filter or its like: that would judge Friday's own calls"
      : what == "PTRACE_TRACEME" ? "makes its parent its tracer: a process is not recorded while it is traced"
                                 : "is not handled");
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

std::string errno_text(int number) {
  const char* name = strerrorname_np(number);
  return name ? name : fmt::format("errno {}", number);
}

namespace {

using namespace shim;

constexpr auto kFlagsOfCalls = [] {
  std::array<uint32_t, kMostCalls> table{};
#define CALL(number, name, arguments, rule, flags, outputs, inputs) table[number] = flags;
#include "core/shim/calls.def"
  return table;
}();

}  // namespace

uint32_t call_flags(unsigned number) { return number < kFlagsOfCalls.size() ? kFlagsOfCalls[number] : 0; }

namespace {

// `rest`: "BUF(1, 2), FIX(4, 16))".
std::vector<CallInput> inputs_in(std::string_view rest) {
  const auto skip = [&] {
    while (rest.starts_with(',') || rest.starts_with(' ')) rest.remove_prefix(1);
  };
  std::vector<CallInput> inputs;
  for (size_t open; (open = rest.find('(')) != std::string_view::npos;) {
    CallInput input{rest.substr(0, open), {}};
    rest.remove_prefix(open + 1);
    for (size_t i = 0; i < input.operands.size() && !rest.starts_with(')'); i++, skip()) {
      const char* end = std::from_chars(rest.data(), rest.data() + rest.size(), input.operands[i]).ptr;
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    }
    inputs.push_back(input);
    rest.remove_prefix(std::min(rest.size(), rest.find(')') + 1));
    skip();
  }
  return inputs;
}

}  // namespace

const std::vector<CallInput>& call_inputs(unsigned number) {
  static const auto all = [] {
    constexpr std::string_view kInputs = "INS(";
    std::vector<std::vector<CallInput>> inputs(kMostCalls + 1);
    for (const CallRule& rule : kRules)
      if (const size_t at = rule.detail.find(kInputs); at != std::string_view::npos)
        inputs[rule.number] = inputs_in(rule.detail.substr(at + kInputs.size()));
    return inputs;
  }();
  return all[std::min<size_t>(number, kMostCalls)];
}

SentFrom sent_from(unsigned number) {
  using Shape = SentFrom::Shape;
  if (!(call_flags(number) & kOut)) return {};
  const std::vector<CallInput>& inputs = call_inputs(number);
  if (inputs.empty()) return {};
  const CallInput& first = inputs.front();
  for (const auto& [name, shape] : {std::pair("BUF", Shape::buffer), std::pair("IOV", Shape::vector),
                                    std::pair("MSG", Shape::message), std::pair("MMSG", Shape::messages)})
    if (first.shape == name) return {shape, first.operands[0], first.operands[1]};
  return {};
}

bool has_outgoing_effect(unsigned call) { return is_outgoing(call_flags(call)); }

}  // namespace friday
