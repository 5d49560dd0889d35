"""Prints what the ring predicate found in the demo's recording and compares it with what the faulty node wrote down when
it broke the ring. Exit code 0 when they agree, 1 when they differ.

usage: demo_report.py FOUND.json TRUTH.json
"""
import json
import sys
import time


def wall_clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f"{seconds % 1:.6f}"[1:]


def report(violation: dict) -> None:
    values, node = violation["values"], violation["nodes"][0]
    after = values["after"]
    print(f"node {node['id']} ({node['name']}, {values['id']}) broke the ring")
    print(f"  when      logical time {values['broken_at']} s, real time {wall_clock(values['since'])}")
    print(f"  how       its {values['link']} became {values['value']} and skips {values['other']}, a live node")
    print(f"  after     message {after['type']} number {after['seq']} from {after['sender']}")
    print("  where")
    for line in values["stack"].rstrip().splitlines():
        place, _, path = line.rpartition(" at ")
        print(f"    {place} at {path.rsplit('/', 1)[-1]}" if place else f"    {line}")


def differences(violation: dict, truth: dict) -> list[str]:
    values = violation["values"]
    pairs = [("node", violation["nodes"][0]["name"], truth["node"]),
             ("wrong successor", values["value"], truth["wrong_successor"]),
             ("skipped node", values["other"], truth["skipped"]),
             ("message", values["after"], truth["after"])]
    wrong = [f"{what}: found {found}, the truth is {true}" for what, found, true in pairs if found != true]
    if abs(values["since"] - truth["time"]) > 0.05:
        wrong.append(f"time: found {values['since']}, the truth is {truth['time']}")
    return wrong


def main() -> int:
    with open(sys.argv[1]) as file:
        found = json.load(file)["violations"]
    with open(sys.argv[2]) as file:
        truth = json.load(file)
    if not found:
        print(f"nothing was found, but node {truth['node']} broke the ring")
        return 1
    for violation in found:
        report(violation)
    wrong = differences(found[0], truth) + [f"{len(found)} violations instead of one"] * (len(found) != 1)
    print("the truth file of the faulty node agrees" if not wrong else "the truth file differs:\n  " + "\n  ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
