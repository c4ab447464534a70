"""Workloads of a backend in C, and their runs."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal.types.layout import Dimensions, byte_size, combine, fully_specified
from nnhal_devices.driver import DONE, Argument, Control, Outcome
from nnhal_devices.dynamic.c_interface import MOST_WORDS, CRunLimits, DescribedModel, arguments_of, write_dimensions

_UNTIMED = -1


class CWorkload:
    """A workload of the library, which is released with this object and the last of its bindings."""

    def __init__(self, backend: Any, handle: int | None, described: DescribedModel) -> None:
        self.c = backend
        self.handle = handle
        self.outputs = described.outputs
        weakref.finalize(self, _release, backend.release, handle, described).atexit = False

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> CRun:
        """Raises HalError with the library's status and words."""
        return (CQueuedRun if self.c.enqueue else CRun)(self, inputs, outputs)


class CCompiledWorkload(CWorkload):
    """A workload of a library that says what is to be cached."""

    def artifact(self) -> bytes | None:
        data, length = ctypes.c_void_p(), ctypes.c_uint64()
        if not self.c.save(self.handle, ctypes.byref(data), ctypes.byref(length)):
            return None
        return ctypes.string_at(data, length.value) if data else b""


def workload_class(backend: Any) -> type[CWorkload]:
    """Return the class of a backend's workloads."""
    return CCompiledWorkload if backend.save else CWorkload


class CRun:
    """A workload bound to memory."""

    def __init__(self, workload: CWorkload, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> None:
        self._kept = workload, inputs, outputs
        self._c = workload.c
        self._bound = tuple(argument.dimensions for argument in outputs)
        self._known = tuple(map(_known_dimensions, workload.outputs, outputs))
        self._is_short = any(map(_is_short, workload.outputs, outputs, self._known))
        self._c_inputs, self._c_outputs = arguments_of(inputs), arguments_of(outputs)
        self.begin()
        self._handle = workload.handle
        if self._c.bind:
            made = ctypes.c_void_p()
            place = ctypes.byref(made)
            require_done(lambda words: self._c.bind(workload.handle, self._c_inputs, self._c_outputs, place, words))
            self._handle = made.value
            weakref.finalize(self, _release, self._c.unbind, made.value, self._kept).atexit = False

    def run(self, control: Control) -> Outcome:
        """Raises HalError with the library's status and words, and as ``Control.check``.

        If the memory of an output is too short for dimensions that the model tells, the library is not called.
        """
        return self.outcome(None) if self._is_short else _Attempt(self, control).run()

    def call(self, function: Callable[..., int], limits: object, words: object) -> int:
        """Have a function of the library run it."""
        return function(self._handle, self._c_inputs, self._c_outputs, limits, words)

    def execute(self, limits: CRunLimits, words: object) -> int:
        """Have the library run it, with what it has for that."""
        if self._c.execute:
            return self.call(self._c.execute, ctypes.byref(limits), words)
        return self.call(self._c.run, limits.cancelled, words)

    def begin(self) -> None:
        """Write the dimensions of the outputs as they are known before a run."""
        for filled, dimensions in zip(self._c_outputs, self._known, strict=True):
            write_dimensions(filled, dimensions)

    def outcome(self, nanoseconds: int | None) -> Outcome:
        """Read the dimensions that a run has written."""
        found = tuple(tuple(each.dimensions[: each.rank]) for each in self._c_outputs)
        if found == self._bound:
            return DONE if nanoseconds is None else Outcome(time_on_device_ns=nanoseconds)
        return Outcome(found, nanoseconds)


class CQueuedRun(CRun):
    """An AsynchronousWorkload of a library with a command queue."""

    def enqueue(self, control: Control) -> _Attempt:
        """Raises as ``run``."""
        self._attempt = _Attempt(self, control)  # the library may write to it until the sync
        self._attempt.enqueue(None if self._is_short else self._c.enqueue)
        return self._attempt


class _Attempt:
    """One run of what is bound. It is the Pending of one that was enqueued."""

    def __init__(self, bound: CRun, control: Control) -> None:
        self._bound = bound
        self._control = control
        self._cancelled = ctypes.c_int32()  # of this run alone: the host may set it late
        self._limits = CRunLimits(ctypes.pointer(self._cancelled), control.deadline_ns, _UNTIMED)
        bound.begin()

    def run(self) -> Outcome:
        """Run it, and wait."""
        self._control.stop = self._cancel
        try:
            self._control.check()
            require_done(lambda words: self._bound.execute(self._limits, words))
        finally:
            self._control.stop = None
            self._control.check()  # says why it ended
        return self._ended()

    def enqueue(self, function: Callable[..., int] | None) -> None:
        """Have the library take it into its queue; None leaves it as a run that wrote nothing."""
        if function is None:
            return
        self._control.stop = self._cancel
        try:
            self._control.check()
            require_done(lambda words: self._bound.call(function, ctypes.byref(self._limits), words))
        except BaseException:
            self._control.stop = None
            raise

    def result(self) -> Outcome:
        """Return the outcome of an enqueued run after a sync. Raises as ``run``."""
        self._control.stop = None
        self._control.check()
        if self._limits.status:
            raise failure(self._limits.status, self._limits.words)
        return self._ended()

    def _ended(self) -> Outcome:
        nanoseconds = self._limits.time_on_device_ns
        return self._bound.outcome(None if nanoseconds < 0 else nanoseconds)

    def _cancel(self) -> None:
        self._cancelled.value = 1


def _known_dimensions(output: tuple[int, Dimensions], bound: Argument) -> Dimensions:
    """Return what the model and the request say of an output."""
    return combine(output[1], bound.dimensions) or bound.dimensions


def _is_short(output: tuple[int, Dimensions], bound: Argument, known: Dimensions) -> bool:
    kind, _ = output
    return bound.data is not None and fully_specified(kind, known) and bound.data.nbytes < byte_size(kind, known)


def require_done(call: Callable[[Any], int]) -> None:
    """Make a call that returns a status, and writes words. Raises HalError."""
    words = ctypes.create_string_buffer(MOST_WORDS)
    status = call(words)
    if status:
        raise failure(status, words)


def failure(status: int, words: Any) -> HalError:
    """Return the error that a status and words of the library are."""
    return HalError(ErrorStatus(status), said(words) or f"the library says status {status} without words")


def said(words: Any) -> str:
    """Return the text in an array of bytes, up to its 0 or its end."""
    return bytes(words).partition(b"\0")[0].decode(errors="replace")


def _release(release: Callable[[int | None], None], handle: int | None, *_kept: object) -> None:
    """Release a workload or a binding; what it reads is still there."""
    release(handle)
