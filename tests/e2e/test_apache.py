"""Apache 2.4 from Debian, recorded under `ab`: the event and the prefork processing modules, a CGI program, a graceful restart."""

import os
import re
import signal

import pytest
from conftest import wait_until
from programs import Server, check, fetch, load, need, place  # noqa: F401

MODULES = "/usr/lib/apache2/modules"
CONFIG = """
ServerRoot {place}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {place}/pid
ErrorLog {place}/error.log
DefaultRuntimeDir {place}
LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule deflate_module {modules}/mod_deflate.so
LoadModule filter_module {modules}/mod_filter.so
LoadModule status_module {modules}/mod_status.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule {cgi}_module {modules}/mod_{cgi}.so
{user}
StartServers 2
{sizes}
TypesConfig /etc/mime.types
LogFormat "%h %t \\"%r\\" %>s %b" common
CustomLog {place}/access.log common
DocumentRoot {place}/www
ScriptAlias /cgi/ {place}/cgi/
AddOutputFilterByType DEFLATE text/plain
<Location /status>
SetHandler server-status
</Location>
"""
SIZES = {"event": "ThreadsPerChild 8\nMinSpareThreads 8\nMaxSpareThreads 32\nMaxRequestWorkers 32\nServerLimit 4",
         "prefork": "MinSpareServers 2\nMaxSpareServers 6\nMaxRequestWorkers 8\nMaxConnectionsPerChild 500"}


@pytest.mark.full
@pytest.mark.limit(600)
@pytest.mark.parametrize("requests", [200, 4_000])
@pytest.mark.parametrize("mpm", ["event", "prefork"])
def test_under_ab(recorder, ports, place, mpm, requests):  # noqa: F811
    need("apache2", "apache2-utils")
    port, = ports(1)
    for name in ("www", "cgi"):
        (place / name).mkdir()
    (place / "www" / "page.txt").write_text("a page\n" * 1000)
    script = place / "cgi" / "hello"
    script.write_text('#!/bin/sh\nprintf "Content-Type: text/plain\\n\\nhello $QUERY_STRING\\n"\n')
    script.chmod(0o755)
    config = place / "apache.conf"
    config.write_text(CONFIG.format(place=place, port=port, mpm=mpm, modules=MODULES, sizes=SIZES[mpm], cgi="cgid" if mpm == "event" else "cgi",
                                    user="User nobody\nGroup nogroup" if os.geteuid() == 0 else "") +
                      (f"ScriptSock {place}/cgi.sock\n" if mpm == "event" else ""))
    server = Server(recorder, ["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", config], port)

    def ask(path, *options):
        text = load(recorder, ["/usr/bin/ab", "-q", "-n", requests, "-c", 6, *options, f"http://127.0.0.1:{port}{path}"])
        assert re.search(r"Failed requests: +0$", text, re.MULTILINE) and "Non-2xx" not in text, text

    ask("/page.txt", "-k")
    ask("/page.txt", "-H", "Accept-Encoding: gzip")
    assert fetch(port, "/page.txt") == (200, "a page\n" * 1000)
    assert fetch(port, "/cgi/hello?you") == (200, "hello you\n")
    log = place / "error.log"
    os.kill(int((place / "pid").read_text()), signal.SIGUSR1)
    wait_until(lambda: log.read_text().count("resuming normal operations") == 2, "no graceful restart", 60)
    ask("/page.txt")
    assert "requests currently being processed" in fetch(port, "/status")[1]
    os.kill(int((place / "pid").read_text()), signal.SIGTERM)
    recording = server.finish()
    assert len(recording.nodes()) >= 4
    check(recorder, recording)
