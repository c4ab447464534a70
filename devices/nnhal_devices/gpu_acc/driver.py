"""The driver of gpu_acc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import onnxruntime

from nnhal.resolved import ResolvedModel
from nnhal.support import Support, Supported
from nnhal.types import DeviceType, Extension, NumberOfCacheFiles
from nnhal_devices.backend import Backend, DeviceFigure, MemoryKind, MemoryRules, TensorHandleFactory
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.gpu_acc.memory import WORKING_MEMORY_BYTES, LoadedNetworks, WorkingMemory
from nnhal_devices.gpu_acc.optimize import fuse, fusions, optimize, stands_for
from nnhal_devices.gpu_acc.performance import CAPABILITIES, TRANSFER_COSTS, fused_operation_ns
from nnhal_devices.gpu_acc.queue import InOrderQueue
from nnhal_devices.gpu_acc.runtime import this_machine
from nnhal_devices.gpu_acc.support import operation_limits, supported_operations
from nnhal_devices.gpu_acc.workload import QueuedWorkload

_ALIGNMENT = 128
_KINDS = frozenset({MemoryKind.ASHMEM, MemoryKind.MMAP_FD, MemoryKind.HARDWARE_BUFFER_BLOB})
TENSOR_HANDLES = (
    TensorHandleFactory("gpu_acc/import", _KINDS, _KINDS, False, _ALIGNMENT, fallback_import_memory_required=True),
    TensorHandleFactory("gpu_acc/buffer", maps=True, alignment=_ALIGNMENT),
)


@final
class GpuAcc:
    """An OpenCL-class GPU: floats only, asynchronous, in the caller's memory. It holds cpu_acc for the arithmetic."""

    name = "gpu_acc"
    version = f"nnhal-gpu_acc-0.1.0+onnxruntime-{onnxruntime.__version__}"
    type = DeviceType.GPU
    capabilities = CAPABILITIES
    memory = MemoryRules(_KINDS, _ALIGNMENT)
    modelled_timing = True
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles(1, 1)

    def __init__(self, options: DriverOptions, working_memory_bytes: int = WORKING_MEMORY_BYTES) -> None:
        options.require_known(self.name)
        runtime = this_machine()
        self._arithmetic = CpuAcc(options, runtime.providers)
        self._queue = InOrderQueue()
        self._memory = WorkingMemory(working_memory_bytes)
        self.backend = Backend(
            self._operation_ns,
            TRANSFER_COSTS,
            optimize,
            TENSOR_HANDLES,
            self._memory,
            LoadedNetworks(self._memory),
            self._queue,
            runtime.realisation,
            operation_limits,
            self._figures,
        )

    def _figures(self) -> tuple[DeviceFigure, ...]:
        return (
            DeviceFigure("working memory in use", self._memory.bytes, "bytes"),
            DeviceFigure("working memory", self._memory.budget, "bytes"),
            DeviceFigure("runs in the command queue", len(self._queue)),
        )

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return supported_operations(model, self._arithmetic)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> QueuedWorkload:
        """Fuse activations, as the optimisation views say, and compile the result, or restore it from a cache."""
        found = fusions(model)
        fused = fuse(model, found)
        arithmetic = self._arithmetic.restore(fused, options) or self._arithmetic.prepare(fused, options)
        return QueuedWorkload(fused, stands_for(model, found), arithmetic, self._queue, self._memory)

    def _operation_ns(self, model: ResolvedModel) -> Sequence[float]:
        answers = self.supported_operations(model)
        both = [
            fusion
            for fusion in fusions(model)
            if isinstance(answers[fusion.operation], Supported) and isinstance(answers[fusion.activation], Supported)
        ]
        return fused_operation_ns(model, both)
