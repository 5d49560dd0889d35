"""web.py PORT REDIS_PORT: the web server of a flight-booking service. /search?flight=F answers the price of a flight, and
/reserve?flight=F puts the flight into a cart and answers what has to be paid. Prices stand in Redis, where a crawler (crawler.py)
brings them up to date.

The planted fault: /reserve looks the price up again instead of taking the one that the customer was shown."""
import http.server
import sys
import threading
import urllib.parse

from redis_client import Redis

port, redis_port = map(int, sys.argv[1:])
connections = threading.local()


def ask(*words: str) -> "str | None":
    if not hasattr(connections, "redis"):
        connections.redis = Redis(redis_port)
    return connections.redis.ask(*words)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        flight = urllib.parse.parse_qs(url.query)["flight"][0]
        price = ask("GET", f"price:{flight}")
        if url.path == "/reserve":
            ask("RPUSH", f"cart:{flight}", str(price))
        body = f"{flight} costs {price}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
