"""A model that is ready to be bound to memory, and what has been bound."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nnhal.errors import HalError
from nnhal.types import ErrorStatus, Memory
from nnhal_service.runtime.context import ExecutionContext, TensorBinding
from nnhal_service.runtime.prepared_plan import PreparedPlan


class LoadedModel:
    """A prepared plan with its execution contexts. Safe to use from several threads."""

    def __init__(self, prepared: PreparedPlan) -> None:
        self.prepared = prepared
        self._lock = threading.Lock()
        self._contexts: set[ExecutionContext] | None = set()

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure_timing: bool = False,
    ) -> ExecutionContext:
        """Tie it to memory. Raises HalError, or TransportError where a device is gone."""
        context = ExecutionContext(self.prepared, inputs, outputs, pools, measure_timing)
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
        """Close all contexts, when the runs in flight have ended, and release the parts; harmless when repeated."""
        with self._lock:
            contexts, self._contexts = self._contexts, None
        if contexts is None:
            return
        for context in contexts:
            context.close()
        self.prepared.release()
