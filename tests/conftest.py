"""What the Python tests share: the built `friday`, a helper that records and verifies, bounded waits, and an end to every process.

A test asks for the fixture `recorder`:

    def test_echo(recorder):
        recording = recorder.record(["/bin/echo", "hello"])
        assert recording.stdout == "hello\\n"
        recorder.verify(recording)

Processes are found by a mark in their environment, so also those that left their session; none outlives its test. When a test
fails, its recordings are kept in build/failed/TEST.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from ports import free_ports  # noqa: E402

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so a shell starts what runs in the background; the programs of the tests hear it
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEFAULT_LIMIT = 120  # seconds a test
KEPT_BYTES = 256 << 20  # of the recordings of one failed test
QUICK_START = 0.002  # seconds that a machine like those on which the limits were chosen takes to start a small program


def slowness():
    """How much slower this machine is than that, at least 1: all time limits, which only end hangs, are multiplied by it. On some virtual
    machines calls of the kernel take several times as long."""
    times = []
    for _ in range(15):
        began = time.monotonic()
        subprocess.run(["/bin/true"], check=True)
        times.append(time.monotonic() - began)
    return min(8.0, max(1.0, sorted(times)[len(times) // 2] / QUICK_START))


SLOWNESS = slowness()


def pytest_configure(config):
    config.addinivalue_line("markers", "full: only run by `tests/run.sh --full`")
    config.addinivalue_line("markers", f"limit(seconds): a test's own time limit; {DEFAULT_LIMIT} s without it")
    config.addinivalue_line("markers", "mounts: mounts file systems; as an ordinary user in name spaces of its own")


def limit_of(item):
    marker = item.get_closest_marker("limit")
    return SLOWNESS * (marker.args[0] if marker else DEFAULT_LIMIT)


def pytest_runtest_setup(item):
    if time.time() > float(os.environ.get("FRIDAY_TESTS_UNTIL", "inf")):
        pytest.skip("machine: it is too slow for all tests of the sample in the time of the run")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """The files with the longest tests first: two files run at a time, and what is begun last should be short."""
    longest = {}
    for item in items:
        longest[item.path] = max(longest.get(item.path, 0), limit_of(item))
    items.sort(key=lambda item: -longest[item.path])


class OutOfTime(BaseException):
    """Not an Exception, so that no handler in a test takes it for an ordinary failure."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    seconds = limit_of(item)

    def ring(*_):
        raise OutOfTime(f"the test took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test that mounts is run by a pytest of its own where only root may, which is root in its name spaces."""
    if os.geteuid() == 0 or not pyfuncitem.get_closest_marker("mounts"):
        return None
    own = ["unshare", "-Urm"]
    if subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("machine: this user can make no name spaces to mount in")
    done = subprocess.run([*own, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT / "tests", "--basetemp",
                           pyfuncitem.funcargs["tmp_path"] / "own", ROOT / "tests" / pyfuncitem.nodeid], capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.call_failed = report.failed


def wait_until(condition, what, seconds=20.0):
    """The first true value of condition(); fails with `what` when there is none within `seconds`."""
    seconds *= SLOWNESS
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds} s in vain: {what}")
        time.sleep(0.005)


def answers(port):
    """Does something accept connections on 127.0.0.1:port?"""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def toml(value, prefix=""):
    """The group file of a dict: {"group": {...}, "node": [{...}, ...]}; only what such files hold."""
    text = ""
    for key, item in value.items():
        if isinstance(item, dict):
            text += f"[{key}]\n" + "".join(f"{k} = {literal(v)}\n" for k, v in item.items())
        else:
            for table in item:
                text += f"[[{key}]]\n" + "".join(f"{k} = {literal(v)}\n" for k, v in table.items())
    return text


def literal(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {literal(v)}" for k, v in value.items()) + "}"
    return json.dumps(str(value)) if isinstance(value, (str, os.PathLike)) else repr(value)


class Recording:
    """A recording and what the recorded program did while it was made."""

    def __init__(self, path, completed, seconds):
        self.path = pathlib.Path(path)
        self.returncode, self.stdout, self.stderr = completed.returncode, completed.stdout, completed.stderr
        self.seconds = seconds

    def __repr__(self):
        return f"Recording({self.path}, returncode={self.returncode}, stderr={self.stderr!r})"

    def nodes(self):
        """The description of each node, by id."""
        files = sorted(self.path.glob("nodes/*/node.json"), key=lambda p: int(p.parent.name))
        return [json.loads(file.read_text()) for file in files]

    def node(self, name):
        found = [node for node in self.nodes() if node["name"] == name]
        assert len(found) == 1, f"{len(found)} nodes are named {name}: {[node['name'] for node in self.nodes()]}"
        return found[0]

    def ended_at(self, name):
        """The call at which the recording of a node ended because it is not handled, or None."""
        match = re.search(rf"friday: node \d+ {re.escape(name)}: .*; recording ended at call (\w+)", self.stderr)
        return match and match[1]


class Running:
    """A process of the test, in a session of its own."""

    def __init__(self, command, cwd, env, stdin=subprocess.DEVNULL, prefix=()):
        self.started = time.monotonic()
        self.process = subprocess.Popen([*prefix, *map(str, command)], cwd=cwd, env=env, stdin=stdin, start_new_session=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="backslashreplace")
        self.pid = self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def interrupt(self):
        """Ctrl-C: to the whole foreground process group."""
        os.killpg(self.pid, signal.SIGINT)

    def alive(self):
        return self.process.poll() is None

    def finish(self, timeout=60):
        timeout *= SLOWNESS
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{' '.join(self.process.args)} did not end within {timeout} s")
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)


