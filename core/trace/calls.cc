#include "core/trace/calls.h"

#include <sys/syscall.h>

#include <cstring>

#include <fmt/format.h>

namespace friday {

std::string_view call_name(unsigned number) {
  switch (number) {
#define CALL(number, name, ...) \
  case number:                  \
    return #name;
#define SPECIAL(number, name, ...) CALL(number, name)
#define REFUSE(number, name, why) CALL(number, name)
#include "core/shim/calls.def"
#undef REFUSE
#undef SPECIAL
#undef CALL
    default:
      return {};
  }
}

namespace {

constexpr std::string_view rule_text(std::string_view rule) {
  if (rule == "kEmulated") return "emulated";
  return rule == "kNative" ? "native" : "unhandled";
}

// "OUTS(FIX(1, 144)), INS(STR(0))" without what is empty.
constexpr std::string_view operands_text(std::string_view text) {
  constexpr std::string_view no_outputs = "OUTS(), ", no_inputs = "INS()";
  if (text.starts_with(no_outputs)) text.remove_prefix(no_outputs.size());
  if (text == no_inputs) return "";
  if (text.ends_with(", INS()")) text.remove_suffix(7);
  return text;
}

constexpr CallRule kRules[] = {
#define CALL(number, name, arity, rule, flags, outputs, inputs) {number, #name, arity, rule_text(#rule), operands_text(#outputs ", " #inputs)},
#define SPECIAL(number, name, arity, flags, inputs, what) {number, #name, arity, "special", what},
#define REFUSE(number, name, why) {number, #name, 0, "refused", "ENOSYS: " why},
#include "core/shim/calls.def"
#undef REFUSE
#undef SPECIAL
#undef CALL
};

}  // namespace

std::span<const CallRule> call_rules() { return kRules; }

std::string call_text(unsigned number) {
  std::string_view name = call_name(number);
  return name.empty() ? fmt::format("call {}", number) : std::string(name);
}

std::string ended_at_call_text(unsigned number) {
  const bool filter = number == SYS_prctl || number == SYS_seccomp;
  return fmt::format("recording ended at call {} ({}), which {}; the program went on", call_text(number), number,
                     filter ? "sets a seccomp filter or its like: that would judge Friday's own calls" : "is not handled");
}

std::string signal_text(int number) {
  const char* name = sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

std::string errno_text(int number) {
  const char* name = strerrorname_np(number);
  return name ? name : fmt::format("errno {}", number);
}

bool has_outgoing_effect(unsigned call) {
  switch (call) {
    case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_pwritev2:
    case SYS_sendto: case SYS_sendmsg: case SYS_sendmmsg: case SYS_sendfile: case SYS_splice: case SYS_tee:
    case SYS_vmsplice: case SYS_copy_file_range:
    case SYS_connect: case SYS_shutdown: case SYS_close: case SYS_close_range: case SYS_dup2: case SYS_dup3:
    case SYS_listen: case SYS_bind:
    case SYS_kill: case SYS_tkill: case SYS_tgkill: case SYS_rt_sigqueueinfo: case SYS_rt_tgsigqueueinfo:
    case SYS_fork: case SYS_vfork: case SYS_clone: case SYS_clone3: case SYS_execve: case SYS_execveat:
    case SYS_exit: case SYS_exit_group:
    case SYS_rename: case SYS_renameat: case SYS_renameat2: case SYS_unlink: case SYS_unlinkat: case SYS_link:
    case SYS_linkat: case SYS_symlink: case SYS_symlinkat: case SYS_mkdir: case SYS_mkdirat: case SYS_rmdir:
    case SYS_truncate: case SYS_ftruncate: case SYS_fallocate: case SYS_chmod: case SYS_fchmod: case SYS_fchmodat:
    case SYS_utimensat: case SYS_setxattr: case SYS_fsetxattr:
    case SYS_mq_timedsend: case SYS_msgsnd:
      return true;
    default:
      return false;
  }
}

}  // namespace friday
