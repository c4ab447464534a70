"""A model that a framework has loaded, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

from nnhal.contexts import AsyncClosing
from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.types import ErrorStatus
from nnhal_client.aio.binding import AsyncBinding
from nnhal_client.binding import BindingOptions
from nnhal_client.core.binding_memory import DomainMemoryHandle
from nnhal_client.core.model_runs import CONCURRENCY, Bind, Command, Commands, ModelRuns, Reopen, Run, Wait
from nnhal_client.core.native_model import NativeModel
from nnhal_client.explanation import Explanation
from nnhal_client.reports import RunReport
from nnhal_client.tensors import ReservedDimensions

T = TypeVar("T")


class AsyncModel(NativeModel, AsyncClosing):
    """As ``Model``, for one event loop. Use as a context.

    Runs take no thread. What happens once, such as binding and opening again, takes one for a while.
    """

    transport: Literal["native"] = "native"

    def __init__(self, loaded: NativeModel, concurrency: int = CONCURRENCY) -> None:
        """At most ``concurrency`` runs are under way at a time; others wait."""
        super().__init__(loaded._calls, loaded._stub, loaded._answer, loaded._opened)
        self._runs: ModelRuns[asyncio.Event, AsyncBinding] = ModelRuns(
            self.inputs, self.outputs, self.can_reopen, concurrency, asyncio.Event
        )
        self._reopening = asyncio.Lock()
        self._closing: set[asyncio.Future[None]] = set()
        self._concurrency = concurrency
        self._given: dict[frozenset[str], AsyncModel] = {}

    async def explain(self) -> Explanation:
        """Explain why each operation is on its device, and what each edge costs."""
        return await asyncio.to_thread(self._explain)

    async def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, ReservedDimensions] | None = None,
        memories: Mapping[str, DomainMemoryHandle] | None = None,
        direct: bool = True,
    ) -> AsyncBinding:
        """As ``Model.bind``. The binding is the caller's, and ends with the session at the latest."""
        model = await self._with_given(dimensions or {})
        making = asyncio.ensure_future(
            model._bind(BindingOptions(measure_timing, dimensions or {}, memories or {}, direct))
        )
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(self._close_made)
            raise

    async def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference. Raises as ``Model.run``."""
        return (await self.run_with_report(inputs, measure_timing=False))[0]

    async def run_with_report(
        self, inputs: Mapping[str, Value], measure_timing: bool = True
    ) -> tuple[dict[str, Value], RunReport]:
        """As ``run``, with the report."""
        self._require_no_state()
        if self._optional_among(inputs):
            return await self._run_given(inputs, measure_timing)
        commands = self._runs.run(inputs, measure_timing)
        try:
            command = next(commands)
            while True:
                try:
                    answer = await self._perform(commands, command)
                except asyncio.CancelledError:
                    raise  # ``_perform`` closes the commands when their binding is free
                except BaseException as error:
                    command = commands.throw(error)
                else:
                    command = commands.send(answer)
        except StopIteration as end:
            ended: tuple[dict[str, Value], RunReport] = end.value
            return ended
        finally:
            self._close_unwanted()

    async def reopen(self) -> None:
        """Open it again after the server has unloaded it. Raises as ``Model.reopen``."""
        answer, earlier = await asyncio.to_thread(self._opened_again), self.session_name
        self._describe(answer)
        self._runs.reopened(self.inputs, self.outputs)
        given, self._given = self._given, {}
        for model in given.values():
            await model.close_bindings()
        self._close_unwanted()
        await asyncio.to_thread(self._release, earlier)

    async def unload(self) -> None:
        """Release it in the framework and on the devices. Runs that are under way fail."""
        await self.close_bindings()
        await asyncio.to_thread(self._release, self.session_name)

    async def close(self) -> None:
        """As ``unload``."""
        await self.unload()

    async def close_bindings(self) -> None:
        """Release the bindings of ``run``; runs that are under way fail. For a session that ends."""
        self._runs.close()
        self._close_unwanted()
        for model in self._given.values():
            await model.close_bindings()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _with_given(self, names: Iterable[str]) -> AsyncModel:
        """As ``Model._with_given``."""
        given = self._optional_among(names)
        if not given:
            return self
        found = self._given.get(given)
        if found is None:
            info = await asyncio.to_thread(self._described_with, given)
            made = AsyncModel(NativeModel(self._calls, self._stub, info, None), self._concurrency)
            found = self._given.setdefault(given, made)
        return found

    async def _run_given(self, inputs: Mapping[str, Value], measure_timing: bool) -> tuple[dict[str, Value], RunReport]:
        generation = self._runs.generation
        try:
            return await (await self._with_given(inputs)).run_with_report(inputs, measure_timing)
        except HalError as error:
            if not self.can_reopen or error.status != ErrorStatus.DEVICE_UNAVAILABLE:
                raise
        await self._reopen_from(generation)
        return await (await self._with_given(inputs)).run_with_report(inputs, measure_timing)

    async def _perform(
        self, commands: Commands[asyncio.Event, AsyncBinding], command: Command[asyncio.Event, AsyncBinding]
    ) -> object:
        """Perform a command. If the task is cancelled, close the commands as soon as that may be."""
        match command:
            case Run(binding):
                return await binding.run_alone(partial(self._cancel, commands))
            case Wait(turn):
                try:
                    return await turn.wait()
                except asyncio.CancelledError:
                    commands.close()
                    raise
            case Bind(measure_timing, dimensions):
                self._close_unwanted()
                options = BindingOptions(measure_timing, dimensions, prepares=False)
                return await self._to_its_end(commands, self._bind(options), True)
            case Reopen(generation):
                return await self._to_its_end(commands, self._reopen_from(generation), False)

    async def _to_its_end(
        self, commands: Commands[asyncio.Event, AsyncBinding], work: Coroutine[Any, Any, T], has_answer: bool
    ) -> T:
        """Await work that goes on if the task is cancelled; then the commands get its answer and are closed."""
        ending = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            ending.add_done_callback(partial(self._cancel_with, commands, has_answer))
            raise

    def _cancel_with(
        self, commands: Commands[asyncio.Event, AsyncBinding], has_answer: bool, ending: asyncio.Future[Any]
    ) -> None:
        if not ending.cancelled() and ending.exception() is None and has_answer:
            with suppress(Exception):  # no caller is left to receive it
                commands.send(ending.result())
        self._cancel(commands)

    def _cancel(self, commands: Commands[asyncio.Event, AsyncBinding]) -> None:
        commands.close()
        self._close_unwanted()

    async def _bind(self, options: BindingOptions) -> AsyncBinding:
        return await asyncio.to_thread(AsyncBinding, self._calls, self._stub, self, options)

    async def _reopen_from(self, generation: int) -> None:
        async with self._reopening:
            if self._runs.generation == generation:
                await self.reopen()

    def _close_unwanted(self) -> None:
        """Close bindings, without waiting for the framework's answer."""
        for binding in self._runs.unwanted():
            self._close_soon(binding)

    def _close_made(self, making: asyncio.Future[AsyncBinding]) -> None:
        """Close a binding that was made for a cancelled task."""
        if not making.cancelled() and making.exception() is None:
            self._close_soon(making.result())

    def _close_soon(self, binding: AsyncBinding) -> None:
        closing = asyncio.ensure_future(binding.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
