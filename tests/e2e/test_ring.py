"""The main job: a ring of eight nodes is recorded, every node verifies, and the ring predicate finds the planted fault
and nothing else. The sample takes two seeds of each kind, --full ten, with kills, for 30 seconds each."""
import concurrent.futures
import json
import os
import random
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RING = os.path.join(ROOT, "tests", "apps", "chord", "ring.py")
PREDICATE = os.path.join(ROOT, "predicates", "ring.py")
sys.path.insert(0, os.path.join(ROOT, "console"))
import demo_report  # noqa: E402

FAULTY, HEALTHY = range(11, 21), range(21, 31)  # seeds of the long ones


def record_ring(friday, folder, seed, *, fault, seconds, kills, base_port=None):
    """A recorded ring: (recording, truth file). Rings at the same time need ports that do not meet."""
    build = os.path.dirname(os.path.dirname(friday))
    truth, group, recording = folder / "truth.json", folder / "ring.toml", folder / "recording"
    plan = [sys.executable, RING, "--nodes", "8", "--seconds", str(seconds), "--seed", str(seed), "--kills", str(kills), "-o", group]
    if base_port:
        plan += ["--base-port", str(base_port)]
    if fault:
        plan += ["--fault", "--truth", truth]
    subprocess.run(plan, check=True, timeout=30, env={**os.environ, "FRIDAY_APPS": os.path.join(build, "apps")})
    done = subprocess.run([friday, "record", "-o", recording, "--group", group], timeout=seconds + 60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return recording, truth


def verify(friday, recording):
    for sync in ("clock", "causal", "free"):
        done = subprocess.run([friday, "verify", recording, "--sync", sync, "--json"], timeout=120, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(json.loads(done.stdout)["nodes"]) >= 8


def check_ring(friday, recording, folder):
    """The exit code and the violations of the ring predicate."""
    found = folder / "found.json"
    done = subprocess.run([friday, "run", PREDICATE, recording, "--json", found], timeout=180, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode, json.loads(found.read_text())["violations"]


def ring(friday, folder, seed, *, fault, seconds, kills):
    judge(friday, folder, *record_ring(friday, folder, seed, fault=fault, seconds=seconds, kills=kills), fault=fault)


def judge(friday, folder, recording, truth, *, fault):
    verify(friday, recording)
    code, violations = check_ring(friday, recording, folder)
    if fault:
        assert code == 1 and len(violations) == 1, violations
        assert demo_report.differences(violations[0], json.loads(truth.read_text())) == []
    else:
        assert (code, violations) == (0, [])


@pytest.mark.limit(200)
@pytest.mark.parametrize("seed", [1, pytest.param(6, marks=pytest.mark.full)])
def test_faulty_ring(friday, tmp_path, seed):
    ring(friday, tmp_path, seed, fault=True, seconds=14, kills=0)


@pytest.mark.limit(200)
@pytest.mark.parametrize("seed", [2, pytest.param(7, marks=pytest.mark.full)])
def test_healthy_ring(friday, tmp_path, seed):
    ring(friday, tmp_path, seed, fault=False, seconds=14, kills=1)


@pytest.fixture(scope="module")
def long_rings(friday, tmp_path_factory, request):
    """{seed: future of (recording, truth file)} of those that were asked for: several are recorded at a time, as they wait most of theirs."""
    seeds = [item.callspec.params["seed"] for item in request.session.items if item.originalname == "test_rings_with_kills"]
    pool = concurrent.futures.ThreadPoolExecutor(4)
    first = random.SystemRandom().randrange(10000, 31000)  # of those that the kernel gives to nobody
    try:
        yield {seed: pool.submit(record_ring, friday, tmp_path_factory.mktemp("ring"), seed, fault=seed in FAULTY, seconds=30, kills=2, base_port=first + 20 * i)
               for i, seed in enumerate(seeds)}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.full
@pytest.mark.limit(300)
@pytest.mark.parametrize("seed", (*FAULTY, *HEALTHY))
def test_rings_with_kills(friday, tmp_path, long_rings, seed):
    judge(friday, tmp_path, *long_rings[seed].result(), fault=seed in FAULTY)
