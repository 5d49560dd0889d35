# The part of Friday's helper that a zygote uses: a gdb that has loaded a program's symbols and is copied for each node.
#
# -friday-fork                   copies this gdb; {"pid": PID}. The copy reads and writes the three descriptors that came
#                                through the channel (descriptor 3) before the command, and is a child of this gdb's parent.
import array
import ctypes
import os
import signal
import socket
import time

CHANNEL = 3
LONGEST_WAIT = 2  # s, for threads that are about to end


class Fork(JsonCommand):
    """-friday-fork"""

    def answer(self, argv):
        # Taken from the channel whatever follows: left there, they would be the next copy's, which would then read the end of a
        # stream that nobody has any more, and quit.
        streams = self.received()
        try:
            self.await_end_of_threads()
            return {"pid": self.fork(streams)}
        finally:
            for fd in streams:
                os.close(fd)

    @staticmethod
    def await_end_of_threads():
        """gdb 13 does not wait for worker threads that it has told to end (`maint set worker-threads 0`)."""
        end = time.monotonic() + LONGEST_WAIT
        while len(os.listdir("/proc/self/task")) > 1:
            if time.monotonic() > end:
                raise gdb.GdbError("this gdb has threads of its own: they would be missing in a copy")
            time.sleep(0.001)

    def fork(self, streams):
        owner = os.getppid()
        # Not a child of this gdb, so that who owns both can wait for both. As this holds the interpreter's lock, Python's
        # own work around a fork has nothing to do.
        pid = ctypes.PyDLL(None, use_errno=True).syscall(56, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)  # clone, CLONE_PARENT
        if pid < 0:
            raise gdb.GdbError("clone: " + os.strerror(ctypes.get_errno()))
        if pid == 0:
            self.become_copy(streams, owner)
        return pid

    @staticmethod
    def received():
        with socket.socket(fileno=os.dup(CHANNEL)) as channel:
            _, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(12))
        streams = array.array("i")
        for _, _, data in ancillary:
            streams.frombytes(data[:12])
        if len(streams) != 3:
            raise gdb.GdbError("no descriptors came through the channel")
        return list(streams)

    def become_copy(self, streams, owner):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != owner:
            os._exit(1)
        os.setpgid(0, 0)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.close(CHANNEL)
        self.renew_pipes()

    @staticmethod
    def renew_pipes():
        """gdb wakes its own event loop through pipes: a copy must not share them with its siblings."""
        import fcntl
        ends = {}
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink("/proc/self/fd/" + name)
            except OSError:
                continue
            if int(name) > 2 and target.startswith(("pipe:", "anon_inode:[eventfd]")):
                ends.setdefault(target if target.startswith("pipe:") else target + name, []).append(int(name))
        for target, numbers in ends.items():
            fresh = os.pipe() if target.startswith("pipe:") else [os.eventfd(0)]
            for number in numbers:
                flags = fcntl.fcntl(number, fcntl.F_GETFL)
                writes = flags & os.O_ACCMODE == os.O_WRONLY
                os.dup2(fresh[-1 if writes else 0], number, inheritable=False)
                fcntl.fcntl(number, fcntl.F_SETFL, flags)
            for fd in fresh:
                os.close(fd)


Fork("-friday-fork")
