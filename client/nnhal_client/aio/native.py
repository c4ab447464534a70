"""The framework for asyncio. Runs take no thread; what happens once, such as opening a model, takes one for a while."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Literal

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.tensors import stored_inputs
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions
from nnhal_client.aio.binding import AsyncBinding
from nnhal_client.aio.runner import Runner
from nnhal_client.binding import Binding, OutputTooSmallError
from nnhal_client.framework import Framework
from nnhal_client.memory import DomainMemory
from nnhal_client.model import Model


class AsyncFramework:
    """See Framework, which is ``blocking``. For one event loop."""

    def __init__(self, blocking: Framework, concurrency: int) -> None:
        self.blocking = blocking
        self._concurrency = concurrency
        self._models: list[AsyncModel] = []

    async def open(self, name: str, version: str = "") -> AsyncModel:
        """A model of the server's repository. Raises as ``Framework.open``."""
        return self._known(await asyncio.to_thread(self.blocking.open, name, version))

    async def load(self, path: str | os.PathLike[str]) -> AsyncModel:
        """Load a model file. Raises as ``Framework.load``."""
        return self._known(await asyncio.to_thread(self.blocking.load, path))

    async def close(self) -> None:
        """End the session; runs that are under way fail."""
        for model in self._models:
            await model.close()
        await asyncio.to_thread(self.blocking.close)

    def _known(self, model: Model) -> AsyncModel:
        self._models.append(AsyncModel(model, self._concurrency))
        return self._models[-1]


class AsyncModel:
    """See Model, which is ``blocking``. Runs at one time have bindings of their own, which are kept for the next."""

    transport: Literal["native"] = "native"

    def __init__(self, blocking: Model, concurrency: int) -> None:
        self.blocking = blocking
        self._turns = asyncio.Semaphore(concurrency)
        self._idle: list[Runner] = []
        self._busy: set[Runner] = set()
        self._known: dict[str, Dimensions] = {}
        self._generation = 0
        self._opening = asyncio.Lock()
        self._closed = False
        self._closing: set[asyncio.Future[None]] = set()
        self._released: weakref.WeakSet[Runner] = weakref.WeakSet()
        self.name = blocking.name
        self.inputs = blocking.inputs
        self.outputs = blocking.outputs

    @property
    def version(self) -> str:
        """The version that is open."""
        return self.blocking.version

    async def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference. Raises as ``Model.run``. What is cancelled leaves all else as it is."""
        arrays = stored_inputs(self.blocking.inputs, inputs)
        given = {tensor.name: arrays[tensor.name].shape for tensor in self.blocking.inputs if tensor.is_open}
        generation = self._generation
        try:
            return await self._run(arrays, given)
        except HalError as error:
            if not self.blocking.can_reopen or not await self._reopened_since(generation, error):
                raise
        return await self._run(arrays, given)

    async def _run(self, arrays: Mapping[str, Array], given: Mapping[str, Dimensions]) -> dict[str, Value]:
        """One inference; outputs that turn out larger than their memory get more, and another run."""
        while True:
            await self._turns.acquire()
            runner = await self._take(given)
            try:
                runner.binding.fill(arrays)
                await runner.run(partial(self._give_back, runner))
            except asyncio.CancelledError:
                raise  # it is given back when the run has ended
            except OutputTooSmallError as error:
                self._discard(runner)
                if error.dimensions.items() <= self._known.items():
                    raise  # it had as much memory as it asked for
                self._known.update(error.dimensions)
            except BaseException:
                self._discard(runner)
                raise
            else:
                outputs = {t.name: t.value(runner.binding.outputs[t.name]) for t in self.outputs}
                self._give_back(runner)
                return outputs

    async def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
        memories: Mapping[str, DomainMemory] | None = None,
        direct: bool = True,
    ) -> AsyncBinding:
        """See Model. The binding is the caller's, and ends with the session at the latest."""
        making = asyncio.ensure_future(
            asyncio.to_thread(self.blocking.bind, measure_timing, dimensions, memories, direct)
        )
        try:
            return AsyncBinding(await asyncio.shield(making))
        except asyncio.CancelledError:
            making.add_done_callback(_close_in_vain)
            raise

    async def close(self) -> None:
        """Release its bindings; runs that are under way fail."""
        self._closed = True
        for runner in (*self._idle, *self._busy):
            self._close(runner)
        self._idle.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _take(self, given: Mapping[str, Dimensions]) -> Runner:
        """A binding that fits, a new one where there is none. It is this task's turn already; else that is given up."""
        for runner in reversed(self._idle):
            if all(runner.binding.dimensions[name] == dimensions for name, dimensions in given.items()):
                self._idle.remove(runner)
                self._busy.add(runner)
                return runner
        if self._idle:
            self._close(self._idle.pop(0))
        generation = self._generation
        binding = asyncio.ensure_future(asyncio.to_thread(self.blocking.bind, dimensions={**self._known, **given}))
        try:
            runner = Runner(await asyncio.shield(binding), generation)
        except asyncio.CancelledError:
            binding.add_done_callback(partial(self._bound_in_vain, generation))
            raise
        except BaseException:
            self._turns.release()
            raise
        self._busy.add(runner)
        return runner

    def _bound_in_vain(self, generation: int, binding: asyncio.Future[Binding]) -> None:
        """A binding was made for a task that has been cancelled: the next one may have it, and the turn."""
        if binding.cancelled() or binding.exception() is not None:
            self._turns.release()
        else:
            self._give_back(Runner(binding.result(), generation))

    async def _reopened_since(self, generation: int, error: HalError) -> bool:
        """Whether the model is another opening by now; it is opened again where the server has unloaded it.

        Of all the runs that have noticed, one does that. Raises HalError where it is not loaded any more.
        """
        async with self._opening:
            if self._generation != generation:
                return True
            if error.status != ErrorStatus.DEVICE_UNAVAILABLE:
                return False
            await asyncio.to_thread(self.blocking.reopen)
            self._generation += 1
            self.inputs, self.outputs = self.blocking.inputs, self.blocking.outputs
            idle, self._idle = self._idle, []
            for runner in idle:
                self._close(runner)
            return True

    def _give_back(self, runner: Runner) -> None:
        """Keep it for the next run."""
        self._busy.discard(runner)
        self._turns.release()
        if self._closed or runner.generation != self._generation:
            self._close(runner)
        else:
            self._idle.append(runner)

    def _discard(self, runner: Runner) -> None:
        self._busy.discard(runner)
        self._turns.release()
        self._close(runner)

    def _close(self, runner: Runner) -> None:
        """Release it, in a thread: the framework has to be told."""
        if runner in self._released:
            return
        self._released.add(runner)
        runner.close()
        closing = asyncio.ensure_future(asyncio.to_thread(runner.binding.close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _close_in_vain(making: asyncio.Future[Binding]) -> None:
    """A binding was made for a task that has been cancelled."""
    if not making.cancelled() and making.exception() is None:
        making.result().close()
