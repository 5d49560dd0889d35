"""crawler.py REDIS_PORT FLIGHTS: brings the prices of flights 1 to FLIGHTS in Redis up to date, one every few milliseconds, for ever. It
sets all of them first."""
import random
import sys
import time

from redis_client import Redis

redis, flights = Redis(int(sys.argv[1])), int(sys.argv[2])
for flight in range(1, flights + 1):
    redis.ask("SET", f"price:f{flight}", str(100 + flight))
redis.ask("SET", "ready", "yes")
while True:
    time.sleep(random.uniform(0.01, 0.05))
    redis.ask("SET", f"price:f{random.randint(1, flights)}", str(random.randint(100, 999)))
