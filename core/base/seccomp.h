// Builds a seccomp filter test by test. The filter examines one 32-bit word at a time: first the call number
// (load_call) and then, for a call selected by only_for(), the halves of its arguments.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace friday {

class SeccompProgram {
 public:
  // `refusal` is the action for a refused call, for example SECCOMP_RET_TRAP.
  explicit SeccompProgram(uint32_t refusal) : refusal_(refusal) {}

  // Loads the call number. Calls that are not made through the 64-bit table are refused.
  void load_call() {
    load(offsetof(seccomp_data, arch));
    refuse_unless(AUDIT_ARCH_X86_64);
    load(offsetof(seccomp_data, nr));
  }
  void load_low(int argument) { load(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(argument)); }
  void load_high(int argument) { load(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(argument) + 4); }
  void allow() { add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }
  void refuse() { refuse_with(refusal_); }
  void refuse_with(uint32_t how) { add(BPF_RET | BPF_K, how); }
  void allow_if(uint32_t value) { jump(BPF_JEQ, value, 0, 1), allow(); }
  void refuse_unless(uint32_t value) { jump(BPF_JEQ, value, 1, 0), refuse(); }
  void refuse_if(uint32_t value) { jump(BPF_JEQ, value, 0, 1), refuse(); }
  void refuse_if_any(uint32_t bits) { jump(BPF_JSET, bits, 0, 1), refuse(); }
  void allow_if_any(uint32_t bits) { jump(BPF_JSET, bits, 0, 1), allow(); }
  // The tests that `check` adds apply to `call` only, and must end in a decision.
  template <typename Check>
  void only_for(uint32_t call, Check check) {
    const size_t place = code_.size();
    jump(BPF_JEQ, call, 0, 0);
    check();
    code_[place].jf = static_cast<uint8_t>(code_.size() - place - 1);
  }
  size_t size() const { return code_.size(); }
  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
  void add(uint16_t code, uint32_t k) { code_.push_back(sock_filter{code, 0, 0, k}); }
  void jump(uint16_t kind, uint32_t value, uint8_t yes, uint8_t no) {
    code_.push_back(sock_filter{static_cast<uint16_t>(BPF_JMP | kind | BPF_K), yes, no, value});
  }
  uint32_t refusal_;
  std::vector<sock_filter> code_;
};

}  // namespace friday
