"""Sample: the reference driver, limited to additions."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.resolved import ResolvedModel, operation_name
from nnhal.types import Extension, OperationType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Driver, DriverOptions, PrepareOptions, Support, Unsupported, Workload

BACKEND_ID = "Sample"
API_VERSION = (1, 0)


class Sample:
    """Supports ADD, and computes it as cpu_ref does."""

    name = BACKEND_ID
    version = "acme-sample-1.0"
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
        answers = self._reference.supported_operations(model)
        return [
            answer
            if operation.type == OperationType.ADD
            else Unsupported("OP", operation_name(model.model, operation.type), "ADD")
            for operation, answer in zip(model.model.main.operations, answers, strict=True)
        ]

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        return self._reference.prepare(model, options)


def create_backend(options: DriverOptions) -> Driver:
    return Sample(options)
