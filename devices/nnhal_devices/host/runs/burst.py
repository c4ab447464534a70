"""Bursts: executions of one prepared model, whose pools stay open between them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from nnhal.codec.lengths import Lengths
from nnhal.errors import general_failure, invalid_argument
from nnhal.memory import Pool
from nnhal.types import ExecutionConfig, ExecutionResult, Memory, Request
from nnhal_devices.host.memory.staging import Staging, UsedPool, kind_of
from nnhal_devices.host.runs.execution import BURST, Execution, Wanted
from nnhal_devices.host.runs.prepared_model import PreparedModel

_NO_IDENTITY = -1
MAX_CACHED_POOLS = 256
"""Pools that one burst caches."""


class Burst:
    """A burst. It keeps its prepared model alive, and its cached pools live as long as it does."""

    kind: ClassVar[str] = "burst"

    def __init__(self, prepared: PreparedModel) -> None:
        self.prepared = prepared
        self._busy = threading.Lock()
        self._pools: dict[int, UsedPool] = {}

    @property
    def pools(self) -> list[UsedPool]:
        """The pools that it keeps open."""
        return list(self._pools.values())

    def execute(
        self,
        request: Request,
        tokens: Sequence[int],
        config: ExecutionConfig,
        deadline_ns: int,
        is_wanted: Wanted | None = None,
    ) -> tuple[ExecutionResult, Staging]:
        """Run a request. ``tokens`` identify its pools; -1 is a pool without identity. ``is_wanted`` as of Execution.

        Raises INVALID_ARGUMENT if the arguments are invalid, GENERAL_FAILURE while another execution runs.
        """
        if len(tokens) != len(request.pools):
            invalid_argument(f"{len(tokens)} memory identifier tokens for {len(request.pools)} pools")
        if min(tokens, default=0) < _NO_IDENTITY:
            invalid_argument(f"memory identifier tokens {list(tokens)}, expected -1 or more each")
        self._enter()
        try:
            return self.prepared.bind(request, config, partial(self._open, tokens)).run(deadline_ns, is_wanted)
        finally:
            self._busy.release()

    def run(
        self, execution: Execution, deadline_ns: int, is_wanted: Wanted | None = None, lengths: Lengths = ()
    ) -> tuple[ExecutionResult, Staging]:
        """Run a reusable execution of the same prepared model, for ``lengths`` of its inputs. Raises as ``execute``."""
        if execution.prepared is not self.prepared:
            invalid_argument("the execution is of another prepared model than the burst")
        self._enter()
        try:
            return execution.run(deadline_ns, is_wanted, BURST, lengths)
        finally:
            self._busy.release()

    def release_memory(self, token: int) -> None:
        """Drop the pool that is cached under a token; unknown tokens do no harm. Raises INVALID_ARGUMENT."""
        if token < _NO_IDENTITY:
            invalid_argument(f"memory identifier token {token}, expected -1 or more")
        self._pools.pop(token, None)

    def _enter(self) -> None:
        if not self._busy.acquire(False):
            general_failure("the burst runs an execution already; one at a time is allowed")

    def _open(self, tokens: Sequence[int], index: int, memory: Memory, writable: bool) -> Pool:
        """Open a pool of a request, or take the cached one that has its token."""
        token = tokens[index]
        cached = self._pools.get(token)
        if cached is not None and (cached.pool.writable or not writable):
            return cached.pool
        pool = self.prepared.open_pool(memory, writable)
        if token != _NO_IDENTITY and len(self._pools) < MAX_CACHED_POOLS:
            self._pools[token] = UsedPool(kind_of(memory), pool)
        return pool
