#include "core/replay/image.h"

#include <cpuid.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/refusals.h"
#include "core/replay/confinement.h"
#include "core/shim/shim_abi.h"
#include "core/trace/calls.h"

namespace friday {
namespace {

using Call = TracedProcess::Call;

constexpr uint64_t kLowest = 0x1000, kHighest = 0x7ffffffff000;
constexpr uint64_t kStackLimit = 1ull << 30;  // bytes reserved for a stack without a limit

class Builder {
 public:
  Builder(const Recording& recording, const TraceReader& reader, TracedProcess& process)
      : recording_(recording), reader_(reader), process_(process) {}

  Result<void> run(const StartImage& image, const ImageOptions& options) {
    add(SYS_close_range, 0, TracedProcess::kScheduleFd - 1, 0);
    add(SYS_close_range, TracedProcess::kChannelFd + 1, ~0u, 0);
    add(SYS_munmap, kLowest, shim::kStubAddress - kLowest);
    add(SYS_munmap, shim::kStubAddress + shim::kStubSize, kHighest - shim::kStubAddress - shim::kStubSize);
    FRIDAY_TRY_VOID(limit_stack(*image.record));
    FRIDAY_TRY_VOID(map_window());
    if (options.schedule_fd >= 0)
      add(SYS_mmap, shim::kScheduleAddress, options.schedule_size, PROT_READ | PROT_WRITE,
          MAP_SHARED | MAP_FIXED_NOREPLACE, TracedProcess::kScheduleFd, 0);
    uint64_t previous = kLowest;
    for (const auto* map : image.maps) {
      FRIDAY_TRY_VOID(add_map(*map, *image.record, previous));
      previous = map->high;
    }
    add(SYS_close_range, 0, TracedProcess::kChannelFd - 1, 0);
    FRIDAY_TRY_VOID(flush());
    FRIDAY_TRY_VOID(drop_capabilities());
    if (options.confined) FRIDAY_TRY_VOID(install_filter());
    return put_contents(image);
  }

  // Writes the recorded memory contents. Call after the filter is installed: until then the process must not contain
  // anything from the recording that it could execute or that friday-stub reads.
  Result<void> put_contents(const StartImage& image) {
    std::vector<const format::ImageMapRecord*> maps = image.maps;
    std::ranges::sort(maps, {}, &format::ImageMapRecord::low);
    for (const auto& [address, data] : image.contents) {
      auto next = std::ranges::upper_bound(maps, address, {}, &format::ImageMapRecord::low);
      const bool mapped = next != maps.begin() && address < next[-1]->high && data.size() <= next[-1]->high - address;
      if (!mapped || !process_.write(address, data.data(), data.size()))
        return fail(ErrorCode::bad_input,
                    "node {}: the start image has contents for address {:#x}, where it maps nothing; the recording is "
                    "damaged. Copy it again",
                    reader_.node(), address);
    }
    return {};
  }

  // Sets the recorded stack limit, which bounds mappings with MAP_GROWSDOWN; at most the hard limit of this process.
  Result<void> limit_stack(const format::ImageRecord& image) {
    rlimit limit{};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = std::min<rlim_t>(image.rlimits[RLIMIT_STACK][0], limit.rlim_max);
    FRIDAY_TRY(place, process_.put_scratch(std::as_bytes(std::span(&limit, 1)), scratch_));
    add(SYS_setrlimit, RLIMIT_STACK, place);
    return {};
  }

  Result<void> map_window() {
    FRIDAY_TRY(trace, reader_.descriptor());
    const uint64_t fd = next_fd_++;
    FRIDAY_TRY_VOID(add_open(std::move(trace)));
    add(SYS_mmap, format::kWindowAddress, padded_page(reader_.end_offset()), PROT_READ,
        MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
    return {};
  }

  // Drops all capabilities, because some let root harm the machine without any descriptor.
  Result<void> drop_capabilities() {
    const __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
    FRIDAY_TRY(where, process_.put_scratch(std::as_bytes(std::span(&header, 1)), scratch_));
    FRIDAY_TRY(what, process_.put_scratch(std::as_bytes(std::span(none)), scratch_));
    add(SYS_capset, where, what);
    return flush();
  }

  // Installs the filter of system calls, with the last call that friday-stub makes.
  Result<void> install_filter() {
    const auto code = replay_filter(TracedProcess::kChannelFd);
    FRIDAY_TRY(place, process_.put_scratch(std::as_bytes(std::span(code)), scratch_));
    const sock_fprog program{static_cast<unsigned short>(code.size()), reinterpret_cast<sock_filter*>(place)};
    FRIDAY_TRY(argument, process_.put_scratch(std::as_bytes(std::span(&program, 1)), scratch_));
    // Without SPEC_ALLOW, kernels before 5.16 disable speculation for a process with a filter, which is slow.
    add(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, argument);
    FRIDAY_TRY_VOID(process_.run_friday_stub(calls_));
    const int64_t result = calls_.back().result;
    if (result != 0) return refused(Refusal::confinement, strerror(static_cast<int>(-result)));
    return {};
  }

  Result<void> flush() {
    FRIDAY_TRY_VOID(process_.run_friday_stub(calls_));
    for (const auto& call : calls_)
      if (call.result < 0 && call.result > -4096)
        return fail(ErrorCode::io, "node {}: cannot rebuild the start image: {}({:#x}, {:#x}, ...) failed: {}",
                    reader_.node(), call_text(static_cast<unsigned>(call.number)), call.arguments[0], call.arguments[1],
                    strerror(static_cast<int>(-call.result)));
    calls_.clear();
    opened_.clear();
    scratch_ = 0;
    return {};
  }

 private:
  static uint64_t padded_page(uint64_t size) { return (size + kPageBytes - 1) & ~(kPageBytes - 1); }

  void add(uint64_t number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0, uint64_t e = 0,
           uint64_t f = 0) {
    calls_.push_back(Call{number, {a, b, c, d, e, f}, 0});
  }

  // Makes the process open a file that the core has opened already. The core has checked the file; its name in the
  // recording is not trusted.
  Result<void> add_open(UniqueFd file) {
    const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), file.get());
    FRIDAY_TRY(place, process_.put_scratch(std::as_bytes(std::span(path.c_str(), path.size() + 1)), scratch_));
    add(SYS_open, place, O_RDONLY, 0);
    opened_.push_back(std::move(file));
    return {};
  }

