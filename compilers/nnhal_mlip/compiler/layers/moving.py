"""Sums, concatenations, activations, and layers that only move values or see them otherwise."""

from __future__ import annotations

from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.compiler.layers.draft import (
    NetworkDraft,
    activation,
    extents_of,
    finite,
    position_of,
    ranked,
    real_constant,
)
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, LayerValue, TensorJoin, TileLayer
from nnhal_mlip.flow.files.layers import (
    PRODUCT,
    ConcatAttributes,
    MatmulAttributes,
    SliceAttributes,
    SumAttributes,
    UpsamplingAttributes,
)
from nnhal_mlip.flow.files.nodes_file import KernelNode
from nnhal_mlip.program.program import TaskKind, TaskRange
from nnhal_mlip.program.tables import NO_TABLE, TaskTable


def add_sum(draft: NetworkDraft, node: KernelNode, attrs: SumAttributes, operands: list[str], output: str) -> None:
    """Add a sum or product of two values, or of a value and a constant, to a draft."""
    place, rank = node.user_name, len(draft.values[output].shape)
    seen = []
    for name in operands:
        shape = draft.values[name].shape
        seen.append(draft.seen_as(name, extents_of(ranked(shape, rank), place)))
    if attrs.input_const_name is not None:
        seen.append(_constant(draft, attrs.input_const_name, rank, place))
    if len(seen) != 2:
        raise MlipCompileError(f"{place}: {attrs.layer_name} of {len(seen)}, expected two operands")
    extents = draft.values[output].extents
    inputs = tuple(LayerOperand(name) for name in seen)
    task = TaskKind.PRODUCT if attrs.layer_name == PRODUCT else TaskKind.SUM
    draft.layers.append(TileLayer(draft.kernel, task, inputs, LayerOperand(output), extents, range=activation(node)))


def add_join(draft: NetworkDraft, node: KernelNode, attrs: ConcatAttributes, operands: list[str], output: str) -> None:
    rank = len(draft.values[output].shape)
    constants = (node.attrs.nnhal.constant_fields if node.attrs.nnhal is not None else None) or {}
    parts = list(operands)
    for at, name in sorted(constants.items()):
        parts.insert(at, _constant(draft, name, rank, node.user_name))
    draft.joins.append(TensorJoin(draft.kernel, output, tuple(parts), position_of(attrs.axis, rank)))


def add_activation(draft: NetworkDraft, node: KernelNode, data: str, output: str) -> None:
    draft.add_copy(data, output, clip=activation(node))


def add_rows(
    draft: NetworkDraft, task: TaskKind, axis: int, data: str, output: str, table: TaskTable = NO_TABLE
) -> None:
    """Add a layer that computes each row along an axis of the data from that row."""
    last = position_of(axis, len(draft.values[data].shape))
    a, b, c = (each for each in range(4) if each != last)
    order, extents = (a, b, c, last), draft.values[output].extents
    draft.layers.append(
        TileLayer(
            draft.kernel,
            task,
            (LayerOperand(data, order),),
            LayerOperand(output, order),
            (extents[a], extents[b], extents[c], extents[last]),
            range=TaskRange(table=table),
        )
    )


def add_matmul(draft: NetworkDraft, attrs: MatmulAttributes, operands: list[str], output: str) -> None:
    """Add a product of matrices, which are in the last two axes, to a draft."""
    rank = len(draft.values[output].shape)
    row, column = position_of(-2, rank), position_of(-1, rank)
    batch, height = (each for each in range(4) if each not in (row, column))
    order, turned = (batch, height, row, column), (batch, height, column, row)
    left = LayerOperand(operands[0], turned if attrs.transpose_a else order)
    right = LayerOperand(operands[1], order if attrs.transpose_b else turned)
    given, made = draft.values[operands[0]].extents, draft.values[output].extents
    extents = (made[batch], made[height], made[row], made[column])
    inner = given[left.axes[3]]
    task = TaskKind.MATMUL
    draft.layers.append(TileLayer(draft.kernel, task, (left, right), LayerOperand(output, order), extents, inner=inner))


def add_slice(draft: NetworkDraft, attrs: SliceAttributes, data: str, output: str) -> None:
    """Make the output a part of the data; a copy of that if its scale is another."""
    given, made = draft.values[data], draft.values[output]
    axis = position_of(attrs.axis, len(given.shape))
    part = output
    if made.scale is not None and made.scale != given.scale:
        part = draft.inner(f"{output}:part", made.extents, given.scale)
        draft.add_copy(part, output)
    draft.set_slice(part, data, axis, attrs.begin)


def add_upsampling(draft: NetworkDraft, attrs: UpsamplingAttributes, data: str, output: str) -> None:
    """Add layers that repeat the rows, and then the columns, of images.

    Each is a copy of what is seen with an axis of length 1 behind the one that is repeated, or before the channels.
    """
    value = draft.values[data]
    batch, height, width, channels = value.extents
    if attrs.layout == "NHWC":
        steps = [((1, batch * height, 1, width * channels), attrs.scale_h)]
        steps.append(((1, batch * height * attrs.scale_h * width, 1, channels), attrs.scale_w))
    else:
        batch, channels, height, width = value.extents
        steps = [((1, batch * channels * height, 1, width), attrs.scale_h)]
        steps.append(((1, batch * channels * height * attrs.scale_h * width, 1, 1), attrs.scale_w))
    for (one, rows, _, rest), times in steps:
        if times > 1:
            seen = draft.seen_as(data, (one, rows, 1, rest))
            data = draft.inner(f"{output}:repeated", (one, rows, times, rest), value.scale)
            draft.add_copy(seen, data)
    draft.set_view(output, data)


def add_view(draft: NetworkDraft, node: KernelNode, data: str, output: str) -> None:
    """Make the output the bytes of the data."""
    source, target = draft.values[data], draft.values[output]
    if source.elements != target.elements:
        got = f"{list(source.shape)} becomes {list(target.shape)}"
        raise MlipCompileError(f"{node.user_name}: {got}, expected as many elements")
    draft.set_view(output, data)


def add_transpose(draft: NetworkDraft, node: KernelNode, axes: tuple[int, ...], data: str, output: str) -> None:
    """Add a transposition to a draft; a view if no axis of more than one element changes its place.

    ``axes`` are those of the data, in the order in which the output has them.
    """
    rank = len(draft.values[data].shape)
    order = [0, 1, 2, 3]
    for target, source in enumerate(axes):
        order[position_of(target, rank)] = position_of(source, rank)
    moving = [axis for axis in order if draft.values[data].extents[axis] > 1]
    if moving == sorted(moving):
        draft.set_view(output, data)
    else:
        draft.add_copy(data, output, (order[0], order[1], order[2], order[3]), clip=activation(node))


def transposition(source: str, target: str, place: str) -> tuple[int, ...]:
    """Return the axes of a layout in the order of another."""
    if sorted(source) != sorted(target) or len(set(source)) != len(source):
        raise MlipCompileError(f"{place}: from layout {source} to {target}, expected the same axes in both")
    return tuple(source.index(letter) for letter in target)


def _constant(draft: NetworkDraft, name: str, rank: int, place: str) -> str:
    values, scales = real_constant(draft, name)
    shape = ranked(values.shape, rank)
    extents = extents_of(shape, place)
    scale = None if scales is None or scales.size > 1 else float(scales[0])
    constant = finite(values, place, "constants").reshape(extents)
    return draft.add_value(LayerValue(draft.fresh(name), shape, extents, scale=scale, constant=constant))
