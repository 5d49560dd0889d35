// The names of threads at replay. A thread names itself by prctl(PR_SET_NAME), and another thread by a write to that
// one's file `comm` below /proc, as pthread_setname_np(3) does. A replayed call does not reach the kernel, so the name
// is kept in the thread's area, where the core finds it.
#include <linux/prctl.h>

#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/thread_name.h"
#include "core/shim/trace.h"

namespace friday::shim {

namespace {

// Moves `text` behind `word` if it begins with it.
bool skip(const char*& text, const char* word) {
  const char* at = text;
  while (*word)
    if (*at++ != *word++) return false;
  text = at;
  return true;
}

// Reads a decimal number, and moves `text` behind it; 0 if there is none.
uint32_t number(const char*& text) {
  uint32_t value = 0;
  while (*text >= '0' && *text <= '9') value = value * 10 + (uint32_t)(*text++ - '0');
  return value;
}

// The tid of the thread whose file `comm` a path denotes; 0 if it denotes another file.
uint32_t named_by(const char* path, const ThreadArea* area) {
  if (!skip(path, "/proc/")) return 0;
  uint32_t tid = 0;
  if (skip(path, "thread-self")) tid = area->tid;
  else if (skip(path, "self")) tid = trace_header()->pid;
  else tid = number(path);
  if (skip(path, "/task/")) tid = number(path);
  return skip(path, "/comm") && !*path ? tid : 0;
}

ThreadName* name_of(ThreadArea* area) { return (ThreadName*)((uint64_t)area + kThreadNameOffset); }

void set_name(ThreadArea* area, const char* name, uint64_t length) {
  constexpr uint64_t kMost = sizeof(ThreadName::text) - 1;
  char* const kept = name_of(area)->text;
  uint64_t i = 0;
  for (; i < length && i < kMost && name[i]; i++) kept[i] = name[i];
  kept[i] = 0;
}

}  // namespace

// A write is taken for a name only while every call that the thread has made since the open was about the descriptor.
// Otherwise the descriptor may stand for another file by now.
void replay_thread_name(ThreadArea* area, uint64_t call, const uint64_t* arguments, long result) {
  if (call == sys::prctl) {
    if (arguments[0] == PR_SET_NAME && !failed(result))
      set_name(area, (const char*)arguments[1], sizeof(ThreadName::text));
  } else if (call == sys::open || call == sys::openat) {
    ThreadName* mine = name_of(area);
    mine->names_tid = failed(result) ? 0 : named_by((const char*)arguments[call == sys::openat], area);
    mine->names_by = (uint32_t)result;
    return;
  }
  ThreadName* mine = name_of(area);
  if (!mine->names_tid) return;
  const bool about = (uint32_t)arguments[0] == mine->names_by && call != sys::close && call != sys::dup2;
  if (about && call == sys::write && result > 0)
    if (ThreadArea* named = living_thread(mine->names_tid))
      set_name(named, (const char*)arguments[1], (uint64_t)result);
  if (!about) mine->names_tid = 0;
}

void replay_thread_started(const ThreadArea* maker, ThreadArea* made) {
  const ThreadName* from = name_of((ThreadArea*)maker);
  set_name(made, from->text, sizeof from->text);
}

}  // namespace friday::shim
