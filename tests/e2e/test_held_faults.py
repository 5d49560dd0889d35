"""A thread that is stopped while it runs into an instruction that the shim carries out, or into a trapped call, and is then made to do
something for the debugger, goes on as if nothing had been."""
import pytest

# The other node is stopped now and then, while the first runs from one fault to the next; a watch makes a thread of the first change
# protections.
SCRIPT = """
import friday
session = friday.session
for at in range(200, 9000, 200):
    session.goto(at, node=1)
    point = session.watch("stdout", nodes=0)
    session.goto(at + 100, node=1)
    point.delete()
print(session.goto_end().kind)
"""


@pytest.mark.parametrize("options", [(), ("--no-patch",)], ids=["instructions", "calls"])
def test_a_fault_that_was_held(recorder, targets, tmp_path, options):
    group = {"node": [{"name": "a", "command": [str(targets / "tsc")]}, {"name": "b", "command": [str(targets / "diverge"), "long"]}]}
    recording = recorder.record(group, options=options)
    assert recording.returncode == 0, recording.stderr
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = recorder.run([recorder.friday, "run", "--sync", "free", script, recording.path], timeout=100)
    assert (done.returncode, done.stdout) == (0, "end\n"), done
