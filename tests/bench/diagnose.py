"""Measures what comparing many runs takes, on a study that friday_study_make writes: a service of a dozen processes, of whose runs every fifth fails
because what a third one writes about a key comes between two looks at it. And what the booking service of tests/apps leaves of a run.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import time

from support import ROOT, Bench, Key, Number, Redis, Unavailable, alternate, beside_native, median, wait_until  # puts tests/ on the path

import planted
from ports import free_ports

NAME = "diagnose"
KEYS = {
    "compare_s": Key("s", "<= 10", "`friday compare` on a study of 100 runs of 100,000 events, whose messages were kept"),
    "compare_mib": Key("MiB", "", "the most memory that it takes"),
    "compare_rank": Key("", "1", "at which place of its findings the planted order stands; 0: it is not among them"),
    "kept_bytes_per_event": Key("bytes", "", "what is kept of a run of that study, for each message sent or received"),
    "booking_runs_s": Key("s", "", "a run of the booking service by `friday diagnose`, with its messages kept"),
    "booking_rank": Key("", "1", "at which place of 50 runs of it the order stands that makes the price wrong"),
    "booking_schedule_s": Key("s", "", "a run of it by `friday diagnose --schedule`"),
    "forced_fail": Key("", ">= 0.95", "share of its forced runs that fail as the one that is forced, `friday force STUDY RUN`"),
    "forced_pass": Key("", ">= 0.95", "the same of a run that passed"),
    "unforced_fail": Key("", "", "share of its runs that fail by themselves"),
    "top1": Key("", ">= 8", "of the ten order bugs of tests/apps/planted, how many stand at the first place of a study of 50 runs"),
    "top3": Key("", "10", "at one of the first three"),
    "content": Key("", "2", "of its two bugs that are a message's contents, how many are found, and not taken for an order"),
    "invented": Key("", "<= 1", "of 20 studies whose failures are dealt out at random: how many claim something"),
    "minimised": Key("", "<= 5", "messages that are left of a failing run of 10,000 events, `friday force STUDY RUN --minimise`"),
    "minimise_runs": Key("", "", "how many runs of the group that took"),
    "schedule_ratio": Key("", ">= 0.99", "SET requests a second, record --schedule / native; server on one core, redis-benchmark on the other"),
    "schedule_ratio_one": Key("", "", "the same on one core, where nothing runs while the server waits"),
    "schedule_ratio_nginx": Key("", ">= 0.99", "requests a second of a small page of nginx with two workers, record --schedule / native, on all cores, with ab"),
    "schedule_ratio_booking": Key("", ">= 0.99", "requests a second of the booking service (tests/apps/booking), so recorded / native, on all cores, with ab"),
    "schedule_bytes_per_event": Key("bytes", "<= 16", "what is stored of it for each event, with --first-bytes 0"),
}


def is_planted(finding: dict) -> bool:
    texts = [message["text"] for message in finding["messages"]]
    return finding["form"] == "intrusion" and "SET key:" in texts[1] and "GET key:" in texts[0] and "GET key:" in texts[2]


def is_price_between(finding: dict) -> bool:
    texts = [message["text"] for message in finding["messages"]]
    return finding["form"] in ("between", "intrusion") and "SET price:" in texts[1]


def place_of(findings: list[dict], is_it) -> float:
    return next((place for place, finding in enumerate(findings, 1) if is_it(finding)), 0)


def compare(bench: Bench, study: pathlib.Path) -> tuple[dict, float, float]:
    """The answer, the seconds and the mebibytes."""
    began = time.perf_counter()
    process = bench.start([bench.friday, "compare", "--json", study])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, text = time.perf_counter() - began, process.log.read_text()
    if process.returncode:
        raise RuntimeError(f"friday compare: status {process.returncode}\n{text[-2000:]}")
    return json.loads(text[text.index("{"):]), seconds, usage.ru_maxrss / 1024


def synthetic(bench: Bench) -> dict[str, Number]:
    maker = bench.build / "bin" / "friday_study_make"
    if not maker.exists():
        raise Unavailable(f"{maker} is not built: it belongs to the tests")
    runs, events = (20, 2000) if bench.quick else (100, 100_000)
    study = bench.path("study")
    bench.run([maker, study, runs, events], timeout=600)
    kept = sum(file.stat().st_size for file in (study / "messages").iterdir())
    answers = [compare(bench, study) for _ in range(1 if bench.quick else 3)]
    return {"compare_s": median(seconds for _, seconds, _ in answers), "compare_mib": median(memory for _, _, memory in answers),
            "compare_rank": Number(place_of(answers[0][0]["orders"], is_planted)), "kept_bytes_per_event": Number(kept / (runs * events))}


def booking(bench: Bench) -> dict[str, Number]:
    place, study, runs = ROOT / "tests" / "apps" / "booking", bench.path("booking"), 4 if bench.quick else 50
    began = time.perf_counter()
    bench.run([bench.friday, "diagnose", "-q", "-o", study, "--group", place / "service.toml", "-n", runs, "--keep", "0", "--",
               "/usr/bin/python3", place / "customer.py", "{port:web}", "{port:redis}", "f1"], timeout=900)
    seconds = (time.perf_counter() - began) / runs
    answer, _, _ = compare(bench, study)
    found = {"booking_runs_s": Number(seconds), "booking_rank": Number(place_of(answer["orders"], is_price_between))}
    began = time.perf_counter()
    bench.run([bench.friday, "diagnose", "-q", "--schedule", "-o", bench.path("booking-schedules"), "--group", place / "service.toml", "-n", runs, "--keep", "0", "--",
               "/usr/bin/python3", place / "customer.py", "{port:web}", "{port:redis}", "f1"], timeout=900)
    found["booking_schedule_s"] = Number((time.perf_counter() - began) / runs)
    rows = [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]
    found["unforced_fail"] = Number(sum(row["result"] == "FAILED" for row in rows) / len(rows))
    if bench.quick:
        return found  # too few runs for a claim
    for key, result in (("forced_fail", "FAILED"), ("forced_pass", "passed")):
        one = next(row["run"] for row in rows if row["result"] == result)
        forced = json.loads(bench.run([bench.friday, "force", study, one, "-n", 20, "--json"], timeout=600))
        as_wanted = forced["forced_failed"] if result == "FAILED" else forced["forced"] - forced["forced_failed"]
        found[key] = Number(as_wanted / forced["runs"])
    return found


def planted_bugs(bench: Bench) -> dict[str, Number]:
    found, claims, shuffles = {}, 0, 0
    bugs = planted.BUGS[:2] if bench.quick else planted.BUGS
    for bug in bugs:
        place = bench.path(f"planted-{bug}")
        place.mkdir()
        study = planted.study(bench.friday, bug, place)
        found[bug] = planted.place_of(bug, planted.compared(bench.friday, study))
        for seed in range(2 if bug not in planted.CONTENT else 0):
            claims += planted.compared(bench.friday, planted.shuffled(study, place / f"shuffled-{seed}", shuffles))["verdict"] in ("order", "content")
            shuffles += 1
    orders = [place for bug, place in found.items() if bug not in planted.CONTENT]
    return {"top1": Number(sum(place == 1 for place in orders)), "top3": Number(sum(1 <= place <= 3 for place in orders)),
            "content": Number(sum(found.get(bug, 0) == 1 for bug in planted.CONTENT)), "invented": Number(claims)}


def minimised(bench: Bench) -> dict[str, Number]:
    """Two lost an update in the register, while a third one asks so often that the run has 10,000 events."""
    place = bench.path("minimised")
    place.mkdir()
    study = planted.study(bench.friday, "lost_update", place, runs=12, failures=1, pings=20 if bench.quick else 2500)
    rows = [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]
    failed = next(row["run"] for row in rows if row["result"] == "FAILED")
    forced = json.loads(bench.run([bench.friday, "force", study, failed, "--minimise", "-n", 1, "--json"], timeout=3000))
    return {"minimised": Number(len(forced["exact"])), "minimise_runs": Number(forced["search"]["runs"])}


def scheduled(bench: Bench) -> dict[str, Number]:
    recording = bench.path("schedule-rec")
    found = beside_native(bench, "schedule_ratio", recording, SCHEDULE)
    info = json.loads(bench.run([bench.friday, "info", "--json", recording]))
    stored = sum(file.stat().st_size for file in (recording / "nodes").rglob("trace*"))
    found["schedule_bytes_per_event"] = Number(stored / sum(node["events"] for node in info["nodes"]))
    return found


NGINX = """daemon off; worker_processes 2; pid {place}/pid; error_log stderr; {user}
events {{ }}
http {{ access_log off; keepalive_requests 1000000000;
  client_body_temp_path {place}; proxy_temp_path {place}; fastcgi_temp_path {place}; uwsgi_temp_path {place}; scgi_temp_path {place};
  server {{ listen 127.0.0.1:{port}; root {place}; }} }}
