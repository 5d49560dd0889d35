"""An asyncio server on argv[1] of loopback: answers each line with its SHA-256, some after a timer; ends on SIGTERM."""
import asyncio
import hashlib
import signal
import sys


async def serve_one(reader, writer):
    async for line in reader:
        if line.startswith(b"slow"):
            await asyncio.sleep(0.01)
        if line.startswith(b"lookup"):  # in a thread of the pool
            await asyncio.get_running_loop().run_in_executor(None, hash, line)
        writer.write(hashlib.sha256(line).hexdigest().encode() + b"\n")
        await writer.drain()
    writer.close()


async def main():
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with await asyncio.start_server(serve_one, "127.0.0.1", int(sys.argv[1])):
        await ended.wait()
    print("ended")


asyncio.run(main())
