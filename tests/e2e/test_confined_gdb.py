"""A node's gdb reads files that a stranger made. What it could do if one of them took it over, its own Python tries here."""
import ctypes
import os
import signal
import socket

import pytest
from debug_support import opened, workers  # noqa: F401


@pytest.fixture
def gdb(workers, opened):
    """gdb(CODE): what this Python in the gdb of a node prints; the error, if it raises one."""
    node = opened(workers).node

    def run(code):
        lines = ["try:", *("  " + line for line in code.splitlines()), "except OSError as error:", "  print(error.strerror)"]
        return node.gdb("python exec(" + repr("\n".join(lines)) + ")").strip()
    return run


def landlock_version():
    return ctypes.CDLL(None).syscall(444, None, 0, 1)


def test_it_has_no_network(gdb):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert gdb(f"import socket\nprint(socket.create_connection(('127.0.0.1', {port}), 5))") == os.strerror(97)  # EAFNOSUPPORT
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


PTRACE, BPF, UNSHARE = 101, 321, 272


@pytest.mark.parametrize("call", ["os.kill({pid}, 0)", *(f"call({number}, 16, {{pid}}, 0, 0)" for number in (PTRACE, BPF, UNSHARE))])
def test_it_touches_no_process_and_no_kernel(gdb, call):
    function = "import ctypes, os\ndef call(*a):\n  c = ctypes.CDLL(None, use_errno=True)\n  r = c.syscall(*a)\n  if r < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"
    assert gdb(function + call.format(pid=os.getpid())) == os.strerror(1)


@pytest.mark.skipif(landlock_version() < 1, reason="machine: the kernel has no Landlock")
def test_it_changes_no_file(gdb, tmp_path):
    existing, fresh = tmp_path / "existing", tmp_path / "fresh"
    existing.write_text("mine")
    for code in (f"open({str(existing)!r}, 'w')", f"open({str(fresh)!r}, 'w')", f"import os\nos.unlink({str(existing)!r})", f"import os\nos.mkdir({str(fresh)!r})"):
        assert gdb(code) == os.strerror(13)
    assert existing.read_text() == "mine" and not fresh.exists()
    assert gdb(f"print(open({str(existing)!r}).read())") == "mine", "it reads sources, wherever they lie"


def test_it_runs_no_script_of_a_program(gdb):
    assert gdb("import gdb\nprint(*(gdb.parameter('auto-load ' + kind) for kind in ('gdb-scripts', 'python-scripts', 'local-gdbinit')))") == "False False False"
    assert gdb("import os\nprint(os.environ.get('DEBUGINFOD_URLS'))") == "None"


def test_an_interrupt_still_reaches_it(gdb):
    """What keeps signals in does not keep them out."""
    pid = int(gdb("import os\nprint(os.getpid())"))
    os.kill(pid, signal.SIGWINCH)
    assert gdb("print('well')") == "well"
