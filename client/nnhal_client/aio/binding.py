"""Models bound to memory of this process, for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from google.protobuf.message import Message

from nnhal.contexts import AsyncClosing
from nnhal.fence import Fence
from nnhal.remote.calls import Calls
from nnhal.types import NO_DEADLINE
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.aio.exchanger import Exchanger
from nnhal_client.binding import BindingOptions, NativeBinding
from nnhal_client.core.native_model import NativeModel
from nnhal_client.launched import LaunchedRun
from nnhal_client.reports import RunReport
from nnhal_client.v2.binding import BoundArrays, seconds_to
from nnhal_client.v2.calls import INFER, R
from nnhal_client.v2.described import V2Description


class AsyncLaunchedRun:
    """As ``LaunchedRun``, for asyncio."""

    def __init__(self, launched: LaunchedRun) -> None:
        self._launched = launched
        self.fence = launched.fence

    async def cancel(self) -> None:
        """Have it end as soon as possible: its fence is in error then. Raises HalError, TransportError."""
        await asyncio.to_thread(self._launched.cancel)

    async def wait(self) -> RunReport:
        """Wait for its end in a thread, and return its report. To be called once. Raises as ``Binding.run``."""
        return await asyncio.to_thread(self._launched.wait)


class AsyncBinding(NativeBinding, AsyncClosing):
    """As ``Binding``, for asyncio. One run at a time: others wait.

    A run goes on when its task is cancelled, since the devices write the memory; the next one waits for its end.
    """

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        model: NativeModel,
        options: BindingOptions,
    ) -> None:
        super().__init__(calls, stub, model, options)
        self._exchanger = Exchanger()
        self._turn = asyncio.Lock()

    async def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once. Raises as ``Binding.run``."""
        await self._turn.acquire()
        try:
            report = await self.run_alone(self._turn.release, deadline_ns)
        except asyncio.CancelledError:
            raise  # the turn is released when the run has ended
        except BaseException:
            self._turn.release()
            raise
        self._turn.release()
        return report

    async def run_alone(self, abandoned: Callable[[], None], deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once, for a caller that starts no other run meanwhile.

        If the task is cancelled meanwhile, ``abandoned`` is called when the run has ended.
        """
        return await self._exchanger.run(self._runs.exchanges(deadline_ns), abandoned)

    async def launch(
        self, wait_for: Sequence[Fence] = (), deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> AsyncLaunchedRun:
        """As ``Binding.launch``; waits for a run that is under way."""
        async with self._turn:
            return AsyncLaunchedRun(await asyncio.to_thread(self._launch, wait_for, deadline_ns, duration_ns))

    async def resize(self, dimensions: Mapping[str, Dimensions]) -> None:
        """As ``Binding.resize``; waits for a run that is under way."""
        async with self._turn:
            await asyncio.to_thread(self._resize, dimensions)

    async def reset_state(self) -> None:
        """As ``Binding.reset_state``; waits for a run that is under way."""
        async with self._turn:
            await asyncio.to_thread(self._reset_state)

    async def close(self) -> None:
        """Release it in the framework and on the devices; a run that is under way fails. The views stay valid."""
        self._exchanger.close()
        await asyncio.to_thread(self._release)


class AsyncCaller(Protocol):
    """A session with a server."""

    async def call(self, method: tuple[str, type[R]], request: Message, timeout: float | None = None) -> R:
        """Call a method and return the answer. ``timeout`` is in seconds."""


class AsyncV2Binding(BoundArrays, AsyncClosing):
    """As ``V2Binding``, for asyncio; ``reset_state`` is not awaited. One run at a time: others wait."""

    def __init__(
        self,
        caller: AsyncCaller,
        turns: asyncio.Semaphore,
        model: V2Description,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, object],
    ) -> None:
        """``turns`` limits the runs of the model that are under way."""
        super().__init__(model, measure_timing, dimensions, memories)
        self._caller = caller
        self._turns = turns
        self._turn = asyncio.Lock()

    async def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once. Raises as ``V2Binding.run``."""
        async with self._turn, self._turns:
            request, started = self._request(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            answer = await self._caller.call(INFER, request, seconds_to(deadline_ns, started))
            return self._take(request, answer, started)

    async def close(self) -> None:
        """Refuse further runs. The arrays stay valid."""
        self._closed = True
