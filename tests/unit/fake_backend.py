"""A replayed group in memory: implements friday.backend.Backend for tests of the Python half.

Nodes hold variables by the exact text of their C expression, and functions by name. A recording is a list of events:
each changes variables of one node and may stand at a location. Watchpoints compare values before and after an event,
as the real ones do."""
import json
import math
import pathlib
import re
import struct
import sys
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "pyext"))

from friday import errors  # noqa: E402

TYPES = {
    "1": {"kind": "int", "name": "int", "size": 4, "signed": True},
    "2": {"kind": "char", "name": "char", "size": 1, "signed": True},
    "3": {"kind": "pointer", "name": "char *", "size": 8, "target": "2"},
    "4": {"kind": "float", "name": "double", "size": 8, "format": "ieee64"},
    "5": {"kind": "struct", "name": "struct Node", "size": 16, "fields": [
        {"name": "id", "offset": 0, "type": "1"}, {"name": "next", "offset": 8, "type": "6"}]},
    "6": {"kind": "pointer", "name": "struct Node *", "size": 8, "target": "5"},
    "7": {"kind": "enum", "name": "enum state", "size": 4, "signed": False, "values": [["DOWN", 0], ["UP", 1]]},
    "8": {"kind": "array", "name": "char [8]", "size": 8, "element": "2", "count": 8},
    "9": {"kind": "array", "name": "int [3]", "size": 12, "element": "1", "count": 3},
    "10": {"kind": "bool", "name": "bool", "size": 1, "signed": False},
    "11": {"kind": "struct", "name": "struct Entry", "size": 16, "fields": [
        {"name": name, "offset": 4 * i, "type": "1"} for i, name in enumerate(("type", "address", "bytes", "term"))]},
}
NAMES = {entry["name"]: id_ for id_, entry in TYPES.items()}
FORMATS = {"int": "<i", "double": "<d", "enum state": "<I", "bool": "<B"}


@dataclass
class Event:
    """node does `changes` ({expression: value}) and then stands at `at`, when it is given."""
    node: int
    at: "str | None" = None
    changes: dict = field(default_factory=dict)
    seconds: float = 1.0
    starts: bool = False
    ends: bool = False


@dataclass
class Info:
    id: int
    name: str
    program: str = "/usr/bin/prog"
    parent: "int | None" = None
    previous: "int | None" = None
    alias: str = ""


@dataclass
class Message:
    number: int
    source: "int | None"
    target: "int | None"
    received: "int | None"
    target_event: "int | None" = 0
    bytes: int = 8
    is_received: bool = True
    source_event: "int | None" = 0
    sent: "int | None" = None
    channel: str = "datagram"


@dataclass
class FakeStop:
    kind: str
    ids: tuple = ()
    node: int = 0
    thread: "int | None" = None
    pc: int = 0
    location: "str | None" = None
    writer: tuple | None = None
    changes: dict = field(default_factory=dict)
    logical_time: int = 0
    real_time: float = 0.0
    event: "int | None" = None
    mark: "str | None" = None
    signal: "str | None" = None
    returned: "str | None" = None
    caught: "str | None" = None
    message: "str | None" = None
    divergence: "dict | None" = None


@dataclass
class Point:
    kind: str
    nodes: tuple
    what: list
    condition: "str | None"
    on: bool = True
    skip: int = 0
    due: float = 0.0


