"""Shapes, axes, borders, and means along axes."""

from __future__ import annotations

from math import prod

from nnhal_mlip.command.onnx_nodes.node_import import NodeImport
from nnhal_mlip.flow.graph.flow_graph import Attribute

_PAD_MODES = ("constant", "edge", "reflect")


def reshape(each: NodeImport) -> bool:
    """To a constant shape."""
    target = each.constant(1)
    if target is None:
        return False
    given, as_it_is = each.shape(), each.attribute("allowzero", 0)
    sizes = [
        given[axis] if size == 0 and not as_it_is else int(size)
        for axis, size in enumerate(target.reshape(-1).tolist())
    ]
    if 0 in sizes:
        return False
    if -1 in sizes:
        sizes[sizes.index(-1)] = prod(given) // prod(size for size in sizes if size != -1)
    return each.finish("reshape", [each.input()], {"newshape": tuple(sizes)})


def flatten(each: NodeImport) -> bool:
    """Two axes: those before an axis, and the others."""
    shape, axis = each.shape(), each.attribute("axis", 1)
    if axis == 1 and len(shape) > 1:
        return each.finish("batch_flatten", [each.input()])
    axis = axis + len(shape) if axis < 0 else axis
    return each.finish("reshape", [each.input()], {"newshape": (prod(shape[:axis]), prod(shape[axis:]))})


def squeeze(each: NodeImport) -> bool:
    """Axes of length 1 go: those that are named, or all."""
    axes, shape = each.axes(1), each.shape()
    if axes is None:
        return False
    if not axes and not each.has(1) and "axes" not in each.attributes:
        axes = tuple(axis for axis, length in enumerate(shape) if length == 1)
    return each.finish("squeeze", [each.input()], {"axis": axes}) if axes else each.finish("copy", [each.input()])


def unsqueeze(each: NodeImport) -> bool:
    """Axes of length 1 come in between."""
    given = each.integers(1, "axes")
    if given is None:
        return False
    axes = each.axes(1, rank=len(each.shape()) + len(given)) or ()
    shape = list(each.shape())
    for axis in axes:
        shape.insert(axis, 1)
    return each.finish("reshape", [each.input()], {"newshape": tuple(shape)})


def transpose(each: NodeImport) -> bool:
    """Axes in another order; backwards unless it is said."""
    rank = len(each.shape())
    axes = tuple(int(axis) % rank for axis in each.attribute("perm", tuple(reversed(range(rank)))))
    return each.finish("transpose", [each.input()], {"axes": axes})


def concat(each: NodeImport) -> bool:
    """One behind the other along an axis."""
    return each.finish("concatenate", each.all_inputs(), {"axis": int(each.attribute("axis", 1)) % len(each.shape())})


def pad(each: NodeImport) -> bool:
    """A border of constant width and value."""
    shape = each.shape()
    rank, widths, axes = len(shape), each.integers(1, "pads"), each.integers(3, "axes")
    value = each.constant(2)
    mode = each.attribute("mode", "constant")
    if widths is None or axes is None or mode not in _PAD_MODES or min(widths, default=0) < 0:
        return False
    if each.has(2) and value is None:
        return False
    before, after = [0] * rank, [0] * rank
    half = len(widths) // 2
    for position, axis in enumerate(axes or range(rank)):
        before[axis], after[axis] = widths[position], widths[half + position]
    if mode == "reflect" and any(
        max(first, last) >= length for length, first, last in zip(shape, before, after, strict=True)
    ):
        return False
    attributes: dict[str, Attribute] = {
        "pad_width": tuple(width for pair in zip(before, after, strict=True) for width in pair),
        "pad_value": float(each.attribute("value", 0.0) if value is None else value.item()),
        "pad_mode": str(mode),
    }
    return each.finish("pad", [each.input()], attributes)


def slice_axes(each: NodeImport) -> bool:
    """Neighbours along axes, with constant bounds."""
    shape = each.shape()
    starts, ends, axes, steps = (
        each.integers(index, name) for index, name in ((1, "starts"), (2, "ends"), (3, "axes"), (4, "steps"))
    )
    if starts is None or ends is None or axes is None or steps is None or any(step != 1 for step in steps):
        return False
    cuts = []
    for axis, start, end in zip(axes or range(len(starts)), starts, ends, strict=True):
        axis %= len(shape)
        kept = range(*slice(start, end).indices(shape[axis]))
        if not kept:
            return False
        if len(kept) < shape[axis]:
            cuts.append({"axis": axis, "begin": kept.start, "end": kept.stop})
    value = each.input()
    if not cuts:
        return each.finish("copy", [value])
    for cut in cuts[:-1]:
        value = each.step("strided_slice", [value], cut)
    return each.finish("strided_slice", [value], cuts[-1])


def split(each: NodeImport) -> bool:
    """Parts along an axis."""
    shape, count = each.shape(), len(each.outputs)
    axis = int(each.attribute("axis", 0)) % len(shape)
    sizes = each.integers(1, "split")
    if sizes is None:
        return False
    if not sizes:
        size = -(-shape[axis] // count)
        sizes = (*(size,) * (count - 1), shape[axis] - size * (count - 1))
    if len(sizes) != count or sum(sizes) != shape[axis] or min(sizes) < 1:
        return False
    begin = 0
    for number, size in enumerate(sizes):
        if each.outputs[number] in each.results:
            cut = {"axis": axis, "begin": begin, "end": begin + size}
            each.finish("strided_slice", [each.input()], cut, number)
        begin += size
    return True


def reduce_mean(each: NodeImport) -> bool:
    """The mean along axes; along all unless they are named."""
    axes = each.axes(1)
    if axes is None:
        return False
    if not axes and each.attribute("noop_with_empty_axes", 0):
        return each.finish("copy", [each.input()])
    axes = axes or tuple(range(len(each.shape())))
    return each.finish("mean", [each.input()], {"axis": axes, "keepdims": bool(each.attribute("keepdims", 1))})
