"""MEAN."""

from __future__ import annotations

from nnhal.operations.mean import Input, axes_of
from nnhal_devices.cpu_acc.layout import RANK, Layout
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_SPATIAL = (2, 3)


def mean(to: Emitter) -> None:
    """The mean over all of an image is a global pooling, for which ONNX Runtime has the faster kernels."""
    axes, rank = axes_of(to.op), len(to.op.ranked(Input.INPUT))
    kept = to.op.integer(Input.KEEP) > 0
    layout = to.common_layout((Input.INPUT,))
    if not axes:
        to.keep(to.kept(Input.INPUT, layout), layout)
        return
    if rank == RANK and tuple(sorted(layout.axis(axis) for axis in axes)) == _SPATIAL:
        _global_pool(to, layout, kept)
        return
    if not kept:
        layout = Layout.GIVEN
    places = to.graph.integers([layout.axis(axis) for axis in axes])
    result = to.graph.add("ReduceMean", to.real(Input.INPUT, layout), places, keepdims=int(kept))
    if len(axes) == rank and not kept:
        result = to.graph.add("Reshape", result, to.graph.integers([1]))
    to.keep_real(result, layout)


def _global_pool(to: Emitter, layout: Layout, kept: bool) -> None:
    result = to.graph.add("GlobalAveragePool", to.real(Input.INPUT, layout))
    to.keep_real(result, layout)
    if not kept:  # after the quantisation, which is fused with the pooling next to it
        to.keep(to.graph.add("Squeeze", to.graph.kept(to.outputs[0], layout), to.graph.integers(_SPATIAL)))
