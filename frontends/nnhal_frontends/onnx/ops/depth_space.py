"""DepthToSpace and SpaceToDepth, which exchange channels and blocks of pixels."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from nnhal_frontends.onnx.builder import NodeBuilder
from nnhal_frontends.onnx.ops._definition import Converter

_NCHW = True


def depth_to_space(b: NodeBuilder) -> None:
    """DEPTH_TO_SPACE has a block's pixels outermost in the channels. Mode CRD has them innermost: it needs a swap."""
    block = b.attribute("blocksize", 1)
    source = b.input(0)
    if b.attribute("mode", "DCR") == "CRD":
        shape = b.shape(0)
        source = b.reshape(_swap(b, source, shape, shape[1] // block**2, block**2), shape)
    b.finish(OperationType.DEPTH_TO_SPACE, [source, b.int32(block), b.boolean(_NCHW)])


def space_to_depth(b: NodeBuilder) -> None:
    """SPACE_TO_DEPTH, followed by a swap for mode CRD."""
    block = b.attribute("blocksize", 1)
    inputs = [b.input(0), b.int32(block), b.boolean(_NCHW)]
    if b.attribute("mode", "DCR") == "CRD":
        shape = b.output_shape()
        value = b.apply(OperationType.SPACE_TO_DEPTH, inputs)
        b.finish_reshape(_swap(b, value, shape, block**2, shape[1] // block**2))
    else:
        b.finish(OperationType.SPACE_TO_DEPTH, inputs)


def _swap(b: NodeBuilder, images: int, shape: Dimensions, outer: int, inner: int) -> int:
    """Swap the two parts [outer, inner] of the channels, which gives [N, inner, outer, pixels]."""
    if 0 in shape[1:]:
        raise b.node.unsupported("mode CRD on axes of unknown length", "fixed shapes, mode DCR")
    blocks = b.reshape(images, (shape[0], outer, inner, shape[2] * shape[3]))
    return b.apply(OperationType.TRANSPOSE, [blocks, b.vector([0, 2, 1, 3])])


DEPTH_TO_SPACE = Converter(depth_to_space)
SPACE_TO_DEPTH = Converter(space_to_depth)
