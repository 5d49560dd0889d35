"""What a program hands to a call in its memory is compared at replay, for every call that reads memory: a byte that differs there is
a divergence at that call. Which calls' inputs are not compared stands here, with the reason."""
import json
import shutil

import pytest

SEED = 77  # the descriptor of tests/targets/inputs.c

# Calls of the table that read memory which is not compared.
NOT_COMPARED = {
    "clone": "what it reads, the new stack, is what the new thread runs on",
    "fork": "its child has all of the memory, and is compared itself",
    "vfork": "its child has all of the memory, and is compared itself",
    "mprotect": "ranges of the memory map, named by arguments",
    "seccomp": "a filter may end the recording",
}

# Calls that read no memory of the program. What msync(2) puts into a file is compared as a piece of the program's state.
READS_NOTHING = set("""
    read close fstat lseek mmap munmap brk pread64 pipe sched_yield mremap msync mincore madvise shmget shmat dup dup2 pause getitimer alarm getpid
    socket shutdown listen socketpair exit wait4 kill uname semget shmdt msgget msgrcv flock fsync fdatasync ftruncate getdents getcwd fchdir fchmod
    fchown umask gettimeofday getrlimit getrusage sysinfo times getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid
    setreuid setregid getgroups setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid rt_sigpending personality ustat fstatfs
    getpriority setpriority sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock munlock
    mlockall munlockall vhangup arch_prctl sync gettid readahead flistxattr tkill time sched_getaffinity io_destroy epoll_create getdents64
    set_tid_address restart_syscall fadvise64 timer_gettime timer_getoverrun timer_delete clock_gettime clock_getres exit_group epoll_wait tgkill
    get_mempolicy waitid ioprio_set ioprio_get inotify_init inotify_rm_watch unshare set_robust_list get_robust_list tee sync_file_range
    timerfd_create eventfd fallocate timerfd_gettime eventfd2 epoll_create1 dup3 pipe2 inotify_init1 fanotify_init syncfs setns getcpu kcmp
    sched_getattr getrandom membarrier mlock2 fsmount pidfd_open close_range pidfd_getfd landlock_restrict_self process_mrelease
    set_mempolicy_home_node
""".split())

# Calls whose inputs are compared, but which tests/targets/inputs.c cannot make or another test makes.
NOT_TRIED = {
    "init_module": "would have to be tried with privileges on a machine that may be harmed",
    "setgroups": "changes what the process may do",
    "statmount": "read-only questions with one input form, as cachestat",
    "listmount": "read-only questions with one input form, as cachestat",
    "cachestat": "needs a file whose pages are cached",
    "process_vm_writev": "its bytes are those of writev", "process_madvise": "its vectors are those of process_vm_readv",
    "mount_setattr": "as openat2: a structure and its size",
    "open_tree": "one path, as openat", "open_tree_attr": "a path and a structure, as openat2", "move_mount": "two paths, as renameat2",
    "fspick": "one path, as openat",
    "file_getattr": "one path, as openat", "file_setattr": "a path and a structure, as openat2",
    "setxattrat": "as setxattr", "getxattrat": "as getxattr", "listxattrat": "as getxattr", "removexattrat": "as getxattr",
    "capget": "its header, as capset's",
    "futex_wake": "reads nothing: by a code among its arguments it is refused",
    "rt_sigsuspend": "waits for a signal: its mask is that of ppoll",
}
# Forms of one call that differ in name or in where the path stands.
SIBLINGS = {
    "open": "creat", "openat": "mkdirat mknodat unlinkat fchmodat fchmodat2 faccessat faccessat2 fchownat readlinkat linkat symlinkat renameat",
    "stat": "lstat statfs", "chdir": "mkdir rmdir chmod chown lchown mknod uselib", "utimensat": "utime utimes futimesat",
    "setxattr": "lsetxattr fsetxattr", "getxattr": "lgetxattr fgetxattr listxattr llistxattr removexattr lremovexattr fremovexattr",
    "pwritev": "pwritev2", "preadv": "preadv2",
}


@pytest.fixture(scope="module")
def table(friday):
    """What `friday record --list-calls` says: {name: (rule, text)}."""
    import subprocess
    lines = subprocess.run([friday, "record", "--list-calls"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {parts[1]: (parts[2], parts[3] if len(parts) > 3 else "") for parts in (line.split(None, 3) for line in lines) if len(parts) > 2}


@pytest.fixture
def recording(recorder, targets, tmp_path):
    done = recorder.record([targets / "inputs"], name="it", cwd=tmp_path)
    recorder.verify(done)
    return done


def events_of(recorder, recording):
    out = recorder.run([recorder.friday, "dump", recording.path, "--node", "0", "--json"])
    return [event for event in map(json.loads, out.stdout.splitlines()) if "event" in event]


def fed_calls(events):
    """(the read that gave the byte, the call that takes it), by event."""
    return [(read, call) for read, call in zip(events, events[1:]) if read.get("call") == "read" and read["arguments"][0] == SEED]


@pytest.mark.limit(600)
def test_every_byte_of_input_is_compared(recorder, recording, build, table):
    trace = recording.path / "nodes/0/trace"
    kept = trace.read_bytes()
    made, silent = set(), []
    fed = fed_calls(events_of(recorder, recording))
    assert len(fed) > 130
    for read, call in fed:
        made.add(call["call"])
        trace.write_bytes(kept)
        shutil.rmtree(recording.path / "cache", ignore_errors=True)
        done = recorder.run([build / "bin/friday_trace_edit", trace, str(read["event"]), "byte", "0"])
        assert done.returncode == 0, done.stderr
        verified = recorder.replay(recording, "--json")
        found = json.loads(verified.stdout).get("divergence", {})
        if verified.returncode != 3 or (found["event"], found["kind"]) != (call["event"], "state" if call["call"] == "msync" else "input"):
            silent.append((call["call"], call["event"], found.get("event"), found.get("call"), found.get("kind")))
    assert not silent, silent
    siblings = {name for of in SIBLINGS.values() for name in of.split()}
    compared = {name for name, (rule, text) in table.items() if rule != "refused" and "INS(" in text}
    assert not SIBLINGS.keys() - made
    assert sorted(compared - made - siblings - NOT_TRIED.keys()) == []


def test_every_call_says_what_it_reads(table):
    """A call that is new in the table has to be put somewhere."""
    compared = {name for name, (rule, text) in table.items() if "INS(" in text}
    refused = {name for name, (rule, _) in table.items() if rule == "refused"}
    assert not NOT_COMPARED.keys() & compared and not READS_NOTHING & compared
    assert sorted(table.keys() - compared - refused - NOT_COMPARED.keys() - READS_NOTHING) == []


def test_a_ring_that_the_kernel_writes(recorder, targets):
    """It cannot be recorded: the recording ends by name, and the program goes on."""
    recording = recorder.record([targets / "rings"], name="it")
    if recording.returncode == 77:
        pytest.skip("machine: neither packet sockets nor user name spaces are allowed")
    assert recording.returncode == 0 and recording.stdout.endswith("SUCCESS\n"), recording
    assert recording.ended_at("it") == "mmap"
    recorder.verify(recording)
