"""forward.py HOST PORT TO_HOST TO_PORT: passes TCP connections on, as a proxy or balancer does: both addresses are rewritten, and
bytes arrive in other pieces than they were sent in. For tests."""

import selectors
import socket
import sys

PIECE = 700  # bytes passed on at once; chunks of the sender are split and joined


def pump(selector, source, target):
    try:
        if data := source.recv(PIECE):
            target.sendall(data)
            return
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them has gone altogether
    selector.unregister(source)


def main(host, port, to_host, to_port):
    listener = socket.create_server((host, int(port)))
    selector = selectors.DefaultSelector()

    def accept():
        inner, _ = listener.accept()
        try:
            outer = socket.create_connection((to_host, int(to_port)))
        except OSError:
            inner.close()  # not there yet; whoever asked will ask again
            return
        for source, target in ((inner, outer), (outer, inner)):
            selector.register(source, selectors.EVENT_READ, lambda s=source, t=target: pump(selector, s, t))

    selector.register(listener, selectors.EVENT_READ, accept)
    print("forwarding", flush=True)
    while True:
        for key, _ in selector.select():
            key.data()


if __name__ == "__main__":
    main(*sys.argv[1:])
