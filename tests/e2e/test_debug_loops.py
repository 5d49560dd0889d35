"""A loop site (core/shim/loop.cc) under the debugger: stops at it and steps over it change no count, and it shows the program's own code."""
import subprocess

import pytest
from debug_support import final_state, friday, opened  # noqa: F401

pytestmark = pytest.mark.limit(120)

SOURCE = """
#include <pthread.h>
#include <stdio.h>
volatile int flag;
volatile long turn, passed;
static void* other(void* unused) {
  for (int i = 0; i < 20; i++) {
    while (turn % 2 == 0) passed++;
    turn++;
  }
  return unused;
}
long rounds(long most) {
  long n = 0;
  asm volatile("site: mov flag(%%rip), %%eax\\n test %%eax, %%eax\\n jne 2f\\n inc %0\\n cmp %1, %0\\n jne site\\n 2:" : "+r"(n) : "r"(most) : "eax", "cc");
  return n;
}
int main(void) {
  pthread_t thread;
  long n = rounds(12);
  pthread_create(&thread, NULL, other, NULL);
  for (int i = 0; i < 20; i++) {
    while (turn % 2 == 1) passed++;
    turn++;
    n += rounds(12);
  }
  pthread_join(thread, NULL);
  printf("%ld %ld\\n", n, passed);
  return turn != 40 || n != 12 * 21;
}
"""


@pytest.fixture
def recorded(recorder, tmp_path):
    (tmp_path / "loops.c").write_text(SOURCE)
    subprocess.run(["/usr/bin/cc", "-g", "-O1", "-o", tmp_path / "loops", tmp_path / "loops.c", "-lpthread"], check=True)
    recording = recorder.record([tmp_path / "loops"], name="it")
    assert recording.returncode == 0, recording
    recorder.verify(recording)
    return recording


def test_stops_at_a_loop_site_change_no_count(recorded, opened):
    with friday.Session(recorded.path) as session:
        plain = final_state(session)
    session, passes = opened(recorded), []
    session.breakpoint("*site", lambda hit: passes.append(hit.node))
    assert final_state(session) == plain
    assert len(passes) == 12 * 21


def test_steps_over_a_loop_site(recorded, opened):
    with friday.Session(recorded.path) as session:
        plain = final_state(session)
    session = opened(recorded)
    point = session.breakpoint("*site")
    stop = session.run()
    assert stop.kind == "breakpoint", stop
    node = int(stop.node)
    code = session.backend.gdb(node, "x/3i $pc")
    assert "mov " in code and "flag" in code and "test " in code, code
    for expected in ("test", "jne", "inc", "cmp", "jne", "mov"):
        session.step(node, "stepi")
        shown = session.backend.gdb(node, "x/i $pc")
        assert expected in shown, (expected, shown)
    session.delete(point)
    assert final_state(session) == plain
