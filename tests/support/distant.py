"""A device whose memory is elsewhere: runs see the host's views as places only, and what they cannot reach is copied.

It computes as cpu_ref does. This file is also a backend that a device process may serve, so it imports nothing of the
tests.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import final

import numpy as np

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.support import Support, Unsupported
from nnhal.types import Copy, DeviceType, ErrorStatus, Extension, NumberOfCacheFiles, OperationType
from nnhal_devices.backend import Backend, MemoryRules, TensorHandleFactory, TransferCosts
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, BoundWorkload, Control, DriverOptions, Outcome, PrepareOptions, Workload

BACKEND_ID = "Distant"
API_VERSION = (1, 5)
EVERYTHING = tuple(OperationType)


class DistantMemory:
    """The device's memory: an array for each view, found by its address. It counts what crosses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrays: dict[int, Bytes] = {}
        self.fetched = self.stored = 0
        self.refuses = False
        """Whether the device has no more memory."""

    @property
    def bytes(self) -> int:
        with self._lock:
            return sum(map(len, self._arrays.values()))

    def allocate(self, size: int) -> Bytes:
        if self.refuses:
            raise HalError(ErrorStatus.GENERAL_FAILURE, "the device has no more memory")
        view = np.zeros(size, np.uint8)
        address = view.ctypes.data
        with self._lock:
            self._arrays[address] = np.zeros(size, np.uint8)
        weakref.finalize(view, self._arrays.pop, address).atexit = False
        return view

    def fetch(self, view: Bytes) -> None:
        self.fetched += len(view)
        view[:] = self._of(view)

    def store(self, view: Bytes) -> None:
        self.stored += len(view)
        self._of(view)[:] = view

    def find(self, view: Bytes) -> Bytes | None:
        """Return the device's own memory behind a view; None if it is not the device's."""
        array = self._arrays.get(view.ctypes.data)
        return None if array is None else array[: len(view)]

    def _of(self, view: Bytes) -> Bytes:
        found = self.find(view)
        if found is None:
            raise HalError(ErrorStatus.GENERAL_FAILURE, f"{len(view)} bytes that are not the device's memory")
        return found


@final
class Distant:
    """The driver. It fails each run with the status that ``fails`` returns, unless that is NONE."""

    type = DeviceType.ACCELERATOR
    memory = MemoryRules()
    modelled_timing = False
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles()

    def __init__(self, name: str = BACKEND_ID, takes: Collection[int] = EVERYTHING) -> None:
        self.name = name
        self.version = f"{name}-1"
        self.own = DistantMemory()
        self.fails: Callable[[], ErrorStatus] = lambda: ErrorStatus.NONE
        self.copied_in = self.copied_out = 0
        self._takes = takes
        self._cpu = CpuRef()
        self.capabilities = self._cpu.capabilities
        self.backend = Backend(
            self._cpu.backend.operation_ns,
            TransferCosts(is_wire=True),
            tensor_handles=(TensorHandleFactory(f"{name}/own", keeps=True),),
            realisation="a test",
            memory=self.own,
        )

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        """Answer as cpu_ref does for the operations that it takes."""
        answers = self._cpu.supported_operations(model)
        return [
            answer if operation.type in self._takes else Unsupported("OP", "this one", "others")
            for answer, operation in zip(answers, model.model.main.operations, strict=True)
        ]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        return _Workload(self, self._cpu.prepare(model, options))


class _Workload:
    def __init__(self, driver: Distant, inner: Workload) -> None:
        self._driver = driver
        self._inner = inner

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> _Bound:
        return _Bound(self._driver, self._inner, inputs, outputs)


class _Bound:
    def __init__(
        self, driver: Distant, inner: Workload, inputs: Sequence[Argument], outputs: Sequence[Argument]
    ) -> None:
        self._driver = driver
        self._copied_in: list[tuple[Bytes, Bytes]] = []
        self._copied_out: list[tuple[Bytes, Bytes]] = []
        ours = [self._reachable(argument, self._copied_in) for argument in inputs]
        self._bound: BoundWorkload = inner.bind(ours, [self._reachable(a, self._copied_out) for a in outputs])

    def run(self, control: Control) -> Outcome:
        status = self._driver.fails()
        if status != ErrorStatus.NONE:
            raise HalError(status, f"{self._driver.name} fails on demand")
        copies = [self._copy(False, [(theirs, ours) for theirs, ours in self._copied_in])]
        outcome = self._bound.run(control)
        copies.append(self._copy(True, [(ours, theirs) for theirs, ours in self._copied_out]))
        self._driver.copied_in += copies[0].bytes
        self._driver.copied_out += copies[1].bytes
        return Outcome(outcome.dimensions, copies=tuple(copy for copy in copies if copy.bytes))

    def _reachable(self, argument: Argument, copied: list[tuple[Bytes, Bytes]]) -> Argument:
        """The argument in the device's memory: as it is there, or by a copy for each run."""
        data = argument.data
        if data is None:
            return argument
        ours = self._driver.own.find(data)
        if ours is None:
            ours = np.zeros(len(data), np.uint8)
            copied.append((data, ours))
        return Argument(ours, argument.dimensions)

    def _copy(self, is_output: bool, pairs: Sequence[tuple[Bytes, Bytes]]) -> Copy:
        started = now_ns()
        for source, destination in pairs:
            destination[:] = source
        return Copy(is_output, sum(len(source) for source, _ in pairs), started, now_ns(), is_wire=True)


def create_backend(options: DriverOptions) -> Distant:
    """Return the driver that a device process serves."""
    options.require_known(BACKEND_ID)
    return Distant()