class FakeBackend:
    def __init__(self, names=("a", "b"), events=(), started=None):
        self.infos = [Info(i, name) for i, name in enumerate(names)]
        self.state = ["alive" if started is None or i in started else "not started" for i in range(len(names))]
        self.initial_state = list(self.state)
        self.variables = [{} for _ in names]
        self.functions = {}
        self.conditions = {}
        self.events = list(events)
        self.done = 0
        self.clock = 1000.0
        self.points = {}
        self.next_id = 1
        self.memory = {}
        self.next_address = 0x100000
        self.plans = []
        self.log = []  # writes, calls and gdb commands in order
        self.altered_since = {}
        self.final = FakeStop("end")
        self.pause = False
        self.order = "clock"
        self.patching = True
        self.kept = {"on": False, "budget": 1 << 30, "refusal": "", "kept": []}
        self.notices = []
        self.stripped = []  # ids of nodes without debug information
        self.sent = []  # Message
        self.contents = {}  # by number of a message
        self.bytes_read = 0

    # -- setting up --------------------------------------------------------------------------------------------------
    def raw(self, value, type_name=None, address=None):
        """The raw form of a Python value; str are char*, lists are arrays of ints."""
        if isinstance(value, tuple):
            return value
        if isinstance(value, list):
            return self.array(value)
        if type_name is None:
            type_name = {bool: "bool", int: "int", float: "double", str: "char *"}[type(value)]
        if type_name == "char *" and isinstance(value, (str, bytes)):
            value = self.put((value.encode() if isinstance(value, str) else value) + b"\0")
        if type_name.endswith("*"):
            data = struct.pack("<Q", value)
        elif type_name.startswith("char ["):
            data = value.ljust(8, b"\0")
        else:
            data = value if isinstance(value, bytes) else struct.pack(FORMATS[type_name], value)
        return int(NAMES[type_name]), data, address

    def array(self, numbers):
        """An array of ints as a variable, at a place in memory of its own."""
        name = f"int [{len(numbers)}]"
        if name not in NAMES:
            for entry in ({"kind": "array", "name": name, "size": 4 * len(numbers), "element": "1", "count": len(numbers)},
                          {"kind": "pointer", "name": f"int (*) [{len(numbers)}]", "size": 8, "target": str(len(TYPES) + 1)}):
                NAMES[entry["name"]] = str(len(TYPES) + 1)
                TYPES[NAMES[entry["name"]]] = entry
        data = struct.pack(f"<{len(numbers)}i", *numbers)
        return int(NAMES[name]), data, self.put(data)

    def put(self, data):
        address = self.next_address
        self.memory[address] = data
        self.next_address += (len(data) + 15) // 16 * 16
        return address

    def let(self, node, variables):
        for expression, value in variables.items():
            self.variables[node][expression] = self.raw(value)

    # -- nodes and time ----------------------------------------------------------------------------------------------
    def nodes(self):
        return self.infos

    def states(self):
        return list(self.state)

    def undescribed(self):
        return self.stripped

    def alive(self):
        return [i for i, state in enumerate(self.state) if state == "alive"]

    def logical_time(self):
        return self.done

    def real_time(self, node):
        return self.clock + node / 100

    def events_done(self):
        return self.done

    def event(self, node):
        return sum(1 for event in self.events[:self.done] if event.node == node) - 1

    def event_count(self, node):
        return sum(1 for event in self.events if event.node == node)

    def place(self, index):
        """(node, its event) of an event of the group."""
        node = self.events[index].node
        return node, sum(1 for event in self.events[:index] if event.node == node)

    def find_time(self, seconds):
        if seconds < 0 and (seconds := len(self.events) + seconds) < 0:
            return None
        index = max(math.ceil(seconds) - 1, 0)  # the logical time of an event is its place in the recording, from 1
        return self.place(index) if index < len(self.events) else None

    def end_time(self):
        return len(self.events)

    def clocks(self, node):
        now, found = 1000.0, []
        for event in self.events:
            now += event.seconds
            found += [now] if event.node == node else []
        return found

    def clock_span(self, node):
        return self.clocks(node)[0], self.clocks(node)[-1]

    def find_clock(self, node, seconds):
        return next((i for i, clock in enumerate(self.clocks(node)) if clock >= seconds), None)

    def sync(self):
        return self.order

    def progress(self):
        return self.done / max(len(self.events), 1), 1000.0

    def take_inferred(self):
        return []

    def altered(self, node):
        return self.altered_since.get(node)

    # -- expressions -------------------------------------------------------------------------------------------------
    def plan(self, expression):
        self.plans.append(expression)
        return len(self.plans) - 1

    def forget(self, plan):
        self.plans[plan] = None

    def read(self, node, plan):
        value = self.evaluate(node, self.plans[plan])
        self.bytes_read += len(value[1])
        return value

    def evaluate(self, node, text):
        if not 0 <= node < len(self.infos):
            raise errors.NoNode(f"no node {node}")
        if self.state[node] == "not started":
            raise errors.NodeNotStarted(f"{self.infos[node].name} has not started yet", node=node)
        variables = self.variables[node]
        if text in variables:
            return variables[text]
        place = re.fullmatch(r"&\((.+)\)", text)
        if place and place[1] in variables:
            type_id, _, address = variables[place[1]]
            name = TYPES[str(type_id)]["name"].replace("[", "(*) [")
            if address is None or name not in NAMES:
                raise errors.BadExpression(f"`{place[1]}` has no address")
            return int(NAMES[name]), struct.pack("<Q", address), None
        call = re.fullmatch(r"(\w+)\((.*)\)", text, re.S)
        if call and call[1] in self.functions:
            self.log.append((node, text))
            self.altered_since.setdefault(node, self.done)
            return self.raw(self.functions[call[1]](node, *[a.strip() for a in call[2].split(",")] if call[2] else ()))
        if re.fullmatch(r"-?\d+", text):
            return self.raw(int(text))
        cast = re.fullmatch(r'\*\((.+) \*\)(0x[0-9a-f]+)', text)
        if cast and int(cast[2], 16) in self.memory:
            return int(NAMES[cast[1]]), self.memory[int(cast[2], 16)], int(cast[2], 16)
        raise errors.NoSymbol(f'no symbol "{text}" in the program', nearest="x", node=node)

    def write(self, node, target, value):
        if self.state[node] == "ended":
            raise errors.NodeEnded("it has ended", node=node)
        self.log.append((node, f"{target} = {value}"))
        literal = re.fullmatch(r'"(.*)"', value)
        self.variables[node][target] = self.raw(literal[1]) if literal else self.evaluate(node, value)
        if "_friday_workspace" not in target:
            self.altered_since.setdefault(node, self.done)

    def write_bytes(self, node, target, data):
        self.log.append((node, target, data))
        self.variables[node][target] = (self.variables[node][target][0], data, None)

    def read_string(self, node, address):
        if address not in self.memory:
            raise errors.BadAddress(f"cannot read {address:#x}", address=address, node=node)
        return self.memory[address].partition(b"\0")[0]

    def read_memory(self, node, address, size):
        self.bytes_read += size
        for start, data in self.memory.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start:][:size]
        raise errors.BadAddress(f"cannot read {size} bytes at {address:#x}", address=address, node=node)

    def stage(self, node, data):
        return self.put(data)

    def types(self, type_id):
        return json.dumps({"types": TYPES})

    def prepare(self, nodes):
        pass

    def gdb_start(self, when=None):
        return when or "background"

    def gdb(self, node, command):
        self.log.append((node, "gdb " + command))
        return f"gdb {command}\n"

    def places(self, id):
        return [(0, None, "it is not there")] if "-pending" in str(self.points[id].what[0]) else []

    def was_placed(self, id):
        return "-pending" not in str(self.points[id].what[0])

    def endpoint(self, node):
        return f"/tmp/endpoint-{node}"

    def backtrace(self, node):
        return "#0 main () at prog.c:1\n"

    def messages(self, node, limit):
        """Those of `sent` that were received by now; tests put them there."""
        done = [m for m in self.sent if m.received <= self.done and (node is None or node in (m.source, m.target))]
        return done[-limit:]

    def message_contents(self, number):
        """Those that tests put into `contents`."""
        found = self.contents.get(number)
        return found, "only its hash was kept" if found is None else None

    def find_messages(self, sources, targets):
        return [m for m in self.sent if (sources is None or m.source in sources) and (targets is None or m.target in targets)]

    def last_received(self, node):
        return next((m for m in reversed(self.sent) if m.target == node and m.target_event <= self.event(node)), None)

    def take_notices(self):
        notices, self.notices = self.notices, []
        return notices

    # -- stop points -------------------------------------------------------------------------------------------------
    def add(self, point):
        self.points[self.next_id] = point
        self.next_id += 1
        return self.next_id - 1

    def add_breakpoint(self, nodes, location, condition):
        if location == "nowhere":
            raise errors.NoSymbol("no function `nowhere`")
        self.check_condition(condition)
        return self.add(Point("breakpoint", tuple(nodes), [location], condition))

    def add_watch(self, nodes, expressions, condition):
        return self.add(Point("watch", tuple(nodes), list(expressions), condition))

    def add_catch(self, nodes, what, condition):
        return self.add(Point("catch", tuple(nodes), [what], condition))

    def add_timer(self, seconds):
        return self.add(Point("timer", (), [seconds], None, due=self.clock + seconds))

    def delete(self, id):
        del self.points[id]

    def enable(self, id, on):
        self.points[id].on = on

    def ignore(self, id, count):
        self.points[id].skip = count

    def condition(self, id, condition):
        self.check_condition(condition)
        self.points[id].condition = condition

    def check_condition(self, condition):
        if error := getattr(self, "answers", {}).get(f"condition {condition}"):
            raise error

    # -- running -----------------------------------------------------------------------------------------------------
    def resume(self, timeout=None, last=None):
        while self.done < len(self.events):
            if self.pause and timeout is not None:
                self.pause = False
                return FakeStop("pause")
            event = self.events[self.done]
            stop = self.do(event)
            if stop.ids or stop.kind == "exit":
                return stop
        self.final.logical_time = self.done
        return self.final

    def do(self, event):
        self.done += 1
        self.clock += event.seconds
        node = event.node
        stop = FakeStop("breakpoint", node=node, thread=0, location=event.at, logical_time=self.done,
                        real_time=self.clock, event=self.event(node))
        if event.starts:
            self.state[node] = "alive"
        before = dict(self.variables[node])
        self.let(node, event.changes)
        if event.ends:
            self.state[node] = "ended"
            stop.kind, stop.message = "exit", "exited with 0"
            return stop
        stop.ids = tuple(id_ for id_, point in self.points.items() if point.on and self.hit(id_, point, event, before, stop))
        return stop

    def hit(self, id_, point, event, before, stop):
        if point.kind == "timer":
            if self.clock < point.due:
                return False
            point.due += point.what[0]
            stop.kind = "timer"
            return True
        if event.node not in point.nodes or point.condition and not self.conditions[point.condition](event.node):
            return False
        if point.kind == "breakpoint":
            if event.at not in point.what:
                return False
        else:
            now = self.variables[event.node]
            changed = [e for e in point.what if e in now and now[e][1] != before.get(e, (0, None))[1]]
            if not changed:
                return False
            stop.kind = "watch"
        if point.skip:
            point.skip -= 1
            return False
        if point.kind == "watch":
            stop.changes[id_] = (changed[0], before.get(changed[0]), now[changed[0]])
        return True

    def step(self, node, command):
        return FakeStop("step", node=node, logical_time=self.done)

    def run_to(self, node, event, timeout):
        points, self.points = self.points, {}
        try:
            while node is None or self.event(node) + 1 < event or self.events[self.done].node != node:
                if self.done == len(self.events):
                    self.final.logical_time = self.done
                    return self.final
                stop = self.do(self.events[self.done])
                if stop.kind == "exit":
                    return stop
        finally:
            self.points = points
        return FakeStop("reached", node=node, event=event - 1 if event else None, logical_time=self.done + 1)

    def release_processor(self):
        pass

    def interrupt(self):
        pass

    interrupted = False

    def interrupt_waits(self):
        return self.interrupted

    def clear_interrupt(self):
        self.interrupted = False

    def patch_stores(self):
        return self.patching

    def set_patch_stores(self, on):
        self.patching = on

    def approach(self, node, event):
        past = self.event(node) >= event
        if past:
            self.restart()
        return past

    def set_checkpoints(self, on=None, budget=None):
        self.kept.update({key: value for key, value in (("on", on), ("budget", budget)) if value is not None})

    def new_checkpoints(self):
        return []

    def checkpoint_numbers(self):
        return []

    def note_copy(self, seconds):
        pass

    def drop_checkpoints(self, events):
        pass

    def come_again(self, number, each):
        return False

    def note_move(self, tag=0):
        self.noted = getattr(self, "noted", 0) + 1

    def drop_move(self):
        self.noted -= 1

    def undo(self, forward=False, tag=0):
        return None

    def origin(self, node, where, low, size, bits, most, found):
        return []

    def come_back(self):
        pass

    def step_back(self, node):
        return None

    def cut_named(self, place):
        return int(float(place))

    def total_events(self):
        return len(self.script) if hasattr(self, "script") else 0

    def at_position(self, position):
        return 0, position

    def position(self):
        return f"0#{self.event(0) + 1}"

    def checkpoint(self):
        self.kept["kept"].append((self.done, self.clock, len(self.state), 0))

    def checkpoints(self):
        return self.kept

    def restart(self, sync=None):
        self.order = sync or self.order
        self.done, self.clock = 0, 1000.0
        self.state = list(self.initial_state)
        self.altered_since.clear()

    def close(self):
        pass
