"""Npu: a driver with a bug in one kernel, for docs/debug_a_driver.md. Otherwise it computes as cpu_ref does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal.resolved import ResolvedModel
from nnhal.types import Extension, OperationType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions, PrepareOptions, Support, Workload

BACKEND_ID = "Npu"
API_VERSION = (1, 0)

KERNELS = {
    OperationType.MAX_POOL_2D: OperationType.AVERAGE_POOL_2D,
}
"""The kernels that run other operations than their own. This one is the bug: it should have no line."""


class Npu:
    """Compiles a model for the kernels that it has."""

    name = BACKEND_ID
    version = "acme-npu-1.0"
    extensions: tuple[Extension, ...] = ()

    def __init__(self, options: DriverOptions) -> None:
        self._reference = CpuRef(options)
        self.type = self._reference.type
        self.capabilities = self._reference.capabilities
        self.memory = self._reference.memory
        self.modelled_timing = self._reference.modelled_timing
        self.number_of_cache_files = self._reference.number_of_cache_files
        self.backend = self._reference.backend

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return self._reference.supported_operations(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        main = model.model.main
        operations = tuple(
            replace(operation, type=KERNELS.get(OperationType(operation.type), operation.type))
            for operation in main.operations
        )
        compiled = replace(model.model, main=replace(main, operations=operations))
        return self._reference.prepare(replace(model, model=compiled), options)


def create_backend(options: DriverOptions) -> Driver:
    return Npu(options)
