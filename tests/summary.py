"""Adds up JUnit reports: the skips with their reasons, the failures, and one plain last line.

    tests/summary.py STATUS REPORT.xml...

STATUS is the worst exit status of the runners: a runner that died counts as a failure even if its reports look well. A test
may be skipped only for something the machine itself does not offer (its reason starts with "machine:") or because it shows
a documented gap and is expected to fail ("gap:"). Whatever else is missing the set-up should have installed, so such a skip
is a failure.
"""

import sys
import xml.etree.ElementTree as ElementTree

ALLOWED = ("machine:", "gap:")


def reason_of(skip, case):
    """The text a test gave: pytest writes it to the message, googletest prints it and ctest keeps the output."""
    output = case.findtext("system-out") or ""
    lines = output.splitlines()
    for number, line in enumerate(lines):
        if ALLOWED[0] in line:
            return line[line.index(ALLOWED[0]):].strip()
        if line.endswith("Skipped") and number + 1 < len(lines):
            return lines[number + 1].strip()
    return skip.get("message") or (skip.text or "").strip() or "no reason given"


def main(status, reports):
    passed, failed, skipped = 0, [], []  # a skip that counts as failure is in `failed` only
    for report in reports:
        try:
            cases = list(ElementTree.parse(report).iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            failed.append(f"{report}: {error}")
            continue
        for case in cases:
            name = "::".join(dict.fromkeys(filter(None, (case.get("classname"), case.get("name")))))
            skip = case.find("skipped")
            wrong = [found for found in (case.find("failure"), case.find("error")) if found is not None]
            if wrong:
                failed.append(f"{name}: {' '.join((wrong[0].get('message') or '').split())[:300]}")
            elif skip is not None:
                reason = reason_of(skip, case)
                if reason.startswith(ALLOWED):
                    skipped.append(f"{name}: {reason}")
                else:
                    failed.append(f"{name}: skipped, though the set-up should provide what it lacks: {reason}")
            else:
                passed += 1
    if status and not failed:
        failed.append(f"a test runner ended with status {status} (124: out of time)")
    reasons = [line.partition(": ")[2] for line in skipped]
    often = {reason for reason in reasons if reasons.count(reason) > 5}  # one line for all of them
    skipped_lines = [line for line, reason in zip(skipped, reasons) if reason not in often]
    skipped_lines += [f"{reasons.count(reason)} tests: {reason}" for reason in sorted(often)]
    for title, lines in (("skipped", skipped_lines), ("FAILED", failed)):
        for line in lines:
            print(f"{title}: {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
