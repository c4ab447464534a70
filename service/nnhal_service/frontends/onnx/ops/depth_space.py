"""DepthToSpace and SpaceToDepth: blocks of pixels traded for channels."""

from __future__ import annotations

from nnhal.types import OperationType
from nnhal_service.frontends.onnx.builder import NodeBuilder
from nnhal_service.frontends.onnx.ops._definition import Converter

_NCHW = True


def depth_to_space(b: NodeBuilder) -> None:
    """DEPTH_TO_SPACE has a block's pixels outermost among the channels. Mode CRD has the channels there: they move."""
    block = b.attribute("blocksize", 1)
    source = b.input(0)
    if b.attribute("mode", "DCR") == "CRD":
        batch, channels, height, width = b.shape(0)
        depth = channels // block**2
        if not (depth and height and width):
            raise b.node.unsupported("mode CRD on axes of unknown length", "fixed shapes, mode DCR")
        blocks = b.reshape(source, (batch, depth, block**2, height * width))
        swapped = b.step(OperationType.TRANSPOSE, [blocks, b.vector([0, 2, 1, 3])])
        source = b.reshape(swapped, (batch, channels, height, width))
    b.finish(OperationType.DEPTH_TO_SPACE, [source, b.int32(block), b.boolean(_NCHW)])


def space_to_depth(b: NodeBuilder) -> None:
    """SPACE_TO_DEPTH."""
    b.finish(OperationType.SPACE_TO_DEPTH, [b.input(0), b.int32(b.attribute("blocksize", 1)), b.boolean(_NCHW)])


DEPTH_TO_SPACE = Converter(depth_to_space)
SPACE_TO_DEPTH = Converter(space_to_depth)
