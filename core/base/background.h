// Starts background threads: with the lowest scheduling priority and with all signals blocked, so that signals go to
// the other threads. If the system refuses to create a thread, the result is not joinable.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

namespace friday {

template <typename Function>
std::thread background_thread(Function run) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread([run = std::move(run)]() mutable {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
      run();
    });
  } catch (const std::system_error&) {}
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace friday
