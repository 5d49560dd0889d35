// Threads that work behind another one's back: with the lowest priority, and without signals, which are that other
// one's. Where the system gives none the result is not joinable.
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
