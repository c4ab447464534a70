"""A part as the machine runs it: its operations in order, for any box of its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Operation
from nnhal.types.layout import is_scalar
from nnhal_cascade.geometry.box import Box, Interval, Shape, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part, PartInput
from nnhal_cascade.graph.running_sums import sums_read
from nnhal_cascade.machine.arithmetic import stripe_kernel
from nnhal_cascade.machine.arithmetic.kernel import OperationCall, StripeKernel, shape_of
from nnhal_cascade.machine.arithmetic.running_sums import SUMS, AverageOfSums
from nnhal_cascade.machine.errors import StreamError


class Given(NamedTuple):
    """A box of a part's input, and its values."""

    box: Box
    values: Array


class _Source(NamedTuple):
    """Source of an activation of an operation: an earlier operation of the part, or an input of the part."""

    made: bool
    """True if an operation of the part makes it."""
    number: int
    """The number of the operation or of the input."""
    shape: Shape
    """The shape that it is made in, which may be another view of the same bytes than the reader's."""


class _Step(NamedTuple):
    """An operation of a part."""

    kernel: StripeKernel
    sources: tuple[_Source, ...]


class Programs:
    """Builds the programs of a model's parts."""

    def __init__(self, graph: CascaderGraph, model: ResolvedModel) -> None:
        self._graph, self._model = graph, model
        self._dimensions = propagate_dimensions(model)

    def dimensions(self, operand: int) -> tuple[int, ...]:
        """Return an operand's dimensions."""
        return self._dimensions[operand]

    def constants(self, part: Part) -> list[Array]:
        """Return the constant tensors that a part's operations read."""
        main, values = self._model.model.main, self._model.constants[0]
        used = dict.fromkeys(index for number in part.operations for index in main.operations[number].inputs)
        return [values[index] for index in used if index in values and not is_scalar(main.operands[index].type)]

    def program(self, part: Part) -> PartProgram:
        """Build a part's program; one without operations copies, or sums up.

        Raises ValueError for operations that do not make the part.
        """
        if part.operation in SUMS:
            return PartProgram(part.name, (), SUMS[part.operation])
        made: dict[int, int] = {}
        steps: list[_Step] = []
        unread = dict(enumerate(part.inputs))
        for number in part.operations:
            operation = self._model.model.main.operations[number]
            output, position = self._output(part, operation)
            call = OperationCall(
                self._model.context(0, number, self._dimensions), shape_of(self._dimensions[output]), position
            )
            sums = sums_read(self._graph, part.index) if not steps else None
            if sums is not None:
                shape = self._graph.tensors[sums].shape
                kernel: StripeKernel = AverageOfSums(call, shape)
                sources: tuple[_Source, ...] = (_Source(False, 0, shape),)
            else:
                kernel = stripe_kernel(call)
                operands = (operation.inputs[index] for index in call.activations)
                sources = tuple(self._source(part, made, unread, operand) for operand in operands)
            steps.append(_Step(kernel, sources))
            made[output] = len(steps) - 1
        return PartProgram(part.name, tuple(steps))

    def _output(self, part: Part, operation: Operation) -> tuple[int, int]:
        """The output that the part is about, and its position. Only a part's last operation may have several."""
        wanted = self._graph.tensors[part.output].operand
        position = operation.outputs.index(wanted) if wanted in operation.outputs else 0
        return operation.outputs[position], position

    def _source(self, part: Part, made: Mapping[int, int], unread: dict[int, PartInput], operand: int) -> _Source:
        """Return where an activation comes from.

        An operation that reads a tensor twice has an input of the part for each, but an island one for both.
        """
        if operand in made:
            return _Source(True, made[operand], shape_of(self._dimensions[operand]))
        read = self._graph.tensor_of.get(operand)
        for position, each in [*unread.items(), *enumerate(part.inputs)]:
            # A copy of a tensor has the tensor's operand.
            if read is not None and self._graph.tensors[each.tensor].operand == self._graph.tensors[read].operand:
                unread.pop(position, None)
                return _Source(False, position, self._graph.tensors[each.tensor].shape)
        raise ValueError(f"{part.name} reads operand {operand}, which is none of its inputs")


class PartProgram:
    """The operations of a part. It holds no state between runs."""

    def __init__(
        self, name: str, steps: tuple[_Step, ...], sums: Callable[[Sequence[Array]], Array] | None = None
    ) -> None:
        self._name, self._steps, self._sums = name, steps, sums

    def run(self, output: Box, given: Sequence[Given]) -> Array:
        """Compute a box of the part's output. Raises StreamError if it needs more than is given."""
        if self._sums is not None:
            return self._sums([each.values for each in given])
        if not self._steps:
            return self._fetched(_Source(False, 0, output.shape), output, given)
        return self._made(len(self._steps) - 1, output, given)

    def _made(self, number: int, output: Box, given: Sequence[Given]) -> Array:
        kernel, sources = self._steps[number]
        return kernel.compute(
            output,
            [
                self._viewed(source, view, box, given)
                for source, view, box in zip(sources, kernel.inputs, kernel.reads(output), strict=True)
            ],
        )

    def _viewed(self, source: _Source, view: Shape, box: Box, given: Sequence[Given]) -> Array:
        """A box of an activation in the reader's view: if that is not how it is made, all of it is needed."""
        if source.shape == view:
            return self._fetched(source, box, given)
        everything = self._fetched(source, whole(source.shape), given)
        return np.ascontiguousarray(everything).reshape(view)[tuple(slice(*interval) for interval in box)]

    def _fetched(self, source: _Source, box: Box, given: Sequence[Given]) -> Array:
        if source.made:
            return self._made(source.number, box, given)
        have, values = given[source.number]
        if box == have:
            return values
        if 0 in box.shape:
            return np.empty(box.shape, values.dtype)
        if any(need.start < had.start or need.stop > had.stop for need, had in zip(box, have, strict=True)):
            raise StreamError(
                f"a stripe of {self._name} needs {_described(box)} of its input {source.number}, it is given "
                f"{_described(have)}"
            )
        return values[
            tuple(slice(need.start - had.start, need.stop - had.start) for need, had in zip(box, have, strict=True))
        ]


def _described(box: Box) -> str:
    rows, columns, channels = map(_span, box)
    return f"rows {rows}, columns {columns} and channels {channels}"


def _span(interval: Interval) -> str:
    return f"{interval.start}..{interval.stop - 1}" if interval.length else "none"
