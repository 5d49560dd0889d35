"""Recordings of separate hosts, merged into one. Hosts are namespaces (hosts_support); what happened before what is judged by
what the programs themselves wrote into their messages and logs, not by what matching made of addresses and clocks."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, wait_until
from hosts_support import World

PYTHON, CLI, SERVER = "/usr/bin/python3", "/usr/bin/redis-cli", "/usr/bin/redis-server"
# Points on the ring. No byte is that of a backslash, which `friday dump` shows as it is.
IDS = [0x1111111111111111, 0x5555555555555555, 0x9999999999999999]
WAYS = ("object", "address", "one_address", "content")


def merge(recorder, out, *recordings, expect=0):
    done = recorder.run([recorder.friday, "merge", "-o", out, *recordings])
    assert done.returncode == expect, (done.stdout, done.stderr)
    return out if expect == 0 else done.stderr


def order_of(build, recording):
    """(position of an event, edges) as Friday computes them."""
    listed = subprocess.run([build / "bin" / "friday_order_check", "--list", recording], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(listed.stdout)
    positions, at = {}, 0
    for node, first, count in found["turns"]:
        for event in range(first, first + count):
            positions[node, event] = at
            at += 1
    return positions, found["edges"]


def check_order(build, recording):
    done = subprocess.run([build / "bin" / "friday_order_check", recording], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def events_of(recorder, recording, node):
    done = recorder.run([recorder.friday, "dump", recording, "--node", str(node), "--json"])
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def replay_all(recorder, recording):
    recorder.verify(recording)
    recorder.verify(recording, "--sync", "causal")


# -- the ring: every packet carries its sender's id and how many that one had sent ------------------------------------------

def shown_bytes(preview):
    def byte(match):
        return chr(int(match[1], 16)) if match[1] else {"n": "\n", "r": "\r"}[match[2]]
    return re.sub(r"\\(?:x([0-9a-f]{2})|([nr]))", byte, preview).encode("latin-1")


def packets_of(events):
    """(events of the sends, [(event of a receipt, sender's id, its number)])"""
    sends, receipts = [], []
    for event in events:
        if event.get("call") == "sendto" and event["type"] in ("call", "release"):
            sends.append(event["event"])
        if event.get("call") != "recvfrom" or event["type"] == "release" or event["result"] <= 0:
            continue
        head = shown_bytes(next(part["preview"] for part in event["parts"] if "preview" in part))
        receipts.append((event["event"], int.from_bytes(head[16:24], "little"), int.from_bytes(head[8:12], "little")))
    return sends, receipts


def judge_ring(recorder, build, recording):
    """Each packet of a recorded node is matched with the call that sent it, none of another is; how many of each there were."""
    ids = {f"n{index}": id for index, id in enumerate(IDS)}
    nodes = {node["id"]: ids[node["name"].rpartition(".")[2]] for node in recorder.info(recording)["nodes"]}
    by_id = {id: node for node, id in nodes.items()}
    packets = {node: packets_of(events_of(recorder, recording, node)) for node in nodes}
    positions, edges = order_of(build, recording)
    causes = {(to, at): (source, sent, by) for kind, by, source, sent, to, at in edges if kind == "datagram"}
    matched = strangers = 0
    for node, (_, receipts) in packets.items():
        for at, sender, number in receipts:
            if sender not in by_id:
                assert (node, at) not in causes, f"a packet of an unrecorded sender got the edge {causes[node, at]}"
                strangers += 1
                continue
            source = by_id[sender]
            sent = packets[source][0][number - 1]
            if source != node:  # a node may send to itself; its own order says enough then
                assert causes.get((node, at), (None,))[:2] == (source, sent), (node, at, source, sent, causes.get((node, at)))
                matched += 1
            assert positions[source, sent] < positions[node, at]
    return matched, strangers


class Ring:
    """Three nodes of a ring on three hosts, and a client that nobody records. `rewritten`: each node is known by an address and
    port of the router's, which rewrites them."""

    def __init__(self, recorder, build, world, ahead=(0, 0, 0), rewritten=False):
        self.recorder, self.hosts = recorder, [world.host(name, ahead=ahead[index]) for index, name in enumerate("abc")]
        if rewritten:  # before the first packet: the kernel keeps to what it decided for a flow
            world.rewrite({("udp", host.gateway, 9000 + index): (host.address, 7000 + index) for index, host in enumerate(self.hosts)})
        apps, addresses = build / "apps", []
        self.running = []
        for index, host in enumerate(self.hosts):
            known = f"{host.gateway}:{9000 + index}" if rewritten else f"{host.address}:{7000 + index}"
            command = [apps / "chord", "--name", f"n{index}", "--host", host.address, "--port", 7000 + index, "--id", f"{IDS[index]:016x}",
                       "--period", 100, "--seed", index, *(["--public", known] if rewritten else []),
                       *(["--join", addresses[0]] if index else [])]
            addresses.append(known)
            self.running.append(host.record(f"n{index}", command))
        self.client = self.hosts[0].start([apps / "chordclient", "--host", self.hosts[0].address, "--nodes", ",".join(addresses), "--seconds", "4", "--rate", "100"])

    def end(self):
        said = self.client.finish(40)
        assert said.returncode == 0 and "hit=" in said.stdout, said
        assert int(re.search(r"hit=(\d+)", said.stdout)[1]) > 20, said.stdout
        for running in self.running:
            running.signal(15)
        for running in self.running:
            done = running.finish(30)
            assert done.returncode == 0, done.stderr
        return [running.recording for running in self.running]


def clocks_of(info):
    return {host["name"]: host for host in info["hosts"]}


def check_clock(found, expected_seconds):
    off = found["ahead_ns"] - expected_seconds * 1e9
    assert found["placed_by"]["margin_ns"] >= 0, found
    assert abs(off) <= found["placed_by"]["margin_ns"] + 1_000_000, (found, off)


@pytest.mark.limit(200)
def test_ring_on_three_hosts(recorder, build):
    """Clocks hours apart; merged, every message finds its sender, and the clocks come together."""
    parts = Ring(recorder, build, World(recorder), ahead=(0, 5000, -2000)).end()
    whole = merge(recorder, recorder.directory / "all", *parts)
    info = recorder.info(whole)
    assert [node["name"] for node in info["nodes"]] == ["n0", "n1", "n2"]
    check_order(build, whole)
    matched, strangers = judge_ring(recorder, build, whole)
    assert matched > 100 and strangers > 100
    # The nodes do not ask where a packet came from.
    assert info["matched"]["one_address"] == matched and info["matched"]["content"] == info["matched"]["address"] == 0
    assert info["matched"]["unmatched_receives"] == strangers and info["contradictions"] == 0
    said = recorder.run([recorder.friday, "info", whole]).stdout
    assert f"messages matched: {matched} by one address" in said and f"{strangers} received from senders that are not recorded" in said
    assert abs(float(re.search(r"clock ([\d.]+) s ahead of host 0's", said)[1]) - 5000) < 1, said
    assert abs(float(re.search(r"clock ([\d.]+) s behind host 0's", said)[1]) - 2000) < 1, said
    clocks = clocks_of(info)
    check_clock(clocks["b"], 5000)
    check_clock(clocks["c"], -2000)
    replay_all(recorder, whole)
    script = recorder.directory / "ids.py"
    script.write_text("import friday\ns, ids = friday.session, set()\n@s.breakpoint('set_successor')\ndef moved(hit):\n"
                      "    ids.add(int(hit.node.read('srv.node.id')))\ns.run()\nprint(sorted(ids))\n")
    ran = recorder.run([recorder.friday, "run", script, whole])
    assert ran.returncode == 0 and ran.stdout.strip() == str(IDS), ran

    # A clock that also drifts: written into a copy, as no kernel lets CLOCK_MONOTONIC do so.
    shutil.copytree(parts[2], recorder.directory / "drifting")
    subprocess.run([build / "bin" / "friday_skew", recorder.directory / "drifting", "3.5", "800"], check=True, timeout=60)
    drifting = merge(recorder, recorder.directory / "all-drifting", *parts[:2], recorder.directory / "drifting")
    info = recorder.info(drifting)
    check_order(build, drifting)
    assert judge_ring(recorder, build, drifting) == (matched, strangers)
    assert abs(clocks_of(info)["c"]["gains_ppm"] - 800) < 300, info["hosts"]
    assert abs(clocks_of(info)["b"]["gains_ppm"]) < 300, info["hosts"]
    replay_all(recorder, drifting)

    # One host's recording is missing: what came from there is a local tick.
    two = merge(recorder, recorder.directory / "two", "left=" + str(parts[0]), "right=" + str(parts[2]))
    info = recorder.info(two)
    assert [node["name"] for node in info["nodes"]] == ["left.n0", "right.n2"]
    some, others = judge_ring(recorder, build, two)
    assert 0 < some < matched and others > 0
    assert info["matched"]["unmatched_receives"] == others
    replay_all(recorder, two)


@pytest.mark.limit(200)
def test_ring_behind_rewritten_addresses(recorder, build):
    """What a packet was sent to is not what received it, and answers come from elsewhere."""
    parts = Ring(recorder, build, World(recorder), ahead=(0, 777, 0), rewritten=True).end()
    whole = merge(recorder, recorder.directory / "all", *parts)
    info = recorder.info(whole)
    check_order(build, whole)
    matched, strangers = judge_ring(recorder, build, whole)
    assert matched > 100 and strangers > 100
    ways = info["matched"]
    assert ways["content"] > 100 and sum(ways[way] for way in WAYS) == matched, ways
    assert ways["unmatched_receives"] == strangers
    check_clock(clocks_of(info)["b"], 777)
    replay_all(recorder, whole)


# -- Redis: the logs of both servers tell what came before what --------------------------------------------------------------

class Pair:
    """A recorded primary and its recorded replica, which reaches it at `at` (address, port)."""

    def __init__(self, recorder, world, primary, replica, at):
        self.recorder, self.world, self.hosts = recorder, world, (primary, replica)
        self.logs, self.running = [], []
        for host, name, more in ((primary, "primary", []), (replica, "replica", ["--replicaof", at[0], str(at[1])])):
            place = recorder.directory / f"data-{name}"
            place.mkdir()
            self.logs.append(place / "log")
            command = [SERVER, "--port", "7000", "--bind", host.address, "--protected-mode", "no", "--daemonize", "no", "--save", "", "--logfile", self.logs[-1],
                       "--repl-diskless-sync-delay", "0", *more]
            self.running.append(host.record(name, command, cwd=place))

    def ask(self, host, *words):
        return host.run([CLI, "-h", host.address, "-p", "7000", *words]).strip()

    def settle(self):
        def linked():
            return "master_link_status:up" in self.ask(self.hosts[1], "info", "replication")
        for host in self.hosts:
            self.world.connects(host, host.address, 7000)
        wait_until(linked, "the replica has no link to its primary", 40)
        for number in range(50):
            self.ask(self.hosts[0], "set", f"key{number}", f"value{number}")
        wait_until(lambda: self.ask(self.hosts[1], "get", "key49") == "value49", "the replica does not catch up", 40)

    def end(self):
        for running in reversed(self.running):
            running.signal(15)
            done = running.finish(40)
            assert done.returncode == 0, done.stderr
        return [running.recording for running in self.running]


def lines_of(recorder, recording, node, log):
    """{text: event that wrote it} of a Redis log: each line is one write, of its length."""
    pid = next(described["pid"] for described in recorder.info(recording)["nodes"] if described["id"] == node)
    writes = iter([event for event in events_of(recorder, recording, node)
                   if event.get("call") == "write" and event["type"] != "release" and not any("peer" in part for part in event["parts"])])
    found = {}
    for line in log.read_text().splitlines():
        if match := re.match(rf"{pid}:\S.*? [*#.-] (.*)", line):
            found[match[1]] = next(event["event"] for event in writes if event["result"] == len(line) + 1)
    return found


def judge_pair(recorder, build, recording, logs):
    names = {node["name"]: node["id"] for node in recorder.info(recording)["nodes"]}
    primary, replica = names["primary"], names["replica"]
    said = {node: lines_of(recorder, recording, node, log) for node, log in ((primary, logs[0]), (replica, logs[1]))}
    positions, _ = order_of(build, recording)

    def at(node, start):
        return next(positions[node, event] for text, event in said[node].items() if text.startswith(start))

    assert at(replica, "MASTER <-> REPLICA sync started") < at(primary, "Replica ") < at(replica, "Full resync from master")
    assert at(primary, "Starting BGSAVE") < at(replica, "MASTER <-> REPLICA sync: Finished with success")
    return primary, replica


def streams_between(info, a, b):
    counts = dict.fromkeys(WAYS, 0)
    for pair in info["messages"]:
        if {pair["from"], pair["to"]} == {a, b}:
            for way in WAYS:
                counts[way] += pair["by"][way]
    return counts


def check_pair(recorder, build, pair, way, ahead):
    parts = pair.end()
    whole = merge(recorder, recorder.directory / "all", *parts)
    check_order(build, whole)
    primary, replica = judge_pair(recorder, build, whole, pair.logs)
    info = recorder.info(whole)
    counts = streams_between(info, primary, replica)
    assert counts[way] > 50 and all(count == 0 for other, count in counts.items() if other != way), counts
    check_clock(clocks_of(info)["replica-host"], ahead)
    replay_all(recorder, whole)


@pytest.mark.limit(240)
def test_redis_pair(recorder, build):
    world = World(recorder)
    primary, replica = world.host("primary-host"), world.host("replica-host", ahead=-1500)
    pair = Pair(recorder, world, primary, replica, (primary.address, 7000))
    pair.settle()
    check_pair(recorder, build, pair, "address", -1500)


@pytest.mark.limit(240)
def test_redis_pair_behind_a_rewritten_address(recorder, build):
    world = World(recorder)
    primary, replica = world.host("primary-host"), world.host("replica-host", ahead=60)
    world.rewrite({("tcp", replica.gateway, 7100): (primary.address, 7000)})
    pair = Pair(recorder, world, primary, replica, (replica.gateway, 7100))
    pair.settle()
    check_pair(recorder, build, pair, "one_address", 60)


@pytest.mark.limit(240)
def test_redis_pair_and_equal_clients_through_a_proxy(recorder, build):
    """A proxy that is not recorded stands between all of them. Clients that say the same are told apart by time."""
    world = World(recorder)
    primary, replica = world.host("primary-host"), world.host("replica-host", ahead=3600)
    proxy = world.router.start([PYTHON, ROOT / "tests" / "e2e" / "forward.py", replica.gateway, 7100, primary.address, 7000])
    assert proxy.process.stdout.readline() == "forwarding\n"
    pair = Pair(recorder, world, primary, replica, (replica.gateway, 7100))
    pair.settle()
    for said in ("1000000000", "2000000000", "3000000000"):
        client = replica.record("client", [CLI, "-h", replica.gateway, "-p", "7100", "incrby", "counter", "1000000000"])
        assert client.finish(30).stdout.strip() == said
    merged = merge(recorder, recorder.directory / "all", *pair.end())
    check_order(build, merged)
    primary_node, replica_node = judge_pair(recorder, build, merged, pair.logs)
    info = recorder.info(merged)
    counts = streams_between(info, primary_node, replica_node)
    assert counts["content"] > 50 and counts["address"] == counts["one_address"] == 0, counts
    check_clock(clocks_of(info)["replica-host"], 3600)
    # The clients ran one after the other, and what they asked and got has equal lengths and mostly equal bytes.
    positions, edges = order_of(build, merged)
    names = {node["name"]: node["id"] for node in info["nodes"]}
    asked = []
    for client in ("client", "client#2", "client#3"):
        asks = [edge for edge in edges if edge[0] == "stream" and edge[2] == names[client] and edge[4] == primary_node]
        answers = [edge for edge in edges if edge[0] == "stream" and edge[2] == primary_node and edge[4] == names[client]]
        assert asks and answers, (client, edges)
        asked.append((positions[primary_node, asks[0][5]], positions[primary_node, answers[-1][3]]))
    flat = [position for pair_of in asked for position in pair_of]
    assert flat == sorted(flat), asked
    replay_all(recorder, merged)


# -- what merge refuses -------------------------------------------------------------------------------------------------------

@pytest.fixture
def two(recorder):
    return [recorder.record(["/bin/echo", word], name="echo").path for word in ("one", "two")]


def tree(path):
    return {file.relative_to(path): (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


def test_merged_names(recorder, two):
    before = [tree(path) for path in two]
    out = recorder.directory / "out"
    said = merge(recorder, out, *two, expect=2)
    assert "both have a node echo" in said and f"h1={two[0]} h2={two[1]}" in said and not out.exists()
    done = recorder.run([recorder.friday, "merge", "-o", out, f"one={two[0]}", f"two={two[1]}"])
    assert done.returncode == 0 and "were recorded on one host" in done.stdout and "--separate-hosts" in done.stdout, done
    info = recorder.info(out)
    assert [node["name"] for node in info["nodes"]] == ["one.echo", "two.echo"]
    assert len(info["hosts"]) == 1
    recorder.verify(out, "--node", "two.*")
    recorder.verify(out)
    assert [tree(path) for path in two] == before, "merge changed its inputs"
    # What is the same is kept once: libraries of both.
    assert len(list((out / "files").iterdir())) == len({file.name for path in two for file in (path / "files").iterdir()})
    separate = recorder.directory / "separate"
    done = recorder.run([recorder.friday, "merge", "--separate-hosts", "-o", separate, f"one={two[0]}", f"two={two[1]}"])
    assert done.returncode == 0 and "were recorded on one host" not in done.stdout and len(recorder.info(separate)["hosts"]) == 2
    assert "no message relates it" in recorder.run([recorder.friday, "info", separate]).stdout
    # A merged recording is one like any other: it can be merged again, and added to.
    third = recorder.record(["/bin/echo", "three"], name="last").path
    again = merge(recorder, recorder.directory / "again", out, third)
    recorder.record(["/bin/echo", "four"], name="added", path=again)
    assert [node["name"] for node in recorder.info(again)["nodes"]] == ["one.echo", "two.echo", "last", "added"]
    recorder.verify(again)


def test_forked_and_replaced_nodes_keep_their_lineage(recorder):
    paths = [recorder.record(["/bin/sh", "-c", f"/bin/echo {word}; exec /bin/true"], name="sh").path for word in ("one", "two")]
    out = merge(recorder, recorder.directory / "out", f"h1={paths[0]}", f"h2={paths[1]}")
    names = [node["name"] for node in recorder.info(out)["nodes"]]
    originals = [node["name"] for node in recorder.info(paths[0])["nodes"]]
    assert names == [f"{prefix}.{name}" for prefix in ("h1", "h2") for name in originals] and {"sh", "sh/child-1", "sh/exec-1"} <= set(originals)
    recorder.verify(out)


def test_merge_refuses(recorder, two, tmp_path):
    one, other = two
    out = tmp_path / "out"
    empty, file = tmp_path / "empty", tmp_path / "file"
    empty.mkdir()
    file.write_text("no recording")
    copy = tmp_path / "copy"
    shutil.copytree(one, copy)
    damaged = tmp_path / "damaged"
    shutil.copytree(other, damaged)
    trace = damaged / "nodes" / "0" / "trace"
    whole = trace.read_bytes()
    newer = tmp_path / "newer"
    shutil.copytree(other, newer)
    (newer / "recording.json").write_text('{"format": 99, "created": 1}')
    for recordings, words in (
            ([one], "two or more"), ([one, empty], "is not a recording"), ([one, file], "is not a recording"), ([one, tmp_path / "none"], "no recording"),
            ([one, one], "Name each recording once"), ([f"x={one}", f"y={copy}"], "one is a copy of the other"), ([one, newer], "format 99"),
            ([one, f"a b={other}"], "cannot begin the names")):
        said = merge(recorder, out, *recordings, expect=2)
        assert words in said, (recordings, said)
        assert not out.exists()
    (out).mkdir()
    assert "exists already" in merge(recorder, out, f"x={one}", f"y={other}", expect=2)
    out.rmdir()
    assert "lies inside of" in merge(recorder, one / "out", f"x={one}", f"y={other}", expect=2)
    for change, words in ((whole[:-200], "truncated"), (whole[:5000] + b"\xff" + whole[5001:], "damaged"),
                          (whole[:8] + b"\x63" + whole[9:], "trace format version 99")):
        trace.write_bytes(change)
        said = merge(recorder, out, f"x={one}", f"y={damaged}", expect=2)
        assert words in said and "--leave-out-damaged" in said and str(damaged) in said, said
    trace.write_bytes(whole[:-200])
    third = recorder.record(["/bin/echo", "three"], name="three", path=damaged).path
    done = recorder.run([recorder.friday, "merge", "--leave-out-damaged", "-o", out, f"x={one}", f"y={third}"])
    assert done.returncode == 0 and "left out" in done.stderr, done.stderr
    assert [node["name"] for node in recorder.info(out)["nodes"]] == ["x.echo", "y.three"]
    # Whoever was forked from a damaged node cannot be replayed either.
    family = recorder.record(["/bin/sh", "-c", "(exit 3); /bin/echo said"], name="family").path
    parent = family / "nodes" / "0" / "trace"
    parent.write_bytes(parent.read_bytes()[:-200])
    shutil.rmtree(out)
    done = recorder.run([recorder.friday, "merge", "--leave-out-damaged", "-o", out, f"x={one}", f"y={family}"])
    assert done.returncode == 0 and "forked from a node that is left out" in done.stderr, done.stderr
    names = [node["name"] for node in recorder.info(out)["nodes"]]
    assert "x.echo" in names and not any("y.family/child-1" == name for name in names), names
    # A copied library that was changed would give other code and symbols.
    shutil.rmtree(out)
    library = max((other / "files").iterdir(), key=lambda f: f.stat().st_size)
    library.write_bytes(library.read_bytes()[:-1] + b"\0\1")
    assert "is not the file that was recorded" in merge(recorder, out, f"x={one}", f"y={other}", expect=2)
    assert not list(tmp_path.glob("out*")), "something half made was left behind"


def test_merge_refuses_what_is_still_recorded(recorder, two):
    running = recorder.start_record(["/bin/cat"], name="cat", stdin=subprocess.PIPE)
    wait_until(lambda: (running.recording / "nodes" / "0" / "node.json").exists(), "the program does not start")
    said = merge(recorder, recorder.directory / "out", two[0], running.recording, expect=2)
    assert "still being recorded" in said
    running.process.stdin.close()
    running.process.stdin = None
    assert recorder.finish_record(running).returncode == 0
    merge(recorder, recorder.directory / "out", two[0], running.recording)


@pytest.mark.parametrize("call", ["mkdir", "ftruncate", "pwrite64", "rename", "syncfs", "renameat2"])
def test_killed_merge_leaves_nothing_that_looks_whole(recorder, two, call):
    """gdb kills it before a call: there is no OUT, and what lies beside it is not a recording until all of it is there."""
    out = recorder.directory / "out"
    if call == "ftruncate":  # as `friday record` leaves a trace when it is killed: with room behind the last record
        with open(two[0] / "nodes" / "0" / "trace", "ab") as trace:
            trace.write(bytes(1 << 20))
    merging = [recorder.friday, "merge", "--separate-hosts", "-o", out, f"x={two[0]}", f"y={two[1]}"]
    done = recorder.run(["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", f"catch syscall {call}", "-ex", "run", "-ex", "kill", "--args", *merging])
    assert f"call to syscall {call}" in done.stdout, (done.stdout, done.stderr)
    assert not out.exists()
    for partial in recorder.directory.glob("out.partial-*"):
        complete = recorder.run([recorder.friday, "info", partial]).returncode == 0
        assert complete == (call in ("syncfs", "renameat2")), call
    done = recorder.run(merging)
    assert done.returncode == 0, done.stderr
    recorder.verify(out)
