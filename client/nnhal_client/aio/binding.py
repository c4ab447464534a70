"""Models tied to memory of this process, for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

from google.protobuf.message import Message

from nnhal.arrays import Array
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal_client.aio.runner import Runner
from nnhal_client.binding import Binding
from nnhal_client.reports import RunReport
from nnhal_client.v2.binding import BoundArrays, Signature, seconds_to
from nnhal_client.v2.calls import INFER, R


class AsyncBinding:
    """See Binding, which is ``blocking``. One run at a time: others wait.

    A run goes on when its task is cancelled, since the device writes the memory; the next one waits for its end.
    """

    def __init__(self, blocking: Binding) -> None:
        self.blocking = blocking
        self.measures = blocking.measures
        self.dimensions = blocking.dimensions
        self.inputs = blocking.inputs
        self.outputs = blocking.outputs
        self._runner = Runner(blocking, 0)
        self._turn = asyncio.Lock()

    @property
    def socket_bytes(self) -> int:
        """See Binding."""
        return self.blocking.socket_bytes

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """See Binding."""
        self.blocking.fill(inputs)

    async def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """See Binding."""
        await self._turn.acquire()
        try:
            report = await self._runner.run(self._turn.release, deadline_ns)
        except asyncio.CancelledError:
            raise  # the next one's turn is when the run has ended
        except BaseException:
            self._turn.release()
            raise
        self._turn.release()
        return report

    async def close(self) -> None:
        """See Binding; a run that is under way fails."""
        self._runner.close()
        await asyncio.to_thread(self.blocking.close)


class AsyncCaller(Protocol):
    """Calls methods of the protocol."""

    async def call(self, method: tuple[str, type[R]], request: Message, timeout: float | None = None) -> R:
        """The answer; ``timeout`` is in seconds."""


class AsyncV2Binding(BoundArrays):
    """See V2Binding. One run at a time: others wait."""

    def __init__(
        self,
        caller: AsyncCaller,
        turns: asyncio.Semaphore,
        model: Signature,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, object],
    ) -> None:
        """``turns`` are those of the model."""
        super().__init__(model, measure_timing, dimensions, memories)
        self._caller = caller
        self._turns = turns
        self._turn = asyncio.Lock()

    async def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """See V2Binding."""
        async with self._turn, self._turns:
            request, started = self._request(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            answer = await self._caller.call(INFER, request, seconds_to(deadline_ns, started))
            return self._take(request, answer, started)

    async def close(self) -> None:
        """See V2Binding."""
        self._closed = True
