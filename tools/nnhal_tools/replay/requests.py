"""The requests of a recording, with memory of a replay's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nnhal.arrays import Bytes
from nnhal.codec import config_from_wire
from nnhal.codec.request import argument_from_wire
from nnhal.memory import FilePool, Pool, create_ashmem, create_blob, open_pool
from nnhal.memory.mmap_fd import create_file
from nnhal.types import ExecutionConfig, Memory, Request, RequestArgument, RequestMemoryPool
from nnhal.v1 import recording_pb2 as wire

_MAKERS: dict[str, Callable[[int], Memory]] = {"ashmem": create_ashmem, "hardware_buffer_blob": create_blob}
_TOKEN = "token"


class UnplayableError(Exception):
    """A call cannot be made again; the message says why."""


@dataclass(frozen=True, slots=True)
class PlayedRequest:
    """A request that can be executed again."""

    model: int
    """The prepared model, by its number in the recording."""
    request: Request
    config: ExecutionConfig
    pools: Sequence[Pool | None]
    """By index; None for a buffer."""
    buffers: Sequence[int]
    """The numbers of buffers by the index of their pools; 0 for other pools."""

    def fill(self, number: int, data: bytes) -> None:
        """Write the value of an input."""
        place = self.request.inputs[number].location
        pool = self.pools[place.pool_index]
        assert pool is not None
        pool.write(place.offset, np.frombuffer(data, np.uint8)[: place.length])

    def output(self, number: int, size: int) -> Bytes:
        """Read the first bytes of an output."""
        place = self.request.outputs[number].location
        pool = self.pools[place.pool_index]
        assert pool is not None
        return pool.read(place.offset, min(size, place.length))

    def buffer_of(self, argument: RequestArgument) -> int:
        """The number of the buffer that an argument lies in; 0 if it lies in none."""
        return 0 if argument.has_no_value else self.buffers[argument.location.pool_index]


class RequestMemory:
    """The pools of one session, which requests share: calls of a session come one after the other."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, int, int], tuple[Memory, Pool]] = {}

    def request(self, recorded: wire.RecordedRequest, token_of: Callable[[int], int]) -> PlayedRequest:
        """Return a request; ``token_of`` gives the token of a buffer, and may raise.

        Raises UnplayableError if a pool is of a kind that is unknown, OSError if memory is short.
        """
        used: Counter[tuple[str, int]] = Counter()
        memories: list[RequestMemoryPool] = []
        pools: list[Pool | None] = []
        buffers = [pool.token for pool in recorded.arguments.pools]
        for kind, size, buffer in zip(recorded.pool_kinds, recorded.pool_bytes, buffers, strict=True):
            if kind == _TOKEN:
                memories.append(token_of(buffer))
                pools.append(None)
                continue
            memory, pool = self._pool(kind, size, used[kind, size])
            used[kind, size] += 1
            memories.append(memory)
            pools.append(pool)
        inputs, outputs = (
            tuple(map(argument_from_wire, arguments))
            for arguments in (recorded.arguments.inputs, recorded.arguments.outputs)
        )
        return PlayedRequest(
            recorded.prepared_model,
            Request(inputs, outputs, tuple(memories)),
            config_from_wire(recorded.config),
            pools,
            buffers,
        )

    def _pool(self, kind: str, size: int, ordinal: int) -> tuple[Memory, Pool]:
        found = self._pools.get((kind, size, ordinal))
        if found is None:
            found = self._pools[kind, size, ordinal] = _new_pool(kind, size)
        return found


def _new_pool(kind: str, size: int) -> tuple[Memory, Pool]:
    if size <= 0:
        raise UnplayableError("requests with memory that was not valid")
    if kind == "mmap_fd":
        with TemporaryDirectory(prefix="nnhal-") as directory:
            file = create_file(Path(directory) / "pool", size)
        return file, FilePool(file, writable=True)
    if kind not in _MAKERS:
        raise UnplayableError(f"requests with memory of kind {kind!r}, which is not made here")
    memory = _MAKERS[kind](size)
    return memory, open_pool(memory, writable=True)
