"""customer.py PORT REDIS_PORT FLIGHT: looks at the price of a flight, thinks, and reserves it. Ends with 1 if the price in the cart is
another one than was shown."""
import http.client
import random
import sys
import time

from redis_client import Redis

port, redis_port, flight = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
redis = Redis(redis_port)
while redis.ask("GET", "ready") is None:  # the crawler has set all prices
    time.sleep(0.02)
web = http.client.HTTPConnection("127.0.0.1", port, timeout=30)


def ask(path: str) -> str:
    web.request("GET", f"{path}?flight={flight}")
    return web.getresponse().read().decode().split()[-1]


time.sleep(random.uniform(0, 0.05))
shown = ask("/search")
time.sleep(random.uniform(0.02, 0.06))
paid = ask("/reserve")
if paid != shown:
    print(f"{flight}: {shown} was shown, {paid} has to be paid")
sys.exit(paid != shown)
