"""measured.py: runs commands and says what each used. A line of its input is a JSON object with `command`, `environment`, `output` (a path) and
`seconds`; the line of its output has `code` as subprocess has it, `late` (it was ended when its time was over) and `memory`, the bytes of its
largest process.

Linux counts what the parent of a process ever had resident as that process's own until its execve (getrusage(2), ru_maxrss), so that the
parent must be small. The process in which pytest runs may not be.
"""

import json
import os
import subprocess
import sys
import threading


def run(command, environment, output, seconds):
    with open(output, "wb") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        late = threading.Event()
        timer = threading.Timer(seconds, lambda: (late.set(), process.kill()))
        timer.start()
        _, status, used = os.wait4(process.pid, 0)
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return {"code": process.returncode, "late": late.is_set(), "memory": used.ru_maxrss << 10}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
