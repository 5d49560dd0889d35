"""`friday diagnose`: a customer against the booking service of tests/apps/booking, again and again, until the order that makes the price wrong is found."""

import json
import signal

import pytest
from conftest import ROOT, wait_until

pytestmark = pytest.mark.limit(400)
BOOKING = ROOT / "tests" / "apps" / "booking"
CUSTOMER = ["/usr/bin/python3", BOOKING / "customer.py", "{port:web}", "{port:redis}", "f1"]
QUICK = '[group]\n[[node]]\nname = "server"\ncommand = ["/bin/sh", "-c", "sleep 60"]\n'


def diagnose(recorder, study, group, *options, script=(), timeout=300):
    return recorder.run([recorder.friday, "diagnose", "-o", study, "--group", group, *options, *(["--", *script] if script else [])], cwd=ROOT, timeout=timeout)


def rows(study):
    return [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]


def test_a_script_decides_and_a_study_goes_on(recorder, tmp_path):
    study, group = tmp_path / "study", tmp_path / "group.toml"
    group.write_text(QUICK)
    odd = ["/bin/sh", "-c", "exit $(( {run} % 2 ))"]
    first = diagnose(recorder, study, group, "-n", "3", script=odd)
    assert first.returncode == 0 and first.stdout.startswith("3 runs: 2 failed, 1 passed\n"), first.stdout + first.stderr
    assert [row["result"] for row in rows(study)] == ["FAILED", "passed", "FAILED"]
    assert [row["programs"][-1]["name"] for row in rows(study)] == ["script"] * 3 and rows(study)[0]["why"] == "script: exit 1"
    add = first.stdout.splitlines()[-1]
    assert add == f"More runs, with the other options as before: friday diagnose -o {study} -n 20 --group {group} -- /bin/sh -c 'exit $(( {{run}} % 2 ))'"
    more = diagnose(recorder, study, group, "-n", "5", script=odd)
    assert "has 3 runs already" in more.stderr and [row["run"] for row in rows(study)] == [1, 2, 3, 4, 5]
    again = diagnose(recorder, study, group, "-n", "5", "-q", script=odd)
    assert again.stdout == more.stdout and again.stderr == "" and len(rows(study)) == 5
    few = diagnose(recorder, tmp_path / "few", group, "--failures", "2", "--name", "probe", script=odd)
    assert few.returncode == 0 and [row["result"] for row in rows(tmp_path / "few")] == ["FAILED", "passed", "FAILED"]


def test_the_scripts_own_exit_codes(recorder, tmp_path):
    """They are not Friday's: one that ends with 2 or 130 has failed, and the study goes on."""
    group = tmp_path / "group.toml"
    group.write_text(QUICK)
    for code in (2, 130):
        done = diagnose(recorder, tmp_path / f"study{code}", group, "-n", "3", script=["/bin/sh", "-c", f"exit $(( {{run}} % 2 * {code} ))"])
        assert done.returncode == 0 and done.stdout.startswith("3 runs: 2 failed, 1 passed"), done.stdout + done.stderr


def test_a_study_is_of_one_group_and_script(recorder, tmp_path):
    study, group = tmp_path / "study", tmp_path / "group.toml"
    group.write_text(QUICK)
    assert diagnose(recorder, study, group, "-n", "1", script=["/bin/true"]).returncode == 0
    other = diagnose(recorder, study, group, "-n", "2", script=["/bin/false"])
    assert other.returncode == 2 and "is a study of another group, script, predicate, frame or scope" in other.stderr and len(rows(study)) == 1
    group.write_text(QUICK + "\n# changed\n")
    assert diagnose(recorder, study, group, "-n", "2", script=["/bin/true"]).returncode == 2
    series, quick = tmp_path / "series", tmp_path / "quick.toml"
    quick.write_text(QUICK.replace("sleep 60", "true"))
    assert recorder.run([recorder.friday, "record", "-q", "-o", series, "--until-failure", "1", "--group", quick], timeout=60).returncode == 0
    mixed = diagnose(recorder, series, group, script=["/bin/true"])
    assert mixed.returncode == 2 and "holds runs of `friday record --until-failure`" in mixed.stderr


def test_what_cannot_be_diagnosed(recorder, tmp_path):
    group = tmp_path / "group.toml"
    group.write_text(QUICK)
    taken = diagnose(recorder, tmp_path / "s", group, "--name", "server", script=["/bin/true"])
    assert taken.returncode == 2 and "has a node `server` already" in taken.stderr
    assert "cannot" in diagnose(recorder, tmp_path / "s", tmp_path / "none.toml", script=["/bin/true"]).stderr
    missing = diagnose(recorder, tmp_path / "s", group, script=["/no/such/program"])
    assert missing.returncode == 2 and "/no/such/program" in missing.stderr and not (tmp_path / "s" / "run-1").exists()
    group.write_text(QUICK.replace("[group]", '[group]\n[network]\nsubnet = "10.77.0.0/30"\n') + '[[node]]\nname = "other"\ncommand = ["/bin/true"]\n')
    assert "no address left for the script" in diagnose(recorder, tmp_path / "s", group, script=["/bin/true"]).stderr


def test_ctrl_c_and_two_at_once(recorder, tmp_path):
    study, group, flag = tmp_path / "study", tmp_path / "group.toml", tmp_path / "flag"
    group.write_text(QUICK)
    slow = ["/bin/sh", "-c", f"[ {{run}} = 2 ] || exit 0; touch {flag}; sleep 100 & wait"]
    running = recorder.start([recorder.friday, "diagnose", "-o", study, "--group", group, "-n", "4", "--", *slow])
    wait_until(flag.exists, "the second run does not begin")
    both = diagnose(recorder, study, group, script=slow)
    assert both.returncode == 2 and "another series of runs is being recorded" in both.stderr
    running.process.send_signal(signal.SIGINT)
    ended = running.finish(60)
    assert ended.returncode == 130 and "friday: interrupted; the same command goes on with the study\n" in ended.stderr, ended.stderr
    assert [row["result"] for row in rows(study)] == ["passed", "interrupted"]
    flag.unlink()
    done = diagnose(recorder, study, group, "-n", "4", script=[*slow[:2], slow[2].replace("= 2 ", "= 0 ")])
    assert done.returncode == 2 and "another group, script" in done.stderr  # it is the script that makes a study
    done = diagnose(recorder, study, group, "-n", "4", script=slow)
    assert done.returncode == 0 and "4 runs: 0 failed, 4 passed" in done.stdout and "1 run left out" in done.stdout, done.stdout


@pytest.mark.full
def test_the_booking_service(recorder, tmp_path):
    study = tmp_path / "study"
    done = diagnose(recorder, study, BOOKING / "service.toml", "-n", "40", "--keep", "0", script=CUSTOMER)
    assert done.returncode == 0, done.stderr
    failed = [row for row in rows(study) if row["result"] == "FAILED"]
    assert {row["why"] for row in failed} == {"script: exit 1"} and {path.name for path in study.glob("run-*")} == {f"run-{row['run']}" for row in failed}
    first = done.stdout[done.stdout.index("  1. "):done.stdout.index("     in ")]
    assert "receives `SET price:f" in first and "between" in first, done.stdout