  Result<void> add_map(const format::ImageMapRecord& map, const format::ImageRecord& image, uint64_t previous) {
    if (map.low >= map.high || map.low < kLowest || map.high > kHighest || map.low % kPageBytes ||
        map.high % kPageBytes)
      return fail(ErrorCode::bad_input,
                  "node {}: the start image maps {:#x}-{:#x}, where no program can have memory; the recording is "
                  "damaged. Copy it again",
                  reader_.node(), map.low, map.high);
    uint64_t low = map.low;
    uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (map.kind == format::kMapStack) {
      // The stack grows on demand up to the recorded limit. If the hard limit here is lower, map the whole stack now.
      rlimit here{};
      getrlimit(RLIMIT_STACK, &here);
      const uint64_t limit = std::min<uint64_t>(image.rlimits[RLIMIT_STACK][0], kStackLimit);
      if (here.rlim_max < image.rlimits[RLIMIT_STACK][0])
        low = std::min(low, std::max((map.high - limit) & ~(kPageBytes - 1), previous + (1 << 20)));
      flags |= MAP_NORESERVE | MAP_GROWSDOWN;
    }
    if (!(map.protection & PROT_WRITE)) flags |= MAP_NORESERVE;
    const bool copied = std::any_of(std::begin(map.file), std::end(map.file), [](uint8_t b) { return b != 0; });
    if (!copied) {
      add(SYS_mmap, low, map.high - low, map.protection, flags, ~0ull, 0);
      return {};
    }
    FRIDAY_TRY(copy, open_beneath(recording_.file_copy(map.file)));
    FRIDAY_TRY_VOID(add_open(std::move(copy)));
    add(SYS_mmap, low, map.high - low, map.protection, MAP_PRIVATE | MAP_FIXED_NOREPLACE, next_fd_, map.offset);
    add(SYS_close, next_fd_);
    if (opened_.size() > 200) return flush();
    return {};
  }

