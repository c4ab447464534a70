"""A wire between two hosts that can be cut: connections stay open, and nothing comes through."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from nnhal.threads import BriefThread

_PIECE = 65536


class CutWire:
    """Passes connections on to an address, until it is cut. Use it as a context."""

    def __init__(self, to: str) -> None:
        """``to`` is HOST:PORT."""
        host, _, port = to.rpartition(":")
        self._to = host, int(port)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._thread = BriefThread(self._run, "wire")

    def __enter__(self) -> CutWire:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self) -> None:
        """Hold back whatever comes."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        """Pass on what was held back, and what comes."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def _run(self) -> None:
        self._loop.create_task(asyncio.start_server(self._connected, sock=self._socket))
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
        self._socket.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await self._whole.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._to)
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while piece := await source.read(_PIECE):
                await self._whole.wait()
                sink.write(piece)
                await sink.drain()
        finally:
            sink.close()
