"""`friday compare`: a booking service whose price in the cart is sometimes another one than was shown (tests/apps/booking), from "it fails sometimes" to
the two messages between which a third one must not come; and studies that are no good."""

import json
import shutil

import pytest
from conftest import ROOT

pytestmark = pytest.mark.limit(400)
GROUP = ROOT / "tests" / "apps" / "booking" / "booking.toml"


def compare(recorder, study, *options):
    return recorder.run([recorder.friday, "compare", study, *options], timeout=100)


def compared(recorder, study, *options):
    done = compare(recorder, study, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def record_bookings(recorder, study, runs):
    done = recorder.run([recorder.friday, "record", "-q", "-o", study, "--until-failure", str(runs), "--failures", str(runs), "--keep", "1",
                         "--group", GROUP], cwd=ROOT, timeout=300)
    rows = [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == runs and {row["why"][:1] for row in rows} <= {"", "c"}, (rows, done.stderr)  # a customer saw two prices, and nothing else
    return rows


def is_price_between(finding):
    """The crawler's new price comes between two looks at the price."""
    x, y, z = (finding["messages"] + [{"text": ""}] * 3)[:3]
    return finding["form"] in ("between", "intrusion") and "SET price:f" in y["text"] and y["role"] == "redis" and \
        ("GET price:f" in x["text"] and "GET price:f" in z["text"] or "search" in x["text"] and "reserve" in z["text"])


def test_what_was_said_stays_when_recordings_are_removed(recorder, tmp_path):
    study = tmp_path / "study"
    rows = record_bookings(recorder, study, 8)
    failed = [row["run"] for row in rows if row["result"] == "FAILED"]
    kept = sorted(int(path.name[4:]) for path in study.glob("run-*"))
    assert set(failed) <= set(kept) and len(kept) == len(failed) + min(1, 8 - len(failed))
    answer = compared(recorder, study, "--most", "1000")
    assert (answer["runs"], answer["failures"], answer["gone"]) == (8, len(failed), 0)
    if 0 < len(failed) < 8:
        assert answer["orders_compared"] > 50
        for finding in answer["orders"]:
            assert finding["failing_with"] + finding["failing_without"] <= len(failed) and finding["failing_with"] > 0
            assert {example["run"] for example in finding["failing"]} <= set(failed) and not {example["run"] for example in finding["passing"]} & set(failed)
        texts = [text for finding in answer["orders"] for text in (finding["text"], *finding.get("alike_orders", []))]
        assert any(text.startswith("redis receives `SET price:f") and "between" in text for text in texts)
    # From the recordings themselves it is the same.
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    (recorded / "runs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows if row["run"] in kept))
    for number in kept:
        shutil.copytree(study / f"run-{number}", recorded / f"run-{number}", symlinks=True)
    for number in set(range(1, 9)) - set(kept):
        (study / "messages" / f"run-{number}").unlink()
    fewer = compared(recorder, study)
    assert (fewer["runs"], fewer["gone"]) == (len(kept), 8 - len(kept))
    anew = compared(recorder, recorded)
    assert anew == {**fewer, "gone": 0} and sorted(path.name for path in (recorded / "messages").iterdir()) == sorted(f"run-{number}" for number in kept)


@pytest.mark.full
def test_the_guilty_order_is_the_first_finding(recorder, tmp_path):
    study = tmp_path / "study"
    rows = record_bookings(recorder, study, 50)
    answer = compared(recorder, study)
    assert answer["verdict"] == "order", answer
    first = answer["orders"][0]
    assert is_price_between(first) and first["p"] <= 0.005, answer["orders"]
    # Where another customer's cart is filled in between, the message before is that one.
    assert first["failing_with"] > 0.5 * sum(row["result"] == "FAILED" for row in rows), answer
    # The mark stands where the order is complete: the second look at the price is sent there.
    example = first["failing"][0]
    node, event = example["mark"].split("#")
    dumped = recorder.run([recorder.friday, "dump", study / f"run-{example['run']}", "--node", node, "--json"], timeout=60)
    events = [json.loads(line) for line in dumped.stdout.splitlines()]
    assert next(each for each in events if each.get("event") == int(event))["call"] == "sendto"
    text = compare(recorder, study).stdout
    assert "The order of messages goes along with failing:\n\n  1. redis receives `SET price:f# #` from crawler, between" in text


def test_studies_that_are_no_good(recorder, tmp_path):
    missing = compare(recorder, tmp_path / "none")
    assert missing.returncode == 2 and f"there is no study {tmp_path / 'none'}: No such file" in missing.stderr
    study = tmp_path / "study"
    study.mkdir()
    assert "is no study: it has no list of runs" in compare(recorder, study).stderr
    runs = study / "runs.jsonl"
    runs.write_text('{"run":1,"result":"passed"}\nnonsense\n')
    assert "does not describe a run: nonsense" in compare(recorder, study).stderr
    runs.write_text('{"run":1,"result":"passed"}\n{"run":1,"result":"FAILED"}\n')
    assert "lists run 1 twice" in compare(recorder, study).stderr
    runs.write_text('{"run":1,"result":"passed"}\n{"run":2,"result":"FAILED","why":"x"}\n{"run":3,"result":"undecided"}\n{"run":5,"result":"FAILED","incomplete":true}\n{"run":4,"res')
    answer = compared(recorder, study)
    assert (answer["runs"], answer["undecided"], answer["gone"], answer["verdict"]) == (0, 2, 2, "all passed")
    (study / "messages").mkdir()
    (study / "messages" / "run-1").write_bytes(b"\0" * 100)
    kept = compared(recorder, study)
    assert kept["gone"] == 1 and "is damaged" in kept["unreadable"][0]
    (study / "run-1").mkdir()
    broken = compared(recorder, study)  # the others count
    assert broken["gone"] == 1 and len(broken["unreadable"]) == 1 and broken["unreadable"][0].startswith("run 1: ")
    (study / "run-2").symlink_to(study / "run-1")
    assert compared(recorder, study)["gone"] == 1
    assert compare(recorder, study, "--most", "0").returncode == 2
