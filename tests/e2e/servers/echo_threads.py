"""A server with a thread for each connection on argv[1] of loopback: answers each line with its SHA-256; ends on SIGTERM."""
import hashlib
import signal
import socketserver
import sys
import threading

counts = {}
lock = threading.Lock()


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            with lock:
                name = threading.current_thread().name
                counts[name] = counts.get(name, 0) + 1
            self.wfile.write(hashlib.sha256(line).hexdigest().encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 64


server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever(poll_interval=0.05)
server.server_close()
print("ended")
