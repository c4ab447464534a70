"""In a container: forwards connections, each byte some time later.

``lagging_relay.py HOST:PORT SECONDS`` listens at port 9000.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, StreamWriter

_PORT = 9000
_CHUNK_BYTES = 1 << 16


async def main(target: str, lag: float) -> None:
    """Forward until the process ends."""
    host, _, port = target.rpartition(":")

    async def relay(near_reader: StreamReader, near_writer: StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_forward(near_reader, far_writer, lag), _forward(far_reader, near_writer, lag))

    server = await asyncio.start_server(relay, "0.0.0.0", _PORT)
    await server.serve_forever()


async def _forward(reader: StreamReader, writer: StreamWriter, lag: float) -> None:
    clock, due = asyncio.get_running_loop().time, asyncio.Queue[tuple[float, bytes]]()

    async def deliver() -> None:
        while True:
            at, data = await due.get()
            await asyncio.sleep(max(0.0, at - clock()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    try:
        while data := await reader.read(_CHUNK_BYTES):
            due.put_nowait((clock() + lag, data))
    except ConnectionError:
        pass
    due.put_nowait((clock() + lag, b""))
    await delivery


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
