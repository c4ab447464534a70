"""CONCATENATION."""

from __future__ import annotations

from nnhal.operations.concatenation import axis_input
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
