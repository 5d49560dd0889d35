"""`friday help`, offline and in the console; `friday report`, which lets no contents out."""

import json
import re
import subprocess

import pytest
from console_support import PROMPT, Terminal
from debug_support import ring  # noqa: F401

SECRET = "correct-horse-battery-staple"
DIVERGES = """
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  char text[64] = {0};
  int secret = open(argv[1], O_RDONLY);
  read(secret, text, sizeof text - 1);
  int shared = open(argv[2], O_RDWR);
  int *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  write(1, "ready\\n", 6);
  while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) usleep(2000);  /* stored by a process that is not recorded */
  dprintf(2, "%s %d\\n", text, *word);
  return 0;
}
"""


def test_help_lists_pages_and_shows_them(recorder):
    listed = recorder.run([recorder.friday, "help"]).stdout
    for name in ("tutorial", "record", "errors", "determinism", "contributing"):
        assert re.search(rf"^  {name} +\S", listed, re.M), listed
    page = recorder.run([recorder.friday, "help", "tutorial"]).stdout
    assert page.startswith("# ") and len(page) > 5000
    assert "friday verify REC" in recorder.run([recorder.friday, "help", "verify"]).stdout
    assert "ignore 1 100" in recorder.run([recorder.friday, "help", "ignore"]).stdout
    wrong = recorder.run([recorder.friday, "help", "tutorail"])
    assert wrong.returncode == 2 and "the nearest is `tutorial`" in wrong.stderr
    found = recorder.run([recorder.friday, "help", "errors", "friday: node 3 web: this system refuses holes in files"]).stdout
    assert "this system refuses ..." in found and found.count("\n") < 60


def test_help_of_the_console_shows_pages_through_the_pager(recorder, ring):  # noqa: F811
    with Terminal(recorder, [recorder.friday, "replay", ring.path], env={"PAGER": "less", "LESS": ""}) as terminal:
        terminal.expect(PROMPT)
        terminal.send("help tutorial\r")
        shown = terminal.expect(r"^:$")
        assert "# " in shown
        terminal.send("q")
        terminal.expect(PROMPT)
        assert "the nearest is `tutorial`" in terminal.command("help tutorail")
        assert "`help page commands` shows the page" in terminal.command("help commands")
        assert "tutorial" in terminal.command("help page")
    recorder.none_left()


@pytest.fixture
def diverging(recorder, tmp_path):
    """A recording whose replay diverges: a process that is not recorded has stored to memory that the program shares with it."""
    (tmp_path / "program.c").write_text(DIVERGES)
    subprocess.run(["gcc", "-g", "-O1", "-o", "program", "program.c"], cwd=tmp_path, check=True)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "shared").write_bytes(bytes(4096))
    running = recorder.start_record([tmp_path / "program", tmp_path / "secret", tmp_path / "shared", f"--password={SECRET}"], name="it",
                                    env={"TOKEN": SECRET})
    assert running.process.stdout.readline() == "ready\n"
    with open(tmp_path / "shared", "r+b") as file:
        file.write((7).to_bytes(4, "little"))
    return recorder.finish_record(running)


def test_a_report_says_where_it_diverges_and_lets_no_contents_out(recorder, diverging):
    verified = recorder.run([recorder.friday, "verify", diverging.path])
    assert verified.returncode == 3, verified.stdout
    refused = recorder.run([recorder.friday, "report", diverging.path])
    output = diverging.path.with_name(diverging.path.name + "-report.json")
    assert refused.returncode == 2 and "nothing was written" in refused.stderr and not output.exists()
    assert "It does not contain" in refused.stderr and "command lines, environment" in refused.stderr
    done = recorder.run([recorder.friday, "report", diverging.path, "--yes"])
    assert done.returncode == 0, done.stderr
    text = output.read_text()
    report = json.loads(text)
    assert output.stat().st_mode & 0o077 == 0
    assert [replay["sync"] for replay in report["replays"]] == ["clock", "clock", "causal"]
    found = report["replays"][0]["divergence"]
    assert found["node"] == 0 and found["chain"] and found["event"] == report["replays"][1]["divergence"]["event"]
    assert any(event["event"] == found["event"] - 1 for event in report["near"]["events"])
    assert any("program.c" == place["file"] for place in found["chain"])
    for hidden in (SECRET, "password", str(diverging.path.parent), "TOKEN", "horse"):
        assert hidden not in text, hidden
    assert recorder.run([recorder.friday, "report", diverging.path, "--yes"]).returncode == 2, "it overwrites nothing"


def test_a_report_is_written_when_the_user_agrees(recorder):
    recording = recorder.record(["/bin/echo", SECRET])
    for answer, code in (("n", 1), ("y", 0)):
        with Terminal(recorder, [recorder.friday, "report", recording.path, "-o", f"r-{answer}.json"]) as terminal:
            terminal.expect(r"Write \d+ bytes to r-.\.json\? \[y/N\] ")
            terminal.send(answer + "\r")
            assert terminal.finish() == code
    assert not (recorder.directory / "r-n.json").exists()
    text = (recorder.directory / "r-y.json").read_text()
    assert len(json.loads(text)["replays"]) == 1 and json.loads(text)["replays"][0]["held"] and SECRET not in text
