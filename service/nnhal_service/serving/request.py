"""Requests and responses of inference, whatever the protocol that they come by."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal.types import NO_DEADLINE

Parameter = bool | int | float | str


class Cancellation:
    """Whether the client has given a request up. Safe to use from several threads."""

    def __init__(self) -> None:
        self._cancelled = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether it has."""
        return self._cancelled

    def cancel(self) -> None:
        """Give it up; harmless when repeated."""
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back when it is given up, at once where it has been."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Do not call back any more; harmless where that has happened."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One inference of one model.

    ``inputs`` have the model's own element types and shapes, as the protocol has them (with the batch axis, where the
    model has one); arrays of BYTES have dtype object and hold bytes. They may be views of memory that stays as it is
    until the response has been released. ``outputs`` are those that are wanted, empty for all. ``priority`` 1 is the
    highest, 0 the model's default. ``timeout_ns`` is what it may wait in the queue, 0 for the model's default,
    and the deadline of its run too; ``deadline_ns`` is an instant of CLOCK_BOOTTIME by which it must have ended.
    """

    inputs: Mapping[str, Array]
    outputs: Sequence[str] = ()
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    priority: int = 0
    timeout_ns: int = 0
    deadline_ns: int = NO_DEADLINE
    cancellation: Cancellation = field(default_factory=Cancellation)
    arrived_ns: int = 0


class RequestTiming(NamedTuple):
    """Instants of a request, CLOCK_MONOTONIC nanoseconds, in their order."""

    arrived_ns: int
    queued_ns: int
    input_started_ns: int
    run_started_ns: int
    run_ended_ns: int
    output_ended_ns: int


@dataclass(frozen=True, slots=True)
class InferenceResponse:
    """What a request brought. Use as a context: ``outputs`` are views of memory that is used again once it is released.

    ``parameters`` say where it ran and what was copied: ``nnhal_devices``, ``nnhal_bytes_copied`` and so on.
    """

    model_name: str
    model_version: str
    outputs: Mapping[str, Array]
    parameters: Mapping[str, Parameter]
    timing: RequestTiming
    release: Callable[[], None]

    def __enter__(self) -> InferenceResponse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
