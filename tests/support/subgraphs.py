"""Building models with several subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal.validation import validate_model

I32, B8, INT32 = OperandType.TENSOR_INT32, OperandType.TENSOR_BOOL8, OperandType.INT32


@dataclass
class Program:
    """Subgraphs that share the memory of their constants. The first one is main."""

    graphs: list[Graph] = field(default_factory=list)
    values: bytearray = field(default_factory=bytearray)

    def graph(self) -> Graph:
        self.graphs.append(Graph(self, len(self.graphs)))
        return self.graphs[-1]

    def model(self) -> Model:
        main, *referenced = (graph.build() for graph in self.graphs)
        return Model(main, tuple(referenced), bytes(self.values))

    def resolved(self) -> ResolvedModel:
        model = self.model()
        validate_model(model)
        return ResolvedModel(model, inline_constants(model))


class Graph:
    """A builder of a subgraph. Methods return the indexes of the operands that they add."""

    def __init__(self, program: Program, number: int) -> None:
        self.number = number
        self.operands: list[Operand] = []
        self._program = program
        self._operations: list[Operation] = []
        self._outputs: tuple[int, ...] = ()

    def input(
        self, dimensions: Dimensions = (1,), code: OperandType = I32, scale: float = 0.0, zero_point: int = 0
    ) -> int:
        lifetime = OperandLifeTime.SUBGRAPH_INPUT
        return self._add(Operand(code, dimensions, scale=scale, zero_point=zero_point, lifetime=lifetime))

    def constant(self, values: Any, code: OperandType = I32) -> int:
        array = np.asarray(values).astype(ELEMENT_TYPES[code])
        values_ = self._program.values
        values_.extend(bytes(-len(values_) % 4))
        location = DataLocation(0, len(values_), array.nbytes)
        values_.extend(array.tobytes())
        return self._add(Operand(code, array.shape, lifetime=OperandLifeTime.CONSTANT_COPY, location=location))

    def reference(self, graph: Graph) -> int:
        """Add a reference to another subgraph, which must not be main."""
        location = DataLocation(offset=graph.number - 1)
        return self._add(Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH, location=location))

    def operation(self, code: OperationType, inputs: Sequence[int], *outputs: Operand) -> int:
        """Add an operation and return the index of its first output; the others follow."""
        indexes = [self._add(output) for output in outputs]
        self._operations.append(Operation(code, tuple(inputs), tuple(indexes)))
        return indexes[0]

    def add(self, first: int, second: int, dimensions: Dimensions = (1,)) -> int:
        return self.operation(OperationType.ADD, [first, second, self.constant(0, INT32)], Operand(I32, dimensions))

    def less(self, first: int, second: int) -> int:
        """Add ``first < second`` of integers."""
        return self.operation(OperationType.LESS, [first, second], Operand(B8, (1,)))

    def returns(self, *outputs: int) -> Graph:
        self._outputs = outputs
        return self

    def build(self) -> Subgraph:
        operands = list(self.operands)
        for index in self._outputs:
            operands[index] = replace(operands[index], lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
        inputs = tuple(i for i, o in enumerate(operands) if o.lifetime == OperandLifeTime.SUBGRAPH_INPUT)
        return Subgraph(tuple(operands), tuple(self._operations), inputs, self._outputs)

    def _add(self, operand: Operand) -> int:
        self.operands.append(operand)
        return len(self.operands) - 1


def nested(depth: int) -> Program:
    """Return an IF in an IF and so on, each with one subgraph as both of its branches; the innermost adds x to x."""
    program = Program()
    graphs = [program.graph() for _ in range(depth + 1)]
    for graph, inner in pairwise(graphs):
        decide, x, reference = graph.constant([1], B8), graph.input(), graph.reference(inner)
        graph.returns(graph.operation(OperationType.IF, [decide, reference, reference, x], Operand(I32, (1,))))
    x = graphs[-1].input()
    graphs[-1].returns(graphs[-1].add(x, x))
    return program


def branches(
    then: Dimensions = (1,), otherwise: Dimensions = (1,), inner: Dimensions = (1,), result: Dimensions = (1,)
) -> Model:
    """Return an IF of x and y whose branches have one addition and two; the model is not validated.

    ``then`` and ``otherwise`` are the dimensions of the branches' inputs, ``inner`` those of their results, and
    ``result`` those of the IF's output.
    """
    program = Program()
    main, single, double = (program.graph() for _ in range(3))
    for graph, dimensions, additions in ((single, then, 1), (double, otherwise, 2)):
        x, y = graph.input(dimensions), graph.input()
        for _ in range(additions):
            x = graph.add(x, y, inner)
        graph.returns(x)
    inputs = [main.input(code=B8), main.reference(single), main.reference(double), main.input(), main.input()]
    main.returns(main.operation(OperationType.IF, inputs, Operand(I32, result)))
    return program.model()


def counting_loop(
    start: Dimensions = (1,), condition_input: Dimensions = (1,), body_input: Dimensions = (1,), body: Dimensions = (1,)
) -> Model:
    """Return ``while i < n: i = i + n``; the model is not validated.

    The dimensions are those of i in main and in both subgraphs, and those of the body's result.
    """
    program = Program()
    main, compare, advance = (program.graph() for _ in range(3))
    compare.returns(compare.less(compare.input(condition_input), compare.input()))
    advance.returns(advance.add(advance.input(body_input), advance.input(), body))
    inputs = [main.reference(compare), main.reference(advance), main.input(start), main.input()]
    main.returns(main.operation(OperationType.WHILE, inputs, Operand(I32, start)))
    return program.model()
