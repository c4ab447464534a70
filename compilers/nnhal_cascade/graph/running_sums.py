"""Poolings of whole channels that take rows as they arrive, so that what they average is never there as a whole.

The NPU keeps no accumulators between operations, so the sums lie in the working memory, as Vela has them for means of
more than 4,096 elements: a sum over each row, with an output of int32; an ADD of int32 to the sums of the rows before;
and when all rows are there a multiplication that makes averages of the sums. These are three parts. The second one
reads its own output of the row before. In a cascade along the rows they take 12 bytes a channel: one row of the first
part, two of the second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nnhal.operations.operand_types import QUANT8
from nnhal.resolved import ResolvedModel
from nnhal.types import OperationType
from nnhal_cascade.geometry.accesses import EMPTY, AffineRow, Everything, OneToOne, Shifted
from nnhal_cascade.geometry.box import Box, Interval, Shape, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph, CascaderTensor, Kernel, Part, PartInput, PartKind

ROW_SUMS, RUNNING_SUMS = "ROW_SUMS", "RUNNING_SUMS"
"""The operations of the first two parts."""

_SUMS = frozenset({ROW_SUMS, RUNNING_SUMS})

_SUM_BYTES = 4
_AVERAGES = frozenset({OperationType.AVERAGE_POOL_2D, OperationType.MEAN})


@dataclass(frozen=True, slots=True)
class Before:
    """A stripe of the output depends on the element before it: on one that is computed already."""

    def needs(self, wanted: Interval) -> Interval:
        """Return the element before the interval, nothing before the first."""
        return Interval(wanted.start - 1, wanted.start) if 0 < wanted.start < wanted.stop else EMPTY

    def affine(self) -> AffineRow:
        """Return one element, the one before."""
        return AffineRow(1, 0, -1)


def runs_on(graph: CascaderGraph, part: int) -> bool:
    """Return whether a part reads its own output, and so goes from the first row to the last."""
    node = graph.parts[part]
    return any(each.tensor == node.output for each in node.inputs)


def sums_read(graph: CascaderGraph, part: int) -> int | None:
    """Return the tensor of running sums whose last row a part reads, None if there is none."""
    for each in graph.parts[part].inputs:
        producer = graph.producers[each.tensor]
        if producer is not None and producer != part and runs_on(graph, producer):
            return each.tensor
    return None


def sums_up(graph: CascaderGraph, tensor: int) -> bool:
    """Return whether a tensor has sums of int32."""
    producer = graph.producers[tensor]
    return producer is not None and graph.parts[producer].operation in _SUMS


def with_running_sums(graph: CascaderGraph, model: ResolvedModel) -> CascaderGraph:
    """Return a graph in which each pooling of whole channels of 8 bits takes its input row by row.

    A mean from one scale to another is computed in floats, whose sums depend on the order, and stays as it is.
    """
    tensors, parts = list(graph.tensors), list[Part]()
    for part in graph.parts:
        if _averages_channels(graph, part, model):
            parts += _lowered(part, len(parts), tensors)
        else:
            parts.append(replace(part, index=len(parts)))
    return CascaderGraph(tuple(parts), tuple(tensors), graph.tensor_of)


def _averages_channels(graph: CascaderGraph, part: Part, model: ResolvedModel) -> bool:
    main = model.model.main
    first = main.operations[part.operations[0]] if part.operations else None
    if first is None or first.type not in _AVERAGES or len(part.inputs) != 1:
        return False
    (read,) = part.inputs
    shape, made = graph.tensors[read.tensor].shape, graph.tensors[part.output].shape
    pixel = Interval(0, 1)
    return (
        main.operands[first.inputs[0]].type in QUANT8
        and shape.rows > 1
        and made == Shape(1, 1, shape.channels)
        and read.needs(Box(pixel, pixel, pixel)) == whole(shape)._replace(channels=pixel)
    )


def _lowered(part: Part, index: int, tensors: list[CascaderTensor]) -> Iterator[Part]:
    """The three parts of a pooling; the tensors between them are added to the others."""
    (read,) = part.inputs
    given = tensors[read.tensor]
    rows, columns, channels = given.shape
    between = []
    for what in ("sums of rows", "sums"):
        between.append(len(tensors))
        tensors.append(
            CascaderTensor(
                len(tensors),
                f"{tensors[part.output].name} ({what})",
                Shape(rows, 1, channels),
                given.operand,
                element_bytes=_SUM_BYTES,
            )
        )
    each = OneToOne(channels)
    row, total = between
    yield Part(
        index,
        f"{part.name}, sums of rows",
        PartKind.POOLING,
        (),
        (PartInput(read.tensor, OneToOne(rows), Everything(columns), each),),
        row,
        Kernel(1, columns),
        operation=ROW_SUMS,
    )
    yield Part(
        index + 1,
        f"{part.name}, sums",
        PartKind.ELEMENTWISE,
        (),
        (PartInput(row, OneToOne(rows), OneToOne(1), each), PartInput(total, Before(), OneToOne(1), each)),
        total,
        operation=RUNNING_SUMS,
    )
    last = PartInput(total, Shifted(rows, 1 - rows), OneToOne(1), each)
    yield replace(part, index=index + 2, kind=PartKind.ELEMENTWISE, inputs=(last,), kernel=Kernel())
