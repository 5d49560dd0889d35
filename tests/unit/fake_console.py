"""A console over a replayed group in memory, for tests that type into it and look at what it says."""
from dataclasses import dataclass

from fake_backend import FakeBackend

import friday
from friday.console import Console


@dataclass
class Message:
    number: int
    source: "int | None"
    source_event: "int | None"
    sent: "int | None"
    target: "int | None"
    target_event: "int | None"
    received: "int | None"
    bytes: int = 10
    channel: str = "datagram"
    is_sent: bool = True
    is_received: bool = True


class Answering(FakeBackend):
    """gdb's answers by command; a dict gives one a node, an exception is raised."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.answers = {}
        self.sent = []

    def outputs(self, node):
        return [i for i, event in enumerate(e for e in self.events if e.node == node) if event.at == "write"]

    def output(self, node, number):
        return 1, b"text\n", 0

    def gdb(self, node, command):
        self.log.append((node, "gdb " + command))
        answer = self.answers.get(command, f"gdb {command}\n")
        answer = answer.get(node, "") if isinstance(answer, dict) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def messages(self, node, limit):
        assert limit > 0
        return [m for m in self.sent if (m.is_sent or m.is_received) and (node is None or node in (m.source, m.target))][-limit:]

    def message(self, number):
        return self.sent[number - 1]


def make(names=("a", "b", "c"), events=(), terminal=False, batch=False, **options):
    session = friday.Session(Answering(names, events, **options), console=True)
    console = Console(session, terminal=terminal, batch=batch)
    console.out.colour = False
    return console, session.backend


def feed(console, text):
    for line in text.split("\n"):
        console.feed(line)
