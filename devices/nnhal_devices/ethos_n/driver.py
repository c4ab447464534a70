"""The driver of ethos_n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

from nnhal.resolved import ResolvedModel
from nnhal.support import Support, Supported
from nnhal.types import DeviceType, Extension, NumberOfCacheFiles
from nnhal_devices.backend import (
    Backend,
    DeviceFigure,
    MemoryKind,
    MemoryRules,
    OptimizationViews,
    TensorHandleFactory,
)
from nnhal_devices.cpu_acc.driver import CpuAcc
from nnhal_devices.cpu_acc.workload import OnnxWorkload
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Argument, BoundWorkload, Control, DriverOptions, Outcome, PrepareOptions, Workload
from nnhal_devices.ethos_n.limits import SRAM_BYTES
from nnhal_devices.ethos_n.optimize import optimize, sram_of
from nnhal_devices.ethos_n.performance import CAPABILITIES, ROOFLINE, TRANSFER_COSTS, inference_ns
from nnhal_devices.ethos_n.support import operation_limits, supported_operations
from nnhal_devices.figures import OperationTimes
from nnhal_devices.measured import modelled_times

_DMA_BUF = frozenset({MemoryKind.HARDWARE_BUFFER_BLOB})
_ALIGNMENT = 64


@final
class EthosN:
    """An NPU for 8-bit networks: synchronous, and in place in hardware buffers only."""

    name = "ethos_n"
    version = "nnhal-ethos_n-0.1.0"
    type = DeviceType.ACCELERATOR
    capabilities = CAPABILITIES
    memory = MemoryRules(_DMA_BUF, _ALIGNMENT)
    modelled_timing = True
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles(1, 1)
    working_bytes = SRAM_BYTES
    backend = Backend(
        ROOFLINE.operation_ns,
        TRANSFER_COSTS,
        optimize,
        (
            TensorHandleFactory(
                "ethos_n/import",
                imports=_DMA_BUF,
                exports=_DMA_BUF,
                maps=True,
                alignment=_ALIGNMENT,
                fallback_import_memory_required=True,
            ),
        ),
        realisation="emulated: the arithmetic of cpu_acc, or of cpu_ref, on this machine's CPU",
        operation_limits=operation_limits,
        figures=lambda: (DeviceFigure("SRAM", SRAM_BYTES, "bytes"),),
    )

    def __init__(self, options: DriverOptions) -> None:
        options.require_known(self.name)
        self._accelerated = CpuAcc(options)
        self._reference = CpuRef(options)

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return supported_operations(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> ModelledWorkload:
        """Prepare the whole model on one of the CPU drivers: the faster one if it has all operations, or has cached it.

        Raises RESOURCE_EXHAUSTED_PERSISTENT if an operation does not fit the SRAM.
        """
        return self.prepare_within(model, options, self.working_bytes)

    def prepare_within(self, model: ResolvedModel, options: PrepareOptions, working_bytes: int) -> ModelledWorkload:
        taken = sram_of(model, working_bytes)
        inner = self._accelerated.restore(model, options) or self._compiled(model, options)
        return ModelledWorkload(inner, model, taken)

    def _compiled(self, model: ResolvedModel, options: PrepareOptions) -> Workload:
        answers = self._accelerated.supported_operations(model)
        fast = all(isinstance(answer, Supported) for answer in answers)
        return self._accelerated.prepare(model, options) if fast else self._reference.prepare(model, options)

    def optimize_within(self, model: ResolvedModel, working_bytes: int) -> OptimizationViews:
        return optimize(model, working_bytes)


class ModelledWorkload:
    """Another driver's workload, with the modelled time and SRAM of the NPU for each run."""

    def __init__(self, inner: Workload, model: ResolvedModel, working_bytes: int) -> None:
        self.working_bytes = working_bytes
        self._inner = inner
        self._model = model
        self._duration_ns = inference_ns(model)

    def artifact(self) -> Sequence[memoryview]:
        """The CPU driver's, if it has any: the model is cached in any case."""
        return self._inner.artifact() or () if isinstance(self._inner, OnnxWorkload) else ()

    def operation_times(self, control: Control) -> OperationTimes:
        return modelled_times(self._model, ROOFLINE.operation_ns(self._model))

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundModelled:
        return BoundModelled(self._inner.bind(inputs, outputs), self._duration_ns)


class BoundModelled:
    """A ModelledWorkload bound to memory."""

    def __init__(self, inner: BoundWorkload, duration_ns: int) -> None:
        self._inner = inner
        self._duration_ns = duration_ns

    def run(self, control: Control) -> Outcome:
        return replace(self._inner.run(control), time_on_device_ns=self._duration_ns)
