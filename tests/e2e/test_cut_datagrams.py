"""A datagram that did not fit: its transfer ends where the program's buffer ended, whatever the call says of its full length."""
import json

PROGRAM = """
import socket
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
b.bind(("127.0.0.1", 0))
def send():
    a.sendto(b"a datagram of 24 letters", b.getsockname())
send()
b.recv(5, socket.MSG_TRUNC)
send()
b.recvfrom(6, socket.MSG_TRUNC)
send()
b.recvmsg(7, 0, socket.MSG_TRUNC)
send()
b.recvmsg(8)
send()
b.recv(100, socket.MSG_TRUNC)
"""


def test_a_cut_datagram_ends_with_its_buffer(recorder, tmp_path):
    recording = recorder.record(["/usr/bin/python3", "-c", PROGRAM], name="it", cwd=tmp_path)
    recorder.verify(recording)
    out = recorder.run([recorder.friday, "dump", recording.path, "--node", "0", "--json"])
    events = [event for event in map(json.loads, out.stdout.splitlines()) if event.get("call") in ("recvfrom", "recvmsg")]
    moved = [part for event in events for part in event["parts"] if "true_length" in part]
    truncated = 2
    assert [(part["length"], part["true_length"], part["flags"]) for part in moved] == [
        (5, 24, truncated), (6, 24, truncated), (7, 24, truncated), (8, 8, truncated), (24, 24, 0)]
