"""Prepared models of cpu_acc, and their ties to the caller's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from onnxruntime import IOBinding

from nnhal.errors import general_failure, invalid_argument
from nnhal.resolved import ResolvedModel
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.elements import MEMORY_TYPES
from nnhal_devices.cpu_acc.graph import Graph
from nnhal_devices.cpu_acc.session import RUNTIME_ERRORS, Session
from nnhal_devices.cpu_acc.shapes import execution_dimensions
from nnhal_devices.driver import DONE, Argument, BoundWorkload, Control, Outcome


class OnnxWorkload:
    """A model as a session of ONNX Runtime, which several executions may use at once."""

    def __init__(self, model: ResolvedModel, graph: Graph, session: Session) -> None:
        main = model.model.main
        self._model = model
        self._session = session
        self._dimensions = tuple(graph.dimensions)
        self._inputs = tuple((name, main.input_indexes.index(operand)) for name, operand in graph.inputs.items())
        self._outputs = tuple(graph.outputs)

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        """See Workload. What dimensions the outputs get is known from here on, so that a run need not ask."""
        main = self._model.model.main
        for name, position in self._inputs:
            if inputs[position].data is None:
                invalid_argument(f"{name} is omitted, but an operation reads it")
        found = self._output_dimensions(inputs)
        binding = self._session.runtime.io_binding()
        for name, position in self._inputs:
            _bind(binding.bind_input, name, main.operands[main.input_indexes[position]].type, inputs[position])
        written = False
        for name, index, argument, dimensions in zip(self._outputs, main.output_indexes, outputs, found, strict=True):
            code = main.operands[index].type
            size = MEMORY_TYPES[code].itemsize * prod(dimensions)
            if argument.data is not None and 0 < size <= len(argument.data):
                _bind(binding.bind_output, name, code, Argument(argument.data, dimensions))
                written = True
        as_bound = all(argument.dimensions == dimensions for argument, dimensions in zip(outputs, found, strict=True))
        outcome = DONE if as_bound else Outcome(found)
        if not written:
            return Idle(outcome)
        return BoundSession(self._session, binding, (*inputs, *outputs), outcome)

    def _output_dimensions(self, inputs: Sequence[Argument]) -> tuple[Dimensions, ...]:
        main = self._model.model.main
        given = {index: a.dimensions for index, a in zip(main.input_indexes, inputs, strict=True)}
        if all(self._dimensions[index] == dimensions and 0 not in dimensions for index, dimensions in given.items()):
            expected = tuple(self._dimensions[index] for index in main.output_indexes)
            if not any(0 in dimensions for dimensions in expected):
                return expected
        found = execution_dimensions(self._model, given)
        return tuple(found[index] for index in main.output_indexes)


def _bind(bind: Callable[..., None], name: str, code: int, argument: Argument) -> None:
    if argument.data is not None:
        bind(name, "cpu", 0, MEMORY_TYPES[code], argument.dimensions, argument.data.ctypes.data)


class BoundSession:
    """A session with its inputs and outputs tied to memory, which ``arguments`` keeps alive."""

    def __init__(self, session: Session, binding: IOBinding, arguments: tuple[Argument, ...], outcome: Outcome) -> None:
        self._run: Callable[[IOBinding], None] = session.runtime.run_with_iobinding
        self._binding = binding
        self._kept = (session, arguments)
        self._outcome = outcome

    def run(self, control: Control) -> Outcome:
        """See BoundWorkload. ONNX Runtime reads and writes the memory itself."""
        control.check()
        try:
            self._run(self._binding)
        except RUNTIME_ERRORS as error:
            general_failure(f"ONNX Runtime failed: {error}")
        return self._outcome


class Idle:
    """A workload with nothing to write: every output is omitted, empty, or larger than its memory."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def run(self, control: Control) -> Outcome:
        """See BoundWorkload."""
        control.check()
        return self._outcome
