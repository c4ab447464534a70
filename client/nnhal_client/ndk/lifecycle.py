"""The states of an execution: what may be done with it in each, and how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from nnhal_client.ndk.binding import Outcome
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class State(Enum):
    """Where an execution is in its life."""

    PREPARATION = "in preparation"
    RUNNING = "running"
    COMPLETED = "completed"


class Lifecycle:
    """The state of one execution. Safe to use from several threads.

    ``poll`` is set while the execution runs by itself: it is called, with the lock held, before the state is looked at,
    and ends the execution where that has happened.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.state = State.PREPARATION
        self.reusable = False
        self.poll: Callable[[], None] = _nothing
        self.result = ResultCode.NO_ERROR
        self.outcome: Outcome | None = None

    @contextmanager
    def looking(self) -> Iterator[State]:
        """Hold the state as it is now."""
        with self._lock:
            self.poll()
            yield self.state

    @contextmanager
    def before_compute(self) -> Iterator[None]:
        """What may be done until it is computed for the first time. Raises BAD_STATE."""
        with self.looking() as state:
            if state is not State.PREPARATION:
                raise NeuralNetworksError(ResultCode.BAD_STATE, f"the execution is {state.value}: too late")
            yield

    @contextmanager
    def between_computes(self) -> Iterator[None]:
        """What may be done while it does not run, and may be computed again. Raises BAD_STATE."""
        with self.looking() as state:
            if state is State.RUNNING or (state is State.COMPLETED and not self.reusable):
                once = "" if state is State.RUNNING else ", and not reusable"
                raise NeuralNetworksError(ResultCode.BAD_STATE, f"the execution is {state.value}{once}")
            yield

    def begin(self) -> None:
        """It runs from now on. To be called ``between_computes``."""
        self.state = State.RUNNING
        self.outcome = None

    def end(self, result: ResultCode, outcome: Outcome | None = None) -> None:
        """It has ended."""
        with self._lock:
            self.poll = _nothing
            self.state = State.COMPLETED
            self.result = result
            self.outcome = outcome


def _nothing() -> None:
    pass
