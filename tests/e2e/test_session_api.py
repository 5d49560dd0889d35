"""What scripts ask of a session on real recordings: messages, threads, symbols, and that time does not run back."""

import ast
import os
import subprocess
import sys

from debug_support import BUILD, ROOT, break_at, friday, opened, ring, run_to_end, workers  # noqa: F401


def test_the_core_has_what_the_contract_says():
    """_friday.Session against the protocol and the types of its module (_friday.pyi)."""
    import _friday
    from friday.backend import Backend
    types = next(node for node in ast.parse((ROOT / "pyext" / "_friday.pyi").read_text()).body if isinstance(node, ast.ClassDef))
    written = {name for name in vars(Backend) if not name.startswith("_")} | {item.name for item in types.body if isinstance(item, ast.FunctionDef)} - {"__init__"}
    assert {name for name in dir(_friday.Session) if not name.startswith("_")} == written


def test_threads_and_symbols(workers, opened):
    session = opened(workers)
    stop = break_at(session, "turn", condition="number == 3")
    node = session.node
    threads = node.threads()
    assert [(t.number, t.name) for t in threads] == [(0, "workers"), *((n, f"worker-{n}") for n in range(1, 5))]
    current = [t for t in threads if t.current]
    assert [(t.number, t.function, t.parked) for t in current] == [(stop.thread, "turn", False)]
    assert f"{current[0].file.rpartition('/')[2]}:{current[0].line}" in stop.location and current[0].address == node.read("$pc")
    assert all(t.parked for t in threads if not t.current) and len({t.tid for t in threads}) == 5
    assert node.threads() == threads and "turn (" in node.backtrace(), "asking changes no selection"
    assert [place.is_function for place in node.symbols("sum_*")["sum_of"]] == [True]
    assert [place.is_function for place in node.symbols("total")["total"]] == [False]
    run_to_end(session)
    assert [t.number for t in node.threads()] == [0]


def test_threads_without_a_name_of_their_own_have_the_program_s(recorder, opened, build):
    session = opened(recorder.record([build / "targets" / "linger"], name="it"))
    break_at(session, "read_all")
    assert [(t.number, t.name) for t in sorted(session.node.threads(), key=lambda t: t.number)] == [(0, "linger"), (1, "linger")]


def test_messages_have_both_places(ring, opened):
    session = opened(ring)
    between = session.messages(src=1, dst="n2")
    everything = session.messages()
    assert between and between == [m for m in everything if m.source == 1 and m.target == 2]
    assert [m.number for m in everything] == list(range(1, len(everything) + 1))
    assert all(m.sent <= m.received and m.channel == "datagram" for m in between)
    message = between[len(between) // 2]
    session.goto(message.target_event, node=message.target)
    assert message.is_sent and not message.is_received and session.last_message(2) != message
    session.goto(message.target_event + 1, node=message.target)
    assert message.is_received and session.last_message("n2") == message
    run_to_end(session)
    assert {m.number: m.is_received for m in everything} == {m.number: m.target is not None for m in everything}


def test_time_never_runs_back_between_hits_and_timers(ring, opened):
    session = opened(ring)
    seen = []

    def note():
        seen.append((session.logical_time, session.hit.point.kind, session.hit.stop.logical_time))
    session.every(note, seconds=0.01)
    session.watch("srv.successor", note)
    session.breakpoint("process_packet", note)
    run_to_end(session)
    assert {kind for _, kind, _ in seen} == {"timer", "watch", "breakpoint"}
    assert [(before, after) for before, after in zip(seen, seen[1:]) if after[0] < before[0]] == []
    assert all(now == stop for now, _, stop in seen)
    ticks = [float(now) for now, kind, _ in seen if kind == "timer"]
    assert all(after > before for before, after in zip(ticks, ticks[1:]))


def test_nobody_runs_on_behind_the_end_of_a_node_before_it_was_told(recorder, opened):
    fifo = recorder.directory / "fifo"
    os.mkfifo(fifo)
    recording, _ = recorder.record_nodes([["/usr/bin/perl", "-e", f"open F, '>', '{fifo}'; print F 'word'"],
                                          ["/usr/bin/perl", "-e", f"open F, '<', '{fifo}'; select undef, undef, undef, 0.2; print <F>"]],
                                         env={"LD_BIND_NOW": "1"})  # else the core is needed where a call is bound
    session = opened(recording)
    message, = [m for m in session.messages() if m.source is not None and m.target is not None]
    stood = []
    session.on_exit = lambda stop: stop.node == message.source and stood.append(session.backend.event(message.target))
    assert session.goto(message.target_event, node=message.target).kind == "reached"
    assert session.backend.event(message.target) == message.target_event - 1
    assert len(stood) == 1 and stood[0] < message.target_event - 1, "it waits in select when the sender ends"
    assert session.goto(message.target_event + 1, node=message.target).kind == "reached"
    run_to_end(session)


# Opens and runs a session with ever more memory, until it is enough.
LITTLE_MEMORY = """
import resource, sys
import friday, _friday
for mib in range(8, 4096, 8):
    used = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (mib << 20), -1))
    try:
        with friday.Session(sys.argv[1]) as session:
            session.run()
        print("enough")
        break
    except (MemoryError, friday.Error) as error:
        print(type(error).__name__, error)
"""


def test_too_little_memory_is_an_exception(recorder):
    """One with words, of which the process does not die."""
    opens = "for i in range(30000): open('/dev/null').close()"
    recording = recorder.record([sys.executable, "-c", opens], name="it")
    python_path = subprocess.run([BUILD / "bin" / "friday", "--python-path"], capture_output=True, text=True, check=True).stdout.strip()
    done = recorder.run([sys.executable, "-c", LITTLE_MEMORY, recording.path], env={"PYTHONPATH": python_path})
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last == "enough" and any(line.startswith("MemoryError there is not enough memory for this") for line in refused), done.stdout
