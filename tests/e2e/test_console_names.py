"""Names as the program and the user gave them, at a terminal: of threads, of daemons that a wrapper has started, of members that were
mistyped; and what a person meant by Ctrl-C and by keys that were typed ahead."""

import re
import subprocess

import pytest
from conftest import wait_until
from console_support import PROMPT, Terminal
from debug_support import record_once

SOURCE = r"""
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <memory>
#include <vector>

typedef unsigned long chord_id;
struct Base { int successors = 3; };
template <typename T> struct Entry { T contents; int term; };
struct Server : Base {
  Entry<chord_id> entry;
  Server *successor = nullptr;
  std::vector<Entry<int>> log;
  std::unique_ptr<Entry<int>> owned = std::make_unique<Entry<int>>();
  void visit(int number);
} server;
pthread_barrier_t begun, done;
int calls;

chord_id next_id(chord_id id) { return id + 1; }
int slow(int number) {  // some seconds, unless it is interrupted
  for (volatile long i = 0; i < 3000000000; i++) {}
  return number == 2;
}
void Server::visit(int number) { calls += number; }
void reached() { calls++; }
void *work(void *name) {
  if (name) prctl(PR_SET_NAME, (const char *)name);
  pthread_barrier_wait(&begun);
  pthread_barrier_wait(&done);
  return nullptr;
}
int main() {
  server.successor = &server;
  server.log.resize(3);
  pthread_barrier_init(&begun, nullptr, 4);
  pthread_barrier_init(&done, nullptr, 4);
  pthread_setname_np(pthread_self(), "event-loop");
  pthread_t threads[3];
  pthread_create(&threads[0], nullptr, work, (void *)"named-itself");
  pthread_create(&threads[1], nullptr, work, nullptr);
  pthread_create(&threads[2], nullptr, work, nullptr);
  pthread_barrier_wait(&begun);
  pthread_setname_np(threads[1], "flusher");
  reached();
  server.entry.contents = next_id(41);
  for (int i = 0; i < 4; i++) server.visit(i);
  pthread_barrier_wait(&done);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return calls == 7 ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("names")
    (directory / "names.cc").write_text(SOURCE)
    subprocess.run(["g++", "-std=c++17", "-g", "-O0", "-pthread", "-o", "served", "names.cc"], cwd=directory, check=True)
    return directory / "served"


@pytest.fixture
def terminal(recorder, program, tmp_path_factory):
    recording = record_once("names", lambda recorder: recorder.record([program]), tmp_path_factory)
    with Terminal(recorder, [recorder.friday, "replay", recording.path]) as opened:
        opened.expect(PROMPT)
        yield opened
    recorder.none_left()


def test_threads_have_the_names_that_the_program_gave_them(terminal):
    terminal.command("tbreak reached")
    terminal.command("c")
    shown = terminal.command("info threads")
    names = re.findall(r'^[ *] (\d) +Thread \S+ "([^"]+)"', shown, re.M)
    assert sorted(name for _, name in names) == ["event-loop", "event-loop", "flusher", "named-itself"], shown  # the last one inherits
    assert "Switching to thread" in terminal.command("thread flusher")
    assert "work (name=0x0)" in terminal.command("backtrace")
    assert "the nearest is named-itself" in terminal.command("thread named-itsel")
    assert "select one by its number" in terminal.command("thread event-loop")
    assert terminal.command("py sorted(t.name for t in session.node.threads())").startswith("['event-loop', 'event-loop', 'flusher', 'named-itself']")


MISTYPED = [
    ("server.sucessor", "successor"), ("server.successor->successor->entri", "entry"), ("server.sucessors", "successors"),
    ("server.entry.content", "contents"), ("server.log[1].tern", "term"), ("server.owned->contets", "contents"),
    ("server.succesor->entry.term + server.entry.term", "successor")]


def test_a_mistyped_member_is_told_the_nearest(terminal):
    terminal.command("tbreak reached")
    terminal.command("c")
    for expression, nearest in MISTYPED:
        for command in (f"print {expression}", f"py @({expression})", f"watch {expression}"):
            shown = terminal.command(command)
            assert f"the nearest is `{nearest}`" in shown, (command, shown)


def test_in_a_method_a_bare_member_counts(terminal):
    terminal.command("tbreak Server::visit")
    terminal.command("c")
    assert "the nearest is `successor`" in terminal.command("print successorr")


def test_typedefs_stay_on_what_calls_return(terminal):
    terminal.command("tbreak reached")
    terminal.command("c")
    assert "chord_id" in terminal.command("whatis next_id(1)")
    assert "chord_id" in terminal.command("py @(next_id(1)).type")
    assert terminal.command("print next_id(1)").endswith("= 2\n")


def test_ctrl_c_in_a_slow_condition_is_no_hit(terminal):
    terminal.command("py session.call_timeout = 60")
    terminal.command("break Server::visit if slow(number)")
    terminal.send("c\r")
    wait_until(lambda: _computes(terminal.process.pid), "the program computes")
    terminal.send("\x03")
    shown = terminal.expect(PROMPT)
    assert "interrupted" in shown and "this is no hit" in shown and "visit" in shown, shown
    assert re.search(r"^1 +breakpoint +yes +0 ", terminal.command("info breakpoints"), re.M)
    terminal.command("condition 1 number == 0")  # evaluated again, as the condition is now
    shown = terminal.command("c")
    assert "stopped at breakpoint 1" in shown and "number=0" in shown
    assert re.search(r"^1 +breakpoint +yes +1 ", terminal.command("info breakpoints"), re.M)
    terminal.command("condition 1 number == 2")
    assert "number=2" in terminal.command("c")


def test_an_interrupted_condition_of_a_watch_loses_no_change(terminal):
    terminal.command("py session.call_timeout = 60")
    terminal.command("tbreak reached")
    terminal.command("c")
    terminal.command("watch calls if slow(2)")
    terminal.send("c\r")
    wait_until(lambda: _computes(terminal.process.pid), "the program computes")
    terminal.send("\x03")
    assert "this is no hit" in terminal.expect(PROMPT)
    terminal.command("condition 2")
    assert "calls: 0 -> 1" in terminal.command("c")


def _computes(pid):
    """Whether a child of a process has computed for a tenth of a second: the replayed program, in the function."""
    children = subprocess.run(["ps", "-o", "pid=,cputimes=,comm=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    for line in children.splitlines():
        number = line.split()[0]
        try:
            with open(f"/proc/{number}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if "friday-stub" in line and int(fields[11]) > 10:  # ticks of user time
            return True
    return False


def test_keys_typed_ahead_go_to_the_console_behind_the_pager(recorder, program, tmp_path_factory):
    recording = record_once("names", lambda recorder: recorder.record([program]), tmp_path_factory)
    with Terminal(recorder, [recorder.friday, "replay", recording.path], env={"PAGER": "less", "LESS": ""}) as terminal:
        terminal.expect(PROMPT)
        terminal.send("info functions s[ti]\r")
        terminal.send("info time\rtbreak rea")  # at once, before there is an answer
        terminal.expect(r"^:$", 60)  # less shows the first page
        terminal.send("q")
        shown = terminal.expect(r"^\(friday 0 @0.000s\) tbreak rea$")
        assert "logical time" in shown
        terminal.send("ched\r")
        assert "breakpoint 1" in terminal.expect(r"breakpoint 1[^\n]*\n(?s:.*?)" + PROMPT)
        terminal.send("\x04")
        assert terminal.finish() == 0
    recorder.none_left()


# -- daemons that a wrapper has started --------------------------------------------------------------------------------
WRAPPED = {
    "env": (["/usr/bin/env", "A=1", "PROGRAM"], "web/exec-1"),
    "nice": (["/usr/bin/nice", "-n", "1", "/usr/bin/env", "PROGRAM"], "web/exec-1/exec-1"),
    "exec": (["/bin/sh", "-c", "true; exec PROGRAM"], "web/exec-1"),
    "child": (["/bin/sh", "-c", "PROGRAM; exit $?"], "web/child-1"),
    "background": (["/bin/sh", "-c", "(PROGRAM &) ; wait"], "web/child-1/child-1"),
    "setsid": (["/usr/bin/setsid", "--wait", "--fork", "PROGRAM"], "web/child-1"),
}


@pytest.mark.parametrize("how", WRAPPED)
def test_a_daemon_behind_a_wrapper_keeps_the_name_that_the_user_gave(recorder, program, how):
    command, name = WRAPPED[how]
    recording = recorder.record([word.replace("PROGRAM", str(program)) for word in command], name="web")
    assert recording.returncode == 0, recording.stderr
    nodes = {node["name"]: node for node in recorder.info(recording)["nodes"]}
    daemon = next(node for node in nodes.values() if node.get("alias") == "web")
    assert daemon["name"].startswith(name) and daemon["program"] == str(program)
    with Terminal(recorder, [recorder.friday, "replay", recording.path]) as terminal:
        terminal.expect(PROMPT)
        assert f"web = {daemon['name']}" in terminal.command("info nodes")
        terminal.command("web tbreak reached")
        shown = terminal.command("c")
        while "stopped at" not in shown:  # ends of wrappers may come before
            shown = terminal.command("c")
        assert f"node {daemon['id']} (web = {daemon['name']}) stopped at breakpoint 1, reached" in shown
        assert "reached" in terminal.command("web backtrace") and "reached" in terminal.command(f"{daemon['name']} backtrace")
        assert terminal.command('py @"web"(calls), int(session.nodes["web"])').endswith(f"(0, {daemon['id']})\n")
        terminal.send("\x04")
        assert terminal.finish() == 0
    recorder.none_left()


def test_a_shell_with_several_programs_keeps_its_name(recorder, program):
    recording = recorder.record(["/bin/sh", "-c", f"{program} & {program} & wait"], name="web")
    assert not [node for node in recorder.info(recording)["nodes"] if "alias" in node]
