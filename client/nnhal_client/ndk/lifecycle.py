"""The states of an execution: what each allows, and how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from nnhal_client.ndk.binding import ExecutionOutcome
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class ExecutionState(Enum):
    PREPARATION = "in preparation"
    RUNNING = "running"
    COMPLETED = "completed"


class Lifecycle:
    """The state of one execution. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.state = ExecutionState.PREPARATION
        self.reusable = False
        self.poll: Callable[[], None] = _nothing
        """Called with the lock held before the state is read: ends a launched execution if its fence has signalled."""
        self.result = ResultCode.NO_ERROR
        self.outcome: ExecutionOutcome | None = None

    @contextmanager
    def looking(self) -> Iterator[ExecutionState]:
        """Keep the state from changing."""
        with self._lock:
            self.poll()
            yield self.state

    @contextmanager
    def before_compute(self) -> Iterator[None]:
        """Hold the state before the first computation. Raises BAD_STATE after that."""
        with self.looking() as state:
            if state is not ExecutionState.PREPARATION:
                raise NeuralNetworksError(ResultCode.BAD_STATE, f"the execution is {state.value}: too late")
            yield

    @contextmanager
    def between_computes(self) -> Iterator[None]:
        """Hold the state while it may be computed. Raises BAD_STATE if it runs, or has run and is not reusable."""
        with self.looking() as state:
            if state is ExecutionState.RUNNING or (state is ExecutionState.COMPLETED and not self.reusable):
                once = "" if state is ExecutionState.RUNNING else ", and not reusable"
                raise NeuralNetworksError(ResultCode.BAD_STATE, f"the execution is {state.value}{once}")
            yield

    def begin(self) -> None:
        """Enter RUNNING. To be called ``between_computes``."""
        self.state = ExecutionState.RUNNING
        self.outcome = None

    def end(self, result: ResultCode, outcome: ExecutionOutcome | None = None) -> None:
        """Enter COMPLETED."""
        with self._lock:
            self.poll = _nothing
            self.state = ExecutionState.COMPLETED
            self.result = result
            self.outcome = outcome


def _nothing() -> None:
    pass
