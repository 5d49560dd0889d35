"""redis-server for the debugger's tests, in two ways: Debian's stripped one with the layout of its cluster beside it, which every
machine has, and one built with debug information from Debian's source package, where the machine can fetch that.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

SERVER = "/usr/bin/redis-server"
LAYOUT = pathlib.Path(__file__).parent / "servers" / "redis_layout.c"
FETCH_SECONDS, BUILD_SECONDS = 120, 900


def output(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=60).stdout


# ---- Stripped

def symbols_of_stripped(directory):
    """A directory for `--symbols` with the types of the stripped server's cluster."""
    build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", SERVER))[1]
    file = directory / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    file.parent.mkdir(parents=True)
    output("gcc", "-shared", "-nostdlib", "-g", "-fno-eliminate-unused-debug-types", f"-Wl,--build-id=0x{build_id}",
           f"-DCLUSTER_OFFSET={offset_of_cluster()}", "-o", file, LAYOUT)
    return directory


def offset_of_cluster():
    """Where `server.cluster` lies: what the first access to `server` in a function that begins with server.cluster->nodes is at."""
    address = int(re.search(r"^(\w+) T clusterGetMaxEpoch\b", output("nm", "-D", SERVER), re.M)[1], 16)
    code = output("objdump", "-d", f"--start-address={address}", f"--stop-address={address + 64}", SERVER)
    return re.search(r"<server\b\S*\+(0x\w+)>", code)[1]


# ---- Built

def server_with_debug_information():
    """The path of a server built with -O2 -g, kept in the user's cache; skips the test where its source cannot be had."""
    version = output("dpkg-query", "-W", "-f", "${source:Version}", "redis-server")
    kept = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "friday-tests" / f"redis-server-{version}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="friday-redis-", dir=kept.parent) as directory:
            os.replace(build(fetch(pathlib.Path(directory), version)), kept)
    return str(kept)


def fetch(directory, version):
    """The unpacked source package, by lists of sources that this call alone uses."""
    parts = directory / "parts"
    for place in (parts, directory / "lists" / "partial"):
        place.mkdir(parents=True)
    known = pathlib.Path("/etc/apt")
    for file in (known / "sources.list", *(known / "sources.list.d").glob("*.list"), *(known / "sources.list.d").glob("*.sources")):
        if file.exists():
            (parts / file.name).write_text(re.sub(r"^Types:.*$|^deb(?=\s)", lambda found: "deb-src" if found[0] == "deb" else "Types: deb-src",
                                                  file.read_text(), flags=re.M))
    settings = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": parts, "Dir::State::lists": directory / "lists",
                "Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "Acquire::Retries": 1, "APT::Sandbox::User": "root"}
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    for command in (["update"], ["source", "--only-source", f"redis={version}"]):
        try:
            done = subprocess.run(["apt-get", *options, *command], cwd=directory, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=FETCH_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"the source of redis cannot be fetched: {error}")
    if done.returncode != 0:
        pytest.skip(f"the source of redis {version} cannot be fetched: {done.stderr[-500:]}")
    return next(path for path in directory.glob("redis-*") if path.is_dir())


def build(source):
    make = shutil.which("make") or pytest.skip("no make to build redis with")
    done = subprocess.run([make, "-C", source / "src", "-j2", "redis-server", "MALLOC=libc", "BUILD_TLS=no", "USE_SYSTEMD=no",
                           "OPTIMIZATION=-O2", "DEBUG=-g"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return source / "src" / "redis-server"
