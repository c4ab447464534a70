"""Prepared models of cpu_acc, and their bindings to the caller's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from onnxruntime import IOBinding, OrtValue, RunOptions

from nnhal.arrays import Array, Bytes
from nnhal.errors import HalError, invalid_argument
from nnhal.extensions.onnx import ELEMENT_TYPES, VALUE
from nnhal.extensions.values import value_from_bytes, value_to_bytes
from nnhal.resolved import ResolvedModel
from nnhal.types.layout import MAX_OPERAND_BYTES, Dimensions, is_extension
from nnhal_devices.cpu_acc.artifact import OptimisedGraph, write_artifact
from nnhal_devices.cpu_acc.elements import memory_type
from nnhal_devices.cpu_acc.session import OnnxSession, StoppableRuns, binders, bound_run, named_run
from nnhal_devices.cpu_acc.shapes import execution_dimensions
from nnhal_devices.driver import DONE, Argument, BoundWorkload, Control, Outcome
from nnhal_devices.figures import OperationTimes

_SMALL_BYTES = 4096
"""Copying so much takes no longer than letting go of the interpreter's lock."""
_ITEM_SIZES = {code: element.itemsize for code, element in ELEMENT_TYPES.items()}
_EQUAL_RUNS = 8
"""Runs with the same dimensions of outputs after which these are taken to be those of the next run."""
_FROM_A_CACHE = OperationTimes(
    note="it was restored from the compilation cache, which has the optimised graph only: prepare it without the cache"
)


