"""Devices that compute as cpu_ref does, but support some operations only, and fail on demand.

The test's own process serves them, over real sockets. Each has its own performance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.resolved import ResolvedModel
from nnhal.support import Support, Unsupported
from nnhal.types import (
    Capabilities,
    DataLocation,
    DeviceType,
    ErrorStatus,
    Extension,
    Model,
    NumberOfCacheFiles,
    OperandPerformance,
    OperandType,
    OperationType,
    PerformanceInfo,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_devices.backend import Backend, MemoryRules
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, BoundWorkload, Control, Driver, Outcome, PrepareOptions, Workload
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_service.partition import Fallback, Options, Pin, Strategy
from nnhal_service.runtime import Fleet, LoadedModel, PreparedPlan, RunReport, TensorBinding, prepare
from nnhal_service.runtime.run.cancellation import Cancellation

CPU = "cpu_ref"
EVERYTHING = tuple(OperationType)


class Picky:
    """A driver. It calls ``fails`` before each run, and fails with the status that it returns, unless that is NONE."""

    type = DeviceType.ACCELERATOR
    memory = MemoryRules()
    modelled_timing = False
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles()

    def __init__(self, name: str, takes: Collection[int] = EVERYTHING, ratio: float = 0.5) -> None:
        self.name = name
        self.version = f"{name}-1"
        self.fails: Callable[[], ErrorStatus] = lambda: ErrorStatus.NONE
        self.runs = 0
        self._takes = takes
        self._cpu = CpuRef()
        info = PerformanceInfo(ratio, ratio)
        types = (code for code in OperandType if code != OperandType.SUBGRAPH)
        self.capabilities = Capabilities(info, info, tuple(OperandPerformance(t, info) for t in types), info, info)
        self.backend = Backend(lambda model: [0.0] * len(model.model.main.operations), realisation="a test")

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        answers = self._cpu.supported_operations(model)
        return [
            answer if operation.type in self._takes else Unsupported("OP", "this one", "others")
            for answer, operation in zip(answers, model.model.main.operations, strict=True)
        ]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        return _Workload(self, self._cpu.prepare(model, options))


class _Workload:
    def __init__(self, driver: Picky, inner: Workload) -> None:
        self._driver = driver
        self._inner = inner

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> _Bound:
        return _Bound(self._driver, self._inner.bind(inputs, outputs))


class _Bound:
    def __init__(self, driver: Picky, inner: BoundWorkload) -> None:
        self._driver = driver
        self._inner = inner

    def run(self, control: Control) -> Outcome:
        self._driver.runs += 1
        status = self._driver.fails()
        if status != ErrorStatus.NONE:
            raise HalError(status, f"{self._driver.name} fails on demand")
        return self._inner.run(control)


def always(status: ErrorStatus = ErrorStatus.GENERAL_FAILURE) -> Callable[[], ErrorStatus]:
    """Return a function that makes every run fail."""
    return lambda: status


class Loader:
    """Loads models on a fleet's devices, and releases them before the fleet is closed."""

    def __init__(self, fleet: Fleet, stack: ExitStack) -> None:
        self._fleet = fleet
        self._stack = stack

    def __call__(
        self,
        model: Model,
        fallback: Fallback = Fallback.ALLOW,
        strategy: Strategy = Strategy.NNAPI,
        pins: Sequence[Pin] = (),
    ) -> PreparedPlan:
        """Prepare a model of the HAL, by NNAPI's strategy unless another is given."""
        prepared = prepare(imported(model), self._fleet, (), Options(strategy, tuple(pins), fallback=fallback))
        self._stack.callback(prepared.release)
        return prepared


@contextmanager
def serving(directory: Path, *drivers: Driver) -> Iterator[Loader]:
    with ExitStack() as stack:
        endpoints = {driver.name: Endpoint(directory / driver.name) for driver in drivers}
        for driver in drivers:
            stack.enter_context(host(driver, endpoints[driver.name], DeviceSettings()))
        fleet = Fleet(endpoints)
        stack.callback(fleet.close)
        yield Loader(fleet, stack)


def imported(model: Model) -> ImportedModel:
    """Wrap a model of the HAL as an imported one, with inputs in0, in1, … and outputs out0, out1, …"""
    graph = model.main

    def tensor(name: str, operand: int) -> ImportedTensor:
        declared = graph.operands[operand]
        return ImportedTensor(name, operand, ELEMENT_TYPES[declared.type], declared.dimensions)

    return ImportedModel(
        model,
        tuple(tensor(f"in{number}", operand) for number, operand in enumerate(graph.input_indexes)),
        tuple(tensor(f"out{number}", operand) for number, operand in enumerate(graph.output_indexes)),
        ((),) * len(graph.operations),
        (),
        ("",) * len(graph.operands),
    )


class Bound:
    """A model bound to memory of its own for each tensor: the given inputs, and outputs of the given sizes."""

    def __init__(
        self,
        prepared: PreparedPlan,
        inputs: Sequence[Array],
        elements: Sequence[int],
        dimensions: Mapping[str, Dimensions] | None = None,
        loop_timeout_duration_ns: int = -1,
        measure_timing: bool = True,
    ) -> None:
        given = dimensions or {}
        tensors = (*prepared.imported.inputs, *prepared.imported.outputs)
        sizes = [array.nbytes for array in inputs] + [
            count * tensor.element_type.itemsize
            for count, tensor in zip(elements, prepared.imported.outputs, strict=True)
        ]
        memories = [create_ashmem(size) for size in sizes]
        self._pools = [open_pool(memory, writable=True) for memory in memories]
        self._sizes = sizes
        self._types = [tensor.element_type for tensor in tensors]
        self._inputs = len(inputs)
        bindings = [
            TensorBinding(tensor.name, DataLocation(number, 0, size), given.get(tensor.name, ()))
            for number, (tensor, size) in enumerate(zip(tensors, sizes, strict=True))
        ]
        self._model = LoadedModel(prepared)
        self.context = self._model.bind(
            bindings[: self._inputs], bindings[self._inputs :], memories, measure_timing, loop_timeout_duration_ns
        )
        self.give(*inputs)

    def give(self, *inputs: Array) -> None:
        for pool, array in zip(self._pools, inputs, strict=False):
            pool.write(0, np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def run(self, cancellation: Cancellation | None = None) -> RunReport:
        return self.context.run(cancellation=cancellation)

    def outputs(self) -> list[list[float]]:
        numbers = range(self._inputs, len(self._pools))
        return [self._pools[n].read(0, self._sizes[n]).view(self._types[n]).tolist() for n in numbers]

    def close(self) -> None:
        self._model.unbind(self.context)
