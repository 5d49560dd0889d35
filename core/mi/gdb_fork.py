# The part of Friday's helper for a zygote, a gdb that has loaded a program's symbols and is copied for each node.
#
# -friday-fork                   copies this gdb and answers {"pid": PID}. The copy uses as standard input, output and error the three
#                                descriptors that were sent through the channel (descriptor 3) before the command. It is a child
#                                of this gdb's parent.
import array
import ctypes
import os
import signal
import socket
import time

CHANNEL = 3  # a descriptor: the socket over which the descriptors of a copy come
# From the kernel's headers for x86-64.
SYS_CLONE, CLONE_PARENT, PR_SET_PDEATHSIG = 56, 0x8000, 1
LONGEST_WAIT = 2  # seconds to wait for threads that are about to end


class Fork(JsonCommand):
    """-friday-fork"""

    def answer(self, argv):
        # The descriptors are received even if the fork then fails: otherwise the next copy would receive them, find the other
        # end of its input closed, and quit.
        streams = self.received()
        try:
            self.await_end_of_threads()
            return {"pid": self.fork(streams)}
        finally:
            for fd in streams:
                os.close(fd)

    @staticmethod
    def await_end_of_threads():
        """Waits for the end of worker threads: gdb 13 tells them to end (`maint set worker-threads 0`) without waiting."""
        end = time.monotonic() + LONGEST_WAIT
        while len(os.listdir("/proc/self/task")) > 1:
            if time.monotonic() > end:
                raise gdb.GdbError("this gdb still runs threads of its own, which a copy of it would lack")
            time.sleep(0.001)

    def fork(self, streams):
        owner = os.getppid()
        # CLONE_PARENT makes the copy a child of this gdb's parent, which can then wait for both. PyDLL keeps the interpreter
        # locked during the call, so the work that Python does around its own fork is not needed.
        pid = ctypes.PyDLL(None, use_errno=True).syscall(SYS_CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
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
            raise gdb.GdbError("-friday-fork needs three descriptors, and %d came through the channel" % len(streams))
        return list(streams)

    def become_copy(self, streams, owner):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != owner:
            os._exit(1)
        os.setpgid(0, 0)
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.close(CHANNEL)
        self.renew_pipes()

    @staticmethod
    def renew_pipes():
        """Gives the copy pipes and eventfds of its own: gdb wakes its event loop through them, so copies must not share them."""
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
