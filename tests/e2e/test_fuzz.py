"""Fuzzing of what reads files that others may have made (tests/fuzz): seeds from real recordings, a bounded run of each target."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUZZ = ROOT / "build" / "fuzz"
SECONDS = 30  # a target


@pytest.fixture(scope="module")
def fuzzers(friday, tmp_path_factory):
    """(directory of the targets, directory of the seeds); built once."""
    log = FUZZ.with_name("fuzz.log")
    with log.open("w") as out:
        for command in (["cmake", "--preset", "fuzz"], ["cmake", "--build", "--preset", "fuzz", "--target", "fuzz", "-j", str(os.cpu_count())]):
            done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
            assert done.returncode == 0, log.read_text()[-4000:]
    seeds = tmp_path_factory.mktemp("seeds")
    subprocess.run(["/usr/bin/python3", ROOT / "tests" / "fuzz" / "seeds.py", friday, seeds], check=True)
    return FUZZ / "bin", seeds


@pytest.mark.full
@pytest.mark.limit(3600)
@pytest.mark.parametrize("target", ["trace", "packed", "recording", "group"])
def test_fuzz(fuzzers, tmp_path, target):
    """Goes on from what earlier runs have found."""
    programs, seeds = fuzzers
    corpus = FUZZ / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([programs / f"fuzz_{target}", corpus, seeds / target, f"-max_total_time={SECONDS}", "-timeout=20", "-rss_limit_mb=2048",
                           "-malloc_limit_mb=1024", f"-artifact_prefix={tmp_path}/", "-print_final_stats=1"], capture_output=True, text=True, errors="replace",
                          env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"})
    assert done.returncode == 0, done.stderr[-6000:]
    assert "stat::number_of_executed_units" in done.stderr
