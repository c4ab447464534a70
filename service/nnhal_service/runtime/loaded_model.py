"""A model that is ready to be bound to memory, and what has been bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from nnhal.errors import HalError
from nnhal.types import NO_HINTS, ErrorStatus, Hints, Memory
from nnhal_service.runtime.binding import TensorBinding
from nnhal_service.runtime.context import DRAIN_SECONDS, ExecutionContext
from nnhal_service.runtime.current_plan import CurrentPlan
from nnhal_service.runtime.prepared_plan import PreparedPlan
from nnhal_service.runtime.watcher import RunWatcher

COUNT_SECONDS = 2.0
"""What devices get to say what has been run of steps that are lent."""


class LoadedModel:
    """A prepared plan with its execution contexts. Safe to use from several threads."""

    def __init__(self, prepared: PreparedPlan, plans: CurrentPlan | None = None) -> None:
        """``plans`` are the plan as its owner has it, where this is a share."""
        self._plans = CurrentPlan(prepared) if plans is None else plans
        self._lock = threading.Lock()
        self._contexts: set[ExecutionContext] | None = set()
        self._shares: set[LoadedModel] = set()
        self._owner: LoadedModel | None = None
        self._watcher: RunWatcher | None = None

    @property
    def prepared(self) -> PreparedPlan:
        """The plan that new runs follow: while devices are gone, mostly one without them."""
        return self._plans.current

    @property
    def original(self) -> PreparedPlan:
        """The plan that it was loaded with, which is there until it is closed."""
        return self._plans.original

    @property
    def arena_bytes(self) -> int:
        """The memory of values between steps that is allocated."""
        return sum(plan.memory.allocated_bytes for plan in {self.prepared, self.original})

    def share(self, watcher: RunWatcher) -> LoadedModel:
        """The same model for somebody else, whose runs the watcher is told of: his until he or this one is closed.

        Raises DEVICE_UNAVAILABLE where this one has been closed.
        """
        share = LoadedModel(self.original, self._plans)
        share._owner, share._watcher = self, watcher
        with self._lock:
            if self._contexts is None:
                raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
            self._shares.add(share)
        return share

    def watch(self, watcher: RunWatcher) -> None:
        """Tell somebody of the runs of all that is bound from now on."""
        self._watcher = watcher

    @property
    def is_share(self) -> bool:
        """Whether it is somebody else's too."""
        return self._owner is not None

    def count_lent(self, until: float | None = None) -> bool:
        """Have watchers told what has been run of steps that are lent; False if a device has not said so in time.

        Devices may take until an instant of CLOCK_MONOTONIC, by default for two seconds; what they have not said by
        then is counted the next time.
        """
        until = time.monotonic() + COUNT_SECONDS if until is None else until
        with self._lock:
            contexts, shares = list(self._contexts or ()), list(self._shares)
        is_complete = True
        for share in shares:
            is_complete &= share.count_lent(until)
        for context in contexts:
            if context.is_lent:
                seconds = until - time.monotonic()
                is_complete &= seconds > 0 and context.count_lent(seconds)
        return is_complete

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
            self._plans, inputs, outputs, pools, measure_timing, loop_timeout_duration_ns, hints, self._watcher
        )
        with self._lock:
            if self._contexts is not None:
                self._contexts.add(context)
                return context
        context.close()
        raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")

    def unbind(self, context: ExecutionContext, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Close a context, when a run in flight has ended, or goes on for too long; see ExecutionContext.close."""
        context.close(drain_seconds)
        with self._lock:
            if self._contexts is not None:
                self._contexts.discard(context)

    def close(self) -> None:
        """Close all contexts and shares, when the runs in flight have ended or go on for too long; release the parts.

        Harmless when repeated. The parts of a share are its owner's.
        """
        self._close(time.monotonic() + DRAIN_SECONDS)

    def _close(self, until: float) -> None:
        with self._lock:
            contexts, self._contexts = self._contexts, None
            shares, self._shares = self._shares, set()
        if contexts is None:
            return
        for share in shares:
            share._close(until)
        for context in contexts:
            context.close(max(0.0, until - time.monotonic()))
        if self._owner is None:
            self._plans.close()
            return
        with self._owner._lock:
            self._owner._shares.discard(self)
