"""A model that is ready to be bound to memory, and what has been bound."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nnhal.errors import HalError
from nnhal.types import NO_HINTS, ErrorStatus, Hints, Memory
from nnhal_service.runtime.binding import TensorBinding
from nnhal_service.runtime.context import ExecutionContext
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.watcher import RunWatcher


class LoadedModel:
    """A prepared plan with its execution contexts. Safe to use from several threads."""

    def __init__(self, prepared: PreparedPlan) -> None:
        self.prepared = prepared
        self._lock = threading.Lock()
        self._contexts: set[ExecutionContext] | None = set()
        self._shares: set[LoadedModel] = set()
        self._owner: LoadedModel | None = None
        self._watcher: RunWatcher | None = None

    def share(self, watcher: RunWatcher) -> LoadedModel:
        """The same model for somebody else, whose runs the watcher is told of: his until he or this one is closed.

        Raises DEVICE_UNAVAILABLE where this one has been closed.
        """
        share = LoadedModel(self.prepared)
        share._owner, share._watcher = self, watcher
        with self._lock:
            if self._contexts is None:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
            self._shares.add(share)
        return share

    def count_lent(self) -> None:
        """Have watchers know of what has been run of steps that are lent."""
        with self._lock:
            contexts, shares = list(self._contexts or ()), list(self._shares)
        for share in shares:
            share.count_lent()
        for context in contexts:
            context.count_lent()

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure_timing: bool = False,
        loop_timeout_duration_ns: int = -1,
        hints: Hints = NO_HINTS,
    ) -> ExecutionContext:
        """Tie it to memory. One activation of a WHILE may take so long: -1 is the default, more than the maximum that.

        Raises HalError, or TransportError where a device is gone.
        """
        context = ExecutionContext(
            self.prepared, inputs, outputs, pools, measure_timing, loop_timeout_duration_ns, hints, self._watcher
        )
        with self._lock:
            if self._contexts is not None:
                self._contexts.add(context)
                return context
        context.close()
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")

    def unbind(self, context: ExecutionContext) -> None:
        """Close a context, when a run in flight has ended."""
        context.close()
        with self._lock:
            if self._contexts is not None:
                self._contexts.discard(context)

    def close(self) -> None:
        """Close all contexts and shares, when the runs in flight have ended, and release the parts.

        Harmless when repeated. The parts of a share are its owner's.
        """
        with self._lock:
            contexts, self._contexts = self._contexts, None
            shares, self._shares = self._shares, set()
        if contexts is None:
            return
        for share in shares:
            share.close()
        for context in contexts:
            context.close()
        if self._owner is None:
            self.prepared.release()
            return
        with self._owner._lock:
            self._owner._shares.discard(self)