"""
SCHEDULE = ["--schedule", "--first-bytes", "0"]


def nginx(bench: Bench, options: list[str] | None) -> str:
    """Starts it, native without options; the address of its page."""
    place, (port,) = bench.path("nginx"), free_ports(1)
    place.mkdir()
    (place / "page").write_text("a small page\n" * 80)
    (place / "nginx.conf").write_text(NGINX.format(place=place, port=port, user="user root;" if os.geteuid() == 0 else ""))
    command = ["nginx", "-p", place, "-c", place / "nginx.conf"]
    bench.start(command if options is None else bench.record_command(bench.path("nginx-rec"), command, options=options))
    wait_until(lambda: accepts(port), "nginx")
    return f"http://127.0.0.1:{port}/page"


def booking_service(bench: Bench, options: list[str] | None) -> str:
    place, (web, redis) = ROOT / "tests" / "apps" / "booking", free_ports(2)
    python, nodes = "/usr/bin/python3", {"redis": Redis.command(redis)}
    nodes |= {"crawler": [python, place / "crawler.py", redis, 1_000_000], "web": [python, place / "web.py", web, redis]}
    if options is None:
        bench.start(nodes["redis"])
        wait_until(lambda: accepts(redis), "redis")
        for name in ("crawler", "web"):
            bench.start(nodes[name])
    else:
        group = bench.path("booking-group")
        words = lambda command: json.dumps(list(map(str, command)))
        group.write_text("".join(f"[[node]]\nname = '{name}'\ncommand = {words(command)}\n" + (f"ready = 'port {redis}'\n" if name == "redis" else "after = ['redis']\n")
                                 for name, command in nodes.items()))
        bench.start([bench.friday, "record", "-o", bench.path("booking-rec"), *options, "--group", group])
    wait_until(lambda: accepts(web), "the booking service")
    return f"http://127.0.0.1:{web}/search?flight=f1"


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def web_ratios(bench: Bench) -> dict[str, Number]:
    found = {}
    for name, start, requests, options in (("nginx", nginx, 40_000, ["-k"]), ("booking", booking_service, 2_000, [])):
        def ask(url: str) -> float:
            text = bench.run(["ab", *options, "-q", "-c", "8", "-n", 500 if bench.quick else requests, url])
            return float(re.search(r"Requests per second:\s+([\d.]+)", text)[1])  # type: ignore[index]
        native, recorded = start(bench, None), start(bench, SCHEDULE)
        for url in (native, recorded):
            ask(url)
        n, r = alternate(3 if bench.quick else 13, lambda: ask(native), lambda: ask(recorded))
        found[f"schedule_ratio_{name}"] = median(b / a for a, b in zip(n, r))
        bench.note(f"{name}, native -> --schedule: {median(n).value:.0f} -> {median(r).value:.0f} requests a second")
        bench.end_all()
    return found


def run(bench: Bench) -> dict[str, Number]:
    return synthetic(bench) | booking(bench) | planted_bugs(bench) | minimised(bench) | scheduled(bench) | web_ratios(bench)
