# For a gdb of the user's at a node's endpoint: `info endpoints` writes this behind a line that sets ENDPOINT, the path of the socket,
# and gdb executes it by `gdb -x FILE` or `source FILE`. It connects, and follows the group when the console or another gdb moves it.
# gdb's remote protocol cannot say that, so Friday writes a line to a FIFO: "runs" when a run begins, "stands" when the group stands
# again. A thread reads them and has gdb forget what it knows of the node; a question that gdb asks during the run is answered behind it.
import os
import threading

import gdb

_QUIET = 0.1  # seconds: a step of another gdb consists of several runs, and only the last place is shown


class _Follower:
    def __init__(self):
        self._count = 0  # of the lines that have come
        # For reading and writing, so that it does not end when a writer goes.
        self._pipe = os.fdopen(os.open(ENDPOINT + ".moves", os.O_RDWR | os.O_CLOEXEC), "rb", 0)  # noqa: F821
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        for line in self._pipe:
            self._count += 1
            gdb.post_event(_forget)
            if line.startswith(b"stands"):
                shown = self._count
                threading.Timer(_QUIET, lambda shown=shown: gdb.post_event(lambda: self._show(shown))).start()

    def _show(self, count):
        if count != self._count or not gdb.selected_inferior().pid:
            return
        _forget()
        try:
            gdb.execute("sharedlibrary", to_string=True)  # reads the list of libraries again
            gdb.execute("info threads", to_string=True)  # and that of threads
            if gdb.selected_thread() is None or not gdb.selected_thread().is_valid():
                gdb.execute(f"thread {gdb.selected_inferior().threads()[0].num}", to_string=True)
            gdb.write("\nThe group has been moved by others. Now " + gdb.execute("monitor where", to_string=True))
            gdb.execute("frame")
        except (gdb.error, IndexError) as error:
            gdb.write(f"\nThe group has been moved by others; the node cannot be shown: {error}\n")
        gdb.write(gdb.parameter("prompt"))
        gdb.flush()


def _forget():
    """Forgets registers, frames and memory that were read before."""
    gdb.execute("maintenance flush register-cache", to_string=True)
    gdb.execute("maintenance flush dcache", to_string=True)


_follower = _Follower()
gdb.execute(f"target remote {ENDPOINT}")  # noqa: F821