class Recorder:
    """Runs `friday` for one test, in its directory."""

    def __init__(self, friday, directory):
        self.friday, self.directory = friday, directory
        self.mark = f"FRIDAY_TEST={uuid.uuid4()}"
        self.count = 0
        self.running = []

    # -- running ------------------------------------------------------------------------------------------------------
    def environment(self, more=None):
        key, value = self.mark.split("=")
        return {**os.environ, key: value, **(more or {})}

    def start(self, command, *, env=None, cwd=None, prefix=(), stdin=subprocess.DEVNULL):
        """Any program, unrecorded."""
        running = Running(command, cwd or self.directory, self.environment(env), stdin, prefix)
        self.running.append(running)
        return running

    def run(self, command, *, env=None, cwd=None, timeout=60):
        return self.start(command, env=env, cwd=cwd).finish(timeout)

    def start_record(self, command, *, path=None, name=None, options=(), env=None, cwd=None, prefix=(), stdin=subprocess.DEVNULL):
        """`friday record` of a command (a list) or of a group (a dict); .recording is the path."""
        if path is None:
            self.count += 1
            path = self.directory / f"rec{self.count}"
        if os.environ.get("FRIDAY_LEAN") == "record" and not {"--lean", "--budget", "--no-compress"} & {*options}:
            options = ["--lean", *options]
        line = [self.friday, "record", "-o", path, *options]
        if isinstance(command, dict):
            file = self.directory / f"group{self.count}.toml"
            file.write_text(toml(command))
            line += ["--group", file]
        else:
            line += [*(["--node", name] if name else []), "--", *command]
        running = self.start(line, env=env, cwd=cwd, prefix=prefix, stdin=stdin)
        running.recording = pathlib.Path(path)
        return running

    def finish_record(self, running, timeout=60):
        done = running.finish(timeout)
        return Recording(running.recording, done, time.monotonic() - running.started)

    def record(self, command, *, timeout=60, **options):
        return self.finish_record(self.start_record(command, **options), timeout)

    def group(self, description, **options):
        return self.record(description, **options)

    def record_nodes(self, commands, **options):
        """A group of nodes n0, n1, ... that all end well: the recording, and what each printed, in lines."""
        nodes = [{"name": f"n{i}", "stdout": f"n{i}.out", "command": [str(word) for word in command]} for i, command in enumerate(commands)]
        recording = self.record({"node": nodes}, **options)
        assert recording.returncode == 0, recording.stderr
        return recording, [(recording.path / f"{node['name']}.out").read_text().splitlines() for node in nodes]

    # -- asking -------------------------------------------------------------------------------------------------------
    def offers(self, subcommand):
        return self.run([self.friday, subcommand, "--help"]).returncode == 0

    def replay(self, recording, *options, timeout=120):
        """`friday verify`, whatever it says."""
        path = recording.path if isinstance(recording, Recording) else recording
        if not self.offers("verify"):
            pytest.skip("this build of friday has no `verify`")
        return self.run([self.friday, "verify", path, *options], timeout=timeout)

    def verify(self, recording, *options, timeout=120):
        """Asserts that a recording replays as it was recorded."""
        done = self.replay(recording, *options, timeout=timeout)
        assert done.returncode == 0, f"verify {' '.join(map(str, options))}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        if os.environ.get("FRIDAY_LEAN") == "pack" and not options:
            self.verify_lean(recording.path if isinstance(recording, Recording) else pathlib.Path(recording), timeout)
        return done

    def states(self, path, timeout=120):
        """How the nodes of a recording end: (id, events, hash of the memory) of each."""
        done = self.replay(path, "--hash", "--json", timeout=timeout)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return [(node["id"], node["events"], node.get("hash")) for node in json.loads(done.stdout)["nodes"]]

    def lean(self, path, timeout=600):
        """A copy of a recording without what its nodes have received from each other: (its path, bytes that were left out)."""
        copy = self.directory / f"{path.name}-lean"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy, ignore=lambda *_: ["cache"])
        done = self.run([self.friday, "pack", "--lean", "--json", copy], timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return copy, sum(node["left_out"] for node in json.loads(done.stdout)["nodes"])

    def verify_lean(self, path, timeout=120):
        """With FRIDAY_LEAN=pack, each recording that a test verifies is also tried without the payload that a replay makes again."""
        copy, left_out = self.lean(path)
        assert self.states(copy, timeout) == self.states(path, timeout)
        print(f"lean: {left_out} bytes of {path} were left out and made again")

    def predicate(self, recording, name, *options):
        """`friday run predicates/NAME.py`: (exit code, violations)."""
        found = self.directory / f"{name}.json"
        done = self.run([self.friday, "run", ROOT / "predicates" / f"{name}.py", recording.path, "--json", found, "--", *options])
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert "nothing was checked" not in done.stderr, done.stderr
        return done.returncode, json.loads(found.read_text())["violations"]

    def info(self, recording):
        path = recording.path if isinstance(recording, Recording) else recording
        done = self.run([self.friday, "info", path, "--json"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # -- the end ------------------------------------------------------------------------------------------------------
    def processes(self):
        """Everything this test started, directly or not, that still runs: {pid: command line}."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                pass  # gone, or another user's
        return found

    def none_left(self, seconds=10):
        wait_until(lambda: not self.processes(), f"processes were left behind: {self.processes()}", seconds)

    def kill_all(self):
        for running in self.running:
            if running.alive():
                running.process.kill()
        end = time.monotonic() + 10 * SLOWNESS
        while (left := self.processes()) and time.monotonic() < end:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for running in self.running:
            running.process.wait(10 * SLOWNESS)
            for stream in (running.process.stdout, running.process.stderr):
                stream.close()

    def keep(self, name):
        """Copies the recordings of a failed test to where a person can look at them."""
        target = ROOT / "build" / "failed" / re.sub(r"[^\w.-]+", "_", name)
        shutil.rmtree(target, ignore_errors=True)
        for marker in self.directory.rglob("recording.json"):
            recording = marker.parent
            size = sum(file.stat().st_blocks * 512 for file in recording.rglob("*") if file.is_file())
            if size > KEPT_BYTES:
                print(f"not kept: {recording}, {size >> 20} MiB")
                continue
            shutil.copytree(recording, target / recording.relative_to(self.directory), dirs_exist_ok=True)
            print(f"kept: {target / recording.relative_to(self.directory)}")


@pytest.fixture(scope="session")
def build():
    """The build directory under test."""
    return pathlib.Path(os.environ.get("FRIDAY_BUILD", ROOT / "build" / "release")).resolve()


@pytest.fixture(scope="session")
def friday(build):
    """The built console."""
    path = build / "bin" / "friday"
    assert path.exists(), f"{path} is not built; name another build directory in FRIDAY_BUILD"
    return path


@pytest.fixture(scope="session")
def debug_registers_report(friday):
    """Whether debug registers report what they watch: some virtual machines let them be set, and never report a hit."""
    done = subprocess.run([friday, "doctor", "--json"], capture_output=True, text=True, timeout=60)
    return next(check["works"] for check in json.loads(done.stdout)["checks"] if check["name"] == "debug registers")


@pytest.fixture(scope="session")
def debug_registers(debug_registers_report):
    """For tests of what debug registers watch."""
    if not debug_registers_report:
        pytest.skip("machine: its debug registers do not report what they watch")


@pytest.fixture(scope="session")
def targets(build):
    """Directory of the small programs of tests/targets."""
    return build / "targets"


@pytest.fixture(scope="session")
def calls_of_32_bits(targets):
    """Whether this kernel takes 32-bit calls (int 0x80): where it does not, a program that makes one ends by SIGSEGV."""
    return subprocess.run([targets / "unwelcome", "int80"], capture_output=True, timeout=60).returncode == 0


@pytest.fixture
def recorder(request, friday, tmp_path):
    helper = Recorder(friday, tmp_path)
    yield helper
    helper.kill_all()
    if getattr(request.node, "call_failed", True):
        helper.keep(request.node.nodeid)
    for marker in list(tmp_path.rglob("recording.json")):  # recordings are large; pytest would keep those of three runs
        shutil.rmtree(marker.parent, ignore_errors=True)


@pytest.fixture
def ports():
    """ports(n): n different free TCP ports."""
    return free_ports
