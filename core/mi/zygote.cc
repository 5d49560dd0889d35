#include "core/mi/zygote.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "core/mi/typed.h"
#include "core/mi/value.h"

namespace friday {
namespace {

Result<void> pass(int channel, const std::array<int, 3>& streams) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof streams)]{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof streams);
  memcpy(CMSG_DATA(rights), streams.data(), sizeof streams);
  if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1) return fail_errno(errno, "cannot pass descriptors to gdb");
  return {};
}

}  // namespace

Result<std::unique_ptr<GdbZygote>> GdbZygote::start(MiSessionOptions options, const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "cannot create a socket for gdb");
  UniqueFd ours(ends[0]), its(ends[1]);
  MiSessionOptions own = options;
  own.channel = its.get();
  // gdb reads symbols in worker threads, which would not exist in a forked copy.
  own.arguments.insert(own.arguments.end(), {"-iex", "maint set worker-threads 0"});
  FRIDAY_TRY(session, MiSession::start(std::move(own)));
  session->send("-file-exec-and-symbols " + mi_quote(program),
                [](Result<MiReply>) {});  // if it fails, each copy loads the symbols itself
  return std::unique_ptr<GdbZygote>(new GdbZygote(std::move(options), std::move(session), std::move(ours)));
}

Result<std::unique_ptr<MiSession>> GdbZygote::copy(const std::string& sysroot, Pump& pump) {
  FRIDAY_TRY_VOID(session_->wait_ready(pump));
  FRIDAY_TRY(pipes, GdbPipes::make());
  FRIDAY_TRY_VOID(pass(channel_.get(), {pipes.input.read.get(), pipes.output.write.get(), pipes.errors.write.get()}));
  FRIDAY_TRY(record, session_->run("-friday-fork", pump));
  FRIDAY_TRY(answer, json_of(record));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded() || !json.contains("pid"))
    return fail(ErrorCode::component_died, "gdb was not copied: {}", answer);
  FRIDAY_TRY(process, GdbProcess::adopt(json["pid"].get<int>(), std::move(pipes)));
  MiSessionOptions own = options_;
  own.sysroot = sysroot;
  return MiSession::adopt(std::move(own), std::move(process));
}

}  // namespace friday