  const Recording& recording_;
  const TraceReader& reader_;
  TracedProcess& process_;
  std::vector<Call> calls_;
  std::vector<UniqueFd> opened_;  // files that calls_ refer to
  uint64_t scratch_ = 0;
  uint64_t next_fd_ = 0;  // the number that the next open returns: friday-stub has none open below kScheduleFd
};

Result<void> enter(TracedProcess& process, const format::ImageRecord& image, NodeId node) {
  user_regs_struct r;
  user_fpregs_struct f;
  if (!TracedProcess::registers(process.pid(), r) || ptrace(PTRACE_GETFPREGS, process.pid(), 0, &f) != 0)
    return fail(ErrorCode::component_died, "node {}: its process is gone", node);
  r.rip = image.rip;
  r.rsp = image.rsp;
  r.fs_base = image.fs_base;
  r.gs_base = image.gs_base;
  r.eflags = 0x202;
  r.orig_rax = kNoCall;
  f.mxcsr = image.mxcsr;
  f.cwd = static_cast<unsigned short>(image.fpu_control);
  if (!TracedProcess::set_registers(process.pid(), r) || ptrace(PTRACE_SETFPREGS, process.pid(), 0, &f) != 0)
    return fail(ErrorCode::io, "node {}: the kernel refuses the registers of the start image: {}", node,
                strerror(errno));
  return {};
}

struct FeatureBit {
  unsigned leaf, reg, bit;  // `leaf` indexes ImageRecord::cpuid; `reg` is 0 for eax to 3 for edx
  const char* name;
};
constexpr FeatureBit kFeatures[] = {
    {1, 2, 0, "sse3"},         {1, 2, 1, "pclmulqdq"},      {1, 2, 9, "ssse3"},
    {1, 2, 12, "fma"},         {1, 2, 13, "cx16"},          {1, 2, 19, "sse4_1"},
    {1, 2, 20, "sse4_2"},      {1, 2, 22, "movbe"},         {1, 2, 23, "popcnt"},
    {1, 2, 25, "aes"},         {1, 2, 26, "xsave"},         {1, 2, 28, "avx"},
    {1, 2, 29, "f16c"},        {2, 1, 3, "bmi1"},           {2, 1, 5, "avx2"},
    {2, 1, 8, "bmi2"},         {2, 1, 9, "erms"},           {2, 1, 16, "avx512f"},
    {2, 1, 17, "avx512dq"},    {2, 1, 19, "adx"},           {2, 1, 21, "avx512ifma"},
    {2, 1, 28, "avx512cd"},    {2, 1, 29, "sha_ni"},        {2, 1, 30, "avx512bw"},
    {2, 1, 31, "avx512vl"},    {2, 2, 1, "avx512_vbmi"},    {2, 2, 6, "avx512_vbmi2"},
    {2, 2, 8, "gfni"},         {2, 2, 9, "vaes"},           {2, 2, 10, "vpclmulqdq"},
    {2, 2, 11, "avx512_vnni"}, {2, 2, 12, "avx512_bitalg"}, {2, 2, 14, "avx512_vpopcntdq"},
    {2, 3, 4, "fsrm"},         {2, 1, 11, "rtm"},           {2, 3, 8, "avx512_vp2intersect"},
    {2, 3, 22, "amx_bf16"},    {2, 3, 23, "avx512_fp16"},   {2, 3, 24, "amx_tile"},
    {2, 3, 25, "amx_int8"},    {3, 0, 4, "avx_vnni"},       {3, 0, 5, "avx512_bf16"},
    {5, 2, 11, "xop"},         {5, 2, 16, "fma4"},          {5, 2, 0, "lahf_lm"},
    {5, 2, 5, "lzcnt"},        {5, 2, 6, "sse4a"},          {5, 3, 27, "rdtscp"},
};

}  // namespace

Result<void> check_processor(const format::ImageRecord& image) {
  std::string missing;
  for (const auto& feature : kFeatures) {
    unsigned here[4] = {};
    __get_cpuid_count(format::kCpuidLeaves[feature.leaf][0], format::kCpuidLeaves[feature.leaf][1], &here[0], &here[1],
                      &here[2], &here[3]);
    const bool wanted = image.cpuid[feature.leaf][feature.reg] >> feature.bit & 1;
    if (wanted && !(here[feature.reg] >> feature.bit & 1))
      missing += (missing.empty() ? "" : ", ") + std::string(feature.name);
  }
  if (missing.empty()) return {};
  return fail(ErrorCode::unsupported,
              "this processor lacks features of the recorded one, which the program may use: {}; replay on a machine "
              "that has them",
              missing);
}

Result<TracedProcess> build_from_image(const Recording& recording, const TraceReader& reader,
                                       const ImageOptions& options) {
  FRIDAY_TRY(image, reader.image());
  if (!image.record)
    return fail(ErrorCode::bad_input,
                "node {}: its trace has no start image, so it cannot be replayed. Copy the recording again",
                reader.node());
  FRIDAY_TRY_VOID(check_processor(*image.record));
  FRIDAY_TRY(process, TracedProcess::start_friday_stub(options.friday_stub, options.schedule_fd,
                                                       options.channel->inner(), options.group));
  Builder builder(recording, reader, process);
  FRIDAY_TRY_VOID(builder.run(image, options));
  FRIDAY_TRY_VOID(enter(process, *image.record, reader.node()));
  return std::move(process);
}

Result<void> map_trace(TracedProcess& process, pid_t tid, DescriptorChannel::Receiver receiver,
                       const DescriptorChannel& channel, const TraceReader& reader) {
  FRIDAY_TRY(trace, reader.descriptor());
  auto call = [&](long number, std::initializer_list<uint64_t> arguments) {
    return process.inject(tid, receiver.instruction, number, std::vector<uint64_t>(arguments));
  };
  FRIDAY_TRY_VOID(call(SYS_munmap, {format::kWindowAddress, format::kWindowSize}));
  FRIDAY_TRY(fd, channel.hand_over(process, tid, receiver, trace.get()));
  const uint64_t size = (reader.end_offset() + kPageBytes - 1) & ~(kPageBytes - 1);
  FRIDAY_TRY(mapped, call(SYS_mmap, {format::kWindowAddress, size, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                                     static_cast<uint64_t>(fd), 0}));
  FRIDAY_TRY_VOID(call(SYS_close, {static_cast<uint64_t>(fd)}));
  if (mapped != static_cast<int64_t>(format::kWindowAddress))
    return fail(ErrorCode::io, "node {}: its trace cannot be mapped: {}", reader.node(),
                errno_text(static_cast<int>(-mapped)));
  return {};
}

}  // namespace friday