class OnnxWorkload:
    """A session of ONNX Runtime for a model, which several executions may use at once."""

    takes_empty = True

    def __init__(
        self,
        model: ResolvedModel,
        dimensions: Sequence[Dimensions],
        graph: OptimisedGraph,
        session: OnnxSession,
        gains: bool = True,
        times: Callable[[Control], OperationTimes] | None = None,
    ) -> None:
        """``dimensions`` are those of main's operands. ``gains`` tells whether a cache of this model spares time.

        ``times`` measures the nodes of the session's graph; None for a model that a cache has kept.
        """
        main = model.model.main
        self._model = model
        self._session = session
        self._optimised = graph
        self._gains = gains
        self._times = times
        self._dimensions = tuple(dimensions)
        self._inputs = tuple((name, main.input_indexes.index(operand)) for name, operand in graph.inputs.items())
        self._outputs = tuple(graph.outputs)
        # Only operations of the extension have results whose dimensions do not follow from those of the inputs.
        self._data_dependent = any(is_extension(operation.type) for operation in main.operations)
        self._forecast = Forecast()
        types = partial(memory_type, model.model, is_message=graph.is_message)
        self._input_types = [types(main.operands[index].type) for index in main.input_indexes]
        self._output_types = [types(main.operands[index].type) for index in main.output_indexes]

    def artifact(self) -> Sequence[memoryview] | None:
        """The optimised graph, once: it has the weights a second time, and is not held. Empty if there is none."""
        graph = self._optimised
        self._optimised = replace(graph, content=b"", weights={})
        if not self._gains:
            return None
        return write_artifact(graph, self._model) if graph.content else ()

    def operation_times(self, control: Control) -> OperationTimes:
        return _FROM_A_CACHE if self._times is None else self._times(control)

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        """Bind to memory. Known dimensions of the outputs are computed here, and not in each run."""
        for name, position in self._inputs:
            if inputs[position].data is None:
                invalid_argument(f"{name} is omitted, but an operation reads it")
        if VALUE in self._input_types or VALUE in self._output_types:
            return self._bind_values(inputs, outputs)
        # To the rules of the HAL a length of 0 is unknown, but ONNX Runtime knows what follows from it.
        is_empty = any(0 in inputs[position].dimensions for _, position in self._inputs)
        found = () if is_empty else self._output_dimensions(inputs)
        binding = self._session.runtime.io_binding()
        for name, position in self._inputs:
            _bind(binding.bind_input, name, self._input_types[position], inputs[position])
        if is_empty or (self._data_dependent and not all(known and 0 not in known for known in found)):
            read = [(name, self._input_types[position], position) for name, position in self._inputs]
            written = list(zip(self._outputs, self._output_types, outputs, strict=True))
            return DataDependentSession(self._session, binding, read, inputs, written, self._forecast)
        writes = False
        for name, code, argument, dimensions in zip(self._outputs, self._output_types, outputs, found, strict=True):
            size = ELEMENT_TYPES[code].itemsize * prod(dimensions)
            if argument.data is not None and 0 < size <= len(argument.data):
                _bind(binding.bind_output, name, code, Argument(argument.data, dimensions))
                writes = True
        as_bound = all(argument.dimensions == dimensions for argument, dimensions in zip(outputs, found, strict=True))
        outcome = DONE if as_bound else Outcome(found)
        if not writes:
            return Idle(outcome)
        return BoundSession(self._session, binding, (*inputs, *outputs), outcome)

    def _bind_values(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundWorkload:
        read = [(name, self._input_types[position], inputs[position]) for name, position in self._inputs]
        return ValueSession(self._session, self._outputs, self._output_types, read, outputs)

    def _output_dimensions(self, inputs: Sequence[Argument]) -> tuple[Dimensions, ...]:
        main = self._model.model.main
        given = {index: a.dimensions for index, a in zip(main.input_indexes, inputs, strict=True)}
        if all(self._dimensions[index] == dimensions and 0 not in dimensions for index, dimensions in given.items()):
            expected = tuple(self._dimensions[index] for index in main.output_indexes)
            if all(dimensions and 0 not in dimensions for dimensions in expected):
                return expected
        found = execution_dimensions(self._model, given)
        return tuple(found[index] for index in main.output_indexes)


def _bind(bind: Callable[..., None], name: str, element_type: int, argument: Argument) -> None:
    if argument.data is not None:
        bind(name, "cpu", 0, element_type, argument.dimensions, argument.data.ctypes.data)


class BoundSession:
    """A session with its inputs and outputs bound to memory, which ``arguments`` keeps alive."""

    def __init__(
        self, session: OnnxSession, binding: IOBinding, arguments: tuple[Argument, ...], outcome: Outcome
    ) -> None:
        self._runs = StoppableRuns()
        self._run: Callable[[RunOptions], None] = bound_run(session.runtime, binding)
        self._kept = (session, arguments)
        self._outcome = outcome

    def run(self, control: Control) -> Outcome:
        """Run the session, which reads and writes the memory itself."""
        self._runs(control, self._run)
        return self._outcome


class DataDependentSession:
    """A session with outputs whose dimensions depend on data: ONNX Runtime allocates them, and they are copied.

    When they have been the same for some runs, or follow from those of the inputs, it writes them in place. If they
    then turn out to be others, which ONNX Runtime refuses, the run is repeated: for that to be rare, it takes more such
    runs each time.
    """

    def __init__(
        self,
        session: OnnxSession,
        binding: IOBinding,
        read: Sequence[tuple[str, int, int]],
        inputs: Sequence[Argument],
        written: Sequence[tuple[str, int, Argument]],
        forecast: Forecast,
    ) -> None:
        """``read`` has the name, the element type and the position of each input that the session has; ``written`` has
        its outputs, with their element types and memory.
        """
        self._session = session
        self._runs = StoppableRuns()
        self._run: Callable[[RunOptions], None] = bound_run(session.runtime, binding)
        self._binding = binding
        self._forecast = forecast
        self._bind_input, self._bind_output = binders(binding)
        self._lengths = tuple([argument.dimensions for argument in inputs])
        self._kept = inputs
        self._written = [_Output(name, code, *_span(argument), argument) for name, code, argument in written]
        self._read = [_Input(name, code, n, *self._place(inputs[n])) for name, code, n in read]
        self._is_apart = all(one.room >= _size(one.code, self._lengths[one.position]) for one in self._read)
        self._outcome = DONE
        self._is_in_place = False
        self._in_place: tuple[Dimensions, ...] = ()
        self._equal_runs, self._enough_runs = 0, _EQUAL_RUNS
        self._forecast_outputs()

    def resize(self, inputs: Sequence[Dimensions]) -> None:
        """Have the next runs be for these dimensions of inputs, in the memory that they are bound to."""
        before, self._lengths = self._lengths, tuple(inputs)
        self._is_apart = True
        for name, code, position, address, room in self._read:
            dimensions = inputs[position]
            if dimensions != before[position] and address:
                self._bind_input(name, code, dimensions, address)
            if _ITEM_SIZES[code] * prod(dimensions) > room:
                self._is_apart = False
        self._outcome, self._equal_runs = DONE, 0
        self._forecast_outputs()

    def run(self, control: Control) -> Outcome:
        if self._is_in_place:
            try:
                self._runs(control, self._run)
                return self._outcome
            except HalError:
                control.check()  # a run that was stopped is not repeated
                self._is_in_place = False
                self._enough_runs *= 2
        self._binding.clear_binding_outputs()
        for output in self._written:
            self._binding.bind_output(output.name, "cpu")
        self._runs(control, self._run)
        results: list[OrtValue] = self._binding.get_outputs()
        for result, output in zip(results, self._written, strict=True):
            _copy_out(result.data_ptr(), _size(output.code, tuple(result.shape())), output.argument)
        found = tuple(tuple(result.shape()) for result in results)
        self._forecast.note(self._lengths, found)
        self._note(found)
        return self._outcome

    def _note(self, dimensions: tuple[Dimensions, ...]) -> None:
        """Note the dimensions of a run, and write the next outputs in place if they have been the same for long."""
        if dimensions != self._outcome.dimensions:
            self._outcome, self._equal_runs = Outcome(dimensions), 0
        self._equal_runs += 1
        if self._equal_runs < self._enough_runs:
            return
        self._equal_runs = 0
        self._write_in_place(dimensions)

    def _write_in_place(self, dimensions: tuple[Dimensions, ...]) -> None:
        """Have the next outputs, of these dimensions, written to the memory of the request if they can be."""
        if not self._is_apart:  # a run may be repeated, and so must not write what it reads
            self._is_in_place = False
            return
        for output, found in zip(self._written, dimensions, strict=True):
            if output.address and not 0 < _ITEM_SIZES[output.code] * prod(found) <= output.room:
                self._is_in_place = False
                return
        if not self._is_in_place:
            self._binding.clear_binding_outputs()
            self._in_place = ((),) * len(dimensions)
        for output, before, found in zip(self._written, self._in_place, dimensions, strict=True):
            if not output.address:
                self._binding.bind_output(output.name, "cpu")
            elif found != before:
                self._bind_output(output.name, output.code, found, output.address)
        self._is_in_place, self._in_place = True, dimensions

    def _forecast_outputs(self) -> None:
        """Have the next run write in place if the dimensions of outputs follow from those of inputs."""
        expected = self._forecast.of(self._lengths)
        if expected is None:
            self._is_in_place = False
        else:
            self._outcome = Outcome(expected)
            self._write_in_place(expected)

    def _place(self, argument: Argument) -> tuple[int, int]:
        """Return where an input begins, and how many bytes it may have there before an output begins."""
        start, _ = _span(argument)
        if not start:
            return 0, MAX_OPERAND_BYTES
        spans = [(output.address, output.address + output.room) for output in self._written if output.address]
        if any(first <= start < end for first, end in spans):
            return start, 0
        return start, min((first - start for first, _ in spans if first > start), default=MAX_OPERAND_BYTES)


class Forecast:
    """Dimensions of a model's outputs, learnt from its runs: those that follow from lengths of inputs.

    A length of an output follows if it has been that of one axis of an input plus a constant, or a constant, in all
    runs so far, such as the length of a cache after a step. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._rules: tuple[tuple[frozenset[tuple[int, int]], ...], ...] | None = None
        self._first: Sequence[Dimensions] = ()
        self._followed: list[list[tuple[int, int]]] | None = None
        """For each length of the outputs, which length it follows, 0 for none, and by how much it is more. None until
        runs with other lengths than the first have been noted, since one run says nothing of others.
        """

    def note(self, inputs: Sequence[Dimensions], outputs: Sequence[Dimensions]) -> None:
        """Note the dimensions of a run."""
        lengths = (0, *(length for dimensions in inputs for length in dimensions))
        found = tuple(
            tuple(frozenset((n, length - given) for n, given in enumerate(lengths)) for length in dimensions)
            for dimensions in outputs
        )
        rules = self._rules
        if rules is None or list(map(len, rules)) != list(map(len, found)):
            self._rules, self._first, self._followed = found, inputs, None
            return
        self._rules = tuple(
            tuple(known & seen for known, seen in zip(*pair, strict=True)) for pair in zip(rules, found, strict=True)
        )
        if not all(rule for axes in self._rules for rule in axes):
            self._followed = None
        elif self._followed is not None or tuple(inputs) != tuple(self._first):
            self._followed = [[min(rule) for rule in axes] for axes in self._rules]

    def of(self, inputs: Sequence[Dimensions]) -> tuple[Dimensions, ...] | None:
        """The dimensions of the outputs of a run; None if they do not follow."""
        followed = self._followed
        if followed is None:
            return None
        lengths = [0, *(length for dimensions in inputs for length in dimensions)]
        return tuple([tuple([lengths[n] + more for n, more in axes]) for axes in followed])


class ValueSession:
    """A session with inputs or outputs that are not tensors of numbers: they are decoded and encoded."""

    def __init__(
        self,
        session: OnnxSession,
        names: Sequence[str],
        types: Sequence[int],
        inputs: Sequence[tuple[str, int, Argument]],
        outputs: Sequence[Argument],
    ) -> None:
        self._kept = session
        self._runs = StoppableRuns()
        self._run_named = named_run(session.runtime)
        self._names = list(names)
        self._types = types
        self._inputs = inputs
        self._outputs = outputs
        self._outcome = DONE

    def run(self, control: Control) -> Outcome:
        results = self._runs(control, self._run)
        written = [_encoded(code, result) for code, result in zip(self._types, results, strict=True)]
        for array, argument in zip(written, self._outputs, strict=True):
            _write(array, argument)
        dimensions = tuple([array.shape for array in written])
        if dimensions != self._outcome.dimensions:  # results of one outcome are encoded once
            self._outcome = Outcome(dimensions)
        return self._outcome

    def _run(self, options: RunOptions) -> Sequence[Any]:
        feeds = {name: _read(code, argument) for name, code, argument in self._inputs}
        return self._run_named(self._names, feeds, options)


class Idle:
    """A workload that writes nothing: every output is omitted, empty, or larger than its memory."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def run(self, control: Control) -> Outcome:
        control.check()
        return self._outcome


class _Input(NamedTuple):
    """An input of a session, by its position among the arguments, and the bytes that it may have where it lies."""

    name: str
    code: int
    position: int
    address: int
    room: int


class _Output(NamedTuple):
    """An output of a session, and its memory; the address is 0 if it is omitted."""

    name: str
    code: int
    address: int
    room: int
    argument: Argument


def _size(code: int, dimensions: Dimensions) -> int:
    return _ITEM_SIZES[code] * prod(dimensions)


def _span(argument: Argument) -> tuple[int, int]:
    """Return where an argument begins in memory, and its bytes; zeros if it is omitted."""
    return (0, 0) if argument.data is None else (argument.data.ctypes.data, len(argument.data))


def _copy_out(address: int, size: int, argument: Argument) -> None:
    if argument.data is not None and 0 < size <= len(argument.data):
        ctypes.memmove(argument.data.ctypes.data, address, size)  # without the interpreter's lock


def _write(array: Array, argument: Argument) -> None:
    if array.nbytes > _SMALL_BYTES:
        _copy_out(array.ctypes.data, array.nbytes, argument)
    elif argument.data is not None and 0 < array.nbytes <= len(argument.data):
        argument.data[: array.nbytes] = array.reshape(-1).view(np.uint8)


def _read(code: int, argument: Argument) -> Any:
    if argument.data is None:
        return None
    if code == VALUE:
        return value_from_bytes(_copied(argument.data, prod(argument.dimensions)))
    element, count = ELEMENT_TYPES[code], prod(argument.dimensions)
    return _copied(argument.data, count * element.itemsize).view(element).reshape(argument.dimensions)


def _copied(data: Bytes, size: int) -> Bytes:
    """A copy that is made without the interpreter's lock, if it takes longer than to let go of that."""
    if size <= _SMALL_BYTES:
        return data[:size].copy()
    copy = np.empty(size, np.uint8)
    ctypes.memmove(copy.ctypes.data, data.ctypes.data, size)
    return copy


def _encoded(code: int, result: Any) -> Array:
    if code == VALUE:
        return np.frombuffer(value_to_bytes(result), np.uint8)
    return np.ascontiguousarray(result, ELEMENT_TYPES[code]).reshape(np.shape(result))
