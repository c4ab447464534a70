"""Prepared models of mlip: binaries that run one after the other, and hand values over as the accelerator has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal.arrays import Array
from nnhal.errors import HalError, invalid_argument
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import ErrorStatus, Subgraph
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_devices.arguments import BoundArrayWorkload, read_argument
from nnhal_devices.driver import Argument, Control
from nnhal_devices.figures import OperationTimes, WorkloadFigures
from nnhal_devices.mlip.figures import network_figures, network_times
from nnhal_mlip.artifact import write_artifact
from nnhal_mlip.compilation import FED, CompiledModel, ValuePlace
from nnhal_mlip.importing.hal_operation import signed, unsigned
from nnhal_mlip.program.program import OCM_BYTES
from nnhal_mlip.simulator.errors import SimulatorError
from nnhal_mlip.simulator.simulator import Simulator


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LoadedBinaries:
    """A compiled model in simulators."""

    compiled: CompiledModel
    simulators: tuple[Simulator, ...]
    """One for each binary."""
    main: Subgraph
    numbers: Mapping[str, int]
    """The operations of main by what the compiler calls them: by the user's names of their results, or by number."""


def numbers_of(model: ResolvedModel) -> dict[str, int]:
    """Return ``LoadedBinaries.numbers`` of a model."""
    return {
        (model.names.get(operation.outputs[0]) if operation.outputs else None)
        or describe_operation(model.model, number): number
        for number, operation in enumerate(model.model.main.operations)
    }


class SimulatedWorkload:
    """A model that was compiled and loaded."""

    def __init__(self, loaded: LoadedBinaries) -> None:
        self.working_bytes = max((each.program.tiles for each in loaded.simulators), default=0) * OCM_BYTES
        self._loaded = loaded

    @property
    def simulators(self) -> tuple[Simulator, ...]:
        return self._loaded.simulators

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundArrayWorkload:
        main = self._loaded.main
        operands = [main.operands[index] for index in main.input_indexes]
        given = [
            read_argument(argument, ELEMENT_TYPES[operand.type])
            for argument, operand in zip(inputs, operands, strict=True)
        ]
        read = {place for step in self._loaded.compiled.steps for place in step.inputs} | {
            *self._loaded.compiled.outputs
        }
        for port, values in enumerate(given):
            if values is None and ValuePlace(FED, port) in read:
                invalid_argument(f"input {port} is omitted, but an operation reads it")
        return BoundArrayWorkload(lambda control: self._run(given, control), outputs)

    def figures(self) -> WorkloadFigures:
        memory = [step.memory for step in self._loaded.compiled.steps]
        return network_figures(self._loaded.simulators, memory)

    def operation_times(self, control: Control) -> OperationTimes:
        return network_times(self._loaded.simulators, self._loaded.numbers)

    def artifact(self) -> bytes:
        return write_artifact(self._loaded.compiled)

    def _run(self, inputs: Sequence[Array | None], control: Control) -> tuple[Sequence[Array], int]:
        """Run the binaries. The time is that of their cycles: the firmware's is not the accelerator's."""
        compiled, main = self._loaded.compiled, self._loaded.main
        values = {
            ValuePlace(FED, port): signed(main.operands[index], given)
            for port, (index, given) in enumerate(zip(main.input_indexes, inputs, strict=True))
            if given is not None
        }
        hardware_ns = 0.0
        for number, (step, simulator) in enumerate(zip(compiled.steps, self._loaded.simulators, strict=True)):
            try:
                run = simulator.run([values[place] for place in step.inputs], control.check)
            except SimulatorError as error:
                message = f"the compiled network cannot be run: {error}"
                raise HalError(ErrorStatus.GENERAL_FAILURE, message) from error
            hardware_ns += run.hardware_ns
            values |= {ValuePlace(number, port): output for port, output in enumerate(run.raw)}
        results = [
            unsigned(main.operands[index], values[place])
            for index, place in zip(main.output_indexes, compiled.outputs, strict=True)
        ]
        return results, round(hardware_ns)
