"""The driver of cpu_ref."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from nnhal.extensions.onnx import EXTENSION
from nnhal.extensions.tflite import EXTENSION as TFLITE
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import DeviceType, Extension, NumberOfCacheFiles
from nnhal_devices.arguments import BoundArrayWorkload, read_argument
from nnhal_devices.backend import Backend, MemoryRules
from nnhal_devices.cpu_ref.extension import element_type
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.cpu_ref.measured import operation_times
from nnhal_devices.cpu_ref.performance import CAPABILITIES, ROOFLINE
from nnhal_devices.cpu_ref.support import operation_limits, supported_operations
from nnhal_devices.driver import Argument, Control, DriverOptions, PrepareOptions
from nnhal_devices.figures import OperationTimes


@final
class CpuRef:
    """The reference driver: every operation, synchronous, any memory in place."""

    name = "cpu_ref"
    version = "nnhal-cpu_ref-0.1.0"
    type = DeviceType.CPU
    capabilities = CAPABILITIES
    memory = MemoryRules()
    modelled_timing = False
    extensions: tuple[Extension, ...] = (EXTENSION, TFLITE)
    number_of_cache_files = NumberOfCacheFiles(1, 1)
    backend = Backend(
        ROOFLINE.operation_ns,
        realisation="numpy on this machine's CPU",
        operation_limits=operation_limits,
        is_reference=True,
    )

    def __init__(self, options: DriverOptions | None = None) -> None:
        (options or DriverOptions()).require_known(self.name)

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return supported_operations(model)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> ReferenceWorkload:
        """Create an interpreter: there is nothing to compile."""
        del options
        return ReferenceWorkload(model)


class ReferenceWorkload:
    """A model and its interpreter."""

    takes_empty = True

    def __init__(self, model: ResolvedModel) -> None:
        self._model = model
        self._interpreter = Interpreter(model)

    def operation_times(self, control: Control) -> OperationTimes:
        return operation_times(self._model, control)

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundArrayWorkload:
        main = self._model.model.main
        arrays = [
            read_argument(argument, element_type(self._model.model, main.operands[index].type))
            for argument, index in zip(inputs, main.input_indexes, strict=True)
        ]
        return BoundArrayWorkload(lambda control: (self._interpreter.run(0, arrays, control), None), outputs)
