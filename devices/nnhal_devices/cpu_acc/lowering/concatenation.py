"""CONCATENATION, PACK and TILE: tensors joined."""

from __future__ import annotations

from nnhal.operations.joining import PackInput, axis_input
from nnhal.operations.movement import TileInput
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def concatenation(to: Emitter) -> None:
    """Tensors that are quantised like the output are joined as they are, others as reals."""
    positions = range(axis_input(to.op))
    layout = to.common_layout(positions)
    axis = layout.axis(to.op.integer(axis_input(to.op)))
    output = to.op.outputs[0]
    if all((to.op.inputs[p].scale, to.op.inputs[p].zero_point) == (output.scale, output.zero_point) for p in positions):
        to.keep(to.graph.add("Concat", *(to.kept(p, layout) for p in positions), axis=axis), layout)
    else:
        to.keep_real(to.graph.add("Concat", *(to.real(p, layout) for p in positions), axis=axis), layout)


def pack(to: Emitter) -> None:
    """Each tensor gets the new axis; there they are joined."""
    axis = to.op.integer(PackInput.AXIS)
    axes = to.graph.integers([axis])
    tensors = range(PackInput.FIRST, len(to.inputs))
    to.keep(to.graph.add("Concat", *(to.graph.add("Unsqueeze", to.kept(p), axes) for p in tensors), axis=axis))


def tile(to: Emitter) -> None:
    """A tensor joined with itself along each axis."""
    multiples = to.graph.integers(to.op.integers(TileInput.MULTIPLES))
    to.keep(to.graph.add("Tile", to.kept(TileInput.INPUT), multiples))
