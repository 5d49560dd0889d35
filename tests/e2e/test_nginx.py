"""nginx from Debian with four workers, recorded under `ab`: files, a proxied service, a limit kept in shared memory, a reload."""

import os
import pathlib
import re
import signal

import pytest
from conftest import wait_until
from programs import Server, check, children, fetch, load, need, place  # noqa: F401

CONFIG = """
{user}
worker_processes 4;
daemon off;
pid {place}/nginx.pid;
error_log {place}/error.log info;
lock_file {place}/lock;
events {{ worker_connections 256; accept_mutex on; }}
http {{
  access_log {place}/access.log;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  sendfile on;
  gzip on;
  gzip_min_length 100;
  gzip_types text/plain;
  default_type text/plain;
  limit_req_zone $binary_remote_addr zone=slow:1m rate=5r/s;
  proxy_cache_path {place}/cache keys_zone=kept:1m;
  server {{
    listen 127.0.0.1:{port};
    root {place}/www;
    location /limited/ {{ limit_req zone=slow; alias {place}/www/; }}
    location /proxied/ {{ proxy_cache kept; proxy_cache_valid 1s; proxy_pass http://127.0.0.1:{behind}/; }}
  }}
  server {{ listen 127.0.0.1:{behind}; location / {{ return 200 "from behind: $request_uri\\n"; }} }}
}}
"""


def workers(master):
    """Its worker processes; there are others, which look after the cache."""
    titles = {pid: pathlib.Path(f"/proc/{pid}/cmdline") for pid in children(master)}
    return {pid for pid, title in titles.items() if title.exists() and title.read_bytes().startswith(b"nginx: worker process")}


@pytest.mark.full
@pytest.mark.limit(600)
@pytest.mark.parametrize("requests", [300, 20_000])
def test_workers(recorder, ports, place, requests):  # noqa: F811
    need("nginx-light", "apache2-utils")
    port, behind = ports(2)
    (place / "www").mkdir()
    (place / "www" / "small").write_text("a small file\n")
    large = "".join(f"line {i}\n" for i in range(30_000))
    (place / "www" / "large").write_text(large)
    config = place / "nginx.conf"
    config.write_text(CONFIG.format(place=place, port=port, behind=behind, user="user nobody nogroup;" if os.geteuid() == 0 else ""))
    server = Server(recorder, ["/usr/sbin/nginx", "-p", place, "-e", place / "error.log", "-c", config], port, behind)
    master = int(wait_until(lambda: (place / "nginx.pid").exists() and (place / "nginx.pid").read_text(), "nginx.pid"))

    def ask(path, *options):
        text = load(recorder, ["/usr/bin/ab", "-q", "-n", requests, "-c", 16, *options, f"http://127.0.0.1:{port}{path}"])
        assert re.search(r"Failed requests: +0$", text, re.MULTILINE), text

    ask("/small", "-k")
    ask("/proxied/some/path")
    assert fetch(port, "/large") == (200, large)
    wait_until(lambda: 503 in [fetch(port, "/limited/small")[0] for _ in range(3)], "more than five a second are let through")
    old = workers(master)
    assert len(old) == 4
    os.kill(master, signal.SIGHUP)
    wait_until(lambda: len(workers(master)) == 4 and not old & workers(master), "the workers are not replaced", 30)
    ask("/large")
    os.kill(master, signal.SIGQUIT)
    recording = server.finish()
    assert len(recording.nodes()) >= 1 + 4 + 4
    check(recorder, recording)


CLIENT = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
bytes_read = 0
for turn in range(30):
    connection.request("GET", f"/{turn % 10}")
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200 and len(body) == 7 ** (turn % 10 % 7) and connection.sock, (turn, len(body))
    bytes_read += len(body)
print(bytes_read)
"""


@pytest.mark.full
def test_a_connection_that_is_kept(recorder, ports, place):  # noqa: F811
    """Headers are written, bodies are sent by sendfile, thirty of them on one connection: a recorded client has all of it from the server."""
    need("nginx-light")
    port, behind = ports(2)
    (place / "www").mkdir()
    for n in range(10):
        (place / "www" / str(n)).write_bytes(bytes((n + i) % 251 for i in range(7 ** (n % 7))))
    config = place / "nginx.conf"
    config.write_text(CONFIG.format(place=place, port=port, behind=behind, user="user nobody nogroup;" if os.geteuid() == 0 else "").replace("gzip on", "gzip off"))
    server = Server(recorder, ["/usr/sbin/nginx", "-p", place, "-e", place / "error.log", "-c", config], port, behind)
    done = recorder.run([recorder.friday, "record", "-o", server.running.recording, "--node", "client", "--", "/usr/bin/python3", "-c", CLIENT, port])
    assert (done.returncode, done.stdout) == (0, f"{3 * sum(7 ** (n % 7) for n in range(10))}\n"), done.stderr
    os.kill(int((place / "nginx.pid").read_text()), signal.SIGQUIT)
    recording = server.finish()
    info = recorder.info(recording)
    client = next(node for node in info["nodes"] if node["name"] == "client")
    worker = next(pair["from"] for pair in info["messages"] if pair["to"] == client["id"])
    assert [client["messages"][key] for key in ("received_unmatched", "received_unplaced", "sent_unplaced")] == [0, 0, 0], client["messages"]
    carried = {(pair["from"], pair["to"]): pair["bytes"] for pair in info["messages"]}
    assert carried[worker, client["id"]] > int(done.stdout) and carried[client["id"], worker] > 30 * 40, carried
    check(recorder, recording)
