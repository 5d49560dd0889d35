"""Programs of tests/targets that are hard to replay, under the debugger: stopped at every `write` and asked by gdb where they stand, they come to
the end they come to alone."""
import pytest
from debug_support import BUILD, final_state, friday, opened  # noqa: F401

pytestmark = pytest.mark.limit(120)
TARGETS = {name: [name] for name in ("threads_cancel", "threads_spin", "threads_loops_count", "signals_masks", "signals_jump", "spawns_memory", "aio")}
TARGETS["shared_locks"] = ["shared_processes", "locks"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full if name == "spawns_memory" else ()) for name in TARGETS])
def test_a_stop_at_every_write_changes_nothing(name, recorder, opened):
    program, *arguments = TARGETS[name]
    recording = recorder.record([BUILD / "targets" / program, *arguments], name="it")
    assert recording.returncode == 0, recording
    with friday.Session(recording.path) as session:
        plain = final_state(session)
    session, asked = opened(recording), []

    def at_write(hit):
        shown = session.backend.gdb(int(hit.node), "backtrace 1")
        assert "write" in shown, shown
        asked.append(int(hit.node))

    session.breakpoint("write", at_write)
    assert final_state(session) == plain
    assert asked
