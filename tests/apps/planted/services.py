"""Five small services, each with bugs that show in some runs only: services.py BUG server PORT CLIENTS, and services.py BUG CLIENT PORT.

The server answers lines of text and ends when so many clients have said BYE; it ends with 1 if what the bug spoils is spoilt. BUG.toml says which
clients there are, and which messages the bug is made of. Nothing here knows of Friday.
"""
import random
import selectors
import socket
import sys
import time

# How many of a hundred runs have the message that spoils them in any order.
BAD = 30


class Server:
    """All five services, since their commands differ."""

    def __init__(self, bug):
        self.bug, self.failed = bug, False
        self.total, self.left, self.right, self.seen = 0, 10, 0, 0
        self.holder, self.limit, self.subscribers, self.told = "", 0, 0, False
        self.joined, self.open, self.seats, self.stopped, self.jobs = False, True, 1, False, 0

    def answer(self, line):
        word, _, rest = line.partition(" ")
        return getattr(self, "do_" + word.lower(), lambda _: "ok")(rest)

    # a register
    def do_get(self, name):
        return str({"total": self.total, "left": self.left, "right": self.right}.get(name, 0))

    def do_set(self, rest):
        name, _, value = rest.partition(" ")
        self.failed |= value == "bad"
        if name == "total" and value.isdigit():
            self.total = int(value)
        return "ok"

    def do_move(self, amount):
        self.left, self.right = self.left - int(amount), self.right + int(amount)
        return "ok"

    def do_sum(self, value):
        self.failed |= self.bug == "stale_total" and int(value) != 10
        return "ok"

    # locks
    def do_lock(self, _):
        self.failed |= self.bug == "lock_before_limit" and not self.limit
        self.holder = "held"
        return "ok"

    def do_unlock(self, rest):
        self.failed |= self.bug == "late_release" and rest.endswith("again") and self.holder == "held"
        self.holder = ""
        return "ok"

    def do_limit(self, value):
        self.limit = int(value)
        return "ok"

    # a broker
    def do_subscribe(self, _):
        self.subscribers += 1
        return "ok"

    def do_publish(self, _):
        self.failed |= self.bug == "publish_first" and not self.subscribers
        return "ok"

    def do_join(self, _):
        self.joined = True
        return "ok"

    def do_kick(self, _):
        self.joined = False
        return "ok"

    def do_say(self, _):
        self.failed |= self.bug == "kicked_between" and not self.joined
        return "ok"

    # seats
    def do_free(self, _):
        return str(self.seats if self.open else 0)

    def do_book(self, _):
        self.seats -= 1
        self.failed |= self.seats < 0 or not self.open
        return "ok"

    def do_close(self, _):
        self.open = False
        return "ok"

    # jobs
    def do_stop(self, _):
        self.stopped = True
        return "ok"

    def do_job(self, _):
        self.failed |= self.stopped
        return "ok"

    def do_put(self, rest):
        self.failed |= rest == "twice"
        self.jobs += 1
        return "ok"

    def do_take(self, _):
        self.failed |= self.bug == "take_before_put" and not self.jobs
        return "ok"

    def ends_badly(self, adders):
        return self.failed or (self.bug == "lost_update" and self.total != adders)


def serve(bug, port, clients):
    listener = socket.create_server(("127.0.0.1", port))
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    print("listening", flush=True)
    server, left = Server(bug), clients
    while left:
        for key, _ in selector.select():
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            line = key.fileobj.recv(200).decode().strip()
            if not line:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                continue
            left -= line == "BYE"
            key.fileobj.sendall(server.answer(line).encode() + b"\n")
    return int(server.ends_badly(2))


def wait(most):
    time.sleep(random.random() * most / 1000)


def client(bug, role, port):
    connection = socket.create_connection(("127.0.0.1", port))

    def ask(line):
        connection.sendall(line.encode() + b"\n")
        return connection.recv(200).decode().strip()

    ask(f"HELLO {random.randrange(1000)}")
    kind = role.partition("-")[0]
    if kind == "noise":
        for _ in range(random.randrange(3, 9)):
            wait(15)
            ask(random.choice(["PING {}", "GET other", "TIME {}"]).format(random.randrange(100)))
    elif kind == "pinger":
        for number in range(int(sys.argv[4])):
            ask(f"PING {number}")
    elif kind == "adder":
        wait(60)
        value = int(ask("GET total"))
        wait(30)
        ask(f"SET total {value + 1}")
    elif kind == "auditor":
        wait(30)
        left = int(ask("GET left"))
        wait(20)
        ask(f"SUM {left + int(ask('GET right'))}")
    elif kind == "writer":
        wait(60)
        ask("SET total bad" if bug == "bad_value" and random.randrange(100) < BAD else f"MOVE {random.randrange(1, 9)}")
    elif kind == "owner":
        wait(60)
        ask("LOCK door")
        wait(20)
        ask("UNLOCK door")
        wait(45)
        if bug == "late_release":
            ask("UNLOCK door again")
    elif kind == "waiter":
        wait(100)
        ask("LOCK door")
    elif kind == "admin":
        wait(30)
        ask(f"LIMIT {random.randrange(1, 5)}")
    elif kind == "publisher":
        wait(40)
        ask("PUBLISH news")
    elif kind == "subscriber":
        wait(25)
        ask("SUBSCRIBE news")
    elif kind == "guest":
        wait(20)
        ask("JOIN room")
        wait(30)
        ask("SAY hello")
    elif kind == "moderator":
        wait(60)
        ask("KICK guest")
    elif kind == "clerk":
        wait(50)
        if ask("FREE seat") != "0":
            wait(30)
            ask("BOOK seat")
    elif kind == "manager":
        wait(60)
        ask("CLOSE hall")
    elif kind == "producer":
        wait(20)
        ask("PUT twice" if bug == "unknown_word" and random.randrange(100) < BAD else "PUT")
        wait(20)
        ask("JOB last")
    elif kind == "operator":
        wait(75)
        ask("STOP")
    elif kind == "worker":
        wait(30)
        ask("TAKE")
    ask("BYE")
    return 0


if __name__ == "__main__":
    bug, role, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sys.exit(serve(bug, port, int(sys.argv[4])) if role == "server" else client(bug, role, port))
