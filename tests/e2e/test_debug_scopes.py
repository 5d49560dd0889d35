"""`::x` names the global variable that a local one hides: read, watched, in conditions and handlers, by the console and in Python."""
import subprocess

import pytest
from conftest import ROOT  # noqa: F401
from debug_support import friday, opened, record_once  # noqa: F401

SOURCE = """
#include <unistd.h>
int x = 1;
__attribute__((noinline)) int step(int by) {
  int x = by * 100;
  ::x += by;
  getppid();
  return x + ::x;
}
int main() {
  int sum = 0;
  for (int i = 1; i <= 3; i++) sum += step(i);
  return sum == 0;
}
"""


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    def record(recorder):
        (recorder.directory / "hidden.cc").write_text(SOURCE)
        subprocess.run(["g++", "-g", "-O0", "-o", recorder.directory / "hidden", recorder.directory / "hidden.cc"], check=True, timeout=60)
        return recorder.record([recorder.directory / "hidden"], name="it")
    return record_once("hidden", record, tmp_path_factory)


def test_watch_of_what_a_local_variable_hides(hidden, opened):  # noqa: F811
    session, changes = opened(hidden), []
    session.watch("::x", lambda hit: changes.append((hit.old, hit.new)))
    assert session.run().kind == "end"
    assert changes == [(1, 2), (2, 4), (4, 7)]


def test_reads_and_conditions(hidden, opened):  # noqa: F811
    session = opened(hidden)
    session.breakpoint("hidden.cc:7", condition="::x == 4 && x == 200")
    assert session.run().kind == "breakpoint"
    node = session.nodes[0]
    assert (node.read("x"), node.read("::x"), node.read("::x * 2 + x")) == (200, 4, 208)


def test_at_the_console(hidden, recorder):
    asked = recorder.run([recorder.friday, "replay", hidden.path, "--batch", "-ex", "watch ::x if ::x > 3", "-ex", "continue", "-ex", "print ::x", "-ex", "python print(@(::x) + @(x))"])
    assert asked.returncode == 0, asked.stderr
    shown = asked.stdout
    assert "= 4" in shown and "204" in shown, shown
