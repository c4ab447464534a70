"""A cost model for drivers: the work of an operation, and the time that a device takes for it.

The time follows the roofline model (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009): a fixed overhead, plus
the longer of the arithmetic and the memory traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from nnhal.operations import DEFINITIONS
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import (
    Capabilities,
    Operand,
    OperandPerformance,
    OperandType,
    Operation,
    OperationType,
    PerformanceInfo,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, is_extension

_QUANTISED = {OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED}


class OperationWork(NamedTuple):
    """Multiply-adds (or simple steps, one for one), and the bytes of all inputs and outputs."""

    macs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Roofline:
    """The roofline of a device."""

    overhead_ns: float
    """Before each operation."""

    bytes_per_ns: float

    default_macs_per_ns: float
    """For types that ``macs_per_ns`` lacks."""

    macs_per_ns: Mapping[int, float]
    """Multiply-adds per nanosecond, by the type of an operation's first input."""

    quantised_macs_per_ns: Mapping[int, float] = field(default_factory=dict)
    """Those of operations whose first input is of 8 bits, by the operation, if it is not as fast as others."""

    def duration_ns(self, work: OperationWork, code: int, kind: int = -1) -> float:
        """The time of one operation of a ``kind`` whose first input has type ``code``."""
        rate = self.macs_per_ns.get(code, self.default_macs_per_ns)
        if code in _QUANTISED:
            rate = self.quantised_macs_per_ns.get(kind, rate)
        arithmetic = work.macs / rate
        return self.overhead_ns + max(arithmetic, work.bytes / self.bytes_per_ns)

    def operation_ns(self, model: ResolvedModel) -> list[float]:
        """The time of each operation of main."""
        graph = model.model.main
        return [
            self.duration_ns(work, graph.operands[operation.inputs[0]].type if operation.inputs else -1, operation.type)
            for operation, work in zip(graph.operations, work_of(model), strict=True)
        ]

    def capabilities(self, reference: Roofline, power: float, types: Sequence[OperandType]) -> Capabilities:
        """The HAL's ratios to ``reference`` for the given types. They compare arithmetic only: a ratio knows no sizes.

        ``power`` is the ratio of the energy of a multiply-add.
        """

        def info(code: int) -> PerformanceInfo:
            ours = self.macs_per_ns.get(code, self.default_macs_per_ns)
            return PerformanceInfo(reference.macs_per_ns.get(code, reference.default_macs_per_ns) / ours, power)

        relaxed = info(OperandType.TENSOR_FLOAT16)
        return Capabilities(
            relaxed_float32_to_float16_scalar=relaxed,
            relaxed_float32_to_float16_tensor=relaxed,
            operand_performance=tuple(OperandPerformance(code, info(code)) for code in sorted(types)),
            if_performance=PerformanceInfo(1.0, power),
            while_performance=PerformanceInfo(1.0, power),
        )


def work_of(model: ResolvedModel, subgraph: int = 0) -> list[OperationWork]:
    """The work of each operation of a subgraph. Unknown axes count as 1, IF as its longer branch, WHILE as one pass."""
    return _work_of(model, subgraph, {})


def _work_of(model: ResolvedModel, subgraph: int, known: dict[int, OperationWork]) -> list[OperationWork]:
    """``known`` caches the work of referenced subgraphs: one may be referenced many times."""
    graph = model.subgraphs[subgraph]
    dimensions = propagate_dimensions(model, subgraph)
    elements = [prod([axis or 1 for axis in each]) for each in dimensions]
    sizes = [count * _item_size(operand.type) for count, operand in zip(elements, graph.operands, strict=True)]
    return [
        _control_flow_work(model, operation, graph.operands, known)
        if operation.type in (OperationType.IF, OperationType.WHILE)
        else _work(operation, dimensions, elements, sizes)
        for operation in graph.operations
    ]


def _item_size(code: int) -> int:
    element = ELEMENT_TYPES.get(code)
    return 1 if element is None else element.itemsize


def _work(
    operation: Operation, dimensions: Sequence[Dimensions], elements: Sequence[int], sizes: Sequence[int]
) -> OperationWork:
    """The work of an operation, given the dimensions, the elements and the bytes of all operands of its subgraph."""
    moved = sum([sizes[index] for index in {*operation.inputs, *operation.outputs}])
    written = sum([elements[index] for index in operation.outputs])
    if is_extension(operation.type):
        return OperationWork(written, moved)
    rule = DEFINITIONS[OperationType(operation.type)].work
    if rule is not None:
        given = [tuple(axis or 1 for axis in dimensions[index]) or (1,) for index in operation.inputs]
        return OperationWork(rule(given, written), moved)
    return OperationWork(max(written, *[elements[index] for index in operation.inputs], 1), moved)


def _control_flow_work(
    model: ResolvedModel, operation: Operation, operands: Sequence[Operand], known: dict[int, OperationWork]
) -> OperationWork:
    references = [1 + operands[i].location.offset for i in operation.inputs if operands[i].type == OperandType.SUBGRAPH]
    for number in references:
        if number not in known:
            body = _work_of(model, number, known)
            known[number] = OperationWork(sum(w.macs for w in body), sum(w.bytes for w in body))
    sums = [known[number] for number in references]
    if operation.type == OperationType.IF:
        return max(sums, default=OperationWork(0, 0))
    return OperationWork(sum(w.macs for w in sums), sum(w.bytes for w in sums))
