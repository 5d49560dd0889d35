"""`friday record --chaos`: it finds what plain runs do not show, harms no correct program, and the recording replays as any other."""

import json

import pytest

RUNS = 24  # each has a good chance of its own, so all of these together do not pass by accident


def until(recorder, command, *options):
    description = {"group": {"must_succeed": ["it"], "timeout": 60}, "node": [{"name": "it", "command": command}]}
    running = recorder.start_record(description, path=recorder.directory / "runs",
                                    options=["--chaos", "--until-failure", str(RUNS), "--keep", "failed", *options])
    return recorder.finish_record(running, 280)


@pytest.mark.parametrize("program, says", [("chaos_reader", "of 48 bytes"), ("chaos_race", "sold twice"), ("chaos_order", "before they were announced")])
def test_finds(recorder, targets, program, says):
    """A reader of whole messages, a check and act without a lock, and an order between two connections."""
    done = until(recorder, [targets / program])
    assert done.returncode == 3, done.stderr
    rows = [json.loads(line) for line in (done.path / "runs.jsonl").read_text().splitlines()]
    failed = rows[-1]
    assert failed["why"] == "it: exit 3" and failed["seed"] == failed["run"]  # {run}, as for random faults
    assert f"seed {failed['seed']}" in done.stderr
    run = done.path / f"run-{failed['run']}"
    assert says in (run / "it.log").read_text()
    recorder.verify(run)
    assert recorder.info(run)["nodes"][0]["chaos_seed"] == failed["seed"]


@pytest.mark.parametrize("program", ["chaos_reader", "chaos_race", "chaos_order"])
def test_plain_runs_pass(recorder, targets, program):
    """The reader's always do. In the two others some milliseconds decide, which a busy machine can take by itself."""
    for run in range(1 if program == "chaos_reader" else 5):
        recording = recorder.record([targets / program], path=recorder.directory / f"plain-{run}")
        if recording.returncode == 0:
            break
    assert recording.returncode == 0, recording.stderr
    assert "chaos_seed" not in recorder.info(recording)["nodes"][0]


@pytest.mark.parametrize("command", [["chaos_reader", "careful"], ["sockets_tcp"], ["sockets_unix"], ["pipes"], ["workers"], ["threads"]], ids=" ".join)
def test_correct_programs_are_unharmed(recorder, targets, command):
    for seed in range(3):
        recording = recorder.record([targets / command[0], *command[1:]], path=recorder.directory / f"seed-{seed}", options=["--chaos", "--seed", str(seed)])
        assert recording.returncode == 0, recording.stderr
        assert f"had the seed {seed}" in recording.stderr
        recorder.verify(recording)


def test_the_seed_of_one_program(recorder, targets):
    """Without --seed one is drawn, and said; --seed alone means nothing to a program without a group."""
    drawn = recorder.record(["/bin/echo", "hello"], options=["--chaos"])
    seed = recorder.info(drawn)["nodes"][0]["chaos_seed"]
    assert f"had the seed {seed}" in drawn.stderr
    refused = recorder.record(["/bin/echo", "hello"], options=["--seed", "1"])
    assert refused.returncode != 0 and "--chaos" in refused.stderr


def test_a_group_of_servers_works_on(recorder, build):
    """Four nodes of the replicated store and their client: it acknowledges writes as ever, and all verify together."""
    ports = "{port:a},{port:b},{port:c},{port:d}"
    nodes = [{"name": f"n{i}", "command": [build / "apps" / "replicas", "--id", str(i), "--ports", ports, "--directory", "{dir}"]} for i in range(4)]
    client = {"name": "client", "record": False, "stdout": "client.out", "command": [build / "apps" / "replicasclient", "--ports", ports]}
    recording = recorder.group({"group": {"stop_when_ends": "client", "timeout": 100}, "node": [*nodes, client]}, options=["--chaos", "--seed", "11"], timeout=150)
    assert recording.returncode == 0, recording.stderr
    assert "acknowledged" in (recording.path / "client.out").read_text()
    assert {node["chaos_seed"] for node in recorder.info(recording)["nodes"]} == {11}
    recorder.verify(recording)
