"""Vela's schedules as plans of nnhal's compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from benchmarks.compilers.reports import VelaBuffer, VelaOperation, VelaSchedule
from nnhal_cascade.geometry.box import Axis, Interval, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part
from nnhal_cascade.plans.plan import Plan, WeightsIn


@dataclass(frozen=True, slots=True)
class VelaPlan:
    """A plan that does what Vela does with some operations."""

    plan: Plan
    slices: tuple[Interval, ...] = ()
    """The channels that Vela copies and computes one after the other, if it does. Slices may differ in extent, and
    stripes may not: the plan has the largest."""


_KINDS = {
    "CONV_2D": "Conv2D",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "MEAN": "DepthwiseConv2D",
    "FULLY_CONNECTED": "FullyConnected",
    "AVERAGE_POOL_2D": "AvgPool",
    "MAX_POOL_2D": "MaxPool",
    "BATCH_MATMUL": "MatMul",
    "TRANSPOSE_CONV_2D": "TransposeConv2D",
}
"""The name of an operation of Vela's default core, for those that it does not rewrite; others have those of the HAL."""


def nearest_plans(schedule: VelaSchedule, graph: CascaderGraph) -> tuple[VelaPlan, ...]:
    """Return the plans of a schedule as far as operations and parts correspond, in an order of both.

    Parts that Vela computes by other operations run uncut, with their constants copied beforehand, which costs the
    fewest cycles; what Vela does in addition costs nothing. So the price is too low, if anything.
    """
    groups: list[list[tuple[Part, VelaOperation]]] = []
    found = _corresponding(schedule.operations, graph)
    for part in graph.parts:
        operation = found.get(part.index)
        if operation is None:
            shape = graph.tensors[part.output].shape
            operation = VelaOperation(-1, part.name, shape, shape, 0, VelaBuffer.SINGLE)
        cascade = groups and operation.cascade and groups[-1][-1][1].cascade == operation.cascade
        if cascade:
            groups[-1].append((part, operation))
        else:
            groups.append([(part, operation)])
    return tuple(_plan(group, graph) for group in groups)


def _corresponding(operations: Sequence[VelaOperation], graph: CascaderGraph) -> dict[int, VelaOperation]:
    """Return operations by the parts that they compute: the longest common subsequence of kinds and sizes."""
    ours = [(_kind(part.operation), graph.tensors[part.output].shape.elements) for part in graph.parts]
    theirs = [(_kind(each.name), each.output.elements) for each in operations]
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    blocks = matcher.get_matching_blocks()
    return {a + n: operations[b + n] for a, b, size in blocks for n in range(size)}


def _kind(name: str) -> str:
    return _KINDS.get(name, name).replace("_", "").lower()


def _plan(pairs: Sequence[tuple[Part, VelaOperation]], graph: CascaderGraph) -> VelaPlan:
    parts = tuple(part.index for part, _ in pairs)
    tile = whole(graph.tensors[pairs[-1][0].output].shape)
    if len(pairs) == 1:
        (part, operation), *_ = pairs
        slices = tuple(Interval(*pair) for pair in pairwise(operation.slices))
        if operation.buffer is VelaBuffer.DOUBLE and len(slices) > 1:
            extent = max(each.length for each in slices)
            plan = Plan(parts, (extent,), (WeightsIn.DOUBLE_BUFFERED,), (tile,), Axis.CHANNELS)
            return VelaPlan(plan, slices)
        return VelaPlan(Plan(parts, (tile.rows.length,), (_weights(part, operation),), (tile,)))
    weights = tuple(_weights(part, operation) for part, operation in pairs)
    return VelaPlan(Plan(parts, tuple(operation.stripe.rows for _, operation in pairs), weights, (tile,)))


def _weights(part: Part, operation: VelaOperation) -> WeightsIn:
    """Return where the constants of a part are, if it goes along the rows.

    Two buffers within a cascade have no counterpart. Resident weights are what costs the fewest cycles.
    """
    if part.constants is None:
        return WeightsIn.NONE
    return WeightsIn.STREAMED if operation.buffer is VelaBuffer.NONE else WeightsIn.RESIDENT
