"""A loop site (core/shim/loop.cc) under the debugger: stops at it and steps over it change no count, and it shows the program's own code."""
import collections
import re
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


# A loop site that is a call: the function counts how often it is asked.
AROUND_A_CALL = """
#include <pthread.h>
#include <stdio.h>
volatile long turn, asked, left;
__attribute__((noinline)) int is_turn(long of) {
  asked++;
  return turn % 2 == of;
}
__attribute__((noinline)) int is_enough(void) { return --left <= 0; }
__attribute__((noinline)) static void rounds(long most) {
  left = most;
  while (!is_enough()) {
  }
}
static void* other(void* unused) {
  for (int i = 0; i < 20; i++) {
    while (!is_turn(1)) {
    }
    turn++;
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  rounds(12);
  pthread_create(&thread, NULL, other, NULL);
  for (int i = 0; i < 20; i++) {
    while (!is_turn(0)) {
    }
    turn++;
    rounds(12);
  }
  pthread_join(thread, NULL);
  printf("%ld\\n", asked);
  return turn != 40;
}
"""

# System calls with what Friday moves to a stub with them: instructions behind the call (another branch leads to the call
# itself), instructions before it (a branch leads to what follows), and none (jumps on both sides).
CALLS = """
#include <stdio.h>
long calls(void) {
  long sum = 0;
  register long n asm("rsi") = 3;
  asm volatile("1: mov $39, %%eax; jmp 2f; nop; 2: syscall; lea (%%rax,%0), %0; and $0xffff, %0; dec %1; jnz 1b;"
               "mov $2, %1; 3: xor %%edi, %%edi; mov $110, %%eax; syscall; 4: inc %0; test %1, %1; js 4b; dec %1; jnz 3b;"
               "mov $2, %1; 5: mov $39, %%eax; jmp 6f; 6: syscall; jmp 7f; 7: dec %1; jnz 5b"
               : "+r"(sum), "+r"(n) : : "rax", "rcx", "r11", "rdi", "cc", "memory");
  return sum;
}
int main(void) {
  long sum = 0;
  for (int i = 0; i < 5; i++) sum += calls();
  printf("%ld\\n", sum);
  return 0;
}
"""
STEPS = 80


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
    for expected in (*(("pause",) if first == "pause" else ()), "mov", "test", "jne", "inc", "cmp", "jne", "pause" if first == "pause" else "mov"):
        shown = session.backend.gdb(node, "x/i $pc")
        assert expected in shown, (expected, shown)
        session.step(node, "stepi")
    session.delete(point)
    assert final_state(session) == plain


def test_a_breakpoint_may_stand_on_each_instruction(recorded, opened, first):
    """Those that were moved to a stub together included: each is passed as often as the program executes it."""
    with friday.Session(recorded.path) as session:
        plain = final_state(session)
    session, passes = opened(recorded), collections.Counter()
    code = session.backend.gdb(0, "x/7i site")
    instructions = re.findall(r"0x[0-9a-f]+ <rounds\+(\d+)>:\s+(\w+)", code)[:7 if first == "pause" else 6]
    for offset, _ in instructions:
        session.breakpoint(f"*(rounds+{offset})", lambda hit, offset=offset: passes.update([(offset, session.backend.gdb(hit.node, "p $pc").split("+")[1].split(">")[0])]))
    assert final_state(session) == plain
    # The loop is left at its last round by the second of its two branches, so each instruction has its 12 rounds.
    assert passes == {(offset, offset): 12 * 21 for offset, _ in instructions}


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


@pytest.fixture
def around_a_call(recorder, tmp_path):
    """The recording and the address of the call in rounds()."""
    (tmp_path / "around.c").write_text(AROUND_A_CALL)
    subprocess.run(["/usr/bin/cc", "-g", "-O1", "-no-pie", "-o", tmp_path / "around", tmp_path / "around.c", "-lpthread"], check=True)
    recording = recorder.record([tmp_path / "around"], name="around")
    recorder.verify(recording)
    code = subprocess.run(["/usr/bin/gdb", "-nx", "-batch", "-ex", "disassemble rounds", tmp_path / "around"], capture_output=True, text=True, timeout=60)
    return recording, int(re.search(r"0x([0-9a-f]+) <\+\d+>:\s+call +0x[0-9a-f]+ <is_enough>", code.stdout)[1], 16)


