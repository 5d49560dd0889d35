"""The last line of a test run: what counts as passed, failed, skipped."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import summary  # noqa: E402

PASSED = '<testcase classname="a" name="good"/>'
FAILED = '<testcase classname="a" name="bad"><failure message="no"/></testcase>'
BROKEN = '<testcase classname="a" name="broken"><error message="no"/></testcase>'
MACHINE = '<testcase classname="a" name="root"><skipped message="machine: needs root"/></testcase>'
GAP = '<testcase classname="a" name="gap"><skipped type="pytest.xfail" message="gap: later"/></testcase>'
LACKING = '<testcase classname="a" name="redis"><skipped message="redis-server is not installed"/></testcase>'
CTEST = ('<testcase name="unit.X" classname="unit.X"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
         "<system-out>[ RUN ] X\n/x.cc:1: Skipped\nmachine: no AVX\n[  SKIPPED ] X</system-out></testcase>")
CTEST_LACKING = CTEST.replace("machine: no AVX", "no gdb")


@pytest.mark.parametrize("cases, runner, line, code", [
    (PASSED * 3, 0, "3 passed, 0 failed, 0 skipped", 0),
    (PASSED + FAILED + BROKEN, 1, "1 passed, 2 failed, 0 skipped", 1),
    (PASSED + MACHINE + GAP + CTEST, 0, "1 passed, 0 failed, 3 skipped", 0),
    (PASSED + LACKING, 0, "1 passed, 1 failed, 0 skipped", 1),
    (PASSED + CTEST_LACKING, 0, "1 passed, 1 failed, 0 skipped", 1),
    (PASSED, 124, "1 passed, 1 failed, 0 skipped", 1),
    ("", 0, "0 passed, 0 failed, 0 skipped", 1),
])
def test_counts(tmp_path, capsys, cases, runner, line, code):
    (tmp_path / "report.xml").write_text(f"<testsuite>{cases}</testsuite>")
    assert summary.main(runner, [str(tmp_path / "report.xml")]) == code
    assert capsys.readouterr().out.splitlines()[-1] == line


def test_reasons_are_listed(tmp_path, capsys):
    (tmp_path / "report.xml").write_text(f"<testsuite>{MACHINE}{CTEST}{CTEST_LACKING}{FAILED}</testsuite>")
    summary.main(1, [str(tmp_path / "report.xml")])
    out = capsys.readouterr().out
    for text in ("skipped: a::root: machine: needs root", "skipped: unit.X: machine: no AVX", "FAILED: a::bad", "lacks: no gdb"):
        assert text in out


def test_a_report_that_is_absent_or_cut_off_is_a_failure(tmp_path, capsys):
    (tmp_path / "cut.xml").write_text("<testsuite><testcase")
    (tmp_path / "good.xml").write_text(f"<testsuite>{PASSED}</testsuite>")
    assert summary.main(0, [str(tmp_path / "absent.xml"), str(tmp_path / "cut.xml"), str(tmp_path / "good.xml")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 2 failed, 0 skipped"
