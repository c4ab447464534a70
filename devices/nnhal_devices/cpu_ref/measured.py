"""Time of each operation of a model in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.extensions import onnx
from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.types import Operation
from nnhal_devices.cpu_ref.extension import element_type, node_place
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from nnhal_devices.figures import OperationTimes, TimedOperation
from nnhal_devices.measured import MEASURED_RUNS, NO_ZEROS, measured_times, zeros_for


def operation_times(model: ResolvedModel, control: Control) -> OperationTimes:
    """Return the median of each operation of main over runs on zeros, and of each node of those that are graphs."""
    main = model.model.main
    inputs = zeros_for(model, lambda index: element_type(model.model, main.operands[index].type))
    if inputs is None:
        return NO_ZEROS
    watch = _Stopwatch(model)
    interpreter = Interpreter(model, watch)
    runs: list[list[_Lap]] = []
    try:
        for _ in range(MEASURED_RUNS):
            watch.start()
            interpreter.run(0, list(inputs.values()), control)
            runs.append(watch.laps)
    except HalError:  # such as a division by zero, or the deadline: what was measured before it counts
        pass
    counted = runs[1:] or runs
    times = (
        TimedOperation(
            laps[0].node or describe_operation(model.model, laps[0].operation),
            (laps[0].operation,),
            median(lap.duration_ns for lap in laps),
        )
        for laps in zip(*counted, strict=False)
    )
    return measured_times(times, len(runs))


class _Lap(NamedTuple):
    operation: int
    node: str
    """The name of a node of the operation, or of its first result; empty for the operation as a whole."""
    duration_ns: int


class _Stopwatch:
    """Notes when operations of main and their nodes end, and alters nothing."""

    def __init__(self, model: ResolvedModel) -> None:
        self._names = [_node_names(model, operation) for operation in model.model.main.operations]

    def start(self) -> None:
        """Begin a run."""
        self.laps: list[_Lap] = []
        self._began_ns = now_ns()

    def results(self, subgraph: int, operation: int, results: Sequence[Array]) -> tuple[Array, ...]:
        # what an operation does after its last node goes to the next one
        if not subgraph and not self._names[operation]:
            self._end(operation, "")
        return tuple(results)

    def node_results(self, subgraph: int, operation: int, place: str, results: Sequence[Any]) -> tuple[Any, ...]:
        name = "" if subgraph else self._names[operation].get(place, "")
        if name:  # nodes within others are part of these
            self._end(operation, name)
        return tuple(results)

    def _end(self, operation: int, node: str) -> None:
        now = now_ns()
        self.laps.append(_Lap(operation, node, now - self._began_ns))
        self._began_ns = now


def _node_names(model: ResolvedModel, operation: Operation) -> dict[str, str]:
    """The nodes of an operation that is a graph, by their places: their names, or those of their first results."""
    if onnx.number_of(model.model, operation.type) != onnx.RUN:
        return {}
    # Models without the extension need no ONNX.
    from onnx import ModelProto

    nodes = ModelProto.FromString(model.constants[0][operation.inputs[0]].tobytes()).graph.node
    places = {node_place("", node): node.name for node in nodes}
    return {place: name or place for place, name in places.items()}
