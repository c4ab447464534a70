"""A number of bytes below which no schedule of a graph can be, whatever its order, cascades and stripes.

One bound is about two parts. If a pooling averages whole channels of a tensor, all pixels of a channel are there when
the first channel is done. Each other channel of a pixel has been computed by then, and waits; or it is computed later,
and all channels that it depends on wait. So each pixel holds the smaller of both. This holds if nothing is computed
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part, PartInput


class MemoryBound(NamedTuple):
    """A lower bound of the working memory, if all tensors lie there."""

    bytes: int
    why: str
    """A sentence without a full stop."""


def memory_bound(graph: CascaderGraph, recompute: bool = False) -> MemoryBound:
    """Return a lower bound: the most memory that the inputs, the outputs, or one element of any part needs.

    Apart from poolings, unless values may be computed twice, it looks at one part at a time: so it can be far below
    what is possible.
    """
    inputs = sum(tensor.bytes for tensor in graph.tensors if tensor.is_input)
    outputs = sum(tensor.bytes for tensor in graph.tensors if tensor.is_output)
    found = [
        MemoryBound(inputs, "its inputs are there as a whole when it starts"),
        MemoryBound(outputs, "its outputs are there as a whole when it ends"),
    ]
    found += (MemoryBound(each, f"one element of {part.name} depends on as much") for part, each in _needs(graph))
    if not recompute:
        found += _waiting(graph)
    return max(found, key=lambda each: each.bytes)


def _waiting(graph: CascaderGraph) -> Iterator[MemoryBound]:
    """Return the bytes that wait at the first channel of each pooling of whole channels behind a convolution pixel by
    pixel.
    """
    for part in graph.parts:
        if len(part.inputs) != 1:
            continue
        (read,) = part.inputs
        tensor, maker = graph.tensors[read.tensor], graph.producers[read.tensor]
        shape = tensor.shape
        pixel = Box(Interval(0, 1), Interval(0, 1), Interval(0, 1))
        if maker is None or read.needs(pixel) != Box(Interval(0, shape.rows), Interval(0, shape.columns), pixel[2]):
            continue
        for each in graph.parts[maker].inputs:
            given = graph.tensors[each.tensor]
            if _is_pixel_by_pixel(each, shape, given.shape):
                held = min((shape.channels - 1) * tensor.element_bytes, given.shape.channels * given.element_bytes)
                why = f"{part.name} ends with its first channel when as much of the others waits"
                yield MemoryBound(shape.rows * shape.columns * held, why)


def _is_pixel_by_pixel(read: PartInput, made: Shape, given: Shape) -> bool:
    """Return whether each pixel depends on all channels of the same pixel."""
    if made[:2] != given[:2]:
        return False
    last = Interval(made.rows - 1, made.rows), Interval(made.columns - 1, made.columns)
    corners = (Interval(0, 1), Interval(0, 1)), last
    channels = Interval(0, given.channels)
    return all(read.needs(Box(*corner, Interval(0, 1))) == Box(*corner, channels) for corner in corners)


def _needs(graph: CascaderGraph) -> Iterator[tuple[Part, int]]:
    """The bytes of the inputs that the middle element of a part's output depends on."""
    for part in graph.parts:
        middle = Box(*(Interval(extent // 2, extent // 2 + 1) for extent in graph.tensors[part.output].shape))
        needed: dict[int, int] = {}
        for each in part.inputs:
            size = each.needs(middle).shape.elements * graph.tensors[each.tensor].element_bytes
            needed[each.tensor] = max(size, needed.get(each.tensor, 0))
        yield part, sum(needed.values())
