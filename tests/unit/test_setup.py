"""console/setup.sh on machines of which only what dpkg-query and apt-get answer exists."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def machine(tmp_path):
    """A function that runs set-up where the packages `installed` are there and apt-get's simulation prints `plan`, and which ends with
    failure if it may not remove, or if the text `refused` is in its arguments; returns (the ended process, the lines with which apt-get was called)."""
    def run(*options, installed=(), plan="", refused=" --no-remove "):
        calls = tmp_path / "calls"
        calls.write_text("")
        programs = {
            "dpkg-query": f'for name; do :; done; case " {" ".join(installed)} " in *" $name "*) printf installed;; *) exit 1;; esac',
            "apt-get": f'echo "$*" >> {calls}; case "$*" in *"{refused}"*) exit 100;; *" -s "*) printf "{plan}";; esac',
            "sudo": 'exec "$@"',
        }
        for name, text in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        done = subprocess.run(["bash", ROOT / "console" / "setup.sh", *options], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"})
        return done, calls.read_text().splitlines()
    return run


def test_nothing_of_the_machine_is_removed(machine):
    done, calls = machine(plan="Inst cmake (3.25)\\nRemv libboost1.83-dev [1.83]\\nRemv libgreat-dev [1]\\n")
    assert done.returncode == 1 and "libboost1.83-dev libgreat-dev" in done.stderr, done
    assert calls and all(" -s " in call or call.endswith(" update") for call in calls), "only simulations"


def test_what_draws_is_left_out_where_it_cannot_be(machine):
    done, calls = machine("--full", refused="python3-matplotlib")
    assert "without python3-matplotlib" in done.stderr, done
    (install,) = [call for call in calls if " -s " not in call and " install " in call]
    assert "gdb" in install.split() and "mpich" in install.split() and "matplotlib" not in install, install


@pytest.mark.parametrize("there, wanted", [((), "libboost-filesystem-dev"), (("libboost-dev",), "libboost-filesystem-dev"),
                                           (("libboost1.81-dev",), "libboost-filesystem1.81-dev")])
def test_the_boost_that_is_there_serves(machine, there, wanted):
    listed = machine("--list", installed=there)[0].stdout.split()
    assert [name for name in listed if "boost" in name] == [wanted]


def test_building_needs_no_server(machine):
    building, sample, full = (set(machine(*options, "--list")[0].stdout.split()) for options in (["--build"], [], ["--full"]))
    assert building < sample < full
    looking = set(machine("--lint", "--list")[0].stdout.split())
    assert building < looking and not looking <= full and {"clang-format", "python3-pyflakes", "clang-tidy-19"} <= looking
    assert not building & {"redis-server", "memcached", "tmux", "libgtest-dev", "python3-pytest"}


def test_a_benchmark_names_the_packages_that_it_lacks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "bench"))
    monkeypatch.delitem(sys.modules, "support", raising=False)  # other folders of tests have one, too
    import support
    support.need("dpkg")
    with pytest.raises(support.Unavailable, match="no-such-thing and neither-this are not installed; console/setup.sh --full"):
        support.need("dpkg", "no-such-thing", "neither-this")


def test_a_build_for_the_demo_leaves_no_setting_behind():
    """Both build in one directory, whose cache keeps what no preset sets: one source at a time is what the tests are compiled as."""
    presets = {preset["name"]: preset["cacheVariables"] for preset in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}
    switches = {name for name, value in presets["demo"].items() if value in ("ON", "OFF")}
    assert {name: presets["release"].get(name) for name in switches} == {"FRIDAY_TESTS": "ON", "CMAKE_UNITY_BUILD": "OFF"}
