"""The driver of a backend in a shared object of C, whose interface is nnhal_backend.h.

The library is called without the interpreter's lock. What it breaks, it breaks in this process: a device's own.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from nnhal.errors import HalError
from nnhal.extensions import type_in_words
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.support import SUPPORTED, Support, Unsupported
from nnhal.types import (
    Capabilities,
    DeviceType,
    ErrorStatus,
    Extension,
    NumberOfCacheFiles,
    Operation,
    OperationType,
    PerformanceInfo,
)
from nnhal.types.layout import is_extension
from nnhal_devices.backend import Backend, MemoryRules
from nnhal_devices.cpu_ref.performance import ROOFLINE
from nnhal_devices.driver import DONE, Argument, Control, DriverOptions, Outcome, PrepareOptions
from nnhal_devices.dynamic.c_interface import (
    MOST_DIMENSIONS,
    MOST_WORDS,
    REQUIRED,
    CBackend,
    DescribedModel,
    arguments_of,
    options_of,
    write_dimensions,
)

_BRANCHES = (OperationType.IF, OperationType.WHILE)


@final
class CDriver:
    """A device whose library computes in the caller's memory."""

    memory = MemoryRules(alignment=64, unlocked=True)
    modelled_timing = False
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles()

    def __init__(self, name: str, path: Path, factory: Callable[[], int | None], options: DriverOptions) -> None:
        """``factory`` is the library's BackendFactory. Raises ValueError if what it returns is no backend."""
        address = factory()
        if not address:
            raise ValueError("BackendFactory returned NULL")
        self._c: Final = _checked(CBackend.from_address(address))
        self.name = name
        self.version = (self._c.version or b"").decode(errors="replace")
        self.type = DeviceType(self._c.device_type)
        self.is_serial = bool(self._c.is_serial)
        speed = PerformanceInfo(self._c.exec_time, self._c.power_usage)
        self.capabilities = Capabilities(speed, speed, (), speed, speed)
        self.backend = Backend(self._operation_ns, realisation=f"the library {path.name} on this machine")
        self._configure(options)

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        described = _described(model)
        operations = enumerate(model.model.main.operations)
        return [_hidden(model, each) or self._support(described, number) for number, each in operations]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> CWorkload:
        """Have the library make a workload. Raises HalError with the library's status and words."""
        options.check()
        described, handle = _described(model), ctypes.c_void_p()
        _require_done(lambda words: self._c.prepare(self._c.self, described.pointer, ctypes.byref(handle), words))
        return CWorkload(self._c, handle.value, described)

    def _configure(self, options: DriverOptions) -> None:
        if not self._c.configure:
            options.require_known(self.name)
            return
        given = options_of(options.threads, options.extra)
        try:
            _require_done(lambda words: self._c.configure(self._c.self, ctypes.byref(given), words))
        except HalError as error:
            raise ValueError(error.message) from None

    def _support(self, described: DescribedModel, number: int) -> Support:
        words = ctypes.create_string_buffer(MOST_WORDS)
        if self._c.supports(self._c.self, described.pointer, number, words):
            return SUPPORTED
        return Unsupported("OP", _said(words) or "this operation", f"what {self.version} takes")

    def _operation_ns(self, model: ResolvedModel) -> Sequence[float]:
        if not self._c.operation_ns:
            return [each * self._c.exec_time for each in ROOFLINE.operation_ns(model)]
        described = _described(model)
        numbers = range(len(model.model.main.operations))
        return [self._c.operation_ns(self._c.self, described.pointer, number) for number in numbers]


class CWorkload:
    """A workload of the library, which is released with this object."""

    def __init__(self, backend: Any, handle: int | None, described: DescribedModel) -> None:
        self._run = partial(backend.run, handle)
        weakref.finalize(self, _release, backend.release, handle, described).atexit = False

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> CRun:
        return CRun(self, self._run, inputs, outputs)


class CRun:
    """A workload bound to memory."""

    def __init__(
        self, workload: CWorkload, run: Callable[..., int], inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> None:
        self._kept = workload, inputs
        self._run = run
        self._bound = tuple(argument.dimensions for argument in outputs)
        self._outputs = outputs
        self._c_inputs, self._c_outputs = arguments_of(inputs), arguments_of(outputs)

    def run(self, control: Control) -> Outcome:
        """Raises HalError with the library's status and words, and as ``Control.check``."""
        cancelled = ctypes.c_int32()  # of this run alone: the host may set it late
        for filled, dimensions in zip(self._c_outputs, self._bound, strict=True):
            write_dimensions(filled, dimensions)
        control.stop = lambda: setattr(cancelled, "value", 1)
        try:
            control.check()
            _require_done(lambda words: self._run(self._c_inputs, self._c_outputs, ctypes.byref(cancelled), words))
        finally:
            control.stop = None
            control.check()  # says why it ended
        found = tuple(tuple(each.dimensions[: each.rank]) for each in self._c_outputs)
        return DONE if found == self._bound else Outcome(found)


def _described(model: ResolvedModel) -> DescribedModel:
    return DescribedModel(model, propagate_dimensions(model))


def _hidden(model: ResolvedModel, operation: Operation) -> Unsupported | None:
    """Why the library is not asked about an operation; None if it is."""
    if is_extension(operation.type):
        return Unsupported("OP", type_in_words(model.model, operation.type), "operations of the HAL itself")
    if operation.type in _BRANCHES:
        return Unsupported("OP", OperationType(operation.type).name, "operations without graphs of their own")
    known = propagate_dimensions(model)
    rank = max(len(known[operand]) for operand in (*operation.inputs, *operation.outputs))
    if rank > MOST_DIMENSIONS:
        return Unsupported("RANK", str(rank), f"at most {MOST_DIMENSIONS}")
    return None


def _checked(backend: Any) -> Any:
    """Return the backend itself. Raises ValueError."""
    if backend.size < ctypes.sizeof(CBackend):
        expected = ctypes.sizeof(CBackend)
        raise ValueError(f"BackendFactory returned a structure of {backend.size} bytes, expected at least {expected}")
    missing = [name for name in REQUIRED if not getattr(backend, name)]
    if missing:
        raise ValueError(f"the backend has no function {', '.join(missing)}")
    return backend


def _require_done(call: Callable[[Any], int]) -> None:
    """Make a call that returns a status, and writes words. Raises HalError."""
    words = ctypes.create_string_buffer(MOST_WORDS)
    status = call(words)
    if status:
        raise HalError(ErrorStatus(status), _said(words) or f"the library says status {status} without words")


def _said(words: Any) -> str:
    found: bytes = words.raw.partition(b"\0")[0]
    return found.decode(errors="replace")


def _release(release: Callable[[int | None], None], handle: int | None, *_kept: object) -> None:
    """Release a workload; what it reads is still there."""
    release(handle)
