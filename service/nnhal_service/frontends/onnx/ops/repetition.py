"""Expand and Tile: values again and again."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal_service.frontends.onnx.builder import NodeBuilder
from nnhal_service.frontends.onnx.ops._broadcast import repetition
from nnhal_service.frontends.onnx.ops._definition import Converter


def expand(b: NodeBuilder) -> None:
    """The shape that broadcasting with another gives."""
    operation = repetition(b, b.input(0), b.shape(0), b.output_shape())
    if operation is None:
        b.finish_reshape(b.input(0))
    else:
        b.finish(*operation)


def tile(b: NodeBuilder) -> None:
    """The input as often along each axis as a vector says."""
    repeats = b.integers(1, "repeats") or []
    b.finish(OperationType.TILE, [b.input(0), b.vector(repeats)])


EXPAND = Converter(expand)
TILE = Converter(tile)
