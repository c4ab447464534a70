"""RESHAPE."""

from __future__ import annotations

from nnhal.operations.reshape import Input
from nnhal_devices.cpu_acc.lowering._emitter import Emitter


def reshape(to: Emitter) -> None:
    """The shape is a constant; -1 means in ONNX what it means here."""
    shape = to.graph.integers(to.op.integers(Input.SHAPE))
    to.keep(to.graph.add("Reshape", to.kept(Input.INPUT), shape))
