"""Running the host's models by nnhal's native client: no tensor passes another socket than the client's own.

A model runs natively if that is what its requests would do in the framework: it joins none into batches, and its
inputs and outputs lie in memory as the protocol shows them. All other requests are passed on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.contexts import AsyncClosing
from nnhal.errors import HalError, NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.tensors import Tensor
from nnhal_client import aio
from nnhal_client.aio import AsyncFramework, AsyncModel
from nnhal_ray.forwarding import Forwarder
from nnhal_ray.messages import ProtocolReply

_TRUSTED_SECONDS = 1.0
"""How long a description is taken to be true: others than this host's own calls may load models again."""
_RETRY_SECONDS = 2.0
"""How long requests are passed on after the native client has failed."""


@dataclass(frozen=True, slots=True)
class NativeOutputs:
    """What a run has given."""

    version: str
    outputs: Mapping[str, Array]
    fell_back: bool


@dataclass(slots=True)
class _Entry:
    """What is known of a model; ``model`` is None if its requests are passed on."""

    described: tuple[ProtocolReply, ProtocolReply]
    """Its metadata and its configuration."""
    model: AsyncModel | None
    shapes: Mapping[str, tuple[int, ...]]
    """The shapes of its inputs, -1 for any extent."""
    most_items: int
    """The most items of a batch, 0 without a batch axis."""
    checked: float


class NativeModels(AsyncClosing):
    """The models of one framework, for one event loop. Those that are asked for are opened on the way."""

    def __init__(self, framework: Path, forwarder: Forwarder) -> None:
        """``framework`` is the framework's directory."""
        self._framework = framework
        self._forwarder = forwarder
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._generation = 0
        self._looking: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._opening = asyncio.Lock()
        self._session: AsyncFramework | None = None
        self._undo = AsyncExitStack()
        self._not_before = 0.0

    async def run(self, name: str, version: str, inputs: Mapping[str, Array]) -> NativeOutputs | None:
        """Run a model; None if the request is to be passed on, which also says why a run has failed."""
        key = name, version
        entry, now = self._entries.get(key), time.monotonic()
        if entry is None or now - entry.checked > _TRUSTED_SECONDS:
            looking = self._look(key, now)
            if entry is not None and looking is not None:
                await asyncio.wait([looking])
                entry = self._entries.get(key)
        if entry is None or entry.model is None or not _fit(entry, inputs):
            return None
        try:
            outputs, report = await entry.model.run_with_report(inputs, measure_timing=False)
        except (ValueError, HalError):
            return None
        except NnhalError:
            self._not_before = time.monotonic() + _RETRY_SECONDS
            self.forget(name)
            return None
        arrays = {output: np.asarray(value) for output, value in outputs.items()}
        return NativeOutputs(entry.model.version, arrays, report.fell_back)

    def forget(self, name: str) -> None:
        """Describe a model anew before it runs natively again: it was loaded again, or has failed."""
        self._generation += 1
        for key in [key for key in self._entries if key[0] == name]:
            self._drop(key)

    async def close(self) -> None:
        """End the session."""
        for task in list(self._looking.values()):
            task.cancel()
        await self._undo.aclose()

    def _look(self, key: tuple[str, str], now: float) -> asyncio.Task[None] | None:
        """Describe a model, or see whether its description is still true; None if it is too soon after a failure."""
        task = self._looking.get(key)
        if task is None and now >= self._not_before:
            task = asyncio.ensure_future(self._described(key))
            self._looking[key] = task
            task.add_done_callback(lambda _: self._looking.pop(key, None))
        return task

    async def _described(self, key: tuple[str, str]) -> None:
        name, version = key
        generation, known = self._generation, self._entries.get(key)
        described = (
            await self._forwarder.ask("ModelMetadata", wire.ModelMetadataRequest(name=name, version=version)),
            await self._forwarder.ask("ModelConfig", wire.ModelConfigRequest(name=name, version=version)),
        )
        if known is not None and known.described == described:
            known.checked = time.monotonic()
            return
        self._drop(key)
        if not all(reply.is_ok for reply in described):
            return
        try:
            entry = await self._entry(name, version, described)
        except (NnhalError, OSError):
            await self._disconnect()
            return
        if generation == self._generation:
            self._entries[key] = entry
        elif entry.model is not None:
            await entry.model.close()

    def _drop(self, key: tuple[str, str]) -> None:
        """Forget a model. Its runs that are under way fail, and their requests are passed on."""
        entry = self._entries.pop(key, None)
        if entry is not None and entry.model is not None:
            closing = asyncio.ensure_future(_closed(entry.model))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _entry(self, name: str, version: str, described: tuple[ProtocolReply, ProtocolReply]) -> _Entry:
        metadata = wire.ModelMetadataResponse.FromString(described[0].message)
        config = wire.ModelConfigResponse.FromString(described[1].message).config
        shapes = {tensor.name: tuple(tensor.shape) for tensor in metadata.inputs}
        model: AsyncModel | None = None
        if not config.WhichOneof("scheduling_choice"):
            model = await (await self._connected()).open(name, version)
            if not (_same(metadata.inputs, model.inputs) and _same(metadata.outputs, model.outputs)):
                await model.close()
                model = None
        return _Entry(described, model, shapes, config.max_batch_size, time.monotonic())

    async def _connected(self) -> AsyncFramework:
        async with self._opening:
            if self._session is None:
                session = await self._undo.enter_async_context(aio.connect(str(self._framework)))
                assert isinstance(session, AsyncFramework)  # the target is a directory
                self._session = session
            return self._session

    async def _disconnect(self) -> None:
        """Give the session up: the framework has ended, or refuses it."""
        self._not_before = time.monotonic() + _RETRY_SECONDS
        async with self._opening:
            self._session, undo = None, self._undo
            self._undo = AsyncExitStack()
            self._entries.clear()
            await undo.aclose()


async def _closed(model: AsyncModel) -> None:
    with suppress(NnhalError):  # its session has ended, and it with that
        await model.close()


def _fit(entry: _Entry, inputs: Mapping[str, Array]) -> bool:
    """Whether inputs have the names and shapes of a model."""
    if inputs.keys() != entry.shapes.keys():
        return False
    for name, expected in entry.shapes.items():
        shape = inputs[name].shape
        if len(shape) != len(expected) or any(b not in (-1, a) for a, b in zip(shape, expected, strict=True)):
            return False
        if entry.most_items and not 0 < shape[0] <= entry.most_items:
            return False
    return True


def _same(described: Iterable[wire.ModelMetadataResponse.TensorMetadata], tensors: tuple[Tensor, ...]) -> bool:
    """Whether tensors lie in memory as the protocol shows them."""
    shown = {tensor.name: tuple(tensor.shape) for tensor in described}
    return all(tensor.element_type is not None for tensor in tensors) and shown == {
        tensor.name: () if tensor.scalar else tuple(axis or -1 for axis in tensor.dimensions) for tensor in tensors
    }