def test_stops_at_a_call_and_in_its_function_change_no_count(around_a_call, opened):
    recording, call = around_a_call
    with friday.Session(recording.path) as session:
        plain = final_state(session)
    session, at_call, in_function = opened(recording), [], []
    session.breakpoint(f"*{call:#x}", lambda hit: at_call.append(session.backend.gdb(hit.node, "x/i $pc")))
    session.breakpoint("*is_enough", lambda hit: in_function.append(session.backend.gdb(hit.node, "bt 2")))
    assert final_state(session) == plain
    assert len(at_call) == len(in_function) == 12 * 21
    assert all("<is_enough>" in shown for shown in at_call) and all("in rounds" in shown for shown in in_function), (at_call[0], in_function[0])


def test_steps_through_a_call_of_a_waiting_loop(around_a_call, opened):
    """Into the function and back again, over it, and out of it."""
    recording, call = around_a_call
    with friday.Session(recording.path) as session:
        plain = final_state(session)
    session = opened(recording)
    point = session.breakpoint(f"*{call:#x}")
    node = int(session.run().node)
    session.delete(point)

    def at():
        return int(re.search(r"0x([0-9a-f]+)", session.backend.gdb(node, "p/x $pc"))[1], 16)
    function = int(re.search(r"0x([0-9a-f]+)", session.backend.gdb(node, "p/x (long)is_enough"))[1], 16)
    session.step(node, "stepi")
    assert at() == function and f"{call + 5:x}" in session.backend.gdb(node, "x/gx $rsp")
    session.step(node, "reverse-stepi")
    assert at() == call
    session.step(node, "nexti")
    assert at() == call + 5
    session.step(node, "reverse-nexti")
    assert at() == call
    session.step(node, "stepi")
    session.step(node, "finish")
    assert at() == call + 5
    for _ in range(60):
        session.step(node, "stepi")
        shown = session.backend.gdb(node, "x/i $pc")
        assert any(name in shown for name in ("rounds", "is_enough", "is_turn", "main", "other", "plt", "ld-linux", "pthread")), shown
    assert final_state(session) == plain


@pytest.fixture
def calls(recorder, tmp_path):
    (tmp_path / "calls.c").write_text(CALLS)
    subprocess.run(["/usr/bin/cc", "-g", "-O1", "-no-pie", "-o", tmp_path / "calls", tmp_path / "calls.c"], check=True)
    recording = recorder.record([tmp_path / "calls"], name="calls")
    recorder.verify(recording)
    return recording


def test_steps_over_system_calls_are_those_of_gdb_alone(calls, opened, tmp_path):
    """Behind a call, and before one, instructions are executed in a stub: each is one step, as a call is."""
    script = tmp_path / "steps.gdb"
    show = 'printf "at %lx %lx\\n", $pc, $rsi'  # what the loops count by
    script.write_text("set pagination off\nset confirm off\nbreak calls\nrun\n" + f"{show}\nstepi\n" * STEPS + "kill\n")
    native = subprocess.run(["/usr/bin/gdb", "-nx", "-batch", "-x", script, tmp_path / "calls"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    lines = [line.split() for line in native.stdout.splitlines() if line.startswith("at ")]
    assert len(lines) == STEPS, native
    session = opened(calls)
    session.breakpoint("calls")
    node, seen = int(session.run().node), []
    for _ in range(STEPS):
        seen.append(session.backend.gdb(node, show).split())
        session.step(node, "stepi")
    assert seen[2:] == lines[2:]  # before that the register is somebody else's


def test_breakpoints_around_system_calls(calls, opened):
    with friday.Session(calls.path) as session:
        plain = final_state(session)
    session, passes = opened(calls), collections.Counter()
    code = session.backend.gdb(0, "disassemble calls")
    instructions = re.findall(r"0x([0-9a-f]+) <\+\d+>:\s+(\w+)", code)
    for address, name in instructions:
        session.breakpoint(f"*0x{address}", lambda hit, address=address, name=name: passes.update([(name, address, f"{int(session.backend.gdb(hit.node, 'p/x $pc').split('0x')[1], 16):x}" == address.lstrip("0"))]))
    assert final_state(session) == plain
    assert all(right for _, _, right in passes)
    count = collections.Counter()
    for (name, _, _), times in passes.items():
        count[name] += times
    assert count["syscall"] == 5 * (3 + 2 + 2), count
    assert count["lea"] == count["and"] == 5 * 3, count
