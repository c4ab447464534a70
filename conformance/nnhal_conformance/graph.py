"""Builders of small models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnhal.types import DataLocation, Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import ELEMENT_TYPES, Dimensions

F32, I32 = OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32
Q8 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED


def operand_of(code: OperandType, dimensions: Dimensions) -> Operand:
    """Return an operand. One of 8 bits stands for the numbers that it holds: its scale is 1."""
    return Operand(code, dimensions, scale=1.0 if code == Q8 else 0.0)


class SpecimenBuilder:
    """Builds a model of subgraphs that share the memory of constants. The first subgraph is main."""

    def __init__(self) -> None:
        self.values = bytearray()
        self._graphs: list[SubgraphBuilder] = []

    def graph(self) -> SubgraphBuilder:
        """Begin a subgraph."""
        self._graphs.append(SubgraphBuilder(self, len(self._graphs)))
        return self._graphs[-1]

    def model(self) -> Model:
        main, *referenced = (graph.build() for graph in self._graphs)
        return Model(main, tuple(referenced), bytes(self.values))


class SubgraphBuilder:
    """Builds one subgraph. Methods return the indexes of the operands that they add."""

    def __init__(self, program: SpecimenBuilder, number: int) -> None:
        self._program = program
        self._number = number
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._outputs: tuple[int, ...] = ()

    def input(self, code: OperandType, dimensions: Dimensions) -> int:
        """Add an input of the subgraph."""
        return self.add_input(operand_of(code, dimensions))

    def add_input(self, operand: Operand) -> int:
        """Add an input of the subgraph, of a given operand."""
        return self._add(replace(operand, lifetime=OperandLifeTime.SUBGRAPH_INPUT))

    def constant(self, code: OperandType, values: Any) -> int:
        """Add a constant; 0-d values make a scalar."""
        array = np.asarray(values).astype(ELEMENT_TYPES[code])
        memory = self._program.values
        location = DataLocation(0, len(memory), array.nbytes)
        memory.extend(array.tobytes())
        return self._add(Operand(code, array.shape, lifetime=OperandLifeTime.CONSTANT_COPY, location=location))

    def reference(self, graph: SubgraphBuilder) -> int:
        """Add a reference to another subgraph, which is not main."""
        location = DataLocation(offset=graph._number - 1)
        return self._add(Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH, location=location))

    def operation(self, code: OperationType, inputs: Sequence[int], output: Operand) -> int:
        """Add an operation of one output."""
        return self.operation_of_outputs(code, inputs, output)[0]

    def operation_of_outputs(self, code: OperationType, inputs: Sequence[int], *outputs: Operand) -> tuple[int, ...]:
        """Add an operation of some outputs."""
        indexes = tuple(self._add(output) for output in outputs)
        self._operations.append(Operation(code, tuple(inputs), indexes))
        return indexes

    def returns(self, *outputs: int) -> None:
        """Set the outputs."""
        self._outputs = outputs

    def build(self) -> Subgraph:
        operands = list(self._operands)
        for index in self._outputs:
            operands[index] = replace(operands[index], lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
        inputs = tuple(i for i, o in enumerate(operands) if o.lifetime == OperandLifeTime.SUBGRAPH_INPUT)
        return Subgraph(tuple(operands), tuple(self._operations), inputs, self._outputs)

    def _add(self, operand: Operand) -> int:
        self._operands.append(operand)
        return len(self._operands) - 1
