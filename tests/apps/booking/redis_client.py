"""A connection to Redis, in its protocol RESP (one reply to each command)."""
import socket


class Redis:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._reply = self._socket.makefile("rb")

    def ask(self, *words: str) -> "str | None":
        """Sends a command, and returns its reply; none if there is no such key."""
        command = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        self._socket.sendall(command.encode())
        line = self._reply.readline().decode().rstrip()
        if not line or line[0] == "-":
            raise OSError(f"Redis says {line!r} to {words}")
        if line[0] != "$":
            return line[1:]
        length = int(line[1:])
        return None if length < 0 else self._reply.read(length + 2).decode()[:length]
