"""Two Unix sockets with the same relative name, in two directories: each client's connection is found at the server of its own one. Names
and order alone say the opposite."""
PROGRAM = """
import os, socket, sys, time
role, where = sys.argv[1:]
top = os.getcwd()
os.chdir(where)
def tell(what):
    open(os.path.join(top, what), "w").close()
def wait_for(what):
    while not os.path.exists(os.path.join(top, what)):
        time.sleep(0.005)
s = socket.socket(socket.AF_UNIX)
if role == "server":
    s.bind("s")
    s.listen()
    tell(where + "-listens")
    wait_for("a-connected" if where == "a" else "a-accepted")
    there = s.accept()[0]
    tell(where + "-accepted")
    print(there.recv(2).decode())
else:
    wait_for(where + "-listens")
    if where == "a":
        wait_for("b-connected")
    s.connect("s")
    tell(where + "-connected")
    s.send(b"hi")
    print("hi")
"""


def test_equal_names_in_two_directories(recorder, tmp_path):
    for where in "ab":
        (tmp_path / where).mkdir()
    commands = [["/usr/bin/python3", "-c", PROGRAM, role, where] for role in ("server", "client") for where in "ab"]
    recording, printed = recorder.record_nodes(commands, cwd=tmp_path)
    assert printed == [["hi"]] * 4
    recorder.verify(recording)
    info = recorder.info(recording)
    names = {node["id"]: node["name"] for node in info["nodes"]}
    assert sorted((names[pair["from"]], names[pair["to"]]) for pair in info["messages"]) == [("n2", "n0"), ("n3", "n1")]
