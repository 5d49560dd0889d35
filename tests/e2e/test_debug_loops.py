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
    while (turn % 2 == 0) { WAIT passed++; }
    turn++;
  }
  return unused;
}
long rounds(long most) {
  long n = 0;
  asm volatile("site: FIRST mov flag(%%rip), %%eax\\n test %%eax, %%eax\\n jne 2f\\n inc %0\\n cmp %1, %0\\n jne site\\n 2:" : "+r"(n) : "r"(most) : "eax", "cc");
  return n;
}
int main(void) {
  pthread_t thread;
  long n = rounds(12);
  pthread_create(&thread, NULL, other, NULL);
  for (int i = 0; i < 20; i++) {
    while (turn % 2 == 1) { WAIT passed++; }
    turn++;
    n += rounds(12);
  }
  pthread_join(thread, NULL);
  printf("%ld %ld\\n", n, passed);
  return turn != 40 || n != 12 * 21;
}
"""


@pytest.fixture(params=["plain", "pause"])
def first(request):
    """What the loop site begins with: an instruction of the loop, or a `pause`, whose stub enters the shim at each pass."""
    return request.param


@pytest.fixture
def recorded(recorder, tmp_path, first):
    pause = first == "pause"
    (tmp_path / "loops.c").write_text(SOURCE.replace("FIRST", "pause\\n" if pause else "").replace("WAIT", "__builtin_ia32_pause();" if pause else ""))
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


def test_steps_over_a_loop_site(recorded, opened, first):
    with friday.Session(recorded.path) as session:
        plain = final_state(session)
    session = opened(recorded)
    point = session.breakpoint("*site")
    stop = session.run()
    assert stop.kind == "breakpoint", stop
    node = int(stop.node)
    code = session.backend.gdb(node, "x/3i $pc")
    assert "mov " in code and "flag" in code and ("pause" if first == "pause" else "test ") in code, code
    # What has moved to the stub together is one step.
    for expected in ("test", "jne", "inc", "cmp", "jne", "pause" if first == "pause" else "mov"):
        session.step(node, "stepi")
        shown = session.backend.gdb(node, "x/i $pc")
        assert expected in shown, (expected, shown)
    session.delete(point)
    assert final_state(session) == plain


def test_single_steps_through_a_waiting_loop_show_the_programs_code(recorded, opened):
    """Whatever stands behind an instruction, a stub or the shim, each step leads to one of the program's own, and to the same end."""
    with friday.Session(recorded.path) as session:
        plain = final_state(session)
    session = opened(recorded)
    point = session.breakpoint("rounds")
    node = int(session.run().node)
    session.delete(point)
    for _ in range(150):
        session.step(node, "stepi")
        shown = session.backend.gdb(node, "x/i $pc")
        assert "ud2" not in shown and "(bad)" not in shown and "friday" not in shown, shown
    assert final_state(session) == plain
