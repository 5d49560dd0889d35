// A seccomp filter, put together test by test. A program looks at one word at a time: the call's number first
// (load_call), then, for a call that only_for() has singled out, halves of its arguments.
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
  // `refusal`: what the kernel does with a call that is refused, SECCOMP_RET_TRAP or the like.
  explicit SeccompProgram(uint32_t refusal) : refusal_(refusal) {}

  // The number of the call, of one of the 64-bit table; others are refused.
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
  // What `check` adds is for this call alone, and must end it.
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
