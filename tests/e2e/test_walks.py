"""Wherever a session goes, forward and back, with stop points, writes and calls that come and go, the group is the one of a replay
that goes there straight: registers and memory of all nodes, compared at marks. On systems that were not written for it.

The walk makes one move after the other at random, from a seed that a failure prints, and keeps the mark of many places. Then a
session that never goes back visits these in the order of time.
"""
import random
import re

import pytest
from conftest import free_ports
from debug_support import BUILD, friday, opened, record_once, record_plan, ring_plan  # noqa: F401
from programs import new_place
from test_postgres import Postgres
from test_redis import Redis, put_and_get

pytestmark = pytest.mark.limit(1500)

FUNCTIONS = ("write", "read", "malloc", "memcpy", "epoll_wait", "sigaction", "pthread_mutex_lock", "free", "fork", "poll")
STEPS = ("stepi", "nexti", "reverse-stepi", "reverse-nexti", "step", "next", "finish", "reverse-step", "reverse-next", "reverse-finish")
WITHOUT_LINES = 4  # of these can be made in a program that has none: gdb's step there goes to the end of the function, one instruction after the other
STRIPPED = ("postgres", "restarted")
WATCHES = {"ring": ("srv.seq", "srv.successor", "srv.node.id"), "threads": ("total",), "signals": ("handled_by_reader",)}
REGISTERS = ("rip", "rsp", *(f"r{name}" for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", *range(8, 16))))
CANNOT = (friday.Unsupported, friday.UsageError, friday.NodeNotStarted, friday.NodeEnded, friday.NoSymbol, friday.CallFailed)


def ring(recorder):
    return record_plan(recorder, ring_plan.make_plan(nodes=8, seconds=6, seed=5, kills=2, gap=0.2, period=150, fault=True))


def redis(recorder):
    """A primary with two replicas, one of which begins anew, and a child that saves."""
    servers = Redis(recorder, free_ports(3), recorder.directory)
    servers.wait_for_copies()
    put_and_get(servers)
    servers.load(300, "set", "lpush")
    servers.ask(0, "bgsave")
    servers.ask(1, "replicaof", "no", "one")
    servers.ask(1, "replicaof", "127.0.0.1", str(servers.ports[0]))
    servers.wait_for_copies()
    return servers.end()


def postgres(recorder):
    """Shared memory, and backends that are forked all the time."""
    with new_place() as place:
        server = Postgres(recorder, free_ports, place)
        server.sql("create table kept (n int); insert into kept select generate_series(1, 100)")
        for n in range(4):
            server.sql(f"insert into kept values ({n}); select sum(n) from kept")
        return server.end()


def target(name, *arguments):
    return lambda recorder: recorder.record([BUILD / "targets" / name, *arguments])


def restarted(recorder):
    """A node that is killed, and one that is stopped; both begin again."""
    command = ["/usr/bin/awk", "BEGIN { for (k = 0; k < 4000; k++) { for (i = 0; i < 300; i++) x += i; print k; fflush() } }"]
    nodes = [{"name": name, "command": command, "stdout": f"{name}.out"} for name in ("killed", "stopped", "other")]
    events = [{"at": 0.2, "kill": "killed"}, {"at": 0.4, "restart": "killed"}, {"at": 0.3, "stop": "stopped"}, {"at": 0.6, "continue": "stopped"}]
    return recorder.group({"group": {}, "node": nodes, "event": events})


RECORDINGS = {"ring": ring, "redis": redis, "postgres": postgres, "restarted": restarted, "threads": target("workers", "10"), "signals": target("signals_threads"),
              "execs": target("execs"), "forks": target("fork_many")}
IN_SAMPLE = ("ring", "threads")


def moves_of(name):
    """A move takes a few milliseconds, but with the ten processes of PostgreSQL, or the events of Redis, a second."""
    return {"redis": 200, "postgres": 150, "forks": 200}.get(name, 890)  # 5,000 in all


def registers_of(session, node):
    """Those of the current thread as Friday reads them, and if there are more threads, those of all as gdb shows them."""
    own = [int(node.read(f"(unsigned long)${name}")) for name in REGISTERS]
    if len(node.threads()) > 1:
        shown = session.backend.gdb(int(node), f"thread apply all -q info registers {' '.join(REGISTERS)} eflags fs_base").splitlines()
        each = len(REGISTERS) + 2
        shown = [re.sub(r"eflags +0x1?0*(\w+) .*?( RF)? ]", r"eflags \1", line) for line in shown]  # how a thread was stopped before may set RF
        own.append(sorted(shown[at:at + each] for at in range(0, len(shown), each)))  # gdb numbers threads in the order in which it came to know them
    return own


def stands(session):
    """Where the group stands: of each node its events, the registers of its threads, and its memory."""
    backend = session.backend
    found = []
    for node in session.all_nodes:
        registers = None
        if backend.states()[int(node)] == "alive":
            registers = registers_of(session, node)
        found.append((int(node), backend.event(int(node)), registers, backend.state_hash(int(node))))
    return found


def differences(there, before):
    """What is not the same, for who looks into a failure."""
    def flat(place):
        return {(node, *key): value for node, *rest in place for key, value in pieces(rest)}

    def pieces(rest, key=()):
        for number, value in enumerate(rest):
            yield from pieces(value, (*key, number)) if isinstance(value, list) else [((*key, number), value)]
    now, then = flat(there), flat(before)
    return {key: (now.get(key), then.get(key)) for key in now.keys() | then.keys() if now.get(key) != then.get(key)}


class Walk:
    def __init__(self, session, chance, steps, watches):
        self.session, self.chance, self.steps, self.watches = session, chance, steps, watches
        self.places, self.events, self.came = {}, {}, {}  # what they are like, the events before them, and the moves that led there, by mark
        self.done = []  # what it has done, for who looks into a failure

    def move(self):
        session, chance = self.session, self.chance
        how = chance.choices(("run", "step", "goto", "mark", "back", "undo", "redo", "point", "unpoint", "write", "call", "checkpoint", "end", "restart"),
                             (20, 30, 12, 8, 12, 8, 4, 8, 6, 3, 2, 2, 1, 1))[0]
        self.done.append(how)
        if how in ("run", "step", "goto", "mark", "back", "end", "restart"):
            session.backend.note_move(session.states.tag())
        getattr(self, f"_{how}")()
        if session.altered:  # a branch, which the walk leaves by going back
            if done := session.backend.events_done():
                self._goto(done)
            if session.altered:
                session.restart()

    def _run(self):
        if self.session.run().kind == "end":
            self._goto()

    def _step(self):
        node = self.session.here if self.chance.random() < 0.7 else self.chance.choice(self.session.backend.alive() or [0])
        self.done[-1] = f"{node} {(how := self.chance.choice(self.steps))}"
        self.session.step(node, how)

    def _goto(self, before=None):
        backend = self.session.backend
        node, event = backend.at_position(self.chance.randrange(before or backend.total_events()))
        self.done.append(f"goto {event} of {node}")
        self.session.goto(event, node=node)

    def _mark(self):
        if self.places:
            mark = self.chance.choice(list(self.places))
            self.done[-1] = f"goto {mark}"
            self.session.goto(mark)
            there = stands(self.session)
            assert not (different := differences(there, self.places[mark])), f"{mark}: {different}: first after {self.came[mark]}: {self.done}"

    def _back(self):
        self.session.reverse_continue()

    def _undo(self):
        self.session.undo()

    def _redo(self):
        self.session.redo()

    def _point(self):
        session, chance = self.session, self.chance
        if len(session.points) >= 4:
            return
        if (kind := chance.choice(("break", "break", "event", "timer", *(("watch",) * 2 if self.watches else ())))) == "break":
            session.breakpoint(f"-pending {chance.choice(FUNCTIONS)}")
        elif kind == "watch":
            session.watch(chance.choice(self.watches), nodes=[chance.choice(session.every_node)] if chance.random() < 0.5 else None)
        elif kind == "event":
            session.catch(f"syscall {chance.choice(('write', 'read', 'futex', 'close', 'brk'))}")
        else:
            session.every(lambda: None, seconds=chance.uniform(0.01, 0.5))

    def _unpoint(self):
        if self.session.points:
            self.chance.choice(list(self.session.points.values())).delete()

    def _write(self):
        node = self.chance.choice(self.session.backend.alive() or [0])
        self.session.nodes[node].write("*(int*)$sp", 1234)

    def _call(self):
        node = self.chance.choice(self.session.backend.alive() or [0])
        self.session.nodes[node].call("getpid")

    def _checkpoint(self):
        self.session.checkpoint()

    def _end(self):
        self.session.goto_end()

    def _restart(self):
        self.session.restart()

    def keep(self):
        before = stands(self.session)
        try:
            mark = self.session.mark()
        except friday.Error as error:
            stop = self.session.last_stop
            raise AssertionError(f"no mark at {before[self.session.here]}, {stop}, {stop and stop.location}: {error}; {self.done[-20:]}") from error
        assert stands(self.session) == before, f"naming {mark} has moved the group: {self.done}"
        if mark != "start":
            assert not (different := differences(before, self.places.setdefault(mark, before))), f"{mark}: {different}: first after {self.came[mark]}: {self.done}"
            self.events[mark] = self.session.backend.events_done()
            self.came.setdefault(mark, self.done[-5:])


@pytest.mark.parametrize("name", [name if name in IN_SAMPLE else pytest.param(name, marks=pytest.mark.full) for name in RECORDINGS])
def test_a_walk_is_a_straight_replay(name, opened, tmp_path_factory, request):
    full = "not full" not in (request.config.getoption("-m") or "")
    recording = record_once(f"walk-{name}", RECORDINGS[name], tmp_path_factory)
    seed = random.randrange(1 << 32)
    print(f"{name}, seed {seed}")
    chance = random.Random(seed)
    session = opened(recording)
    session.set_checkpoints(True)
    session.run()
    walk = Walk(session, chance, STEPS[:WITHOUT_LINES] if name in STRIPPED else STEPS, WATCHES.get(name))
    for number in range(moves_of(name) if full else 100):
        try:
            walk.move()
        except CANNOT as error:
            walk.done[-1] += f" ({type(error).__name__})"
        if number % 4 == 0 and not session.altered:
            walk.keep()
    assert len(walk.places) > 10, (seed, walk.done)
    straight = opened(recording)
    for mark in sorted(walk.places, key=walk.events.get):
        straight.goto(mark)
        different = differences(stands(straight), walk.places[mark])
        assert not different, f"{mark}, seed {seed}: {different}: first after {walk.came[mark]}: {walk.done}"
