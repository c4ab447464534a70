"""Expand and Tile, which repeat values along axes."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._broadcast import repetition, require_lengths
from nnhal_frontends.onnx.ops._definition import Converter


def expand(b: NodeBuilder) -> None:
    """Repeat the input to a constant shape. One that is computed may be none that the input can have."""
    b.integers(1, "shape")
    require_lengths(b, 0)
    operation = repetition(b, b.input(0), b.shape(0), b.output_shape())
    if operation is None:
        b.finish_reshape(b.input(0))
    else:
        b.finish(*operation)


def tile(b: NodeBuilder) -> None:
    """Repeat the input along each axis by a constant factor."""
    repeats = b.integers(1, "repeats") or []
    b.finish(OperationType.TILE, [b.input(0), b.vector(repeats)])


EXPAND = Converter(expand)
TILE = Converter(tile)
